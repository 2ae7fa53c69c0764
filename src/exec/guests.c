// SPDX-License-Identifier: Apache-2.0
// The guests of a context, one after another.
#include "exec/guests.h"

void berth_guests_join(berth_context* context, berth_guest* guest) {
    guest->next = context->first_guest;
    context->first_guest = guest;
}

void berth_guests_leave(berth_context* context, berth_guest* guest) {
    berth_guest** at = &context->first_guest;
    while (*at != guest)
        at = &(*at)->next;
    *at = guest->next;
}

bool berth_guests_tidy(berth_context* context, const berth_compact_budget* slice) {
    bool has_more = false;
    for (berth_guest* g = context->first_guest; g != NULL; g = g->next)
        has_more = g->ops->tidy(g, slice) || has_more;
    return has_more;
}

uint64_t berth_guests_age(berth_context* context,
                          uint64_t epoch,
                          uint64_t floor_bytes,
                          uint64_t limit_bytes,
                          bool* out_are_settled) {
    uint64_t given = 0;
    *out_are_settled = true;
    for (berth_guest* g = context->first_guest; g != NULL; g = g->next) {
        const uint64_t left = given < limit_bytes ? limit_bytes - given : 0;
        bool is_settled;
        given += g->ops->age(g, epoch, floor_bytes, left, &is_settled);
        *out_are_settled = *out_are_settled && is_settled;
    }
    return given;
}

uint64_t berth_guests_trim(berth_context* context, uint64_t keep_bytes, bool may_block) {
    uint64_t given = 0;
    for (berth_guest* g = context->first_guest; g != NULL; g = g->next)
        given += g->ops->trim(g, keep_bytes, may_block);
    return given;
}

void berth_guests_add_rest(const berth_context* context, uint64_t keep_bytes, berth_rest* rest) {
    for (const berth_guest* g = context->first_guest; g != NULL; g = g->next)
        g->ops->add_rest(g, keep_bytes, rest);
}
