// SPDX-License-Identifier: Apache-2.0
// Dispatch: from operands to an enqueued kernel. The order of events is E1.
#include <inttypes.h>

#include "exec/run.h"

/// What dispatch knows of one call of an op.
typedef struct op_state {
    const berth_op_desc* desc;
    berth_op_id op;
    berth_tensor* operands[BERTH_OP_MAX_INPUTS]; ///< untagged
    uint32_t loaded;                             ///< operands whose views are filled in
    uint32_t moved;         ///< bit i: operand i's reference is ours; REPLACED: so is `replaced`
    uint32_t excess;        ///< an operand that is moved more often than it is referenced, or 0
    berth_tensor* replaced; ///< with REPLACED: operand 0 as it was handed over
    uint32_t in_place;      ///< operand that output 0 continues, or NOT_IN_PLACE
    bool has_shared;        ///< an operand is another context's
    uint64_t output_bytes;
    size_t params_bytes;
    berth_op_call call;
} op_state;

#define NOT_IN_PLACE UINT32_MAX
static const uint32_t REPLACED = UINT32_C(1) << 31;

/// Gives back the references that were handed over.
static void drop_moved(berth_context* context, const op_state* state) {
    for (uint32_t i = 0; i < state->call.input_count; ++i)
        if ((state->moved & (1u << i)) != 0 && state->operands[i] != NULL)
            berth_tensor_drop(state->operands[i], &context->home);
    if ((state->moved & REPLACED) != 0) berth_tensor_drop(state->replaced, &context->home);
}

void berth_context_drop_moved(berth_context* context, berth_tensor* const* operands, size_t count) {
    for (size_t i = 0; i < count; ++i) {
        berth_tensor* tensor = berth_untag(operands[i]);
        if (tensor == NULL || !berth_is_moved(operands[i])) continue;
        bool is_first = true;
        for (size_t j = 0; j < i; ++j)
            is_first = is_first && operands[j] != operands[i];
        if (!is_first) continue;
        uint32_t refs = atomic_load_explicit(&tensor->refs, memory_order_acquire);
        for (size_t j = i; j < count && refs > 0; ++j) {
            if (operands[j] != operands[i]) continue;
            --refs;
            berth_tensor_drop(tensor, &context->home);
        }
    }
}

static berth_tensor* refuse(berth_context* context, op_state* state, berth_status status) {
    const bool has_views = state->loaded == state->call.input_count;
    berth_context_fail(context, status, state->desc->name, has_views ? &state->call : NULL);
    drop_moved(context, state);
    return NULL;
}

/// Prepares an operand that another context made.
static berth_status share_operand(berth_context* context, berth_tensor* tensor) {
    if (tensor->storage->home->stream->device != context->home.stream->device)
        return berth_fail(BERTH_ERR_INVALID_ARGUMENT, "an operand belongs to another runtime");
    return berth_storage_share(tensor->storage, &context->home);
}

static berth_status load_operands(berth_context* context, op_state* state) {
    berth_op_call* call = &state->call;
    for (uint32_t i = 0; i < call->input_count; ++i) {
        berth_tensor* tensor = state->operands[i];
        if (tensor == NULL)
            return berth_fail(BERTH_ERR_INVALID_ARGUMENT, "operand %" PRIu32 " is NULL", i);
        if (tensor->storage->home != &context->home) {
            state->has_shared = true;
            BERTH_TRY(share_operand(context, tensor));
        }
        berth_tensor_view(tensor, &call->inputs[i]);
        ++state->loaded;
    }
    return BERTH_OK;
}

/// A reference cannot be handed over twice: what exceeds the references is not consumed either.
static void find_excess_moves(op_state* state) {
    for (uint32_t i = 0; i < state->call.input_count; ++i) {
        if ((state->moved & (1u << i)) == 0 || state->operands[i] == NULL) continue;
        const uint32_t refs = atomic_load_explicit(&state->operands[i]->refs, memory_order_acquire);
        uint32_t handed = 1;
        for (uint32_t j = 0; j < i; ++j)
            handed += state->operands[j] == state->operands[i] && (state->moved & (1u << j)) != 0;
        if (handed <= refs) continue;
        state->moved &= ~(1u << i);
        state->excess = i;
    }
}

static berth_status check_moves(const op_state* state) {
    if (state->excess == 0) return BERTH_OK;
    return berth_fail(BERTH_ERR_INVALID_ARGUMENT,
                      "operand %" PRIu32 " is moved more often than it is referenced",
                      state->excess);
}

/// Whether output 0 may continue the storage of operand `index`: nobody else can see it.
static bool may_continue(const berth_context* context, const op_state* state, uint32_t index) {
    if ((state->moved & (1u << index)) == 0) return false;
    const berth_tensor* tensor = state->operands[index];
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
    if (bytes != state->output_bytes) return false;
    // views would show in the storage's count; the same handle twice does not
    for (uint32_t i = 0; i < state->call.input_count; ++i)
        if (i != index && state->operands[i] == tensor) return false;
    return true;
}

static void choose_in_place(const berth_context* context, op_state* state) {
    state->in_place = NOT_IN_PLACE;
    const uint32_t flags = state->desc->flags;
    if ((flags & BERTH_OP_IN_PLACE_0) != 0 && may_continue(context, state, 0)) {
        state->in_place = 0;
    } else if ((flags & BERTH_OP_IN_PLACE_1) != 0 && may_continue(context, state, 1)) {
        state->in_place = 1;
    }
}

