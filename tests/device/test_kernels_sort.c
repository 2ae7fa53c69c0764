// SPDX-License-Identifier: Apache-2.0
// SORT ARGSORT TOPK against a stable sort of plain pairs, for each type, any strides, on every
// instruction set and with teams. What comes out are bits of what went in, so all is exact.
#include "sort_kit.h"

static const berth_dtype plain[] = {
    BERTH_F32, BERTH_F16, BERTH_BF16, BERTH_I32, BERTH_I64, BERTH_I8, BERTH_U8, BERTH_BOOL};
enum { TYPES = sizeof plain / sizeof plain[0] };

/// What is sorted, and how.
typedef struct sort_case {
    berth_op_id op;
    int32_t dim;
    bool descending;
    int64_t kept;          ///< TOPK
    uint32_t output_count; ///< SORT, TOPK
} sort_case;

/// Items of row `row` along the dimension, by numbers into the view.
typedef struct row_items {
    int64_t first;
    int64_t step;
    int64_t length;
} row_items;

static row_items row_of(const berth_view* view, int32_t dim, int64_t row) {
    int64_t inner = 1;
    for (int32_t d = dim + 1; d < view->rank; ++d)
        inner *= view->dims[d];
    const int64_t length = view->rank > 0 ? view->dims[dim] : 1;
    return (row_items){row / inner * length * inner + row % inner, inner, length};
}

static int order_ascending(const void* a, const void* b) { return kit_order(a, b, false); }
static int order_descending(const void* a, const void* b) { return kit_order(a, b, true); }

/// Compares the outputs' row with the reference.
static void check_row(const sort_case* c, const berth_op_call* call, int64_t row) {
    const berth_view* x = &call->inputs[0];
    const row_items from = row_of(x, c->dim, row);
    const row_items to = row_of(&call->outputs[0], c->dim, row);
    kit_item* items = malloc((size_t)(from.length + 1) * sizeof *items);
    assert_non_null(items);
    for (int64_t i = 0; i < from.length; ++i)
        items[i] = kit_item_at(x, from.first + i * from.step, i);
    qsort(items,
          (size_t)from.length,
          sizeof *items,
          c->descending ? order_descending : order_ascending);
    const bool has_values = c->op != BERTH_OP_ARGSORT;
    const berth_view* indices = &call->outputs[has_values ? 1 : 0];
    for (int64_t i = 0; i < to.length; ++i) {
        const int64_t at = to.first + i * to.step;
        if (has_values)
            kit_expect_bits(&call->outputs[0], at, x, from.first + items[i].number * from.step);
        if (!has_values || call->output_count > 1)
            assert_int_equal(*(int64_t*)kit_at(indices, at), items[i].number);
    }
    free(items);
}

static void check(const sort_case* c, const kit_tensor* x) {
    const berth_sort_params sort = {.dim = c->dim, .descending = c->descending};
    const berth_topk_params topk = {.k = c->kept, .dim = c->dim, .largest = c->descending};
    berth_op_call call = {
        .input_count = 1,
        .inputs = {x->view},
        .output_count = c->output_count,
        .params = c->op == BERTH_OP_TOPK ? (const void*)&topk : &sort,
    };
    kit_many many;
    kit_many_run(&many, c->op, &call);
    const int64_t length = call.outputs[0].rank > 0 ? call.outputs[0].dims[c->dim] : 1;
    const int64_t rows = length > 0 ? kit_count(&call.outputs[0]) / length : 0;
    for (int64_t row = 0; row < rows; ++row)
        check_row(c, &call, row);
    kit_many_free(&many);
}

static sort_case random_case(const kit_tensor* x) {
    static const berth_op_id ops[] = {BERTH_OP_SORT, BERTH_OP_ARGSORT, BERTH_OP_TOPK};
    sort_case c = {.op = ops[kit_int(0, 2)], .descending = kit_int(0, 1) == 1};
    c.dim = (int32_t)kit_int(0, x->view.rank > 0 ? x->view.rank - 1 : 0);
    c.output_count = c.op == BERTH_OP_ARGSORT ? 1 : (uint32_t)kit_int(1, 2);
    const int64_t size = x->view.rank > 0 ? x->view.dims[c.dim] : 1;
    c.kept = x->view.rank > 0 ? kit_int(0, size) : 1;
    return c;
}

