// SPDX-License-Identifier: Apache-2.0
// Dispatch: from operands to an enqueued kernel. The order of events is E1.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "exec/run.h"

/// What dispatch knows of one call of an op.
typedef struct berth_op_frame {
    const berth_op_desc* desc;
    berth_op_id op;
    berth_tensor* operands[BERTH_OP_MAX_INPUTS]; ///< untagged
    uint32_t loaded;                             ///< operands whose views are filled in
    uint32_t moved;                              ///< bit i: operand i's reference is ours
    uint32_t in_place; ///< operand that output 0 continues, or NOT_IN_PLACE
    bool has_foreign;  ///< an operand is another context's
    uint64_t output_bytes;
    size_t params_bytes;
    berth_op_call call;
} berth_op_frame;

enum { NOT_IN_PLACE = UINT32_MAX };

berth_status berth_context_fail(berth_context* context,
                                berth_status status,
                                const char* where,
                                const berth_op_call* call) {
    for (berth_run* run = context->run; run != NULL; run = run->parent)
        run->failed = true;
    if (context->error != BERTH_OK) return status;
    context->error = status;
    size_t at = 0;
    const size_t size = sizeof context->error_text;
    int wrote = snprintf(context->error_text, size, "%s", where);
    at += wrote > 0 ? (size_t)wrote : 0;
    for (uint32_t i = 0; call != NULL && i < call->input_count && at + 1 < size; ++i) {
        const berth_view* x = &call->inputs[i];
        wrote = snprintf(context->error_text + at, size - at, i == 0 ? "(" : ", ");
        at += wrote > 0 ? (size_t)wrote : 0;
        if (at < size)
            at +=
                berth_shape_format(x->dtype, x->rank, x->dims, context->error_text + at, size - at);
    }
    if (at < size)
        snprintf(context->error_text + at,
                 size - at,
                 "%s: %s",
                 call != NULL && call->input_count > 0 ? ")" : "",
                 berth_last_error());
    return status;
}

/// Gives back the references that were handed over.
static void drop_moved(berth_context* context, const berth_op_frame* frame) {
    for (uint32_t i = 0; i < frame->call.input_count; ++i)
        if ((frame->moved & (1u << i)) != 0 && frame->operands[i] != NULL)
            berth_tensor_drop(frame->operands[i], &context->home);
}

static berth_tensor* refuse(berth_context* context, berth_op_frame* frame, berth_status status) {
    const bool has_views = frame->loaded == frame->call.input_count;
    berth_context_fail(context, status, frame->desc->name, has_views ? &frame->call : NULL);
    drop_moved(context, frame);
    return NULL;
}

/// Prepares an operand that another context made.
static berth_status borrow_foreign(berth_context* context, berth_tensor* tensor) {
    if (tensor->storage->home->stream->device != context->home.stream->device)
        return berth_fail(BERTH_ERR_INVALID_ARGUMENT, "an operand belongs to another runtime");
    return berth_storage_share(tensor->storage, &context->home);
}

static berth_status load_operands(berth_context* context, berth_op_frame* frame) {
    berth_op_call* call = &frame->call;
    for (uint32_t i = 0; i < call->input_count; ++i) {
        berth_tensor* tensor = frame->operands[i];
        if (tensor == NULL)
            return berth_fail(BERTH_ERR_INVALID_ARGUMENT, "operand %" PRIu32 " is NULL", i);
        if (tensor->storage->home != &context->home) {
            frame->has_foreign = true;
            BERTH_TRY(borrow_foreign(context, tensor));
        }
        berth_tensor_view(tensor, &call->inputs[i]);
        ++frame->loaded;
    }
    return BERTH_OK;
}

/// A reference cannot be handed over twice: what exceeds the references is not consumed either.
static berth_status check_moves(berth_op_frame* frame) {
    uint32_t excess = 0;
    for (uint32_t i = 0; i < frame->call.input_count; ++i) {
        if ((frame->moved & (1u << i)) == 0) continue;
        const uint32_t refs = atomic_load_explicit(&frame->operands[i]->refs, memory_order_acquire);
        uint32_t handed = 1;
        for (uint32_t j = 0; j < i; ++j)
            handed += frame->operands[j] == frame->operands[i] && (frame->moved & (1u << j)) != 0;
        if (handed <= refs) continue;
        frame->moved &= ~(1u << i);
        excess = i;
    }
    if (excess == 0) return BERTH_OK;
    return berth_fail(BERTH_ERR_INVALID_ARGUMENT,
                      "operand %" PRIu32 " is moved more often than it is referenced",
                      excess);
}

