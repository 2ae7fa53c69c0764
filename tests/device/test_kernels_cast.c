// SPDX-License-Identifier: Apache-2.0
// CAST between all plain types against the definition of the conversion.
#include "device/kernel_kit.h"

static const berth_dtype plain[] = {
    BERTH_F32, BERTH_F16, BERTH_BF16, BERTH_I32, BERTH_I64, BERTH_I8, BERTH_U8, BERTH_BOOL};

/// The value that `x` has after a cast to `to`.
static double cast_reference(double x, berth_dtype to) {
    switch ((int)to) {
    case BERTH_I32:
        return isnan(x) ? 0 : trunc(fmin(fmax(x, INT32_MIN), INT32_MAX));
    case BERTH_I64:
        return isnan(x) ? 0 : trunc(x);
    case BERTH_U8:
        return isnan(x) ? 0 : trunc(fmin(fmax(x, 0), 255));
    case BERTH_I8:
        return isnan(x) ? 0 : trunc(fmin(fmax(x, -128), 127));
    case BERTH_BOOL:
        return x != 0;
    default:
        return x;
    }
}

static void casts_between_plain_types(void** state) {
    (void)state;
    kit_seed(3);
    for (int from = 0; from < 8; ++from) {
        for (int to = 0; to < 8; ++to) {
            int64_t dims[BERTH_MAX_RANK];
            const int32_t rank = kit_dims(4, 12, dims);
            kit_tensor x = kit_strided(plain[from], rank, dims, false, true);
            kit_tensor out = kit_contiguous(plain[to], rank, dims);
            const bool from_float = from < 3;
            kit_fill(&x, from_float ? -400 : 0, from_float ? 400 : 127);
            const berth_cast_params params = {.dtype = plain[to]};
            berth_op_call call = {.input_count = 1, .inputs = {x.view}, .params = &params};
            kit_run_everywhere(BERTH_OP_CAST, &call, &out, true, false, NULL);
            for (int64_t i = 0; i < kit_count(&out.view); ++i) {
                const double expected = cast_reference(kit_get(&x.view, i), plain[to]);
                kit_expect(
                    &out.view, i, expected, to < 3 ? kit_tolerance(plain[to], expected, 0) : 0);
            }
            kit_free(&x);
            kit_free(&out);
        }
    }
}

static void casts_saturate_and_wrap_at_the_edges(void** state) {
    (void)state;
    const int64_t five = 5;
    kit_tensor x = kit_contiguous(BERTH_F32, 1, &five);
    const float edges[5] = {1e20f, -1e20f, NAN, INFINITY, -0.9f};
    memcpy(x.view.data, edges, sizeof edges);
    kit_tensor out = kit_contiguous(BERTH_I64, 1, &five);
    const berth_cast_params params = {.dtype = BERTH_I64};
    berth_op_call call = {.input_count = 1, .inputs = {x.view}, .params = &params};
    kit_run_everywhere(BERTH_OP_CAST, &call, &out, true, false, NULL);
    const int64_t expected[5] = {INT64_MAX, INT64_MIN, 0, INT64_MAX, 0};
    assert_memory_equal(out.view.data, expected, sizeof expected);

    kit_tensor narrow = kit_contiguous(BERTH_U8, 1, &five);
    const int64_t wide[5] = {256, -1, 511, 3, INT64_MIN};
    memcpy(out.view.data, wide, sizeof wide);
    call.inputs[0] = out.view;
    kit_run_everywhere(BERTH_OP_CAST, &call, &narrow, true, false, NULL);
    const uint8_t low_bits[5] = {0, 255, 255, 3, 0};
    assert_memory_equal(narrow.view.data, low_bits, sizeof low_bits);
    kit_free(&x);
    kit_free(&out);
    kit_free(&narrow);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(casts_between_plain_types),
        cmocka_unit_test(casts_saturate_and_wrap_at_the_edges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
