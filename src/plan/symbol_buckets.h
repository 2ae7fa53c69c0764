// SPDX-License-Identifier: Apache-2.0
// The bucket policies of one step: one for all its symbols, others for symbols by name, and what
// adaptive ones have learned.
#ifndef BERTH_PLAN_SYMBOL_BUCKETS_H
#define BERTH_PLAN_SYMBOL_BUCKETS_H

#include "base/host.h"
#include "plan/bucket_adaptive.h"

/// Room for the names of a step's symbols in a message.
#define BERTH_SYMBOLS_SHOWN_BYTES 256u

/// Lists `names` [count] for a message, cut where they are too many. Returns `out`.
const char* berth_symbols_shown(char* const* names,
                                uint32_t count,
                                char out[BERTH_SYMBOLS_SHOWN_BYTES]);

/// Checks that `symbol` is one of the `names` [count] that the step called `step` declares.
/// Errors: BERTH_ERR_INVALID_ARGUMENT, listing them.
BERTH_NODISCARD berth_status berth_symbols_check(char* const* names,
                                                 uint32_t count,
                                                 const char* step,
                                                 const char* symbol);

typedef struct berth_symbol_setting berth_symbol_setting;

/// The policy of one binding.
typedef struct berth_binding_buckets {
    const berth_bucket_policy* policy; ///< NULL: that of all
    /// NULL: nothing is learned, or there was no memory to; then geometric:4.
    berth_bucket_adaptive* learned;
} berth_binding_buckets;

/// Guarded by the step model's lock.
typedef struct berth_symbol_buckets {
    const berth_host* host;
    berth_bucket_policy of_all;
    berth_symbol_setting* settings;  ///< by name; newest first
    berth_binding_buckets* bindings; ///< [binding_count] once names are known
    char* const* names;              ///< [binding_count] borrowed from the step model
    uint32_t binding_count;
} berth_symbol_buckets;

void berth_symbol_buckets_fini(berth_symbol_buckets* self);

/// Sets the policy of `symbol`, or with NULL of all symbols without one of their own. What was
/// learned of the symbols concerned is forgotten.
/// Errors: BERTH_ERR_OUT_OF_MEMORY.
BERTH_NODISCARD berth_status berth_symbol_buckets_set(berth_symbol_buckets* self,
                                                      const char* symbol,
                                                      const berth_bucket_policy* policy);

/// Tells the names of all bindings, borrowed. Returns the name of a symbol with a policy that is
/// not among them, or NULL. Without memory every symbol has the policy of all.
const char* berth_symbol_buckets_name(berth_symbol_buckets* self,
                                      char* const* names,
                                      uint32_t count);

/// Takes the values [binding_count] of a run into account. Returns true if bounds have moved.
bool berth_symbol_buckets_observe(berth_symbol_buckets* self, const int64_t* values);

/// Takes over a bound that another process has learned for a binding.
void berth_symbol_buckets_recall(berth_symbol_buckets* self, uint32_t binding, int64_t bound);

/// The bucket of `value` of a binding.
berth_bucket berth_symbol_buckets_find(const berth_symbol_buckets* self,
                                       uint32_t binding,
                                       int64_t value);

#endif // BERTH_PLAN_SYMBOL_BUCKETS_H
