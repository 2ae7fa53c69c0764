// SPDX-License-Identifier: Apache-2.0
// The public view ops that give the same elements another shape or order.
#include <inttypes.h>

#include "base/checked.h"
#include "base/error.h"
#include "exec/view.h"

static void swap_dims(berth_window* window, int32_t a, int32_t b) {
    const int64_t size = window->dims[a], stride = window->strides[a];
    window->dims[a] = window->dims[b];
    window->strides[a] = window->strides[b];
    window->dims[b] = size;
    window->strides[b] = stride;
}

berth_tensor* berth_transpose(berth_context* ctx, berth_tensor* x, int32_t dim_a, int32_t dim_b) {
    if (!berth_view_enter(ctx, "transpose", x)) return NULL;
    berth_window window = berth_window_of(berth_untag(x));
    berth_status status = berth_view_check_dim(&window, &dim_a);
    if (status == BERTH_OK) status = berth_view_check_dim(&window, &dim_b);
    if (status == BERTH_OK) status = berth_view_check_plain(&window, "transposed");
    if (status != BERTH_OK) return berth_view_refuse(ctx, status, "transpose", x);
    swap_dims(&window, dim_a, dim_b);
    return berth_view_finish(ctx, "transpose", x, &window);
}

/// Makes the dimensions count from the start and refuses what does not exist or comes twice.
/// `*out_mask` has bit d for dimension d.
static berth_status check_dims(const berth_window* window, berth_dims* dims, uint32_t* out_mask) {
    *out_mask = 0;
    if (dims->count < 0 || dims->count > BERTH_MAX_RANK)
        return berth_fail(BERTH_ERR_INVALID_ARGUMENT,
                          "%d dimensions are not possible, 0 .. %d",
                          (int)dims->count,
                          BERTH_MAX_RANK);
    for (int32_t i = 0; i < dims->count; ++i) {
        BERTH_TRY(berth_view_check_dim(window, &dims->dims[i]));
        const uint32_t bit = UINT32_C(1) << dims->dims[i];
        if ((*out_mask & bit) != 0)
            return berth_fail(
                BERTH_ERR_INVALID_ARGUMENT, "dimension %d comes twice", (int)dims->dims[i]);
        *out_mask |= bit;
    }
    return BERTH_OK;
}

berth_tensor* berth_permute(berth_context* ctx, berth_tensor* x, berth_dims order) {
    if (!berth_view_enter(ctx, "permute", x)) return NULL;
    const berth_window from = berth_window_of(berth_untag(x));
    uint32_t mask;
    berth_status status = check_dims(&from, &order, &mask);
    if (status == BERTH_OK && order.count != from.rank)
        status = berth_fail(BERTH_ERR_INVALID_ARGUMENT,
                            "%d dimensions are given for %d",
                            (int)order.count,
                            (int)from.rank);
    if (status == BERTH_OK) status = berth_view_check_plain(&from, "permuted");
    if (status != BERTH_OK) return berth_view_refuse(ctx, status, "permute", x);
    berth_window window = from;
    for (int32_t i = 0; i < order.count; ++i) {
        window.dims[i] = from.dims[order.dims[i]];
        window.strides[i] = from.strides[order.dims[i]];
    }
    return berth_view_finish(ctx, "permute", x, &window);
}

berth_tensor* berth_flip(berth_context* ctx, berth_tensor* x, berth_dims dims) {
    if (!berth_view_enter(ctx, "flip", x)) return NULL;
    berth_window window = berth_window_of(berth_untag(x));
    uint32_t mask;
    berth_status status = check_dims(&window, &dims, &mask);
    if (status == BERTH_OK) status = berth_view_check_plain(&window, "flipped");
    if (status != BERTH_OK) return berth_view_refuse(ctx, status, "flip", x);
    if (dims.count == 0) mask = UINT32_MAX;
    const uint32_t item = berth_dtype_info_of(window.dtype)->block_bytes;
    const bool is_empty = berth_shape_count(window.rank, window.dims) == 0;
    for (int32_t d = 0; d < window.rank; ++d) {
        if ((mask >> d & 1u) == 0 || window.dims[d] < 2 || is_empty) continue;
        window.offset_bytes += (uint64_t)((window.dims[d] - 1) * window.strides[d]) * item;
        window.strides[d] = -window.strides[d];
    }
    return berth_view_finish(ctx, "flip", x, &window);
}

