// SPDX-License-Identifier: Apache-2.0
// Every op that PyTorch has, against values made by PyTorch (make_values.py): each stored call is
// run on dense operands, on operands with negative strides, and inside a planned step.
//
// Integers, booleans, indices and shapes agree exactly. Floats agree within the relative bound of
// the op's row, or within `absolute` near zero, and narrow types within one unit in the last place
// more: PyTorch rounds some of them in between.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "exec/exec_kit.h"
#include "kit/torch_calls.h"

enum { MOST_ROWS = 256 };

/// Reads a result of any strides as f32, in row-major order.
static float* read_floats(berth_context* ctx, berth_tensor* x, int64_t count) {
    berth_tensor* wide = berth_cast(ctx, x, BERTH_F32);
    berth_tensor* dense = berth_contiguous(ctx, berth_move(wide));
    float* values = malloc((size_t)count * sizeof *values + 1);
    assert_non_null(values);
    assert_ok(berth_tensor_read(dense, values, (uint64_t)count * sizeof *values));
    berth_release(dense);
    return values;
}

static void expect_floats(torch_call* c, const torch_row* row, size_t index) {
    const torch_tensor* stored = &c->stored->outputs[index];
    berth_tensor* kept = torch_load(c->ctx, stored);
    float* expected = read_floats(c->ctx, kept, stored->count);
    float* found = read_floats(c->ctx, c->out[index], stored->count);
    const double unit = stored->dtype == BERTH_F16    ? 0x1p-10
                        : stored->dtype == BERTH_BF16 ? 0x1p-7
                                                      : 0;
    // a narrow result of an exact op is exact
    const double relative = row->relative + (row->relative > 0 ? unit : 0);
    const double absolute = row->absolute + (row->absolute > 0 && unit > 0 ? 0x1p-14 : 0);
    for (int64_t i = 0; i < stored->count; ++i) {
        const double e = (double)expected[i], f = (double)found[i];
        if (isnan(e) ? isnan(f) : f == e) continue;
        if (fabs(f - e) <= relative * fabs(e) + absolute) continue;
        fail_msg("%s, output %zu, element %lld: %.9g instead of %.9g",
                 row->name,
                 index,
                 (long long)i,
                 f,
                 e);
    }
    free(expected);
    free(found);
    berth_release(kept);
}

static void expect_bytes(torch_call* c, const torch_row* row, size_t index) {
    const torch_tensor* stored = &c->stored->outputs[index];
    berth_tensor* dense = berth_contiguous(c->ctx, c->out[index]);
    unsigned char* found = malloc(stored->bytes + 1);
    assert_non_null(found);
    assert_ok(berth_tensor_read(dense, found, stored->bytes));
    if (memcmp(found, stored->data, stored->bytes) != 0)
        fail_msg("%s: output %zu differs", row->name, index);
    free(found);
    berth_release(dense);
}

static void expect_result(torch_call* c, const torch_row* row, size_t index) {
    const torch_tensor* stored = &c->stored->outputs[index];
    const berth_tensor* out = c->out[index];
    if (out == NULL)
        fail_msg("%s gives no result %zu: %s", row->name, index, berth_context_error_text(c->ctx));
    if (berth_tensor_dtype(out) != stored->dtype)
        fail_msg("%s: output %zu is %s instead of %s",
                 row->name,
                 index,
                 berth_dtype_query_info(berth_tensor_dtype(out))->name,
                 berth_dtype_query_info(stored->dtype)->name);
    assert_int_equal(berth_tensor_rank(out), stored->rank);
    for (int32_t d = 0; d < stored->rank; ++d)
        assert_int_equal(berth_tensor_dims(out)[d], stored->dims[d]);
    if (berth_dtype_query_info(stored->dtype)->kind == BERTH_DTYPE_KIND_F)
        expect_floats(c, row, index);
    else
        expect_bytes(c, row, index);
}

/// The same elements in the reverse order in memory.
static berth_tensor* turn_round(berth_context* ctx, berth_tensor* x) {
    berth_tensor* turned =
        berth_copy(ctx, berth_move(berth_flip(ctx, berth_move(x), BERTH_ALL_DIMS)));
    return berth_flip(ctx, berth_move(turned), BERTH_ALL_DIMS);
}

static void run_case(berth_context* ctx, const torch_case* stored, bool is_turned) {
    const torch_row* row = torch_find_row(stored->name);
    if (is_turned && row->is_strict_on_storage) return;
    torch_call c = {.ctx = ctx, .stored = stored};
    for (size_t i = 0; i < stored->input_count; ++i) {
        c.in[i] = torch_load(ctx, &stored->inputs[i]);
        if (is_turned) c.in[i] = turn_round(ctx, c.in[i]);
    }
    row->run(&c);
    for (size_t i = 0; i < stored->output_count; ++i)
        expect_result(&c, row, i);
    torch_release(&c);
    assert_context_ok(ctx);
    assert_int_equal(ctx->home.live_objects, 0);
}

static void check_all(berth_context* ctx, bool is_turned) {
    static torch_case stored;
    torch_file file;
    assert_true(torch_file_open(&file, BERTH_SOURCE_DIR "/tests/torch/values.bin"));
    bool is_seen[MOST_ROWS] = {false};
    assert_true(torch_row_count <= MOST_ROWS);
    while (torch_file_next(&file, &stored)) {
        run_case(ctx, &stored, is_turned);
        is_seen[torch_find_row(stored.name) - torch_rows] = true;
    }
    for (size_t i = 0; i < torch_row_count; ++i)
        if (!is_seen[i]) fail_msg("no stored value of %s", torch_rows[i].name);
    free(file.bytes);
}

static void dense_operands_give_what_pytorch_gives(void** state) {
    check_all(((exec_kit*)*state)->ctx, false);
}

static void operands_with_negative_strides_give_what_pytorch_gives(void** state) {
    check_all(((exec_kit*)*state)->ctx, true);
}

static void replayed_calls_give_what_pytorch_gives(void** state) {
    exec_kit* kit = *state;
    for (int32_t run = 0; run < 4; ++run) {
        assert_ok(exec_kit_begin(kit->ctx, "all", 7));
        check_all(kit->ctx, false);
        assert_ok(berth_step_end(kit->ctx));
    }
    assert_true(exec_kit_counters(kit->runtime, "all").hits > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        EXEC_KIT_ON_BOTH(dense_operands_give_what_pytorch_gives),
        EXEC_KIT_ON_BOTH(operands_with_negative_strides_give_what_pytorch_gives),
        EXEC_KIT_ON_BOTH(replayed_calls_give_what_pytorch_gives),
    };
    return cmocka_run_group_tests_name("torch values", tests, NULL, NULL);
}
