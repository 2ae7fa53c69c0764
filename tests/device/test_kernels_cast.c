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

/// `count` values of the type, the ends of all types among them.
static void fill_widely(kit_tensor* x) {
    const double ends[] = {0,
                           -0.0,
                           1,
                           -1,
                           0.5,
                           -0.5,
                           127,
                           128,
                           -128,
                           -129,
                           255,
                           256,
                           32767.5,
                           65504,
                           65520,
                           2147483520.0,
                           2147483647.0,
                           2147483648.0,
                           -2147483648.0,
                           -2147483904.0,
                           9223371487098961920.0,
                           9223372036854775808.0,
                           -9223372036854775808.0,
                           1e30,
                           -1e30,
                           1e-30,
                           (double)INFINITY,
                           -(double)INFINITY,
                           (double)NAN};
    enum { ENDS = sizeof ends / sizeof ends[0] };
    const berth_dtype dtype = x->view.dtype;
    for (int64_t i = 0; i < kit_count(&x->view); ++i) {
        void* at = kit_at(&x->view, i);
        if (berth_dtype_is_float(dtype)) {
            kit_store(
                dtype, at, kit_int(0, 3) > 0 ? ends[kit_int(0, ENDS - 1)] : kit_real(-300, 300));
            continue;
        }
        const int64_t any =
            dtype == BERTH_BOOL ? kit_int(0, 1) : (int64_t)(kit_next() >> kit_int(0, 63));
        memcpy(at, &any, kit_bytes(dtype)); // little-endian, low bytes first
    }
}

static int64_t load_integer(berth_dtype dtype, const void* at) {
    int64_t value = 0;
    memcpy(&value, at, kit_bytes(dtype));
    const int shift = 64 - 8 * (int)kit_bytes(dtype);
    const bool is_signed = berth_dtype_query_info(dtype)->kind == BERTH_DTYPE_KIND_I;
    return is_signed ? (int64_t)((uint64_t)value << shift) >> shift : value;
}

/// What the element at `from` is as an integer type.
static int64_t expected_integer(berth_dtype from_dtype, const void* from, berth_dtype to) {
    if (!berth_dtype_is_float(from_dtype)) {
        const int64_t value = load_integer(from_dtype, from);
        return to == BERTH_BOOL ? value != 0 : load_integer(to, &value);
    }
    const double value = kit_load(from_dtype, from);
    if (to == BERTH_BOOL) return value != 0;
    if (isnan(value)) return 0;
    if (value <= (double)berth_dtype_lowest(to)) return berth_dtype_lowest(to);
    if (value >= (double)berth_dtype_highest(to)) return berth_dtype_highest(to);
    return (int64_t)value;
}

static void every_pair_of_types_is_right_at_the_ends(void** state) {
    (void)state;
    kit_seed(9);
    const int64_t count = 3001;
    for (int from = 0; from < 8; ++from) {
        for (int to = 0; to < 8; ++to) {
            kit_tensor x = kit_contiguous(plain[from], 1, &count);
            kit_tensor out = kit_contiguous(plain[to], 1, &count);
            fill_widely(&x);
            const berth_cast_params params = {.dtype = plain[to]};
            berth_op_call call = {.input_count = 1, .inputs = {x.view}, .params = &params};
            kit_run_everywhere(BERTH_OP_CAST, &call, &out, false, false, NULL);
            for (int64_t i = 0; i < count; ++i) {
                const void* at = kit_at(&x.view, i);
                const void* found = kit_at(&out.view, i);
                if (to >= 3) {
                    const int64_t expected = expected_integer(plain[from], at, plain[to]);
                    assert_int_equal(load_integer(plain[to], found), expected);
                    continue;
                }
                // integers become f32 first
                const bool is_float = berth_dtype_is_float(plain[from]);
                const double value = is_float ? kit_load(plain[from], at)
                                              : (double)(float)load_integer(plain[from], at);
                unsigned char expected[8];
                kit_store(plain[to], expected, value);
                kit_expect(&out.view, i, kit_load(plain[to], expected), 0);
            }
            kit_free(&x);
            kit_free(&out);
        }
    }
}

static void a_large_operand_is_shared_among_workers_and_may_be_overwritten(void** state) {
    (void)state;
    kit_seed(10);
    const int64_t count = 150001;
    for (int from = 0; from < 8; ++from) {
        for (int to = 0; to < 8; ++to) {
            if (kit_bytes(plain[from]) != kit_bytes(plain[to])) continue;
            kit_tensor x = kit_contiguous(plain[from], 1, &count);
            kit_tensor out = kit_contiguous(plain[to], 1, &count);
            kit_fill(&x, 0, 100);
            const berth_cast_params params = {.dtype = plain[to]};
            berth_op_call call = {.input_count = 1, .inputs = {x.view}, .params = &params};
            kit_run_everywhere(BERTH_OP_CAST, &call, &out, true, false, NULL);
            kit_tensor place = x;
            place.view.dtype = plain[to];
            kit_run_everywhere(BERTH_OP_CAST, &call, &place, true, true, NULL);
            assert_memory_equal(x.memory, out.memory, out.bytes + 2 * KIT_GUARD);
            kit_free(&x);
            kit_free(&out);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(casts_between_plain_types),
        cmocka_unit_test(casts_saturate_and_wrap_at_the_edges),
        cmocka_unit_test(every_pair_of_types_is_right_at_the_ends),
        cmocka_unit_test(a_large_operand_is_shared_among_workers_and_may_be_overwritten),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
