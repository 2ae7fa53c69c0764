// SPDX-License-Identifier: Apache-2.0
// The program that the benchmark of shapes runs: a three-layer transformer block in plain eager
// calls, over the lengths of a recorded request trace.
#ifndef BERTH_BENCH_SHAPES_WORKLOAD_H
#define BERTH_BENCH_SHAPES_WORKLOAD_H

#include "berth/berth.h"

#define SHAPES_MAX_LENGTH 4096 // of the steps that run; the trace's longer ones are cut
#define SHAPES_MAX_AHEAD 8192  // of the steps that are only planned
#define SHAPES_MAX_BATCH 4

/// Shape of one step.
typedef struct shapes_shape {
    int64_t batch;
    int64_t length;
} shapes_shape;

/// Prompt lengths of the trace, in order.
typedef struct shapes_lengths {
    int64_t* items;
    size_t count;
} shapes_lengths;

/// Reads the column ContextTokens of `path`; ends the program with a message if it cannot.
void shapes_lengths_read(const char* path, shapes_lengths* out_lengths);
void shapes_lengths_free(shapes_lengths* lengths);

/// The shape of step `step`: lengths wrap round, the batch is 1 + (7 x step mod 4).
shapes_shape shapes_at(const shapes_lengths* lengths, int64_t step);

/// The weights, one for all runtimes, and the token ids that every step reads.
typedef struct shapes_model shapes_model;

shapes_model* shapes_model_create(void); ///< ends the program without memory
void shapes_model_destroy(shapes_model* model);

/// The model's tensors in one context; they lie over the model's memory.
typedef struct shapes_program shapes_program;

shapes_program* shapes_program_create(const shapes_model* model, berth_context* context);
void shapes_program_destroy(shapes_program* program);

/// The description under which every step of the program runs. `dims` [2] is filled in and, like
/// `*input`, must stay with the description.
berth_step_desc shapes_describe(shapes_shape shape, int64_t* dims, berth_step_input* input);

/// The ops of one step: the hidden states [batch, length, width], NULL with the context's error.
berth_tensor* shapes_program_run(shapes_program* program, shapes_shape shape);

/// What stands in for the kernels of a runtime.
typedef enum shapes_kernels {
    SHAPES_KERNELS_TOUCH, ///< one byte a page of each operand and result, one a granule of large
                          ///< ones
    SHAPES_KERNELS_NONE,  ///< nothing: addresses may be made up
} shapes_kernels;

/// Replaces all kernels of `runtime`, before its first op.
void shapes_replace_kernels(berth_runtime* runtime, shapes_kernels kernels);

#endif // BERTH_BENCH_SHAPES_WORKLOAD_H
