// SPDX-License-Identifier: Apache-2.0
// Resolves bucket policies by the names of symbols.
#include "plan/symbol_buckets.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"

const char* berth_symbols_shown(char* const* names,
                                uint32_t count,
                                char out[BERTH_SYMBOLS_SHOWN_BYTES]) {
    size_t at = 0;
    (void)snprintf(out, BERTH_SYMBOLS_SHOWN_BYTES, "nothing");
    for (uint32_t i = 0; i < count && at < BERTH_SYMBOLS_SHOWN_BYTES; i++)
        at += (size_t)snprintf(
            out + at, BERTH_SYMBOLS_SHOWN_BYTES - at, "%s%s", i > 0 ? ", " : "", names[i]);
    return out;
}

berth_status berth_symbols_check(char* const* names,
                                 uint32_t count,
                                 const char* step,
                                 const char* symbol) {
    for (uint32_t i = 0; i < count; i++)
        if (strcmp(names[i], symbol) == 0) return BERTH_OK;
    char declared[BERTH_SYMBOLS_SHOWN_BYTES];
    return berth_fail(BERTH_ERR_INVALID_ARGUMENT,
                      "step %.100s declares no dimension or integer called %.60s: it declares %s",
                      step,
                      symbol,
                      berth_symbols_shown(names, count, declared));
}

struct berth_symbol_setting {
    berth_symbol_setting* next;
    char* symbol;
    berth_bucket_policy policy;
};

static berth_symbol_setting* find_setting(const berth_symbol_buckets* self, const char* symbol) {
    berth_symbol_setting* setting = self->settings;
    while (setting != NULL && strcmp(setting->symbol, symbol) != 0)
        setting = setting->next;
    return setting;
}

static void forget(berth_symbol_buckets* self, uint32_t binding) {
    berth_host_free(self->host, self->bindings[binding].learned);
    self->bindings[binding].learned = NULL;
}

void berth_symbol_buckets_fini(berth_symbol_buckets* self) {
    for (uint32_t i = 0; self->bindings != NULL && i < self->binding_count; i++)
        forget(self, i);
    berth_host_free(self->host, self->bindings);
    while (self->settings != NULL) {
        berth_symbol_setting* setting = self->settings;
        self->settings = setting->next;
        berth_host_free(self->host, setting->symbol);
        berth_host_free(self->host, setting);
    }
    *self = (berth_symbol_buckets){.host = self->host};
}

static berth_status add_setting(berth_symbol_buckets* self,
                                const char* symbol,
                                const berth_bucket_policy* policy) {
    berth_symbol_setting* setting = find_setting(self, symbol);
    if (setting == NULL) {
        setting = berth_host_calloc(self->host, 1, sizeof *setting);
        char* name = berth_host_strdup(self->host, symbol);
        if (setting == NULL || name == NULL) {
            berth_host_free(self->host, setting);
            berth_host_free(self->host, name);
            return berth_fail(BERTH_ERR_OUT_OF_MEMORY, "no memory for the buckets of %s", symbol);
        }
        setting->symbol = name;
        setting->next = self->settings;
        self->settings = setting;
    }
    setting->policy = *policy;
    return BERTH_OK;
}

berth_status berth_symbol_buckets_set(berth_symbol_buckets* self,
                                      const char* symbol,
                                      const berth_bucket_policy* policy) {
    if (symbol != NULL)
        BERTH_TRY(add_setting(self, symbol, policy));
    else
        self->of_all = *policy;
    for (uint32_t i = 0; self->bindings != NULL && i < self->binding_count; i++) {
        const berth_symbol_setting* own = find_setting(self, self->names[i]);
        self->bindings[i].policy = own != NULL ? &own->policy : NULL;
        const bool concerned = symbol != NULL ? strcmp(symbol, self->names[i]) == 0 : own == NULL;
        if (concerned) forget(self, i);
    }
    return BERTH_OK;
}

const char* berth_symbol_buckets_name(berth_symbol_buckets* self,
                                      char* const* names,
                                      uint32_t count) {
    self->bindings = berth_host_calloc(self->host, count + (size_t)1, sizeof *self->bindings);
    if (self->bindings == NULL) return NULL;
    self->names = names;
    self->binding_count = count;
    const char* stranger = NULL;
    for (const berth_symbol_setting* setting = self->settings; setting != NULL;
         setting = setting->next) {
        bool found = false;
        for (uint32_t i = 0; i < count; i++) {
            if (strcmp(names[i], setting->symbol) != 0) continue;
            self->bindings[i].policy = &setting->policy;
            found = true;
        }
        if (!found) stranger = setting->symbol;
    }
    return stranger;
}

static const berth_bucket_policy* policy_of(const berth_symbol_buckets* self, uint32_t binding) {
    const bool own = self->bindings != NULL && self->bindings[binding].policy != NULL;
    return own ? self->bindings[binding].policy : &self->of_all;
}

/// What is learned of a binding; NULL: nothing is to be, or there is no memory to.
static berth_bucket_adaptive* learned_of(berth_symbol_buckets* self, uint32_t binding) {
    const berth_bucket_policy* policy = policy_of(self, binding);
    if (policy->kind != BERTH_BUCKET_ADAPTIVE) return NULL;
    berth_bucket_adaptive** learned = &self->bindings[binding].learned;
    if (*learned == NULL) {
        *learned = berth_host_calloc(self->host, 1, sizeof **learned);
        if (*learned != NULL) (*learned)->limit = (uint32_t)policy->number;
    }
    return *learned;
}

bool berth_symbol_buckets_observe(berth_symbol_buckets* self, const int64_t* values) {
    bool moved = false;
    for (uint32_t i = 0; self->bindings != NULL && i < self->binding_count; i++) {
        berth_bucket_adaptive* learned = learned_of(self, i);
        if (learned != NULL && berth_bucket_adaptive_observe(learned, values[i])) moved = true;
    }
    return moved;
}

void berth_symbol_buckets_recall(berth_symbol_buckets* self, uint32_t binding, int64_t bound) {
    if (self->bindings == NULL || binding >= self->binding_count) return;
    berth_bucket_adaptive* learned = learned_of(self, binding);
    if (learned != NULL) berth_bucket_adaptive_recall(learned, bound);
}

berth_bucket berth_symbol_buckets_find(const berth_symbol_buckets* self,
                                       uint32_t binding,
                                       int64_t value) {
    if (self->bindings != NULL && self->bindings[binding].learned != NULL)
        return berth_bucket_adaptive_find(self->bindings[binding].learned, value);
    return berth_bucket_of(policy_of(self, binding), value);
}
