// SPDX-License-Identifier: Apache-2.0
// Products by a library in cuBLASLt's place: what it is told of the operands, what is kept of it,
// and that its failures leave nothing behind.
#include <dlfcn.h>

#include "cuda/blas_standin.h"
#include "device/cuda/cuda_blas.h"
#include "device/kernel_kit.h"

static blas_standin_state* standin;
static unsigned char workspace[4096];

static int setup(void** state) {
    (void)state;
    void* const library = dlopen(BERTH_TEST_BLAS, RTLD_NOW | RTLD_LOCAL);
    assert_non_null(library);
    void* const found = dlsym(library, BLAS_STANDIN_SYMBOL);
    assert_non_null(found);
    blas_standin_function query;
    memcpy(&query, &found, sizeof query);
    standin = query();
    return 0;
}

static berth_cuda_blas* open_blas(const char* library) {
    berth_cuda_blas* blas;
    *standin = (blas_standin_state){0};
    assert_ok(berth_cuda_blas_create(berth_host_default(), library, &blas));
    return blas;
}

static void close_blas(berth_cuda_blas* blas) {
    berth_cuda_blas_destroy(blas, true);
    assert_int_equal(standin->objects, 0);
}

static bool multiply(berth_cuda_blas* blas, const berth_cuda_library_product* product) {
    // some stream; nobody looks at it
    const cu_stream stream = (cu_stream)(void*)workspace;
    return berth_cuda_blas_multiply(blas, stream, product, workspace + 8, sizeof workspace - 8);
}

/// Operands of a product, [batches, rows, depth] and [batches, depth, columns].
typedef struct product_case {
    kit_tensor a, b, bias, out;
    berth_cuda_library_product product;
} product_case;

/// A matrix whose rows, or whose columns, lie side by side with gaps between.
static kit_tensor draw_matrix(int64_t batches, int64_t rows, int64_t columns, bool is_turned) {
    const int64_t gap = kit_int(0, 3);
    const int64_t dims[3] = {
        batches, is_turned ? columns : rows, (is_turned ? rows : columns) + gap};
    kit_tensor x = kit_contiguous(BERTH_F32, 3, dims);
    kit_fill(&x, -1, 1);
    berth_view* view = &x.view;
    const int64_t stride = view->strides[1];
    view->dims[1] = rows;
    view->dims[2] = columns;
    view->strides[1] = is_turned ? 1 : stride;
    view->strides[2] = is_turned ? stride : 1;
    if (batches > 1 && kit_int(0, 2) == 0) view->strides[0] = 0;
    return x;
}

static void product_init(
    product_case* c, int64_t batches, int64_t rows, int64_t columns, int64_t depth) {
    *c = (product_case){
        .a = draw_matrix(batches, rows, depth, kit_int(0, 1) == 0),
        .b = draw_matrix(batches, depth, columns, kit_int(0, 1) == 0),
        .bias = kit_contiguous(BERTH_F32, 1, &columns),
        .out = kit_contiguous(BERTH_F32, 3, (int64_t[]){batches, rows, columns}),
    };
    kit_fill(&c->bias, -1, 1);
    memset(c->out.view.data, 0x5A, c->out.bytes);
    c->product = (berth_cuda_library_product){
        .dtype = BERTH_F32,
        .a = c->a.view.data,
        .b = c->b.view.data,
        .bias = batches == 1 && kit_int(0, 1) == 0 ? c->bias.view.data : NULL,
        .out = c->out.view.data,
        .batches = batches,
        .rows = rows,
        .columns = columns,
        .depth = depth,
        .a_batch = c->a.view.strides[0],
        .a_row = c->a.view.strides[1],
        .a_step = c->a.view.strides[2],
        .b_batch = c->b.view.strides[0],
        .b_step = c->b.view.strides[1],
        .b_column = c->b.view.strides[2],
    };
}

static void product_fini(product_case* c) {
    kit_free(&c->a);
    kit_free(&c->b);
    kit_free(&c->bias);
    kit_free(&c->out);
}

static void check_product(const product_case* c) {
    const berth_cuda_library_product* p = &c->product;
    for (int64_t i = 0; i < p->batches * p->rows * p->columns; ++i) {
        const int64_t column = i % p->columns, row = i / p->columns % p->rows;
        const int64_t batch = i / p->columns / p->rows;
        double sum = p->bias == NULL ? 0 : (double)p->bias[column];
        for (int64_t k = 0; k < p->depth; ++k)
            sum += kit_get(&c->a.view, (batch * p->rows + row) * p->depth + k) *
                   kit_get(&c->b.view, (batch * p->depth + k) * p->columns + column);
        kit_expect(&c->out.view, i, sum, 1e-6);
    }
}

