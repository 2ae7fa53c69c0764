// SPDX-License-Identifier: Apache-2.0
// Dispatch: from operands to an enqueued kernel. The order of events is E1.
#include <inttypes.h>

#include "exec/run.h"
#include "exec/upkeep.h"

/// What dispatch knows of one call of an op.
typedef struct berth_op_state {
    struct berth_op_state* outer; ///< the call that this one is a part of, or NULL
    const berth_op_desc* desc;
    uint32_t op;                                 ///< a berth_op_id, or a registered op's number
    berth_tensor* operands[BERTH_OP_MAX_INPUTS]; ///< untagged
    uint32_t loaded;                             ///< operands whose views are filled in
    uint32_t moved;         ///< bit i: operand i's reference is ours; REPLACED: so is `replaced`
    uint32_t excess;        ///< an operand that is moved more often than it is referenced, or 0
    berth_tensor* replaced; ///< with REPLACED: operand 0 as it was handed over
    uint32_t in_place;      ///< operand that output 0 continues, or NOT_IN_PLACE
    bool has_shared;        ///< an operand is another context's
    uint32_t counted;       ///< bit i: output i's size is known once the counting kernel has run
    uint64_t output_bytes[BERTH_OP_MAX_OUTPUTS];
    size_t params_bytes;
    berth_tensor** results; ///< [call.output_count], the caller's
    uint32_t kept_count;
    berth_tensor* kept[BERTH_OP_MAX_INPUTS]; ///< operands with one more reference, until the end
    berth_op_call call;
} op_state;

#define NOT_IN_PLACE UINT32_MAX
static const uint32_t REPLACED = UINT32_C(1) << 31;
static const uint32_t IN_PLACE_MASK = (UINT32_C(1) << BERTH_OP_MAX_INPUTS) - 1;

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

void berth_context_consume_moved(berth_context* context,
                                 berth_tensor* const* operands,
                                 size_t count) {
    const bool has_locked = berth_home_lock(&context->home);
    berth_context_drop_moved(context, operands, count);
    if (has_locked) berth_home_unlock(&context->home);
}

void berth_dispatch_keep_operands(berth_context* context) {
    for (op_state* state = context->op; state != NULL; state = state->outer) {
        // those of an outer call that was kept before are its own by now, or still kept
        if (state->kept_count > 0) continue;
        for (uint32_t i = 0; i < state->loaded; ++i)
            state->kept[state->kept_count++] = berth_retain(state->operands[i]);
    }
}

static void drop_kept(berth_context* context, const op_state* state) {
    for (uint32_t i = 0; i < state->kept_count; ++i)
        berth_tensor_drop(state->kept[i], &context->home);
}

static void refuse(berth_context* context, op_state* state, berth_status status) {
    const bool has_views = state->loaded == state->call.input_count;
    berth_context_fail(context, status, state->desc->name, has_views ? &state->call : NULL);
    drop_moved(context, state);
}

/// Prepares an operand that another context made.
static berth_status share_operand(berth_context* context, berth_tensor* tensor) {
    if (tensor->storage->home->stream->device != context->home.stream->device)
        return berth_fail(BERTH_ERR_INVALID_ARGUMENT, "an operand belongs to another runtime");
    return berth_storage_share(tensor->storage, &context->home);
}

static berth_status load_operands(berth_context* context, op_state* state) {
    berth_op_call* call = &state->call;
    const uint64_t epoch = ++context->home.epoch;
    for (uint32_t i = 0; i < call->input_count; ++i) {
        berth_tensor* tensor = state->operands[i];
        if (tensor == NULL)
            return berth_fail(BERTH_ERR_INVALID_ARGUMENT, "operand %" PRIu32 " is NULL", i);
        berth_storage* storage = tensor->storage;
        if (storage->home != &context->home) {
            state->has_shared = true;
            BERTH_TRY(share_operand(context, tensor));
        } else {
            storage->last_use = epoch;
        }
        berth_tensor_view(tensor, &call->inputs[i]);
        ++state->loaded;
    }
    return BERTH_OK;
}

