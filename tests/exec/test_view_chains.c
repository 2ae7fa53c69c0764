// SPDX-License-Identifier: Apache-2.0
// Random chains of views against a model that knows no strides: a list of the elements, in order.
#include <stdlib.h>

#include "exec/exec_kit.h"

enum { MOST_ELEMENTS = 400, CHAINS = 300, LENGTH = 8, MOST_PARTS = 6 };

/// What a view should be: its shape, and which elements of the first tensor it shows.
typedef struct model {
    int32_t rank;
    int64_t dims[BERTH_MAX_RANK];
    int64_t count;
    int64_t ids[MOST_ELEMENTS];
} model;

static test_random choices;

static int64_t between(int64_t low, int64_t high) {
    return test_random_between(&choices, low, high);
}

static int64_t count_of(int32_t rank, const int64_t* dims) {
    int64_t count = 1;
    for (int32_t i = 0; i < rank; ++i)
        count *= dims[i];
    return count;
}

/// The element at `index` of a shape.
static int64_t id_at(const model* m, const int64_t* index) {
    int64_t at = 0;
    for (int32_t d = 0; d < m->rank; ++d)
        at = at * m->dims[d] + index[d];
    return m->ids[at];
}

/// Where the element of a result comes from, by the op's definition.
typedef void (*source_fn)(const model* from,
                          const int64_t* args,
                          const int64_t* index,
                          int64_t* source);

/// Gives `m` the shape `dims`, each element taken from where `source` says.
static void rebuild(
    model* m, int32_t rank, const int64_t* dims, source_fn source, const int64_t* args) {
    static model result;
    result.rank = rank;
    result.count = count_of(rank, dims);
    assert_true(result.count <= MOST_ELEMENTS);
    for (int32_t d = 0; d < rank; ++d)
        result.dims[d] = dims[d];
    int64_t index[BERTH_MAX_RANK] = {0};
    for (int64_t i = 0; i < result.count; ++i) {
        int64_t from[BERTH_MAX_RANK] = {0};
        source(m, args, index, from);
        result.ids[i] = id_at(m, from);
        for (int32_t d = rank - 1; d >= 0 && ++index[d] == dims[d]; --d)
            index[d] = 0;
    }
    *m = result;
}

static void copy_index(const model* from, const int64_t* index, int64_t* source) {
    for (int32_t d = 0; d < from->rank; ++d)
        source[d] = index[d];
}

/// args: dim, first, step
static void from_part(const model* from,
                      const int64_t* args,
                      const int64_t* index,
                      int64_t* source) {
    copy_index(from, index, source);
    source[args[0]] = args[1] + index[args[0]] * args[2];
}

/// args: dim, index
static void from_select(const model* from,
                        const int64_t* args,
                        const int64_t* index,
                        int64_t* source) {
    for (int32_t d = 0; d < from->rank; ++d)
        source[d] = d == args[0] ? args[1] : index[d < args[0] ? d : d - 1];
}

/// args: the order
static void from_permute(const model* from,
                         const int64_t* args,
                         const int64_t* index,
                         int64_t* source) {
    for (int32_t d = 0; d < from->rank; ++d)
        source[args[d]] = index[d];
}

/// args: a mask of dims
static void from_flip(const model* from,
                      const int64_t* args,
                      const int64_t* index,
                      int64_t* source) {
    for (int32_t d = 0; d < from->rank; ++d)
        source[d] = (args[0] >> d & 1) != 0 ? from->dims[d] - 1 - index[d] : index[d];
}

/// args: new dimensions in front
static void from_expand(const model* from,
                        const int64_t* args,
                        const int64_t* index,
                        int64_t* source) {
    for (int32_t d = 0; d < from->rank; ++d)
        source[d] = from->dims[d] == 1 ? 0 : index[d + args[0]];
}

