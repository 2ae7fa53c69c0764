// SPDX-License-Identifier: Apache-2.0
// The public ops that make another window on the same storage, or none at all.
#include <inttypes.h>

#include "base/checked.h"
#include "base/error.h"
#include "exec/run.h"

/// Shape, strides and offset that a view op gives its result.
typedef struct view_shape {
    berth_dtype dtype;
    int32_t rank;
    uint64_t offset_bytes;
    int64_t dims[BERTH_MAX_RANK];
    int64_t strides[BERTH_MAX_RANK];
} view_shape;

/// Takes the lock of an op's context. False if the op must return NULL: then the lock is free again
/// and a moved operand consumed.
static bool enter(berth_context* ctx, const char* op, berth_tensor* operand) {
    if (ctx == NULL || berth_home_is_forked(&ctx->home)) return false;
    berth_home_lock(&ctx->home);
    berth_tensor* x = berth_untag(operand);
    if (ctx->error == BERTH_OK && x != NULL) return true;
    if (ctx->error == BERTH_OK)
        berth_context_fail(
            ctx, berth_fail(BERTH_ERR_INVALID_ARGUMENT, "the operand is NULL"), op, NULL);
    if (x != NULL && berth_is_moved(operand)) berth_tensor_drop(x, &ctx->home);
    berth_home_unlock(&ctx->home);
    return false;
}

/// Keeps the error, consumes a moved operand, leaves the context; returns NULL.
static berth_tensor* refuse(berth_context* ctx,
                            berth_status status,
                            const char* op,
                            berth_tensor* operand) {
    berth_tensor* x = berth_untag(operand);
    berth_op_call call = {.input_count = 1};
    berth_tensor_view(x, &call.inputs[0]);
    berth_context_fail(ctx, status, op, &call);
    if (berth_is_moved(operand)) berth_tensor_drop(x, &ctx->home);
    berth_home_unlock(&ctx->home);
    return NULL;
}

static view_shape shape_of(const berth_tensor* x) {
    view_shape shape = {
        .dtype = (berth_dtype)x->dtype, .rank = x->rank, .offset_bytes = x->offset_bytes};
    for (int32_t i = 0; i < x->rank; ++i) {
        shape.dims[i] = x->dims[i];
        shape.strides[i] = x->strides[i];
    }
    return shape;
}

static void set_shape(berth_tensor* tensor, const view_shape* shape) {
    tensor->dtype = (uint8_t)shape->dtype;
    tensor->rank = (uint8_t)shape->rank;
    tensor->offset_bytes = shape->offset_bytes;
    for (int32_t i = 0; i < shape->rank; ++i) {
        tensor->dims[i] = shape->dims[i];
        tensor->strides[i] = shape->strides[i];
    }
    tensor->is_dense = berth_shape_is_dense(shape->dtype, shape->rank, shape->dims, shape->strides);
}

/// Makes the view of `operand`, leaves the context. A moved handle that nobody else holds becomes
/// the view.
static berth_tensor* finish_view(berth_context* ctx,
                                 const char* op,
                                 berth_tensor* operand,
                                 const view_shape* shape) {
    berth_tensor* x = berth_untag(operand);
    if (berth_is_moved(operand) && x->home == &ctx->home &&
        atomic_load_explicit(&x->refs, memory_order_acquire) == 1) {
        set_shape(x, shape);
        berth_home_unlock(&ctx->home);
        return x;
    }
    berth_tensor* view = berth_tensor_new(&ctx->home);
    if (view == NULL) return refuse(ctx, BERTH_ERR_OUT_OF_MEMORY, op, operand);
    view->storage = x->storage;
    atomic_fetch_add_explicit(&x->storage->refs, 1, memory_order_relaxed);
    set_shape(view, shape);
    if (berth_is_moved(operand)) berth_tensor_drop(x, &ctx->home);
    berth_home_unlock(&ctx->home);
    return view;
}

/// The operand itself: the moved reference, or a new one. Leaves the context.
static berth_tensor* finish_same(berth_context* ctx, berth_tensor* operand) {
    berth_tensor* x = berth_untag(operand);
    if (!berth_is_moved(operand)) berth_retain(x);
    berth_home_unlock(&ctx->home);
    return x;
}

