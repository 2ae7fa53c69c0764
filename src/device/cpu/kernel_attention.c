// SPDX-License-Identifier: Apache-2.0
// ATTENTION: one sequence a batch, whose keys and values are one block, perhaps with a mask.
#include "device/cpu/kernel_attention.h"

#include <string.h>

#include "base/op_params.h"
#include "device/cpu/kernel_attention_units.h"

#define UNITS_A_WORKER 4 // with fewer, segments become units of their own

/// How much scratch a call takes, and for what. Batches come first, where there are any.
typedef struct attention_scratch {
    int64_t unit_rows;
    int64_t worker_floats; ///< of all workers
    bool may_cut;          ///< there may be keys enough for segments to be units
} attention_scratch;

static attention_scratch scratch_of(const berth_op_call* call) {
    const int64_t* q = call->inputs[0].dims + call->inputs[0].rank - 3;
    const int64_t* v = call->inputs[2].dims + call->inputs[2].rank - 3;
    const int64_t kv_heads = v[1];
    const int64_t rows = kv_heads == 0 ? 0 : q[0] * (q[1] / kv_heads);
    const int64_t workers = (int64_t)berth_team_worker_count(call->team);
    const int64_t blocks = berth_ceil_div(rows, BERTH_ATTENTION_ROWS);
    attention_scratch s = {.unit_rows = BERTH_ATTENTION_ROWS};
    // the same for every number of tokens but one, so that the scratch is one form of the sizes
    if (q[0] == 1) s.unit_rows = berth_min_i64(BERTH_ATTENTION_ROWS, rows);
    s.worker_floats = workers * berth_attention_worker_floats(q[2], v[2], s.unit_rows, false);
    s.may_cut = q[0] == 1 && workers > 1 && kv_heads * blocks < UNITS_A_WORKER * workers;
    return s;
}

uint64_t berth_cpu_attention_scratch(const berth_op_call* call) {
    const attention_scratch s = scratch_of(call);
    const uint64_t bytes = (uint64_t)s.worker_floats * sizeof(float);
    if (!s.may_cut) return bytes;
    // A little more than whole segments take, but linear in the keys: what a step has seen at a few
    // lengths tells what it needs at any, also beyond the first segment.
    const int32_t rank = call->inputs[0].rank;
    const int64_t heads = call->inputs[0].dims[rank - 2];
    const int64_t keys = call->inputs[1].dims[rank - 3];
    const int64_t width = call->inputs[2].dims[rank - 1];
    const int64_t slot_bytes = berth_attention_slot_floats(width) * (int64_t)sizeof(float);
    const int64_t key_bytes = berth_ceil_div(slot_bytes, BERTH_ATTENTION_SEGMENT);
    return bytes + (uint64_t)heads * (uint64_t)(slot_bytes + keys * key_bytes);
}

/// The mask of batch `batch` over all heads, tokens and keys: what is missing or 1 is repeated.
static berth_view spread_mask(const berth_op_call* call, int64_t batch) {
    const berth_view* mask = &call->inputs[3];
    berth_view spread = {.data = mask->data, .dtype = mask->dtype, .rank = 3};
    for (int32_t d = 0; d < 3; ++d) {
        const int32_t from = mask->rank - 3 + d;
        spread.strides[d] = from < 0 || mask->dims[from] == 1 ? 0 : mask->strides[from];
    }
    if (mask->rank == 4 && mask->dims[0] != 1)
        spread.data =
            (unsigned char*)mask->data + batch * mask->strides[0] * berth_dtype_bytes(mask->dtype);
    return spread;
}

/// Keys or values as one block.
static berth_view one_block(const berth_view* x) {
    berth_view block = {.data = x->data, .dtype = x->dtype, .rank = 4, .dims = {1}};
    for (int32_t d = 0; d < 3; ++d) {
        block.dims[d + 1] = x->dims[d];
        block.strides[d + 1] = x->strides[d];
    }
    return block;
}

/// Keys that the first query sees: all, or as many as the offset leaves.
static int64_t first_seen(const berth_attention_params* params, int64_t keys) {
    // an offset beyond the keys may be so large that nothing can be added to it
    if (!params->causal || params->query_offset >= keys) return keys;
    return params->query_offset + 1;
}

/// Attention of one batch; `mask` may be NULL.
static void attend_batch(const berth_op_call* call, const berth_view* mask) {
    const berth_attention_params* params = call->params;
    const attention_scratch scratch = scratch_of(call);
    const int64_t keys = call->inputs[1].dims[0];
    berth_attention_job job = {
        .q = call->inputs[0],
        .keys = one_block(&call->inputs[1]),
        .values = one_block(&call->inputs[2]),
        .out = call->outputs[0],
        .mask = mask,
        .scale = params->scale,
        .unit_rows = scratch.unit_rows,
        .workers = call->scratch,
    };
    if (job.q.dims[0] == 0 || job.keys.dims[2] == 0) return;
    job.slots = job.workers + scratch.worker_floats;
    if (scratch.may_cut)
        job.slot_count = job.q.dims[1] * berth_ceil_div(keys, BERTH_ATTENTION_SEGMENT);
    berth_attention_sequence sequence = {
        .queries = job.q.dims[0],
        .keys = keys,
        .first_seen = first_seen(params, keys),
    };
    berth_attention_run(call, &job, &sequence, 1);
}

static void kernel_attention(const berth_op_call* call) {
    const bool has_mask = call->input_count == 4;
    const int64_t batches = call->inputs[0].rank == 4 ? call->inputs[0].dims[0] : 1;
    for (int64_t b = 0; b < batches; ++b) {
        const berth_view mask = has_mask ? spread_mask(call, b) : (berth_view){0};
        if (call->inputs[0].rank == 3) {
            attend_batch(call, has_mask ? &mask : NULL);
            continue;
        }
        berth_op_call one = *call;
        for (uint32_t i = 0; i < 3; ++i)
            one.inputs[i] = berth_view_at(&call->inputs[i], b);
        one.outputs[0] = berth_view_at(&call->outputs[0], b);
        attend_batch(&one, has_mask ? &mask : NULL);
    }
}

void berth_cpu_fill_attention_kernels(berth_kernel* table) {
    table[BERTH_OP_ATTENTION] = kernel_attention;
}
