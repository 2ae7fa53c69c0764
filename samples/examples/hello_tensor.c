// SPDX-License-Identifier: Apache-2.0
// A first look: a runtime, a context, three tensors, a chain of ops, and what an error looks like.
#include <berth/berth.h>

#include <stdio.h>
#include <string.h>

/// Multiplies a 2 x 3 matrix by a 3 x 2 matrix and adds 1; true if the numbers are right.
static bool multiply(berth_context* ctx) {
    float left[2][3] = {{1, 2, 3}, {4, 5, 6}};
    // memory of ours becomes a tensor without a copy; it is read only here
    berth_tensor* a = berth_tensor_from_memory(
        ctx, left, sizeof left, BERTH_F32, BERTH_SHAPE(2, 3), true, NULL, NULL);
    berth_tensor* b = berth_ones(ctx, BERTH_F32, BERTH_SHAPE(3, 2));
    berth_tensor* c = berth_matmul(ctx, a, b);
    // a moved operand is given up: the op may work in its place
    c = berth_affine(ctx, berth_move(c), 1.0f, 1.0f);

    // a chain needs one check at its end: an op given NULL returns NULL
    float result[2][2] = {{0}};
    bool is_read = c != NULL && berth_tensor_read(c, result, sizeof result) == BERTH_OK;
    printf("[[%g, %g], [%g, %g]]\n",
           (double)result[0][0],
           (double)result[0][1],
           (double)result[1][0],
           (double)result[1][1]);
    berth_release_all(a, b, c);
    const float expected[2][2] = {{7, 7}, {16, 16}};
    return is_read && memcmp(result, expected, sizeof expected) == 0;
}

/// Adds shapes that do not fit; true if that is reported, and forgotten when we say so.
static bool meet_an_error(berth_context* ctx) {
    berth_tensor* a = berth_zeros(ctx, BERTH_F32, BERTH_SHAPE(3));
    berth_tensor* b = berth_zeros(ctx, BERTH_F32, BERTH_SHAPE(4));
    berth_tensor* sum = berth_add(ctx, a, b);
    printf("as expected: %s\n", berth_context_error_text(ctx));
    bool is_reported = sum == NULL && berth_context_error(ctx) == BERTH_ERR_INVALID_ARGUMENT;
    berth_context_clear_error(ctx);
    sum = berth_add(ctx, a, a); // ops run again
    bool is_usable = sum != NULL;
    berth_release_all(a, b, sum);
    return is_reported && is_usable;
}

int main(void) {
    const berth_runtime_options options = {.struct_size = sizeof options};
    berth_runtime* runtime = NULL;
    berth_context* ctx = NULL;
    bool is_right = false;
    if (berth_runtime_create(&options, &runtime) == BERTH_OK &&
        berth_context_create(runtime, &ctx) == BERTH_OK)
        is_right = multiply(ctx) && meet_an_error(ctx);
    else
        fprintf(stderr, "no runtime: %s\n", berth_last_error());
    berth_context_release(ctx);
    berth_runtime_release(runtime);
    return is_right ? 0 : 1;
}