static int64_t clamp_index(int64_t index, int64_t size) {
    if (index < 0) index = index < -size ? 0 : index + size;
    return index > size ? size : index;
}

berth_tensor* berth_slice(
    berth_context* ctx, berth_tensor* x, int32_t dim, int64_t start, int64_t stop, int64_t step) {
    if (!enter(ctx, "slice", x)) return NULL;
    view_shape shape = shape_of(berth_untag(x));
    if (!berth_shape_normalize_dim(shape.rank, &dim))
        return refuse(ctx,
                      berth_fail(BERTH_ERR_INVALID_ARGUMENT, "there is no dimension %d", (int)dim),
                      "slice",
                      x);
    if (step < 1)
        return refuse(
            ctx,
            berth_fail(BERTH_ERR_INVALID_ARGUMENT, "step %" PRId64 " is not positive", step),
            "slice",
            x);
    const berth_dtype_info* info = berth_dtype_query_info(shape.dtype);
    if (info->block_values > 1 && dim == shape.rank - 1)
        return refuse(ctx,
                      berth_fail(BERTH_ERR_UNSUPPORTED,
                                 "the last dimension of a quantised tensor cannot be sliced"),
                      "slice",
                      x);
    const int64_t size = shape.dims[dim];
    const int64_t first = clamp_index(start, size);
    const int64_t last = clamp_index(stop, size);
    // without elements the offset stays: it must not leave the storage
    shape.dims[dim] = last > first ? (last - first - 1) / step + 1 : 0;
    if (shape.dims[dim] > 0)
        shape.offset_bytes += (uint64_t)(first * shape.strides[dim]) * info->block_bytes;
    if (shape.dims[dim] > 1) shape.strides[dim] *= step;
    return finish_view(ctx, "slice", x, &shape);
}

berth_tensor* berth_transpose(berth_context* ctx, berth_tensor* x, int32_t dim_a, int32_t dim_b) {
    if (!enter(ctx, "transpose", x)) return NULL;
    view_shape shape = shape_of(berth_untag(x));
    if (!berth_shape_normalize_dim(shape.rank, &dim_a) ||
        !berth_shape_normalize_dim(shape.rank, &dim_b))
        return refuse(ctx,
                      berth_fail(BERTH_ERR_INVALID_ARGUMENT,
                                 "dimensions %d and %d do not both exist",
                                 (int)dim_a,
                                 (int)dim_b),
                      "transpose",
                      x);
    if (berth_dtype_query_info(shape.dtype)->block_values > 1)
        return refuse(ctx,
                      berth_fail(BERTH_ERR_UNSUPPORTED, "a quantised tensor cannot be transposed"),
                      "transpose",
                      x);
    const int64_t size = shape.dims[dim_a], stride = shape.strides[dim_a];
    shape.dims[dim_a] = shape.dims[dim_b];
    shape.strides[dim_a] = shape.strides[dim_b];
    shape.dims[dim_b] = size;
    shape.strides[dim_b] = stride;
    return finish_view(ctx, "transpose", x, &shape);
}

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
            return berth_fail(BERTH_ERR_INVALID_ARGUMENT, "the size of -1 cannot be inferred");
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

