// SPDX-License-Identifier: Apache-2.0
// NONZERO MASKED_SELECT UNIQUE against plain loops, for each type, any strides, on every
// instruction set and with teams. All is exact.
#include "sort_kit.h"

static const berth_dtype plain[] = {
    BERTH_F32, BERTH_F16, BERTH_BF16, BERTH_I32, BERTH_I64, BERTH_I8, BERTH_U8, BERTH_BOOL};
enum { TYPES = sizeof plain / sizeof plain[0] };

static bool is_nonzero(const berth_view* x, int64_t index) {
    const kit_item item = kit_item_at(x, index, 0);
    return item.is_whole ? item.whole != 0 : !(item.value == 0);
}

/// Sets each element to 0 but one in `n`, none if `n` is 0; a -0 now and then.
static void thin_out(kit_tensor* x, int64_t n) {
    const bool is_float = berth_dtype_query_info(x->view.dtype)->kind == BERTH_DTYPE_KIND_F;
    for (int64_t i = 0; i < kit_count(&x->view); ++i)
        if (n == 0 || kit_int(1, n) > 1)
            kit_store(x->view.dtype, kit_at(&x->view, i), is_float && i % 2 == 0 ? -0.0 : 0.0);
}

// --- NONZERO -------------------------------------------------------------------------------------

static void check_nonzero(const kit_tensor* x) {
    berth_op_call call = {.input_count = 1, .inputs = {x->view}, .output_count = 1};
    kit_many many;
    kit_many_run(&many, BERTH_OP_NONZERO, &call);
    const berth_view* out = &call.outputs[0];
    int64_t found = 0;
    assert_int_equal(out->dims[1], x->view.rank);
    for (int64_t i = 0; i < kit_count(&x->view); ++i) {
        if (!is_nonzero(&x->view, i)) continue;
        int64_t rest = i;
        assert_true(found < out->dims[0]);
        for (int32_t d = x->view.rank; d-- > 0;) {
            const int64_t* index = kit_at(out, found * x->view.rank + d);
            assert_int_equal(*index, rest % x->view.dims[d]);
            rest /= x->view.dims[d];
        }
        ++found;
    }
    assert_int_equal(out->dims[0], found);
    kit_many_free(&many);
}

static void nonzero_elements_are_found_in_any_shape_and_strides(void** state) {
    (void)state;
    kit_seed(21);
    for (int round = 0; round < 400; ++round) {
        int64_t dims[BERTH_MAX_RANK];
        const int32_t rank = round % 40 == 0 ? 0 : kit_dims(round % 50 == 1 ? 8 : 4, 6, dims);
        kit_tensor x = kit_strided(plain[round % TYPES], rank, dims, false, true);
        kit_fill_for_sort(&x);
        thin_out(&x, kit_int(0, 4));
        check_nonzero(&x);
        kit_free(&x);
    }
}

static void nonzero_elements_are_found_across_chunks(void** state) {
    (void)state;
    kit_seed(22);
    for (int t = 0; t < TYPES; ++t) {
        const int64_t dims[3] = {kit_int(20, 40), kit_int(1, 3), 700};
        kit_tensor x = kit_strided(plain[t], 3, dims, t % 2 == 0, false);
        kit_fill_for_sort(&x);
        thin_out(&x, t % 3 == 0 ? 1 : 50);
        check_nonzero(&x);
        kit_free(&x);
    }
}

// --- MASKED_SELECT -------------------------------------------------------------------------------

/// Number of the element of `x` at position `index` of the shape that it is broadcast to.
static int64_t broadcast_from(const berth_view* x,
                              int32_t rank,
                              const int64_t* dims,
                              int64_t index) {
    int64_t number = 0, unit = 1;
    for (int32_t d = rank; d-- > 0;) {
        const int32_t own = d - (rank - x->rank);
        if (own >= 0) {
            if (x->dims[own] > 1) number += index % dims[d] * unit;
            unit *= x->dims[own];
        }
        index /= dims[d];
    }
    return number;
}

