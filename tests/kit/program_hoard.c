// SPDX-License-Identifier: Apache-2.0
// A third context that takes all memory a program does not have, and an out-of-memory callback that
// gives some of it up: what the program computes must not show it.
#include "exec/exec_impl.h"
#include "program_internal.h"

/// Calls for one request after which the hoard is given up whole.
enum { PATIENCE = 8 };

/// Takes pieces until the device has no more.
static void fill(program* p) {
    const uint64_t granule = p->hoarder->home.stream->device->granule_bytes;
    uint32_t shift = 0;
    for (uint32_t i = 0; i < PROGRAM_PIECES; ++i) {
        if (p->pieces[i] != NULL) continue;
        int64_t bytes = (int64_t)((granule << test_random_below(&p->mischief, 4)) >> shift);
        if (test_random_one_in(&p->mischief, 8)) bytes /= 3;
        p->pieces[i] = berth_full(p->hoarder, i, BERTH_U8, 1, &bytes);
        if (p->pieces[i] != NULL) continue;
        if (berth_context_error(p->hoarder) != BERTH_ERR_OUT_OF_MEMORY) program_refuse(p, "hoard");
        berth_context_clear_error(p->hoarder);
        if (++shift > 8) break;
    }
}

/// Gives up one piece, which must be as it was made; false if there is none.
static bool give_up(program* p) {
    const uint32_t first = (uint32_t)test_random_below(&p->mischief, PROGRAM_PIECES);
    for (uint32_t i = 0; i < PROGRAM_PIECES; ++i) {
        const uint32_t at = (first + i) % PROGRAM_PIECES;
        if (p->pieces[at] == NULL) continue;
        unsigned char byte = 0;
        const int64_t last = berth_tensor_count(p->pieces[at]) - 1;
        if (berth_tensor_read_span(p->pieces[at], last, 1, &byte) != BERTH_OK)
            program_refuse(p, "read");
        else if (byte != at)
            program_fail(p, "a hoarded piece has changed");
        berth_release(p->pieces[at]);
        p->pieces[at] = NULL;
        return true;
    }
    return false;
}

/// What a callback may do beside making room: an op of the hoarder's on a tensor of the program's.
static void look_at(program* p, berth_tensor* x) {
    if (x == NULL) return;
    berth_release(berth_copy(p->hoarder, x));
    berth_context_clear_error(p->hoarder);
}

static bool make_room(void* self, const berth_shortage* shortage) {
    program* p = self;
    if (shortage->context == p->hoarder) return false;
    ++p->result.shortages;
    const uint64_t mood = test_random_below(&p->mischief, 8);
    if (mood == 0) look_at(p, p->kept[test_random_below(&p->mischief, PROGRAM_KEPT)]);
    if (mood == 1 && berth_idle(p->hoarder, 10, NULL) != BERTH_OK) program_refuse(p, "idle");
    if (mood == 2 && berth_trim(p->runtime, 0, NULL) != BERTH_OK) program_refuse(p, "trim");
    // calls on the context in need are refused, and end what is moved to them all the same
    if (mood == 3) berth_release(berth_copy(shortage->context, p->kept[0]));
    if (mood == 4 && p->kept[0] != NULL)
        berth_release(berth_neg(shortage->context, berth_move(berth_retain(p->kept[0]))));
    const bool has_room = give_up(p);
    // calls are few: the last ones give all that there is
    while ((mood == 5 || shortage->attempt > PATIENCE) && give_up(p)) {
    }
    if (mood == 6 && shortage->attempt <= PATIENCE) fill(p);
    return has_room;
}

berth_status program_start_hoard(program* p) {
    const berth_status status = berth_context_create(p->runtime, &p->hoarder);
    if (status != BERTH_OK) return status;
    fill(p);
    return berth_runtime_set_out_of_memory_callback(p->runtime, make_room, p);
}

void program_hoard(program* p) {
    if (p->hoarder != NULL && test_random_one_in(&p->mischief, 16)) fill(p);
}

void program_end_hoard(program* p) {
    if (p->hoarder == NULL) return;
    while (give_up(p)) {
    }
    if (p->hoarder->home.live_objects != 0) program_fail(p, "objects of the hoard are left");
    berth_context_release(p->hoarder);
}