berth_tensor* berth_reshape(berth_context* ctx,
                            berth_tensor* x,
                            int32_t rank,
                            const int64_t* dims) {
    if (!enter(ctx, "reshape", x)) return NULL;
    berth_tensor* plain = berth_untag(x);
    view_shape shape = shape_of(plain);
    const int64_t count = berth_shape_count(plain->rank, plain->dims);
    berth_status status = BERTH_OK;
    if (rank < 0 || rank > BERTH_MAX_RANK || (rank > 0 && dims == NULL))
        status = berth_fail(BERTH_ERR_INVALID_ARGUMENT,
                            "rank %d with its dimensions is needed, 0 .. %d",
                            (int)rank,
                            BERTH_MAX_RANK);
    if (status == BERTH_OK && berth_dtype_info_of(shape.dtype)->block_values > 1)
        status = berth_fail(BERTH_ERR_UNSUPPORTED, "a quantised tensor cannot be reshaped");
    if (status == BERTH_OK) status = infer_size(count, rank, dims, shape.dims);
    if (status == BERTH_OK) status = berth_shape_measure(shape.dtype, rank, shape.dims, NULL, NULL);
    if (status != BERTH_OK) return refuse(ctx, status, "reshape", x);
    shape.rank = rank;
    if (plain->is_dense || count == 0) {
        berth_shape_dense_strides(shape.dtype, rank, shape.dims, shape.strides);
        return finish_view(ctx, "reshape", x, &shape);
    }
    if (view_strides(plain, rank, shape.dims, shape.strides))
        return finish_view(ctx, "reshape", x, &shape);
    berth_tensor* const operands[1] = {x};
    berth_tensor* copy = berth_dispatch_locked(ctx, BERTH_OP_COPY, operands, 1, NULL, 0);
    if (copy != NULL) {
        shape.offset_bytes = 0;
        berth_shape_dense_strides(shape.dtype, rank, shape.dims, shape.strides);
        set_shape(copy, &shape);
    }
    berth_home_unlock(&ctx->home);
    return copy;
}

berth_tensor* berth_contiguous(berth_context* ctx, berth_tensor* x) {
    if (!enter(ctx, "contiguous", x)) return NULL;
    if (berth_untag(x)->is_dense) return finish_same(ctx, x);
    berth_tensor* const operands[1] = {x};
    berth_tensor* copy = berth_dispatch_locked(ctx, BERTH_OP_COPY, operands, 1, NULL, 0);
    berth_home_unlock(&ctx->home);
    return copy;
}

berth_tensor* berth_cast(berth_context* ctx, berth_tensor* x, berth_dtype dtype) {
    if (!enter(ctx, "cast", x)) return NULL;
    if (berth_untag(x)->dtype == (uint32_t)dtype) return finish_same(ctx, x);
    const berth_cast_params params = {.dtype = dtype};
    berth_tensor* const operands[1] = {x};
    berth_tensor* result =
        berth_dispatch_locked(ctx, BERTH_OP_CAST, operands, 1, &params, sizeof params);
    berth_home_unlock(&ctx->home);
    return result;
}

/// A new tensor of undefined content: an event of its own.
static berth_status make_empty(berth_context* ctx,
                               berth_view* shape,
                               const int64_t* dims,
                               berth_tensor** out_tensor) {
    *out_tensor = NULL;
    uint64_t bytes;
    BERTH_TRY(berth_shape_measure(shape->dtype, shape->rank, dims, NULL, &bytes));
    if (berth_dtype_query_info(shape->dtype)->block_values > 1)
        return berth_fail(BERTH_ERR_UNSUPPORTED, "quantised tensors come from memory only");
    for (int32_t i = 0; i < shape->rank; ++i)
        shape->dims[i] = dims[i];
    berth_shape_dense_strides(shape->dtype, shape->rank, shape->dims, shape->strides);
    if (ctx->run != NULL)
        berth_run_begin_event(ctx,
                              ctx->run,
                              BERTH_EVENT_ALLOC,
                              1,
                              (uint32_t)shape->rank | (uint32_t)shape->dtype << 8);
    return berth_context_new_tensor(ctx, shape, bytes, 0, out_tensor);
}

berth_tensor* berth_empty(berth_context* ctx,
                          berth_dtype dtype,
                          int32_t rank,
                          const int64_t* dims) {
    if (ctx == NULL || berth_home_is_forked(&ctx->home)) return NULL;
    berth_view shape = {.dtype = dtype, .rank = rank};
    berth_tensor* tensor = NULL;
    berth_home_lock(&ctx->home);
    if (ctx->error == BERTH_OK) {
        const berth_status status =
            rank > 0 && dims == NULL
                ? berth_fail(BERTH_ERR_INVALID_ARGUMENT, "the dimensions are missing")
                : make_empty(ctx, &shape, dims, &tensor);
        if (status != BERTH_OK) berth_context_fail(ctx, status, "empty", NULL);
    }
    berth_home_unlock(&ctx->home);
    return tensor;
}
