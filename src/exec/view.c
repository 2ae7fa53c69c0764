// SPDX-License-Identifier: Apache-2.0
// What the view ops share.
#include "exec/view.h"

#include "base/error.h"

static bool is_on_device_of(const berth_context* ctx, const berth_tensor* x) {
    return x->storage->home->stream->device == ctx->home.stream->device;
}

bool berth_view_enter(berth_context* ctx, const char* op, berth_tensor* operand) {
    if (ctx == NULL || berth_home_is_forked(&ctx->home)) return false;
    berth_tensor* x = berth_untag(operand);
    if (!berth_home_lock(&ctx->home)) {
        berth_context_drop_moved(ctx, &operand, 1);
        return false;
    }
    if (ctx->error == BERTH_OK && x != NULL && is_on_device_of(ctx, x)) return true;
    if (ctx->error == BERTH_OK) {
        const char* what =
            x == NULL ? "the operand is NULL" : "the operand belongs to another runtime";
        berth_context_fail(ctx, berth_fail(BERTH_ERR_INVALID_ARGUMENT, "%s", what), op, NULL);
    }
    if (x != NULL && berth_is_moved(operand)) berth_tensor_drop(x, &ctx->home);
    berth_home_unlock(&ctx->home);
    return false;
}

berth_tensor* berth_view_refuse(berth_context* ctx,
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

berth_window berth_window_of(const berth_tensor* x) {
    berth_window window = {
        .dtype = (berth_dtype)x->dtype, .rank = x->rank, .offset_bytes = x->offset_bytes};
    for (int32_t i = 0; i < x->rank; ++i) {
        window.dims[i] = x->dims[i];
        window.strides[i] = x->strides[i];
    }
    return window;
}

void berth_window_set(berth_tensor* tensor, const berth_window* window) {
    tensor->dtype = (uint8_t)window->dtype;
    tensor->rank = (uint8_t)window->rank;
    tensor->offset_bytes = window->offset_bytes;
    for (int32_t i = 0; i < window->rank; ++i) {
        tensor->dims[i] = window->dims[i];
        tensor->strides[i] = window->strides[i];
    }
    tensor->is_dense =
        berth_shape_is_dense(window->dtype, window->rank, window->dims, window->strides);
}

berth_tensor* berth_view_make(berth_context* ctx,
                              berth_tensor* operand,
                              const berth_window* window) {
    berth_tensor* view = berth_tensor_new(&ctx->home);
    if (view == NULL) return NULL;
    view->storage = berth_untag(operand)->storage;
    atomic_fetch_add_explicit(&view->storage->refs, 1, memory_order_relaxed);
    berth_window_set(view, window);
    return view;
}

berth_tensor* berth_view_finish(berth_context* ctx,
                                const char* op,
                                berth_tensor* operand,
                                const berth_window* window) {
    berth_tensor* x = berth_untag(operand);
    if (berth_is_moved(operand) && x->home == &ctx->home &&
        atomic_load_explicit(&x->refs, memory_order_acquire) == 1) {
        berth_window_set(x, window);
        berth_home_unlock(&ctx->home);
        return x;
    }
    berth_tensor* view = berth_view_make(ctx, operand, window);
    if (view == NULL) return berth_view_refuse(ctx, BERTH_ERR_OUT_OF_MEMORY, op, operand);
    if (berth_is_moved(operand)) berth_tensor_drop(x, &ctx->home);
    berth_home_unlock(&ctx->home);
    return view;
}

berth_tensor* berth_view_finish_same(berth_context* ctx, berth_tensor* operand) {
    berth_tensor* x = berth_untag(operand);
    if (!berth_is_moved(operand)) berth_retain(x);
    berth_home_unlock(&ctx->home);
    return x;
}

berth_status berth_view_check_dim(const berth_window* window, int32_t* dim) {
    const int32_t asked = *dim;
    if (berth_shape_normalize_dim(window->rank, dim)) return BERTH_OK;
    return berth_fail(BERTH_ERR_INVALID_ARGUMENT,
                      "there is no dimension %d among %d",
                      (int)asked,
                      (int)window->rank);
}

berth_status berth_view_check_plain(const berth_window* window, const char* verb) {
    if (berth_dtype_is_plain(window->dtype)) return BERTH_OK;
    return berth_fail(BERTH_ERR_UNSUPPORTED, "a quantised tensor cannot be %s", verb);
}