static void expect_model(berth_context* ctx, berth_tensor* x, const model* m) {
    assert_context_ok(ctx);
    assert_non_null(x);
    assert_int_equal(berth_tensor_rank(x), m->rank);
    for (int32_t d = 0; d < m->rank; ++d)
        assert_int_equal(berth_tensor_dims(x)[d], m->dims[d]);
    int64_t values[MOST_ELEMENTS];
    berth_tensor* dense = berth_contiguous(ctx, x);
    assert_ok(berth_tensor_read(dense, values, (uint64_t)m->count * sizeof *values));
    berth_release(dense);
    for (int64_t i = 0; i < m->count; ++i)
        assert_int_equal(values[i], m->ids[i]);
}

// --- One random view -----------------------------------------------------------------------------

static berth_tensor* view_slice(berth_context* ctx, berth_tensor* x, model* m) {
    if (m->rank == 0) return x;
    const int32_t dim = (int32_t)between(0, m->rank - 1);
    const int64_t size = m->dims[dim];
    int64_t step = between(-3, 3);
    if (step == 0) step = 4;
    const int64_t start = between(-size - 2, size + 2), stop = between(-size - 2, size + 2);
    // Python's rule, spelled out by walking
    int64_t first = start < 0 ? start + size : start, last = stop < 0 ? stop + size : stop;
    if (first < 0) first = step > 0 ? 0 : -1;
    if (first > size) first = size;
    if (first == size && step < 0) first = size - 1;
    if (last < 0) last = step > 0 ? 0 : -1;
    if (last > size) last = size;
    int64_t dims[BERTH_MAX_RANK];
    memcpy(dims, m->dims, sizeof dims);
    dims[dim] = 0;
    for (int64_t i = first; step > 0 ? i < last : i > last; i += step)
        if (i >= 0 && i < size) ++dims[dim];
    rebuild(m, m->rank, dims, from_part, (int64_t[]){dim, first, step});
    return berth_slice(ctx, berth_move(x), dim - (between(0, 1) ? m->rank : 0), start, stop, step);
}

static berth_tensor* view_narrow(berth_context* ctx, berth_tensor* x, model* m) {
    if (m->rank == 0) return x;
    const int32_t dim = (int32_t)between(0, m->rank - 1);
    const int64_t size = m->dims[dim];
    const int64_t start = between(0, size), length = between(0, size - start);
    int64_t dims[BERTH_MAX_RANK];
    memcpy(dims, m->dims, sizeof dims);
    dims[dim] = length;
    rebuild(m, m->rank, dims, from_part, (int64_t[]){dim, start, 1});
    return berth_narrow(ctx, berth_move(x), dim, start, length);
}

static berth_tensor* view_select(berth_context* ctx, berth_tensor* x, model* m) {
    if (m->rank == 0) return x;
    const int32_t dim = (int32_t)between(0, m->rank - 1);
    const int64_t size = m->dims[dim];
    if (size == 0) return x;
    const int64_t index = between(0, size - 1);
    int64_t dims[BERTH_MAX_RANK];
    for (int32_t d = 0; d < m->rank - 1; ++d)
        dims[d] = m->dims[d < dim ? d : d + 1];
    rebuild(m, m->rank - 1, dims, from_select, (int64_t[]){dim, index});
    return berth_select(ctx, berth_move(x), dim, between(0, 1) ? index : index - size);
}

static berth_tensor* view_permute(berth_context* ctx, berth_tensor* x, model* m) {
    berth_dims order = {.count = m->rank};
    int64_t args[BERTH_MAX_RANK] = {0}, dims[BERTH_MAX_RANK];
    for (int32_t d = 0; d < m->rank; ++d)
        args[d] = d;
    for (int32_t d = m->rank - 1; d > 0; --d) {
        const int64_t other = between(0, d), kept = args[d];
        args[d] = args[other];
        args[other] = kept;
    }
    for (int32_t d = 0; d < m->rank; ++d) {
        order.dims[d] = (int32_t)args[d] - (between(0, 1) ? m->rank : 0);
        dims[d] = m->dims[args[d]];
    }
    rebuild(m, m->rank, dims, from_permute, args);
    return berth_permute(ctx, berth_move(x), order);
}