static void check_masked_select(const kit_tensor* x,
                                const kit_tensor* mask,
                                int32_t rank,
                                const int64_t* dims) {
    berth_op_call call = {.input_count = 2, .inputs = {x->view, mask->view}, .output_count = 1};
    kit_many many;
    kit_many_run(&many, BERTH_OP_MASKED_SELECT, &call);
    int64_t count = 1, found = 0;
    for (int32_t d = 0; d < rank; ++d)
        count *= dims[d];
    for (int64_t i = 0; i < count; ++i) {
        if (kit_get(&mask->view, broadcast_from(&mask->view, rank, dims, i)) == 0) continue;
        assert_true(found < call.outputs[0].dims[0]);
        kit_expect_bits(&call.outputs[0], found, &x->view, broadcast_from(&x->view, rank, dims, i));
        ++found;
    }
    assert_int_equal(call.outputs[0].dims[0], found);
    kit_many_free(&many);
}

/// A tensor that broadcasts to [dims]: some dimensions 1, perhaps the first ones left out.
static kit_tensor narrower(berth_dtype dtype, int32_t rank, const int64_t* dims, bool may_shorten) {
    int64_t own[BERTH_MAX_RANK];
    const int32_t skipped = may_shorten && rank > 0 ? (int32_t)kit_int(0, rank) : 0;
    for (int32_t d = skipped; d < rank; ++d)
        own[d - skipped] = kit_int(0, 3) == 0 ? 1 : dims[d];
    return kit_strided(dtype, rank - skipped, own, false, true);
}

static void elements_are_selected_by_masks_of_any_shape_and_strides(void** state) {
    (void)state;
    kit_seed(23);
    for (int round = 0; round < 400; ++round) {
        int64_t dims[BERTH_MAX_RANK];
        const int32_t rank = round % 50 == 0 ? 0 : kit_dims(round % 50 == 1 ? 8 : 4, 6, dims);
        kit_tensor x = narrower(plain[round % TYPES], rank, dims, round % 2 == 0);
        kit_tensor mask = narrower(BERTH_BOOL, rank, dims, round % 2 == 1);
        kit_fill_for_sort(&x);
        kit_fill(&mask, 0, 1);
        thin_out(&mask, kit_int(0, 3));
        // what both leave at 1 is 1 in the result
        int64_t common[BERTH_MAX_RANK];
        const int32_t longest = x.view.rank > mask.view.rank ? x.view.rank : mask.view.rank;
        for (int32_t d = 0; d < longest; ++d) {
            const int32_t a = d - (longest - x.view.rank), b = d - (longest - mask.view.rank);
            const int64_t size_a = a >= 0 ? x.view.dims[a] : 1,
                          size_b = b >= 0 ? mask.view.dims[b] : 1;
            common[d] = size_a != 1 ? size_a : size_b;
        }
        check_masked_select(&x, &mask, longest, common);
        kit_free(&x);
        kit_free(&mask);
    }
}

static void elements_are_selected_across_chunks(void** state) {
    (void)state;
    kit_seed(24);
    for (int t = 0; t < TYPES; ++t) {
        const int64_t dims[2] = {3, 20011};
        kit_tensor x = kit_strided(plain[t], 2, dims, t % 2 == 0, false);
        kit_tensor mask = kit_strided(BERTH_BOOL, 2, dims, true, false);
        kit_fill_for_sort(&x);
        kit_fill(&mask, 0, 1);
        if (t % 3 > 0) thin_out(&mask, t % 3 == 1 ? 40 : 2);
        check_masked_select(&x, &mask, 2, dims);
        kit_free(&x);
        kit_free(&mask);
    }
}

/// Data that changes after it was counted must not make the kernel write beyond its output.
static void data_that_changes_after_the_count_stays_within_the_output(void** state) {
    (void)state;
    const int64_t dims[1] = {40000};
    kit_tensor x = kit_contiguous(BERTH_U8, 1, dims);
    kit_tensor mask = kit_contiguous(BERTH_BOOL, 1, dims);
    static const berth_op_id ops[] = {BERTH_OP_NONZERO, BERTH_OP_MASKED_SELECT};
    for (size_t i = 0; i < 2; ++i) {
        const berth_op_desc* desc = &berth_op_table[ops[i]];
        berth_op_call call = {
            .input_count = (uint32_t)i + 1, .inputs = {x.view, mask.view}, .output_count = 1};
        memset(x.view.data, 0, x.bytes);
        memset(mask.view.data, 0, mask.bytes);
        *(uint8_t*)kit_at(&x.view, 30000) = *(uint8_t*)kit_at(&mask.view, 30000) = 1;
        assert_int_equal(desc->infer(&call), BERTH_OK);
        uint64_t scratch[64];
        assert_true(desc->scratch(&call) <= sizeof scratch);
        call.scratch = scratch;
        desc->counters[BERTH_DEVICE_CPU](&call);
        assert_int_equal(scratch[0], 1);
        call.outputs[0].dims[0] = 1;
        kit_tensor out = kit_contiguous(call.outputs[0].dtype, 1, call.outputs[0].dims);
        call.outputs[0].data = out.view.data;
        memset(x.view.data, 1, x.bytes);
        memset(mask.view.data, 1, mask.bytes);
        berth_cpu_kernels()[ops[i]](&call);
        kit_free(&out); // with its guards
    }
    kit_free(&x);
    kit_free(&mask);
}

