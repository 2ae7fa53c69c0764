// SPDX-License-Identifier: Apache-2.0
// The public view ops that take a part of a tensor.
#include <inttypes.h>

#include "base/error.h"
#include "exec/api.h"
#include "exec/view.h"

/// The last dimension of a quantised tensor is made of blocks.
static berth_status check_sliceable(const berth_window* window, int32_t dim) {
    if (dim == window->rank - 1 && !berth_dtype_is_plain(window->dtype))
        return berth_fail(BERTH_ERR_UNSUPPORTED,
                          "the last dimension of a quantised tensor cannot be sliced");
    return BERTH_OK;
}

/// Keeps `count` elements of dimension `dim`, from `first` on, `step` apart. They are within the
/// dimension.
static void take_part(
    berth_window* window, int32_t dim, int64_t first, int64_t count, int64_t step) {
    // without elements, now or then, the offset stays: it must not leave the storage
    if (count > 0 && berth_shape_count(window->rank, window->dims) > 0)
        window->offset_bytes += (uint64_t)(first * window->strides[dim]) *
                                berth_dtype_info_of(window->dtype)->block_bytes;
    window->dims[dim] = count;
    if (count > 1) window->strides[dim] *= step;
}

/// A bound of a slice as an index within [lowest, highest].
static int64_t clamp_bound(int64_t bound, int64_t size, int64_t lowest, int64_t highest) {
    if (bound < 0) bound = bound < -size ? lowest : bound + size;
    if (bound < lowest) return lowest;
    return bound > highest ? highest : bound;
}

/// Elements from `start` towards `stop`, as Python's slices count them.
static void slice(berth_window* window, int32_t dim, int64_t start, int64_t stop, int64_t step) {
    const int64_t size = window->dims[dim];
    int64_t count = 0;
    if (step > 0) {
        start = clamp_bound(start, size, 0, size);
        stop = clamp_bound(stop, size, 0, size);
        if (stop > start) count = (stop - start - 1) / step + 1;
    } else {
        start = clamp_bound(start, size, -1, size - 1);
        stop = clamp_bound(stop, size, -1, size - 1);
        // not negated: the most negative step has no positive counterpart
        if (start > stop) count = (stop - start + 1) / step + 1;
    }
    take_part(window, dim, start, count, step);
}

berth_tensor* berth_slice(
    berth_context* ctx, berth_tensor* x, int32_t dim, int64_t start, int64_t stop, int64_t step) {
    if (!berth_view_enter(ctx, "slice", x)) return NULL;
    berth_window window = berth_window_of(berth_untag(x));
    berth_status status = berth_view_check_dim(&window, &dim);
    if (status == BERTH_OK) status = check_sliceable(&window, dim);
    if (status == BERTH_OK && step == 0)
        status = berth_fail(BERTH_ERR_INVALID_ARGUMENT, "the step is 0");
    if (status != BERTH_OK) return berth_view_refuse(ctx, status, "slice", x);
    slice(&window, dim, start, stop, step);
    return berth_view_finish(ctx, "slice", x, &window);
}

berth_tensor* berth_narrow(
    berth_context* ctx, berth_tensor* x, int32_t dim, int64_t start, int64_t length) {
    if (!berth_view_enter(ctx, "narrow", x)) return NULL;
    berth_window window = berth_window_of(berth_untag(x));
    berth_status status = berth_view_check_dim(&window, &dim);
    if (status == BERTH_OK) status = check_sliceable(&window, dim);
    if (status != BERTH_OK) return berth_view_refuse(ctx, status, "narrow", x);
    const int64_t size = window.dims[dim];
    const int64_t first = start < 0 && start >= -size ? start + size : start;
    if (first < 0 || length < 0 || length > size || first > size - length)
        return berth_view_refuse(ctx,
                                 berth_fail(BERTH_ERR_INVALID_ARGUMENT,
                                            "%" PRId64 " elements from %" PRId64
                                            " are not within the %" PRId64 " of dimension %d",
                                            length,
                                            start,
                                            size,
                                            (int)dim),
                                 "narrow",
                                 x);
    take_part(&window, dim, first, length, 1);
    return berth_view_finish(ctx, "narrow", x, &window);
}

/// Takes dimension `dim` out.
static void drop_dim(berth_window* window, int32_t dim) {
    --window->rank;
    for (int32_t i = dim; i < window->rank; ++i) {
        window->dims[i] = window->dims[i + 1];
        window->strides[i] = window->strides[i + 1];
    }
}

berth_tensor* berth_select(berth_context* ctx, berth_tensor* x, int32_t dim, int64_t index) {
    if (!berth_view_enter(ctx, "select", x)) return NULL;
    berth_window window = berth_window_of(berth_untag(x));
    berth_status status = berth_view_check_dim(&window, &dim);
    if (status == BERTH_OK) status = check_sliceable(&window, dim);
    if (status != BERTH_OK) return berth_view_refuse(ctx, status, "select", x);
    const int64_t size = window.dims[dim];
    if (index < -size || index >= size)
        return berth_view_refuse(ctx,
                                 berth_fail(BERTH_ERR_INVALID_ARGUMENT,
                                            "index %" PRId64 " is not within the %" PRId64
                                            " of dimension %d",
                                            index,
                                            size,
                                            (int)dim),
                                 "select",
                                 x);
    take_part(&window, dim, index < 0 ? index + size : index, 1, 1);
    drop_dim(&window, dim);
    return berth_view_finish(ctx, "select", x, &window);
}

// --- Several parts at once -----------------------------------------------------------------------