static void any_shape_and_strides_of_each_type_are_sorted(void** state) {
    (void)state;
    kit_seed(11);
    for (int round = 0; round < 400; ++round) {
        int64_t dims[BERTH_MAX_RANK];
        const int32_t rank = round % 40 == 0 ? 0 : kit_dims(4, 9, dims);
        kit_tensor x = kit_strided(plain[round % TYPES], rank, dims, false, true);
        kit_fill_for_sort(&x);
        const sort_case c = random_case(&x);
        check(&c, &x);
        kit_free(&x);
    }
}

static void eight_dimensions_are_sorted_along_each(void** state) {
    (void)state;
    kit_seed(12);
    const int64_t dims[BERTH_MAX_RANK] = {2, 1, 3, 2, 1, 2, 3, 2};
    for (int32_t dim = 0; dim < BERTH_MAX_RANK; ++dim) {
        kit_tensor x = kit_strided(BERTH_F32, BERTH_MAX_RANK, dims, false, true);
        kit_fill_for_sort(&x);
        check(&(sort_case){.op = BERTH_OP_SORT, .dim = dim, .output_count = 2}, &x);
        kit_free(&x);
    }
}

/// Lengths on both sides of where the way of sorting changes.
static void rows_of_every_length_are_sorted(void** state) {
    (void)state;
    static const int64_t lengths[] = {
        0, 1, 2, 11, 12, 13, 25, 191, 192, 193, 700, 8191, 8192, 20000};
    kit_seed(13);
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; ++i) {
        for (int t = 0; t < TYPES; ++t) {
            const int64_t dims[2] = {lengths[i] > 1000 ? 1 : 3, lengths[i]};
            kit_tensor x = kit_strided(plain[t], 2, dims, true, false);
            kit_fill_for_sort(&x);
            sort_case c = {
                .op = BERTH_OP_SORT, .dim = 1, .descending = t % 2 == 0, .output_count = 1};
            check(&c, &x);
            c.output_count = 2;
            check(&c, &x);
            kit_free(&x);
        }
    }
}

/// Few of many, with values in an order that brings better ones to the very end.
static void the_first_few_are_found_in_rows_of_any_order(void** state) {
    (void)state;
    // so that 12000 values fit the type
    static const double scales[TYPES] = {1, 1, 1, 1, 1, 1.0 / 128, 1.0 / 64, 1.0 / 12000};
    kit_seed(14);
    for (int t = 0; t < TYPES; ++t) {
        for (int order = 0; order < 3; ++order) {
            const int64_t dims[2] = {t % 2 == 0 ? 1 : 3, 12000};
            kit_tensor x = kit_contiguous(plain[t], 2, dims);
            kit_fill_for_sort(&x);
            for (int64_t i = 0; i < dims[1] && order > 0; ++i) {
                const double value = (double)(order == 1 ? i : dims[1] - i);
                kit_store(plain[t], kit_at(&x.view, i), floor(value * scales[t]));
            }
            static const int64_t kept[] = {1, 7, 180, 1500, 4000, 12000};
            for (size_t k = 0; k < sizeof kept / sizeof kept[0]; ++k) {
                const sort_case c = {.op = BERTH_OP_TOPK,
                                     .dim = 1,
                                     .kept = kept[k],
                                     .descending = k % 2 == 0,
                                     .output_count = 1 + (k > 2)};
                check(&c, &x);
            }
            kit_free(&x);
        }
    }
}

static void all_equal_keeps_its_order(void** state) {
    (void)state;
    const int64_t dims[1] = {20000};
    kit_tensor x = kit_contiguous(BERTH_F32, 1, dims);
    memset(x.view.data, 0, x.bytes);
    for (int64_t i = 0; i < dims[0]; i += 3)
        kit_store(BERTH_F32, kit_at(&x.view, i), -0.0);
    for (int descending = 0; descending < 2; ++descending) {
        for (uint32_t outputs = 1; outputs <= 2; ++outputs) {
            check(&(sort_case){.op = BERTH_OP_SORT,
                               .descending = descending == 1,
                               .output_count = outputs},
                  &x);
        }
    }
    kit_free(&x);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_shape_and_strides_of_each_type_are_sorted),
        cmocka_unit_test(eight_dimensions_are_sorted_along_each),
        cmocka_unit_test(rows_of_every_length_are_sorted),
        cmocka_unit_test(the_first_few_are_found_in_rows_of_any_order),
        cmocka_unit_test(all_equal_keeps_its_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