static berth_tensor* view_transpose(berth_context* ctx, berth_tensor* x, model* m) {
    if (m->rank == 0) return x;
    const int64_t a = between(0, m->rank - 1), b = between(0, m->rank - 1);
    int64_t args[BERTH_MAX_RANK], dims[BERTH_MAX_RANK];
    for (int32_t d = 0; d < m->rank; ++d)
        args[d] = d == a ? b : d == b ? a : d;
    for (int32_t d = 0; d < m->rank; ++d)
        dims[d] = m->dims[args[d]];
    rebuild(m, m->rank, dims, from_permute, args);
    return berth_transpose(ctx, berth_move(x), (int32_t)a, (int32_t)b);
}

static berth_tensor* view_flip(berth_context* ctx, berth_tensor* x, model* m) {
    int64_t mask = 0;
    berth_dims dims = {0};
    for (int32_t d = 0; d < m->rank; ++d) {
        if (between(0, 1) == 0) continue;
        mask |= INT64_C(1) << d;
        dims.dims[dims.count++] = d;
    }
    if (dims.count == 0) mask = 255; // no dims are all of them
    rebuild(m, m->rank, m->dims, from_flip, &mask);
    return berth_flip(ctx, berth_move(x), dims);
}

static berth_tensor* view_expand(berth_context* ctx, berth_tensor* x, model* m) {
    const int32_t added = m->rank < BERTH_MAX_RANK ? (int32_t)between(0, 1) : 0;
    int64_t dims[BERTH_MAX_RANK], asked[BERTH_MAX_RANK];
    for (int32_t d = 0; d < added; ++d)
        dims[d] = asked[d] = between(0, 3);
    for (int32_t d = 0; d < m->rank; ++d) {
        dims[d + added] = m->dims[d] == 1 ? between(0, 3) : m->dims[d];
        asked[d + added] = m->dims[d] != 1 && between(0, 1) ? -1 : dims[d + added];
    }
    if (count_of(m->rank + added, dims) > MOST_ELEMENTS) return x;
    const int32_t rank = m->rank + added;
    rebuild(m, rank, dims, from_expand, (int64_t[]){added});
    return berth_expand(ctx, berth_move(x), rank, asked);
}

static berth_tensor* view_squeeze(berth_context* ctx, berth_tensor* x, model* m) {
    berth_dims dims = {0};
    const bool all = between(0, 1) != 0;
    for (int32_t d = 0; d < m->rank && !all; ++d)
        if (between(0, 1)) dims.dims[dims.count++] = d;
    model old = *m;
    m->rank = 0;
    for (int32_t d = 0; d < old.rank; ++d) {
        bool named = dims.count == 0;
        for (int32_t i = 0; i < dims.count; ++i)
            named = named || dims.dims[i] == d;
        if (!named || old.dims[d] != 1) m->dims[m->rank++] = old.dims[d];
    }
    return berth_squeeze(ctx, berth_move(x), dims);
}

static berth_tensor* view_unsqueeze(berth_context* ctx, berth_tensor* x, model* m) {
    if (m->rank == BERTH_MAX_RANK) return x;
    const int32_t at = (int32_t)between(0, m->rank);
    for (int32_t d = m->rank; d > at; --d)
        m->dims[d] = m->dims[d - 1];
    m->dims[at] = 1;
    const int32_t asked = between(0, 1) ? at : at - m->rank - 1;
    ++m->rank;
    return berth_unsqueeze(ctx, berth_move(x), asked);
}