// --- UNIQUE --------------------------------------------------------------------------------------

static int order_ascending(const void* a, const void* b) { return kit_order(a, b, false); }

static bool is_same(const kit_item* a, const kit_item* b) {
    return (a->is_whole || !isnan(a->value)) && kit_compare(a, b) == 0;
}

static void check_unique(const kit_tensor* x, bool with_inverse, bool with_counts) {
    const berth_unique_params params = {.with_inverse = with_inverse, .with_counts = with_counts};
    berth_op_call call = {.input_count = 1,
                          .inputs = {x->view},
                          .output_count = 1u + with_inverse + with_counts,
                          .params = &params};
    kit_many many;
    kit_many_run(&many, BERTH_OP_UNIQUE, &call);
    const int64_t count = kit_count(&x->view);
    kit_item* items = malloc((size_t)(count + 1) * sizeof *items);
    assert_non_null(items);
    for (int64_t i = 0; i < count; ++i)
        items[i] = kit_item_at(&x->view, i, i);
    qsort(items, (size_t)count, sizeof *items, order_ascending);
    int64_t distinct = -1, often = 0;
    for (int64_t i = 0; i < count; ++i) {
        if (i == 0 || !is_same(&items[i], &items[i - 1])) {
            ++distinct;
            often = 0;
            kit_expect_bits(&call.outputs[0], distinct, &x->view, items[i].number);
        }
        ++often;
        const int64_t* inverse = with_inverse ? call.outputs[1].data : NULL;
        const int64_t* counts = with_counts ? call.outputs[1 + with_inverse].data : NULL;
        if (with_inverse) assert_int_equal(inverse[items[i].number], distinct);
        const bool is_last = i + 1 == count || !is_same(&items[i + 1], &items[i]);
        if (with_counts && is_last) assert_int_equal(counts[distinct], often);
    }
    assert_int_equal(call.outputs[0].dims[0], distinct + 1);
    free(items);
    kit_many_free(&many);
}

static void distinct_values_of_any_shape_and_strides_are_found(void** state) {
    (void)state;
    kit_seed(25);
    for (int round = 0; round < 400; ++round) {
        int64_t dims[BERTH_MAX_RANK];
        const int32_t rank = round % 40 == 0 ? 0 : kit_dims(round % 50 == 1 ? 8 : 3, 6, dims);
        kit_tensor x = kit_strided(plain[round % TYPES], rank, dims, false, true);
        kit_fill_for_sort(&x);
        check_unique(&x, kit_int(0, 1) == 1, kit_int(0, 1) == 1);
        kit_free(&x);
    }
}

static void distinct_values_are_found_across_chunks(void** state) {
    (void)state;
    kit_seed(26);
    for (int t = 0; t < TYPES; ++t) {
        const int64_t dims[2] = {5, 8000};
        kit_tensor x = kit_strided(plain[t], 2, dims, t % 2 == 0, false);
        kit_fill_for_sort(&x);
        check_unique(&x, true, true);
        kit_free(&x);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nonzero_elements_are_found_in_any_shape_and_strides),
        cmocka_unit_test(nonzero_elements_are_found_across_chunks),
        cmocka_unit_test(elements_are_selected_by_masks_of_any_shape_and_strides),
        cmocka_unit_test(elements_are_selected_across_chunks),
        cmocka_unit_test(data_that_changes_after_the_count_stays_within_the_output),
        cmocka_unit_test(distinct_values_of_any_shape_and_strides_are_found),
        cmocka_unit_test(distinct_values_are_found_across_chunks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