/// Keeps the operands still again after another op, in which they may have moved.
static void reload_operands(berth_context* context, op_state* state) {
    for (uint32_t i = 0; i < state->call.input_count; ++i) {
        const berth_tensor* tensor = state->operands[i];
        if (tensor->storage->home != &context->home) continue;
        tensor->storage->last_use = context->home.epoch;
        state->call.inputs[i].data = berth_tensor_data(tensor);
    }
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
    const berth_tensor* tensor = state->operands[index];
    const berth_storage* storage = tensor->storage;
    if (atomic_load_explicit(&tensor->refs, memory_order_acquire) != 1 ||
        atomic_load_explicit(&storage->refs, memory_order_acquire) != 1)
        return false;
    if (storage->home != &context->home || tensor->home != &context->home) return false;
    if (storage->kind == BERTH_STORAGE_FOREIGN || storage->is_read_only ||
        atomic_load_explicit(&storage->marks, memory_order_acquire) != 0)
        return false;
    if (!tensor->is_dense) return false;
    const berth_dtype_info* info = berth_dtype_info_of((berth_dtype)tensor->dtype);
    const uint64_t bytes = (uint64_t)berth_shape_count(tensor->rank, tensor->dims) /
                           info->block_values * info->block_bytes;
    if (bytes != state->output_bytes[0]) return false;
    // an operand that broadcasts may have as many bytes in fewer elements
    const berth_view* out = &state->call.outputs[0];
    if (tensor->dtype != (uint32_t)out->dtype &&
        berth_shape_count(tensor->rank, tensor->dims) != berth_shape_count(out->rank, out->dims))
        return false;
    // views would show in the storage's count; the same handle twice does not
    for (uint32_t i = 0; i < state->call.input_count; ++i)
        if (i != index && state->operands[i] == tensor) return false;
    return true;
}