static void operands_of_any_order_are_taken_where_they_lie(void** state) {
    (void)state;
    kit_seed(1);
    berth_cuda_blas* blas = open_blas(BERTH_TEST_BLAS);
    for (int round = 0; round < 200; ++round) {
        product_case c;
        product_init(&c, kit_int(1, 3), kit_int(1, 5), kit_int(1, 5), kit_int(1, 5));
        assert_true(multiply(blas, &c.product));
        check_product(&c);
        product_fini(&c);
    }
    close_blas(blas);
}

static void products_that_it_has_no_words_for_are_left_to_the_caller(void** state) {
    (void)state;
    kit_seed(2);
    berth_cuda_blas* blas = open_blas(BERTH_TEST_BLAS);
    product_case c;
    product_init(&c, 1, 4, 4, 4);
    const berth_cuda_library_product good = c.product;
    berth_cuda_library_product bad[6] = {good, good, good, good, good, good};
    bad[0].a_row = bad[0].a_step = 2; // neither rows nor columns side by side
    bad[1].b_step = bad[1].b_column = 0;
    bad[2].a_row = -4;
    bad[2].a_step = 1;
    bad[3].depth = 0;
    bad[4].rows = INT64_C(1) << 40;
    bad[5].dtype = BERTH_F16; // of which the stand-in suggests nothing
    for (int i = 0; i < 6; ++i)
        assert_false(multiply(blas, &bad[i]));
    assert_int_equal(standin->products, 0);
    assert_int_equal(((unsigned char*)c.out.view.data)[0], 0x5A);
    product_fini(&c);
    close_blas(blas);
}

static void the_library_is_asked_once_for_a_shape_and_forgets_what_was_used_least(void** state) {
    (void)state;
    kit_seed(3);
    berth_cuda_blas* blas = open_blas(BERTH_TEST_BLAS);
    product_case c;
    product_init(&c, 1, 2, 3, 4);
    for (int i = 0; i < 3; ++i)
        assert_true(multiply(blas, &c.product));
    assert_int_equal(standin->suggestions, 1);
    product_fini(&c);
    for (int64_t rows = 1; rows <= 600; ++rows) {
        product_init(&c, 1, rows, 1, 1);
        assert_true(multiply(blas, &c.product));
        product_fini(&c);
        assert_in_range(standin->objects, 1, 4 * 256 + 1);
    }
    close_blas(blas);
}

static void a_library_that_is_not_there_is_no_failure(void** state) {
    (void)state;
    kit_seed(4);
    product_case c;
    product_init(&c, 1, 2, 3, 4);
    berth_cuda_blas* blas = open_blas("libberth-has-no-such-library.so");
    assert_false(multiply(blas, &c.product));
    assert_false(multiply(blas, &c.product));
    berth_cuda_blas_destroy(blas, true);
    blas = open_blas("libm.so.6"); // without the functions
    assert_false(multiply(blas, &c.product));
    berth_cuda_blas_destroy(blas, true);
    berth_cuda_blas_destroy(NULL, true);
    product_fini(&c);
}

static void a_failure_of_any_call_leaves_the_product_to_the_caller_and_nothing_behind(
    void** state) {
    (void)state;
    kit_seed(5);
    for (int64_t failing = 1;; ++failing) {
        berth_cuda_blas* blas = open_blas(BERTH_TEST_BLAS);
        standin->failing = failing;
        product_case c;
        product_init(&c, failing % 2 + 1, 3, 2, 4);
        const bool is_done = multiply(blas, &c.product);
        const bool has_failed = standin->calls >= failing;
        assert_int_equal(is_done, !has_failed);
        if (is_done) check_product(&c);
        product_fini(&c);
        close_blas(blas);
        if (!has_failed && failing % 2 == 0) return;
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operands_of_any_order_are_taken_where_they_lie),
        cmocka_unit_test(products_that_it_has_no_words_for_are_left_to_the_caller),
        cmocka_unit_test(the_library_is_asked_once_for_a_shape_and_forgets_what_was_used_least),
        cmocka_unit_test(a_library_that_is_not_there_is_no_failure),
        cmocka_unit_test(a_failure_of_any_call_leaves_the_product_to_the_caller_and_nothing_behind),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