berth_tensor* berth_squeeze(berth_context* ctx, berth_tensor* x, berth_dims dims) {
    if (!berth_view_enter(ctx, "squeeze", x)) return NULL;
    const berth_window from = berth_window_of(berth_untag(x));
    uint32_t mask;
    berth_status status = check_dims(&from, &dims, &mask);
    if (status == BERTH_OK) status = berth_view_check_plain(&from, "squeezed");
    if (status != BERTH_OK) return berth_view_refuse(ctx, status, "squeeze", x);
    if (dims.count == 0) mask = UINT32_MAX;
    berth_window window = from;
    window.rank = 0;
    for (int32_t d = 0; d < from.rank; ++d) {
        if (from.dims[d] == 1 && (mask >> d & 1u) != 0) continue;
        window.dims[window.rank] = from.dims[d];
        window.strides[window.rank++] = from.strides[d];
    }
    return berth_view_finish(ctx, "squeeze", x, &window);
}

berth_tensor* berth_unsqueeze(berth_context* ctx, berth_tensor* x, int32_t dim) {
    if (!berth_view_enter(ctx, "unsqueeze", x)) return NULL;
    berth_window window = berth_window_of(berth_untag(x));
    const int32_t at = dim < 0 ? dim + window.rank + 1 : dim;
    berth_status status = berth_view_check_plain(&window, "unsqueezed");
    if (status == BERTH_OK && window.rank == BERTH_MAX_RANK)
        status = berth_fail(
            BERTH_ERR_INVALID_ARGUMENT, "it has %d dimensions, the most", BERTH_MAX_RANK);
    if (status == BERTH_OK && (at < 0 || at > window.rank))
        status = berth_fail(BERTH_ERR_INVALID_ARGUMENT,
                            "a dimension cannot be put at %d among %d",
                            (int)dim,
                            (int)window.rank);
    if (status != BERTH_OK) return berth_view_refuse(ctx, status, "unsqueeze", x);
    for (int32_t d = window.rank; d > at; --d) {
        window.dims[d] = window.dims[d - 1];
        window.strides[d] = window.strides[d - 1];
    }
    window.dims[at] = 1;
    window.strides[at] = 1;
    ++window.rank;
    return berth_view_finish(ctx, "unsqueeze", x, &window);
}

static berth_status check_rank(int32_t rank, const void* dims) {
    if (rank >= 0 && rank <= BERTH_MAX_RANK && (rank == 0 || dims != NULL)) return BERTH_OK;
    return berth_fail(BERTH_ERR_INVALID_ARGUMENT,
                      "rank %d with its dimensions is needed, 0 .. %d",
                      (int)rank,
                      BERTH_MAX_RANK);
}

/// The window repeated to `dims` [rank]: sizes of 1 and new dimensions in front get stride 0.
static berth_status expand(berth_window* window, int32_t rank, const int64_t* dims) {
    const int32_t added = rank - window->rank;
    if (added < 0)
        return berth_fail(BERTH_ERR_INVALID_ARGUMENT,
                          "it has %d dimensions, more than %d",
                          (int)window->rank,
                          (int)rank);
    const berth_window from = *window;
    for (int32_t d = 0; d < rank; ++d) {
        const int64_t size = d < added ? 1 : from.dims[d - added];
        const bool is_kept = d >= added && (dims[d] == -1 || dims[d] == size);
        if (!is_kept && (size != 1 || dims[d] < 0))
            return berth_fail(BERTH_ERR_INVALID_ARGUMENT,
                              "size %" PRId64 " of dimension %d cannot become %" PRId64,
                              size,
                              (int)d,
                              dims[d]);
        window->dims[d] = is_kept ? size : dims[d];
        window->strides[d] = is_kept ? from.strides[d - added] : 0;
    }
    window->rank = rank;
    return berth_shape_measure(window->dtype, rank, window->dims, NULL, NULL);
}

berth_tensor* berth_expand(berth_context* ctx, berth_tensor* x, int32_t rank, const int64_t* dims) {
    if (!berth_view_enter(ctx, "expand", x)) return NULL;
    berth_window window = berth_window_of(berth_untag(x));
    berth_status status = check_rank(rank, dims);
    if (status == BERTH_OK) status = berth_view_check_plain(&window, "expanded");
    if (status == BERTH_OK) status = expand(&window, rank, dims);
    if (status != BERTH_OK) return berth_view_refuse(ctx, status, "expand", x);
    return berth_view_finish(ctx, "expand", x, &window);
}