/// How a dimension is cut: `sizes` [count], or equal parts of `size` but for the last.
typedef struct cut {
    const char* op;
    int32_t dim;
    size_t count;
    const int64_t* sizes;
    int64_t size;
} cut;

static int64_t part_size(const cut* how, size_t index, int64_t left) {
    if (how->sizes != NULL) return how->sizes[index];
    return left < how->size ? left : how->size;
}

/// Makes the parts, all or none, and leaves the context.
static bool make_parts(berth_context* ctx, berth_tensor* x, const cut* how, berth_tensor** out) {
    const berth_window whole = berth_window_of(berth_untag(x));
    int64_t first = 0;
    for (size_t i = 0; i < how->count; ++i) {
        const int64_t size = part_size(how, i, whole.dims[how->dim] - first);
        berth_window window = whole;
        take_part(&window, how->dim, first, size, 1);
        out[i] = berth_view_make(ctx, x, &window);
        if (out[i] == NULL) {
            for (; i > 0; --i) {
                berth_tensor_drop(out[i - 1], &ctx->home);
                out[i - 1] = NULL;
            }
            berth_view_refuse(ctx,
                              berth_fail(BERTH_ERR_OUT_OF_MEMORY, "no host memory for its parts"),
                              how->op,
                              x);
            return false;
        }
        first += size;
    }
    if (berth_is_moved(x)) berth_tensor_drop(berth_untag(x), &ctx->home);
    berth_home_unlock(&ctx->home);
    return true;
}

/// Clears the places, enters, checks the dimension. False after an error.
static bool begin_cut(berth_context* ctx,
                      berth_tensor* x,
                      const char* op,
                      int32_t* dim,
                      berth_tensor** out,
                      size_t count) {
    for (size_t i = 0; out != NULL && i < count; ++i)
        out[i] = NULL;
    if (!berth_view_enter(ctx, op, x)) return false;
    const berth_window window = berth_window_of(berth_untag(x));
    berth_status status = berth_view_check_dim(&window, dim);
    if (status == BERTH_OK) status = check_sliceable(&window, *dim);
    if (status == BERTH_OK && out == NULL)
        status = berth_fail(BERTH_ERR_INVALID_ARGUMENT, "there is no place for the parts");
    if (status != BERTH_OK) berth_view_refuse(ctx, status, op, x);
    return status == BERTH_OK;
}

size_t berth_split(berth_context* ctx,
                   berth_tensor* x,
                   int64_t size,
                   int32_t dim,
                   berth_tensor** out_parts,
                   size_t capacity) {
    if (!begin_cut(ctx, x, "split", &dim, out_parts, capacity)) return 0;
    const int64_t whole = berth_untag(x)->dims[dim];
    if (size < 1) {
        berth_view_refuse(
            ctx,
            berth_fail(BERTH_ERR_INVALID_ARGUMENT, "parts of %" PRId64 " are not possible", size),
            "split",
            x);
        return 0;
    }
    // an empty dimension is one empty part, as in PyTorch
    const uint64_t count = whole == 0 ? 1 : (uint64_t)((whole - 1) / size) + 1;
    if (count > capacity) {
        berth_view_refuse(ctx,
                          berth_fail(BERTH_ERR_INVALID_ARGUMENT,
                                     "there are %" PRIu64 " parts, and places for %zu",
                                     count,
                                     capacity),
                          "split",
                          x);
        return 0;
    }
    const cut plan = {.op = "split", .dim = dim, .count = (size_t)count, .size = size};
    return make_parts(ctx, x, &plan, out_parts) ? plan.count : 0;
}

bool berth_split_sizes(berth_context* ctx,
                       berth_tensor* x,
                       const int64_t* sizes,
                       size_t count,
                       int32_t dim,
                       berth_tensor** out_parts) {
    if (!begin_cut(ctx, x, "split_sizes", &dim, out_parts, count)) return false;
    const int64_t whole = berth_untag(x)->dims[dim];
    int64_t left = whole;
    bool is_right = sizes != NULL || count == 0;
    for (size_t i = 0; is_right && i < count; ++i) {
        is_right = sizes[i] >= 0 && sizes[i] <= left;
        if (is_right) left -= sizes[i];
    }
    if (!is_right || left != 0) {
        berth_view_refuse(ctx,
                          berth_fail(BERTH_ERR_INVALID_ARGUMENT,
                                     "the sizes of %zu parts do not make up the %" PRId64
                                     " of dimension %d",
                                     count,
                                     whole,
                                     (int)dim),
                          "split_sizes",
                          x);
        return false;
    }
    const cut plan = {.op = "split_sizes", .dim = dim, .count = count, .sizes = sizes};
    return make_parts(ctx, x, &plan, out_parts);
}

size_t berth_chunk(
    berth_context* ctx, berth_tensor* x, size_t chunks, int32_t dim, berth_tensor** out_parts) {
    if (!begin_cut(ctx, x, "chunk", &dim, out_parts, chunks)) return 0;
    const int64_t whole = berth_untag(x)->dims[dim];
    if (chunks < 1 || chunks > INT64_MAX) {
        berth_view_refuse(
            ctx,
            berth_fail(BERTH_ERR_INVALID_ARGUMENT, "%zu parts are not possible", chunks),
            "chunk",
            x);
        return 0;
    }
    const int64_t size = whole == 0 ? 1 : (whole - 1) / (int64_t)chunks + 1;
    const size_t count = whole == 0 ? 1 : (size_t)((whole - 1) / size) + 1;
    const cut plan = {.op = "chunk", .dim = dim, .count = count, .size = size};
    return make_parts(ctx, x, &plan, out_parts) ? count : 0;
}
