// SPDX-License-Identifier: Apache-2.0
// How the ops of stored calls are run: one row for each op.
#ifndef BERTH_TEST_TORCH_CALLS_H
#define BERTH_TEST_TORCH_CALLS_H

#include "torch_values.h"

/// A stored call that is run.
typedef struct torch_call {
    berth_context* ctx;
    const torch_case* stored;
    berth_tensor* in[TORCH_MOST_TENSORS];
    berth_tensor* out[TORCH_MOST_TENSORS]; ///< NULL where there is no result
} torch_call;

/// An op of which calls are stored.
typedef struct torch_row {
    const char* name;
    void (*run)(torch_call* c); ///< operands in, results out
    double relative;            ///< error allowed of f32 results
    double absolute;
    bool is_strict_on_storage; ///< needs the dense operand: it looks at storage or strides
} torch_row;

extern const torch_row torch_rows[];
extern const size_t torch_row_count;

/// The row of an op; ends the test if there is none.
const torch_row* torch_find_row(const char* name);

/// A tensor with stored elements.
berth_tensor* torch_load(berth_context* ctx, const torch_tensor* stored);

/// Gives operands and results back.
void torch_release(torch_call* c);

#endif // BERTH_TEST_TORCH_CALLS_H