/// Lowest and highest element that a window touches, counted from its first one.
static bool measure_span(const berth_window* window, int64_t* out_low, int64_t* out_high) {
    *out_low = *out_high = 0;
    for (int32_t d = 0; d < window->rank; ++d) {
        int64_t reach;
        if (!berth_mul_i64(window->dims[d] - 1, window->strides[d], &reach)) return false;
        int64_t* end = reach < 0 ? out_low : out_high;
        if (!berth_add_i64(*end, reach, end)) return false;
    }
    return true;
}

/// Checks that a window with elements lies within a storage of `bytes`.
static berth_status check_within(const berth_window* window, int64_t offset, uint64_t bytes) {
    const int64_t held = (int64_t)(bytes / berth_dtype_info_of(window->dtype)->block_bytes);
    int64_t low, high;
    if (!measure_span(window, &low, &high) || !berth_add_i64(low, offset, &low) ||
        !berth_add_i64(high, offset, &high) || low < 0 || high >= held)
        return berth_fail(BERTH_ERR_INVALID_ARGUMENT,
                          "strides and offset leave the storage's %" PRId64 " elements",
                          held);
    return BERTH_OK;
}

berth_tensor* berth_as_strided(berth_context* ctx,
                               berth_tensor* x,
                               int32_t rank,
                               const int64_t* dims,
                               const int64_t* strides,
                               int64_t offset) {
    if (!berth_view_enter(ctx, "as_strided", x)) return NULL;
    const berth_tensor* plain = berth_untag(x);
    berth_window window = berth_window_of(plain);
    berth_status status = check_rank(rank, dims);
    if (status == BERTH_OK) status = check_rank(rank, strides);
    if (status == BERTH_OK) status = berth_view_check_plain(&window, "given strides");
    int64_t count = 0;
    if (status == BERTH_OK) status = berth_shape_measure(window.dtype, rank, dims, &count, NULL);
    if (status == BERTH_OK) {
        window.rank = rank;
        for (int32_t d = 0; d < rank; ++d) {
            window.dims[d] = dims[d];
            window.strides[d] = dims[d] > 1 ? strides[d] : 1;
        }
        window.offset_bytes = 0;
        if (count > 0) {
            status = check_within(&window, offset, plain->storage->size_bytes);
            window.offset_bytes = (uint64_t)offset * berth_dtype_info_of(window.dtype)->block_bytes;
        }
    }
    if (status != BERTH_OK) return berth_view_refuse(ctx, status, "as_strided", x);
    return berth_view_finish(ctx, "as_strided", x, &window);
}

// --- Reshape -------------------------------------------------------------------------------------

/// Replaces the size -1, if there is one, by what is left of `count` elements.
static berth_status infer_size(int64_t count,
                               int32_t rank,
                               const int64_t* dims,
                               int64_t* out_dims) {
    int32_t unknown = -1;
    int64_t known = 1;
    for (int32_t i = 0; i < rank; ++i) {
        out_dims[i] = dims[i];
        if (dims[i] == -1) {
            if (unknown >= 0)
                return berth_fail(BERTH_ERR_INVALID_ARGUMENT, "more than one size is -1");
            unknown = i;
        } else if (dims[i] < 0 || !berth_mul_i64(known, dims[i], &known)) {
            return berth_fail(BERTH_ERR_INVALID_ARGUMENT,
                              "size %" PRId64 " of dimension %d is not possible",
                              dims[i],
                              (int)i);
        }
    }
    if (unknown >= 0) {
        if (known == 0 || count % known != 0)
            return berth_fail(BERTH_ERR_INVALID_ARGUMENT,
                              "the size of -1 cannot be inferred: %" PRId64 " elements, %" PRId64
                              " by the other sizes",
                              count,
                              known);
        out_dims[unknown] = count / known;
    } else if (known != count) {
        return berth_fail(BERTH_ERR_INVALID_ARGUMENT,
                          "%" PRId64 " elements cannot have a shape of %" PRId64,
                          count,
                          known);
    }
    return BERTH_OK;
}

