// SPDX-License-Identifier: Apache-2.0
// An op of your own: silu(a) * b in one pass instead of two. It has checks, a shape rule, an
// in-place rule and a kernel for the CPU, and is planned like any other op.
#include <berth/berth.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

static bool have_one_shape(const berth_view* a, const berth_view* b) {
    return a->rank == b->rank && memcmp(a->dims, b->dims, (size_t)a->rank * sizeof *a->dims) == 0;
}

/// Checks and shape rule: two dense f32 tensors of one shape, which is the result's too. The
/// runtime puts the op's name and the shapes before what is said here.
static berth_status check(berth_op_call* call) {
    const berth_view *a = &call->inputs[0], *b = &call->inputs[1];
    if (a->dtype != BERTH_F32 || b->dtype != BERTH_F32)
        return berth_op_fail(BERTH_ERR_UNSUPPORTED, "both operands must be f32: cast them");
    if (!have_one_shape(a, b))
        return berth_op_fail(BERTH_ERR_INVALID_ARGUMENT, "this op does not broadcast");
    if (!berth_view_is_contiguous(a) || !berth_view_is_contiguous(b))
        return berth_op_fail(BERTH_ERR_UNSUPPORTED, "both must be contiguous: berth_contiguous()");
    call->outputs[0] = *a; // its dtype, rank and dims; strides and memory are the runtime's doing
    return BERTH_OK;
}

/// One worker's share of the elements. Each is read before it is written: the output may lie in the
/// place of an operand.
static void compute(void* job, int64_t begin, int64_t end, uint32_t worker) {
    (void)worker;
    const berth_op_call* call = job;
    const float *a = call->inputs[0].data, *b = call->inputs[1].data;
    float* out = call->outputs[0].data;
    for (int64_t i = begin; i < end; i++)
        out[i] = a[i] / (1.0f + expf(-a[i])) * b[i];
}

static void kernel(const berth_op_call* call) {
    berth_op_call job = *call;
    berth_team_for(call->team, berth_view_count(&job.outputs[0]), 4096, compute, &job);
}

/// The largest difference between two tensors of the same shape, which it ends.
static float difference(berth_tensor* a, berth_tensor* b) {
    void *left, *right;
    if (berth_tensor_map(a, &left) != BERTH_OK || berth_tensor_map(b, &right) != BERTH_OK) return 1;
    float largest = 0.0f;
    for (int64_t i = 0; i < berth_tensor_count(a); i++)
        largest = fmaxf(largest, fabsf(((float*)left)[i] - ((float*)right)[i]));
    berth_tensor_unmap(a);
    berth_tensor_unmap(b);
    berth_release_all(a, b);
    return largest;
}

/// silu(x gate^T) * x over `length` rows, fused and not; true if both agree.
static bool run(berth_context* ctx, const berth_op* op, berth_tensor* gate, int64_t length) {
    const berth_step_input tokens = {.name = "tokens", .rank = 1, .dims = &length};
    const berth_step_desc step = {.name = "block", .inputs = &tokens, .input_count = 1};
    if (berth_step_begin(ctx, &step) != BERTH_OK) return false;
    berth_tensor* x = berth_rand(ctx, 1, -1, 1, BERTH_F32, BERTH_SHAPE(length, 64));
    berth_tensor* h = berth_linear(ctx, x, gate, NULL);
    berth_tensor* plain = berth_mul(ctx, berth_move(berth_silu(ctx, h)), x);
    // h is moved, and nobody else holds it: the fused op writes over it
    berth_tensor* operands[] = {berth_move(h), x};
    berth_tensor* fused = berth_apply(ctx, op, operands, 2, NULL, 0, NULL);
    berth_release(x);
    float gap = difference(fused, plain);
    return berth_step_end(ctx) == BERTH_OK && gap < 1e-6f;
}

int main(void) {
    const berth_runtime_options options = {.struct_size = sizeof options};
    const berth_op_desc desc = {
        .struct_size = sizeof desc,
        .name = "silu_mul",
        .min_inputs = 2,
        .max_inputs = 2,
        .output_count = 1,
        .flags = BERTH_OP_IN_PLACE(0) | BERTH_OP_IN_PLACE(1),
        .infer = check,
        .kernels = {[BERTH_DEVICE_CPU] = kernel},
    };
    berth_runtime* runtime = NULL;
    berth_context* ctx = NULL;
    const berth_op* op = NULL;
    if (berth_runtime_create(&options, &runtime) != BERTH_OK ||
        berth_context_create(runtime, &ctx) != BERTH_OK ||
        berth_op_register(runtime, &desc, &op) != BERTH_OK) {
        fprintf(stderr, "%s\n", berth_last_error());
        return 1;
    }
    berth_tensor* gate = berth_randn(ctx, 2, 0, 0.2f, BERTH_F32, BERTH_SHAPE(64, 64));
    int right = 0;
    for (int i = 0; i < 20; i++)
        right += run(ctx, op, gate, 50 + 37 * i);
    const char* name;
    berth_step_counters seen = {0};
    if (berth_runtime_query_step(runtime, 0, &name, &seen) != BERTH_OK) return 1;
    printf("%d of 20 runs right, %d hit their plan\n", right, (int)seen.hits);
    berth_tensor* row = berth_ones(ctx, BERTH_F32, BERTH_SHAPE(64));
    berth_tensor* none = berth_apply(ctx, op, (berth_tensor*[]){gate, row}, 2, NULL, 0, NULL);
    printf("as expected: %s\n", berth_context_error_text(ctx));
    berth_release_all(gate, row, none);
    berth_context_release(ctx);
    berth_runtime_release(runtime);
    return right == 20 && none == NULL ? 0 : 1;
}