/// Whether output 0 may continue the storage of operand `index`: nobody else can see it.
static bool may_continue(const berth_context* context,
                         const berth_op_frame* frame,
                         uint32_t index) {
    if ((frame->moved & (1u << index)) == 0) return false;
    const berth_tensor* tensor = frame->operands[index];
    const berth_storage* storage = tensor->storage;
    if (atomic_load_explicit(&tensor->refs, memory_order_acquire) != 1 ||
        atomic_load_explicit(&storage->refs, memory_order_acquire) != 1)
        return false;
    if (storage->home != &context->home || tensor->home != &context->home) return false;
    if (storage->kind == BERTH_STORAGE_FOREIGN ||
        atomic_load_explicit(&storage->marks, memory_order_acquire) != 0)
        return false;
    if (!tensor->is_dense) return false;
    const berth_dtype_info* info = berth_dtype_info_of((berth_dtype)tensor->dtype);
    const uint64_t bytes = (uint64_t)berth_shape_count(tensor->rank, tensor->dims) /
                           info->block_values * info->block_bytes;
    if (bytes != frame->output_bytes) return false;
    // views would show in the storage's count; the same handle twice does not
    for (uint32_t i = 0; i < frame->call.input_count; ++i)
        if (i != index && frame->operands[i] == tensor) return false;
    return true;
}

static void choose_in_place(const berth_context* context, berth_op_frame* frame) {
    frame->in_place = NOT_IN_PLACE;
    const uint32_t flags = frame->desc->flags;
    if ((flags & BERTH_OP_IN_PLACE_0) != 0 && may_continue(context, frame, 0)) {
        frame->in_place = 0;
    } else if ((flags & BERTH_OP_IN_PLACE_1) != 0 && may_continue(context, frame, 1)) {
        frame->in_place = 1;
    }
}

/// An op that updates operand 0 gets a copy of it where it may not have it itself.
static berth_status copy_target(berth_context* context, berth_op_frame* frame) {
    berth_tensor* const source[1] = {frame->operands[0]};
    berth_tensor* copy = berth_dispatch_locked(context, BERTH_OP_COPY, source, 1, NULL, 0);
    if (copy == NULL)
        return berth_fail(
            context->error, "the operand to update could not be copied (%s)", berth_last_error());
    if ((frame->moved & 1u) != 0) berth_tensor_drop(frame->operands[0], &context->home);
    frame->operands[0] = copy;
    frame->moved |= 1u;
    frame->in_place = 0;
    berth_tensor_view(copy, &frame->call.inputs[0]);
    return BERTH_OK;
}

/// The moved operand's handle becomes the output's.
static void continue_tensor(berth_op_frame* frame) {
    berth_tensor* tensor = frame->operands[frame->in_place];
    const berth_view* shape = &frame->call.outputs[0];
    tensor->dtype = (uint8_t)shape->dtype;
    tensor->rank = (uint8_t)shape->rank;
    for (int32_t i = 0; i < shape->rank; ++i) {
        tensor->dims[i] = shape->dims[i];
        tensor->strides[i] = shape->strides[i];
    }
}

/// Checks, shape, size in bytes; nothing has happened yet.
static berth_status infer(berth_context* context, berth_op_frame* frame) {
    BERTH_TRY(load_operands(context, frame));
    if ((frame->moved & (frame->moved - 1)) != 0) BERTH_TRY(check_moves(frame));
    BERTH_TRY(frame->desc->infer(&frame->call));
    berth_view* out = &frame->call.outputs[0];
    return berth_shape_lay_out(out, &frame->output_bytes);
}