static void choose_in_place(const berth_context* context, op_state* state) {
    state->in_place = NOT_IN_PLACE;
    if (state->moved == 0 || state->counted != 0) return;
    const uint32_t allowed = state->desc->flags & state->moved & IN_PLACE_MASK;
    for (uint32_t i = 0; allowed >> i != 0; ++i) {
        if ((allowed >> i & 1u) == 0 || !may_continue(context, state, i)) continue;
        state->in_place = i;
        return;
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
    reload_operands(context, state);
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

/// The outputs of which some size is to be counted, as bits.
static uint32_t find_counted(const berth_op_call* call) {
    uint32_t counted = 0;
    for (uint32_t i = 0; i < call->output_count; ++i) {
        const berth_view* out = &call->outputs[i];
        // a rank that makes no sense is refused when the output is laid out
        for (int32_t d = 0; d < out->rank && d < BERTH_MAX_RANK; ++d)
            if (out->dims[d] == BERTH_DIM_COUNTED) counted |= UINT32_C(1) << i;
    }
    return counted;
}

static inline berth_status lay_out(op_state* state) {
    for (uint32_t i = 0; i < state->call.output_count; ++i) {
        const berth_status status =
            berth_shape_lay_out(&state->call.outputs[i], &state->output_bytes[i]);
        if (status != BERTH_OK)
            return state->call.outputs[i].dtype == BERTH_DTYPE_COUNT
                       ? berth_fail(status, "its shape rule has not set outputs[%" PRIu32 "]", i)
                       : status;
    }
    return BERTH_OK;
}

// A back end's own tables go before the rows of the op table, which are for the CPU's kernels.

static inline bool is_of_table(const berth_device* device, const op_state* state) {
    return state->op < BERTH_OP_COUNT && device->scratch_rules != NULL;
}

static inline berth_scratch_rule find_scratch_rule(const berth_device* device,
                                                   const op_state* state) {
    return is_of_table(device, state) ? device->scratch_rules[state->op] : state->desc->scratch;
}

static inline berth_kernel find_counter(const berth_device* device, const op_state* state) {
    return is_of_table(device, state) ? device->counters[state->op]
                                      : berth_op_kernel_for(state->desc->counters, device->kind);
}

static inline berth_kernel find_kernel(const berth_device* device, const op_state* state) {
    const berth_kernel own = berth_op_kernel_for(state->desc->kernels, device->kind);
    return own != NULL ? own : device->kernels[state->op];
}

/// Checks, shapes, sizes in bytes; nothing has happened yet.
static inline berth_status infer(berth_context* context, op_state* state) {
    const berth_op_desc* desc = state->desc;
    BERTH_TRY(load_operands(context, state));
    BERTH_TRY(check_moves(state));
    BERTH_TRY(desc->infer(&state->call));
    const berth_device* device = context->home.stream->device;
    if (desc->check_data != NULL && !berth_device_is_async(device) &&
        berth_device_has_host_access(device))
        BERTH_TRY(desc->check_data(&state->call));
    if (find_kernel(device, state) == NULL)
        return berth_fail(
            BERTH_ERR_UNSUPPORTED, "device %s has no kernel for this op", device->name);
    state->counted = find_counter(device, state) != NULL ? find_counted(&state->call) : 0;
    return state->counted != 0 ? BERTH_OK : lay_out(state);
}

static void note_shared_uses(berth_context* context, const op_state* state) {
    for (uint32_t i = 0; i < state->call.input_count; ++i) {
        berth_storage* storage = state->operands[i]->storage;
        if (storage->home != &context->home) berth_storage_add_use(storage, &context->home);
    }
}

/// Runs the counting kernel, waits for it, and completes the outputs' shapes.
static berth_status count_outputs(berth_context* context, op_state* state) {
    berth_op_call* call = &state->call;
    berth_stream* stream = context->home.stream;
    int64_t count = -1;
    if (call->scratch_bytes < sizeof count)
        return berth_fail(BERTH_ERR_STATE, "an op that counts needs a workspace for the count");
    for (uint32_t i = 0; i < call->output_count; ++i)
        call->outputs[i].data = NULL; // their places come later
    BERTH_TRY(berth_stream_launch(
        stream, find_counter(stream->device, state), call, state->params_bytes));
    BERTH_TRY(
        berth_stream_copy(stream, &count, call->scratch, sizeof count, BERTH_COPY_DEVICE_TO_HOST));
    BERTH_TRY(berth_stream_drain(stream));
    if (count < 0) return berth_fail(BERTH_ERR_STATE, "the op counted %" PRId64, count);
    for (uint32_t i = 0; i < call->output_count; ++i) {
        berth_view* out = &call->outputs[i];
        for (int32_t d = 0; d < out->rank; ++d)
            if (out->dims[d] == BERTH_DIM_COUNTED) out->dims[d] = count;
    }
    return lay_out(state);
}

/// Gives back outputs [0, count) but the one in place.
static void drop_results(berth_context* context, op_state* state, uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) {
        if (i > 0 || state->in_place == NOT_IN_PLACE)
            berth_tensor_drop(state->results[i], &context->home);
        state->results[i] = NULL;
    }
}

/// Gives every output its memory, or none.
static berth_status place_results(berth_context* context, op_state* state) {
    berth_op_call* call = &state->call;
    uint32_t i = 0;
    if (state->in_place != NOT_IN_PLACE) {
        state->results[0] = state->operands[state->in_place];
        call->outputs[0].data = berth_tensor_data(state->results[0]);
        i = 1;
    }
    for (; i < call->output_count; ++i) {
        const uint32_t flags = (state->counted >> i & 1u) != 0 ? BERTH_VALUE_DATA : 0;
        const berth_status status = berth_context_new_tensor(
            context, &call->outputs[i], state->output_bytes[i], flags, &state->results[i]);
        if (status != BERTH_OK) {
            drop_results(context, state, i);
            return status;
        }
        call->outputs[i].data = berth_tensor_data(state->results[i]);
    }
    return BERTH_OK;
}

static berth_status launch(berth_context* context, op_state* state) {
    berth_stream* stream = context->home.stream;
    return berth_stream_launch(
        stream, find_kernel(stream->device, state), &state->call, state->params_bytes);
}

static berth_status take_scratch(berth_context* context, op_state* state, berth_temporary* out) {
    berth_op_call* call = &state->call;
    const berth_status status =
        berth_temporary_take(context, context->run, call->scratch_bytes, BERTH_VALUE_SCRATCH, out);
    call->scratch = out->data;
    return status;
}

/// Places outputs and scratch, in the order that E1 gives, and launches.
static berth_status place_and_launch(berth_context* context, op_state* state, bool has_scratch) {
    berth_temporary scratch = {0};
    berth_status status = BERTH_OK;
    if (state->counted != 0) {
        BERTH_TRY(take_scratch(context, state, &scratch));
        status = count_outputs(context, state);
        if (status == BERTH_OK) status = place_results(context, state);
    } else {
        BERTH_TRY(place_results(context, state));
        if (has_scratch) status = take_scratch(context, state, &scratch);
    }
    const bool is_placed = state->results[0] != NULL;
    if (status == BERTH_OK) status = launch(context, state);
    if (has_scratch) berth_temporary_give(context, &scratch);
    if (status != BERTH_OK && is_placed) drop_results(context, state, state->call.output_count);
    return status;
}

/// Places, launches, releases. Nothing has changed if it fails.
static berth_status execute(berth_context* context, op_state* state) {
    berth_op_call* call = &state->call;
    const berth_scratch_rule rule = find_scratch_rule(context->home.stream->device, state);
    const bool has_scratch = rule != NULL;
    const bool is_in_place = state->in_place != NOT_IN_PLACE;
    call->scratch_bytes = has_scratch ? rule(call) : 0;
    berth_run* run = context->run;
    if (run != NULL) {
        const berth_view* out = &call->outputs[0];
        berth_run_begin_event(context,
                              run,
                              state->op,
                              call->output_count - (is_in_place ? 1u : 0u) +
                                  (has_scratch ? 1u : 0u),
                              (uint32_t)out->rank | (uint32_t)out->dtype << 8);
    }
    const berth_status status = place_and_launch(context, state, has_scratch);
    // also after a failure: what was enqueued before it runs all the same
    if (state->has_shared) note_shared_uses(context, state);
    BERTH_TRY(status);
    if (is_in_place) {
        continue_tensor(state);
        state->moved &= ~(1u << state->in_place);
    }
    if (state->moved != 0) drop_moved(context, state);
    return BERTH_OK;
}

/// One call of a built-in or a registered op. `results` [result_count] are NULL if it fails.
static void dispatch(berth_context* context,
                     const berth_op_desc* desc,
                     uint32_t op,
                     berth_tensor* const* operands,
                     uint32_t operand_count,
                     const void* params,
                     size_t params_bytes,
                     berth_tensor** results,
                     uint32_t result_count) {
    op_state state;
    context->home.doing = desc->name;
    state.desc = desc;
    state.op = op;
    state.loaded = 0;
    state.moved = 0;
    state.excess = 0;
    state.has_shared = false;
    state.params_bytes = params_bytes;
    state.results = results;
    state.call.input_count = operand_count;
    state.call.output_count = result_count;
    state.call.params = params;
    state.call.team = context->home.stream->device->team;
    state.call.batch_invariant = context->runtime->batch_invariant;
    for (uint32_t i = 0; i < result_count; ++i) {
        results[i] = NULL;
        state.call.outputs[i].dtype = BERTH_DTYPE_COUNT; // until the shape rule sets it
        state.call.outputs[i].rank = 0;
    }
    for (uint32_t i = 0; i < operand_count; ++i) {
        state.operands[i] = berth_untag(operands[i]);
        state.moved |= (uint32_t)berth_is_moved(operands[i]) << i;
    }
    if ((state.moved & (state.moved - 1)) != 0) find_excess_moves(&state);
    if (context->error != BERTH_OK) {
        drop_moved(context, &state);
        return;
    }
    state.kept_count = 0;
    state.outer = context->op;
    context->op = &state;
    berth_status status = infer(context, &state);
    if (status == BERTH_OK) {
        choose_in_place(context, &state);
        if ((desc->flags & BERTH_OP_UPDATES_0) != 0 && state.in_place != 0)
            status = copy_target(context, &state);
        if (status == BERTH_OK) status = execute(context, &state);
    }
    if (status != BERTH_OK) refuse(context, &state, status);
    context->op = state.outer;
    if (state.kept_count > 0) drop_kept(context, &state);
}

berth_tensor* berth_dispatch_locked(berth_context* context,
                                    berth_op_id op,
                                    berth_tensor* const* operands,
                                    uint32_t operand_count,
                                    const void* params,
                                    size_t params_bytes) {
    berth_tensor* result;
    dispatch(context,
             &berth_op_table[op],
             op,
             operands,
             operand_count,
             params,
             params_bytes,
             &result,
             1);
    return result;
}

berth_tensor* berth_dispatch(berth_context* context,
                             berth_op_id op,
                             berth_tensor* const* operands,
                             uint32_t operand_count,
                             const void* params,
                             size_t params_bytes) {
    if (context == NULL || berth_home_is_forked(&context->home)) return NULL;
    if (!berth_home_lock(&context->home)) {
        berth_context_drop_moved(context, operands, operand_count);
        return NULL;
    }
    berth_upkeep_between_ops(context);
    berth_tensor* output =
        berth_dispatch_locked(context, op, operands, operand_count, params, params_bytes);
    berth_home_unlock(&context->home);
    return output;
}

void berth_dispatch_many(berth_context* context,
                         berth_op_id op,
                         berth_tensor* const* operands,
                         uint32_t operand_count,
                         const void* params,
                         size_t params_bytes,
                         berth_tensor** results,
                         uint32_t result_count) {
    for (uint32_t i = 0; i < result_count; ++i)
        results[i] = NULL;
    if (context == NULL || berth_home_is_forked(&context->home)) return;
    if (!berth_home_lock(&context->home)) {
        berth_context_drop_moved(context, operands, operand_count);
        return;
    }
    berth_upkeep_between_ops(context);
    dispatch(context,
             &berth_op_table[op],
             op,
             operands,
             operand_count,
             params,
             params_bytes,
             results,
             result_count);
    berth_home_unlock(&context->home);
}

/// What is wrong with a call of a registered op before anything is looked at.
static berth_status check_apply(const berth_context* context,
                                const berth_op* op,
                                berth_tensor* const* operands,
                                size_t operand_count,
                                const void* params,
                                size_t params_bytes,
                                berth_tensor* const* out_more) {
    if (op == NULL) return berth_fail(BERTH_ERR_INVALID_ARGUMENT, "the op is NULL");
    const berth_op_desc* desc = &op->desc;
    if (op->runtime != context->runtime)
        return berth_fail(BERTH_ERR_INVALID_ARGUMENT, "the op is registered with another runtime");
    if (operand_count != desc->max_inputs && desc->min_inputs == desc->max_inputs)
        return berth_fail(BERTH_ERR_INVALID_ARGUMENT,
                          "%zu operands are given, it takes %" PRIu32,
                          operand_count,
                          desc->max_inputs);
    if (operand_count < desc->min_inputs || operand_count > desc->max_inputs)
        return berth_fail(BERTH_ERR_INVALID_ARGUMENT,
                          "%zu operands are given, it takes %" PRIu32 " to %" PRIu32,
                          operand_count,
                          desc->min_inputs,
                          desc->max_inputs);
    if (operands == NULL && operand_count > 0)
        return berth_fail(BERTH_ERR_INVALID_ARGUMENT, "the operands are missing");
    if (params_bytes > BERTH_OP_PARAM_BYTES)
        return berth_fail(BERTH_ERR_INVALID_ARGUMENT,
                          "%zu bytes of parameters, %d at most",
                          params_bytes,
                          BERTH_OP_PARAM_BYTES);
    if (params == NULL && params_bytes > 0)
        return berth_fail(BERTH_ERR_INVALID_ARGUMENT, "the parameters are missing");
    if (out_more == NULL && desc->output_count > 1)
        return berth_fail(BERTH_ERR_INVALID_ARGUMENT,
                          "out_more is NULL: there is no place for results 1 .. %" PRIu32,
                          desc->output_count - 1);
    return BERTH_OK;
}

berth_tensor* berth_apply(berth_context* ctx,
                          const berth_op* op,
                          berth_tensor* const* operands,
                          size_t operand_count,
                          const void* params,
                          size_t params_bytes,
                          berth_tensor** out_more) {
    const uint32_t more = op != NULL && out_more != NULL ? op->desc.output_count - 1 : 0;
    for (uint32_t i = 0; i < more; ++i)
        out_more[i] = NULL;
    if (ctx == NULL || berth_home_is_forked(&ctx->home)) return NULL;
    berth_tensor* results[BERTH_OP_MAX_OUTPUTS] = {NULL};
    if (!berth_home_lock(&ctx->home)) {
        if (operands != NULL) berth_context_drop_moved(ctx, operands, operand_count);
        return NULL;
    }
    berth_upkeep_between_ops(ctx);
    const berth_status status =
        check_apply(ctx, op, operands, operand_count, params, params_bytes, out_more);
    if (status != BERTH_OK) {
        berth_context_fail(ctx, status, op != NULL ? op->desc.name : "apply", NULL);
        if (operands != NULL) berth_context_drop_moved(ctx, operands, operand_count);
    } else {
        // a check that refuses without a reason must not show an earlier one
        berth_error_clear();
        dispatch(ctx,
                 &op->desc,
                 op->id,
                 operands,
                 (uint32_t)operand_count,
                 params,
                 params_bytes,
                 results,
                 op->desc.output_count);
    }
    berth_home_unlock(&ctx->home);
    for (uint32_t i = 0; i < more; ++i)
        out_more[i] = results[i + 1];
    return results[0];
}