/// Random factors of the number of elements; as a view where that works.
static berth_tensor* view_reshape(berth_context* ctx, berth_tensor* x, model* m) {
    if (m->count == 0) return x;
    int64_t left = m->count;
    m->rank = 0;
    for (int64_t factor = 2; factor <= left && m->rank < 5; ++factor) {
        if (left % factor != 0) continue;
        m->dims[m->rank++] = factor;
        left /= factor;
    }
    m->dims[m->rank++] = left;
    int64_t asked[BERTH_MAX_RANK];
    memcpy(asked, m->dims, sizeof asked);
    asked[between(0, m->rank - 1)] = -1;
    berth_tensor* view = berth_reshape_view(ctx, x, m->rank, asked);
    berth_tensor* y = berth_reshape(ctx, berth_move(berth_retain(x)), m->rank, asked);
    if (view != NULL) {
        assert_ptr_equal(y->storage, x->storage);
        expect_model(ctx, view, m);
    } else {
        assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "without a copy");
        y = berth_reshape(ctx, x, m->rank, asked);
        assert_ptr_not_equal(y->storage, x->storage);
        berth_release(x); // the moved reference went with the refused call
        return y;
    }
    berth_release_all(view, x);
    return y;
}

/// Cut into parts and one of them kept.
static berth_tensor* view_part(berth_context* ctx, berth_tensor* x, model* m) {
    if (m->rank == 0) return x;
    const int32_t dim = (int32_t)between(0, m->rank - 1);
    const int64_t size = m->dims[dim], piece = between(1, 4);
    berth_tensor* parts[MOST_ELEMENTS];
    const size_t count = berth_split(ctx, berth_move(x), piece, dim, parts, MOST_ELEMENTS);
    assert_int_equal(count, size == 0 ? 1 : (size + piece - 1) / piece);
    const size_t kept = (size_t)between(0, (int64_t)count - 1);
    int64_t dims[BERTH_MAX_RANK];
    memcpy(dims, m->dims, sizeof dims);
    const int64_t first = (int64_t)kept * piece;
    dims[dim] = size - first < piece ? size - first : piece;
    rebuild(m, m->rank, dims, from_part, (int64_t[]){dim, first, 1});
    for (size_t i = 0; i < count; ++i)
        if (i != kept) berth_release(parts[i]);
    return parts[kept];
}

static void any_chain_of_views_shows_the_elements_that_its_definitions_say(void** state) {
    berth_context* ctx = ((exec_kit*)*state)->ctx;
    berth_tensor* (*const views[])(berth_context*, berth_tensor*, model*) = {view_slice,
                                                                             view_narrow,
                                                                             view_select,
                                                                             view_permute,
                                                                             view_transpose,
                                                                             view_flip,
                                                                             view_expand,
                                                                             view_squeeze,
                                                                             view_unsqueeze,
                                                                             view_reshape,
                                                                             view_part};
    choices = test_random_make(11);
    static model m;
    for (int32_t chain = 0; chain < CHAINS; ++chain) {
        m.rank = (int32_t)between(0, 4);
        for (int32_t d = 0; d < m.rank; ++d)
            m.dims[d] = between(0, 30) == 0 ? 0 : between(1, 4);
        m.count = count_of(m.rank, m.dims);
        for (int64_t i = 0; i < m.count; ++i)
            m.ids[i] = i;
        berth_tensor* flat = berth_arange(ctx, 0, (double)m.count, 1, BERTH_I64);
        berth_tensor* x = berth_reshape(ctx, berth_move(flat), m.rank, m.dims);
        for (int32_t i = 0; i < LENGTH; ++i) {
            x = views[between(0, 10)](ctx, x, &m);
            expect_model(ctx, x, &m);
        }
        berth_release(x);
        assert_int_equal(ctx->home.live_objects, 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        EXEC_KIT_ON_BOTH(any_chain_of_views_shows_the_elements_that_its_definitions_say),
    };
    return cmocka_run_group_tests_name("view chains", tests, NULL, NULL);
}