static void note_foreign_uses(berth_context* context, const berth_op_frame* frame) {
    for (uint32_t i = 0; i < frame->call.input_count; ++i) {
        berth_storage* storage = frame->operands[i]->storage;
        if (storage->home != &context->home) berth_storage_add_use(storage, &context->home);
    }
}

/// Places, launches, releases. The output, or NULL with nothing changed.
static berth_tensor* execute(berth_context* context, berth_op_frame* frame) {
    berth_op_call* call = &frame->call;
    const bool has_scratch = frame->desc->scratch != NULL;
    const bool is_in_place = frame->in_place != NOT_IN_PLACE;
    call->scratch_bytes = has_scratch ? frame->desc->scratch(call) : 0;
    berth_run* run = context->run;
    if (run != NULL) {
        const berth_view* out = &call->outputs[0];
        berth_run_begin_event(context,
                              run,
                              frame->op,
                              (is_in_place ? 0u : 1u) + (has_scratch ? 1u : 0u),
                              (uint32_t)out->rank | (uint32_t)out->dtype << 8);
    }
    berth_tensor* output = is_in_place ? frame->operands[frame->in_place] : NULL;
    berth_status status = BERTH_OK;
    if (!is_in_place)
        status = berth_context_new_tensor(context, &call->outputs[0], frame->output_bytes, &output);
    if (status != BERTH_OK) return refuse(context, frame, status);
    call->outputs[0].data = berth_tensor_data(output);
    berth_temporary scratch = {0};
    if (has_scratch)
        status =
            berth_temporary_take(context, run, call->scratch_bytes, BERTH_VALUE_SCRATCH, &scratch);
    call->scratch = scratch.data;
    if (status == BERTH_OK) {
        const berth_kernel kernel = context->home.stream->device->kernels[frame->op];
        status = berth_stream_launch(context->home.stream, kernel, call, frame->params_bytes);
        if (has_scratch) berth_temporary_give(context, &scratch);
    }
    if (status != BERTH_OK) {
        if (!is_in_place) berth_tensor_drop(output, &context->home);
        return refuse(context, frame, status);
    }
    if (frame->has_foreign) note_foreign_uses(context, frame);
    if (is_in_place) {
        continue_tensor(frame);
        frame->moved &= ~(1u << frame->in_place);
    }
    if (frame->moved != 0) drop_moved(context, frame);
    return output;
}

berth_tensor* berth_dispatch_locked(berth_context* context,
                                    berth_op_id op,
                                    berth_tensor* const* operands,
                                    uint32_t operand_count,
                                    const void* params,
                                    size_t params_bytes) {
    berth_op_frame frame;
    frame.desc = &berth_op_table[op];
    frame.op = op;
    frame.loaded = 0;
    frame.moved = 0;
    frame.has_foreign = false;
    frame.params_bytes = params_bytes;
    frame.call.input_count = operand_count;
    frame.call.output_count = 1;
    frame.call.params = params;
    frame.call.team = context->home.stream->device->team;
    frame.call.batch_invariant = context->runtime->batch_invariant;
    for (uint32_t i = 0; i < operand_count; ++i) {
        frame.operands[i] = berth_untag(operands[i]);
        frame.moved |= (uint32_t)berth_is_moved(operands[i]) << i;
    }
    if (context->error != BERTH_OK) {
        drop_moved(context, &frame);
        return NULL;
    }
    berth_status status = infer(context, &frame);
    if (status != BERTH_OK) return refuse(context, &frame, status);
    choose_in_place(context, &frame);
    if ((frame.desc->flags & BERTH_OP_UPDATES_0) != 0 && frame.in_place != 0) {
        status = copy_target(context, &frame);
        if (status != BERTH_OK) return refuse(context, &frame, status);
    }
    return execute(context, &frame);
}

berth_tensor* berth_dispatch(berth_context* context,
                             berth_op_id op,
                             berth_tensor* const* operands,
                             uint32_t operand_count,
                             const void* params,
                             size_t params_bytes) {
    if (context == NULL || berth_home_is_forked(&context->home)) return NULL;
    berth_home_lock(&context->home);
    berth_tensor* output =
        berth_dispatch_locked(context, op, operands, operand_count, params, params_bytes);
    berth_home_unlock(&context->home);
    return output;
}