/// Strides of `dims` over the same elements without moving them, if there are such: each run of old
/// dimensions that is itself dense may be cut anew.
static bool view_strides(const berth_tensor* x,
                         int32_t rank,
                         const int64_t* dims,
                         int64_t* strides) {
    int32_t old_end = x->rank, new_end = rank;
    while (new_end > 0) {
        if (dims[new_end - 1] == 1) {
            strides[--new_end] = 1;
            continue;
        }
        while (old_end > 0 && x->dims[old_end - 1] == 1)
            --old_end;
        if (old_end == 0) return false;
        int32_t old_begin = old_end - 1, new_begin = new_end - 1;
        int64_t old_count = x->dims[old_begin], new_count = dims[new_begin];
        while (old_count != new_count) {
            if (old_count < new_count) {
                if (old_begin == 0) return false;
                old_count *= x->dims[--old_begin];
            } else {
                if (new_begin == 0) return false;
                new_count *= dims[--new_begin];
            }
        }
        // sizes of 1 may have any stride
        int64_t expected = x->strides[old_end - 1] * x->dims[old_end - 1];
        for (int32_t i = old_end - 2; i >= old_begin; --i) {
            if (x->dims[i] == 1) continue;
            if (x->strides[i] != expected) return false;
            expected *= x->dims[i];
        }
        int64_t stride = x->strides[old_end - 1];
        for (int32_t i = new_end - 1; i >= new_begin; --i) {
            strides[i] = stride;
            stride *= dims[i];
        }
        old_end = old_begin;
        new_end = new_begin;
    }
    return true;
}

/// Turns `window`, that of `x`, into the shape `dims` [rank] of the same elements. `*out_is_view`
/// is false if they would have to be moved: then the strides are those of the moved elements.
static berth_status reshape(const berth_tensor* x,
                            berth_window* window,
                            int32_t rank,
                            const int64_t* dims,
                            bool* out_is_view) {
    const int64_t count = berth_shape_count(x->rank, x->dims);
    BERTH_TRY(check_rank(rank, dims));
    BERTH_TRY(berth_view_check_plain(window, "reshaped"));
    BERTH_TRY(infer_size(count, rank, dims, window->dims));
    BERTH_TRY(berth_shape_measure(window->dtype, rank, window->dims, NULL, NULL));
    window->rank = rank;
    *out_is_view = true;
    if (!x->is_dense && count != 0 && view_strides(x, rank, window->dims, window->strides))
        return BERTH_OK;
    *out_is_view = x->is_dense || count == 0;
    berth_shape_dense_strides(window->dtype, rank, window->dims, window->strides);
    return BERTH_OK;
}

berth_tensor* berth_reshape(berth_context* ctx,
                            berth_tensor* x,
                            int32_t rank,
                            const int64_t* dims) {
    if (!berth_view_enter(ctx, "reshape", x)) return NULL;
    berth_window window = berth_window_of(berth_untag(x));
    bool is_view;
    const berth_status status = reshape(berth_untag(x), &window, rank, dims, &is_view);
    if (status != BERTH_OK) return berth_view_refuse(ctx, status, "reshape", x);
    if (is_view) return berth_view_finish(ctx, "reshape", x, &window);
    berth_tensor* copy = berth_dispatch_locked(ctx, BERTH_OP_COPY, &x, 1, NULL, 0);
    if (copy != NULL) {
        window.offset_bytes = 0;
        berth_window_set(copy, &window);
    }
    berth_home_unlock(&ctx->home);
    return copy;
}

berth_tensor* berth_reshape_view(berth_context* ctx,
                                 berth_tensor* x,
                                 int32_t rank,
                                 const int64_t* dims) {
    if (!berth_view_enter(ctx, "reshape_view", x)) return NULL;
    berth_window window = berth_window_of(berth_untag(x));
    bool is_view = false;
    berth_status status = reshape(berth_untag(x), &window, rank, dims, &is_view);
    if (status == BERTH_OK && !is_view)
        status = berth_fail(BERTH_ERR_INVALID_ARGUMENT,
                            "its strides do not allow the shape without a copy: berth_reshape()");
    if (status != BERTH_OK) return berth_view_refuse(ctx, status, "reshape_view", x);
    return berth_view_finish(ctx, "reshape_view", x, &window);
}