/// An op that updates operand 0 gets a copy of it where it may not have it itself.
static berth_status copy_target(berth_context* context, op_state* state) {
    berth_tensor* const source[1] = {state->operands[0]};
    berth_tensor* copy = berth_dispatch_locked(context, BERTH_OP_COPY, source, 1, NULL, 0);
    if (copy == NULL)
        return berth_fail(
            context->error, "the operand to update could not be copied (%s)", berth_last_error());
    // it may be another operand as well: it ends with them, after the launch
    if ((state->moved & 1u) != 0) {
        state->replaced = state->operands[0];
        state->moved |= REPLACED;
    }
    state->operands[0] = copy;
    state->moved |= 1u;
    state->in_place = 0;
    berth_tensor_view(copy, &state->call.inputs[0]);
    return BERTH_OK;
}

/// The moved operand's handle becomes the output's.
static void continue_tensor(op_state* state) {
    berth_tensor* tensor = state->operands[state->in_place];
    const berth_view* shape = &state->call.outputs[0];
    tensor->dtype = (uint8_t)shape->dtype;
    tensor->rank = (uint8_t)shape->rank;
    for (int32_t i = 0; i < shape->rank; ++i) {
        tensor->dims[i] = shape->dims[i];
        tensor->strides[i] = shape->strides[i];
    }
}

/// Checks, shape, size in bytes; nothing has happened yet.
static berth_status infer(berth_context* context, op_state* state) {
    BERTH_TRY(load_operands(context, state));
    BERTH_TRY(check_moves(state));
    BERTH_TRY(state->desc->infer(&state->call));
    berth_view* out = &state->call.outputs[0];
    return berth_shape_lay_out(out, &state->output_bytes);
}

static void note_shared_uses(berth_context* context, const op_state* state) {
    for (uint32_t i = 0; i < state->call.input_count; ++i) {
        berth_storage* storage = state->operands[i]->storage;
        if (storage->home != &context->home) berth_storage_add_use(storage, &context->home);
    }
}

/// Places, launches, releases. The output, or NULL with nothing changed.
static berth_tensor* execute(berth_context* context, op_state* state) {
    berth_op_call* call = &state->call;
    const bool has_scratch = state->desc->scratch != NULL;
    const bool is_in_place = state->in_place != NOT_IN_PLACE;
    call->scratch_bytes = has_scratch ? state->desc->scratch(call) : 0;
    berth_run* run = context->run;
    if (run != NULL) {
        const berth_view* out = &call->outputs[0];
        berth_run_begin_event(context,
                              run,
                              state->op,
                              (is_in_place ? 0u : 1u) + (has_scratch ? 1u : 0u),
                              (uint32_t)out->rank | (uint32_t)out->dtype << 8);
    }
    berth_tensor* output = is_in_place ? state->operands[state->in_place] : NULL;
    berth_status status = BERTH_OK;
    if (!is_in_place)
        status = berth_context_new_tensor(context, &call->outputs[0], state->output_bytes, &output);
    if (status != BERTH_OK) return refuse(context, state, status);
    call->outputs[0].data = berth_tensor_data(output);
    berth_temporary scratch = {0};
    if (has_scratch)
        status =
            berth_temporary_take(context, run, call->scratch_bytes, BERTH_VALUE_SCRATCH, &scratch);
    call->scratch = scratch.data;
    if (status == BERTH_OK) {
        const berth_device* device = context->home.stream->device;
        berth_kernel kernel = state->desc->kernels[device->kind];
        if (kernel == NULL) kernel = device->kernels[state->op];
        status = berth_stream_launch(context->home.stream, kernel, call, state->params_bytes);
        if (has_scratch) berth_temporary_give(context, &scratch);
    }
    if (status != BERTH_OK) {
        if (!is_in_place) berth_tensor_drop(output, &context->home);
        return refuse(context, state, status);
    }
    if (state->has_shared) note_shared_uses(context, state);
    if (is_in_place) {
        continue_tensor(state);
        state->moved &= ~(1u << state->in_place);
    }
    if (state->moved != 0) drop_moved(context, state);
    return output;
}

berth_tensor* berth_dispatch_locked(berth_context* context,
                                    berth_op_id op,
                                    berth_tensor* const* operands,
                                    uint32_t operand_count,
                                    const void* params,
                                    size_t params_bytes) {
    op_state state;
    state.desc = &berth_op_table[op];
    state.op = op;
    state.loaded = 0;
    state.moved = 0;
    state.excess = 0;
    state.has_shared = false;
    state.params_bytes = params_bytes;
    state.call.input_count = operand_count;
    state.call.output_count = 1;
    state.call.params = params;
    state.call.team = context->home.stream->device->team;
    state.call.batch_invariant = context->runtime->batch_invariant;
    for (uint32_t i = 0; i < operand_count; ++i) {
        state.operands[i] = berth_untag(operands[i]);
        state.moved |= (uint32_t)berth_is_moved(operands[i]) << i;
    }
    if ((state.moved & (state.moved - 1)) != 0) find_excess_moves(&state);
    if (context->error != BERTH_OK) {
        drop_moved(context, &state);
        return NULL;
    }
    berth_status status = infer(context, &state);
    if (status != BERTH_OK) return refuse(context, &state, status);
    choose_in_place(context, &state);
    if ((state.desc->flags & BERTH_OP_UPDATES_0) != 0 && state.in_place != 0) {
        status = copy_target(context, &state);
        if (status != BERTH_OK) return refuse(context, &state, status);
    }
    return execute(context, &state);
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
