// SPDX-License-Identifier: Apache-2.0
// Tensors one after another: CAT STACK, their continuations, and ROLL, which joins two parts of
// one.
#include <string.h>

#include "base/op_params.h"
#include "device/cpu/kernel_basic.h"

#define GRAIN 4096
#define LEAST 65536

/// Runs that are shorter are staged in larger pieces.
#define SHORT_RUN_BYTES 64

/// One of the tensors: cut into runs, elements that stay together in the output.
typedef struct join_job {
    berth_walk from;
    berth_dtype dtype;    ///< of the output
    int64_t bytes;        ///< an element of it
    unsigned char* out;   ///< where the first run goes
    int64_t run;          ///< elements
    int64_t stride_bytes; ///< from one run of the output to the next
} join_job;

/// Elements of their final type to their runs, the first of them number `at` of the tensor.
static void put_runs(const join_job* job, const unsigned char* items, int64_t at, int64_t count) {
    while (count > 0) {
        const int64_t inside = at % job->run;
        const int64_t piece = berth_min_i64(job->run - inside, count);
        unsigned char* row = job->out + at / job->run * job->stride_bytes;
        memcpy(row + inside * job->bytes, items, (size_t)(piece * job->bytes));
        items += piece * job->bytes;
        at += piece;
        count -= piece;
    }
}

/// Elements that change their type, or come in short runs.
static void join_staged(const join_job* job, int64_t begin, int64_t end) {
    _Alignas(64) int64_t buffer[BERTH_CHUNK];
    for (int64_t at = begin; at < end; at += BERTH_CHUNK) {
        const int64_t count = berth_min_i64(BERTH_CHUNK, end - at);
        const void* items = berth_walk_as(&job->from, job->dtype, at, count, buffer);
        if (job->run == 1)
            berth_spread_run(
                items, job->bytes, count, job->out + at * job->stride_bytes, job->stride_bytes);
        else
            put_runs(job, items, at, count);
    }
}

static void join_range(void* data, int64_t begin, int64_t end, uint32_t worker) {
    (void)worker;
    const join_job* job = data;
    if (job->from.dtype != job->dtype || job->run * job->bytes < SHORT_RUN_BYTES) {
        join_staged(job, begin, end);
        return;
    }
    for (int64_t at = begin; at < end;) {
        const int64_t inside = at % job->run;
        const int64_t count = berth_min_i64(job->run - inside, end - at);
        unsigned char* row = job->out + at / job->run * job->stride_bytes;
        berth_walk_copy(&job->from, at, count, row + inside * job->bytes);
        at += count;
    }
}

/// Puts `part` into the output, from byte `offset` of each of its `outer_count` rows on. Returns
/// the offset behind it.
static int64_t join_part(const berth_op_call* call,
                         const berth_view* part,
                         int64_t outer_count,
                         int64_t row_bytes,
                         int64_t offset) {
    const berth_view* out = &call->outputs[0];
    const int64_t count = berth_view_count(part);
    join_job job = {
        .dtype = out->dtype,
        .bytes = berth_dtype_bytes(out->dtype),
        .out = (unsigned char*)out->data + offset,
        .run = count / outer_count,
        .stride_bytes = row_bytes,
    };
    berth_walk_init(&job.from, part);
    berth_run_range(call, count, GRAIN, LEAST, join_range, &job);
    return offset + job.run * job.bytes;
}

/// Puts inputs [first, ...) into the output, from place `begin` of dimension `dim` on.
static void join_inputs(const berth_op_call* call, uint32_t first) {
    const berth_join_params* params = call->params;
    const berth_view* out = &call->outputs[0];
    if (berth_view_count(out) == 0) return;
    const berth_cut cut = berth_view_cut(out, params->dim);
    const int64_t slice_bytes = cut.inner_count * berth_dtype_bytes(out->dtype);
    int64_t offset = params->begin * slice_bytes;
    for (uint32_t i = first; i < call->input_count; ++i)
        offset = join_part(call, &call->inputs[i], cut.outer_count, cut.size * slice_bytes, offset);
}

static void kernel_join(const berth_op_call* call) { join_inputs(call, 0); }

static void kernel_join_more(const berth_op_call* call) { join_inputs(call, 1); }

static void kernel_roll(const berth_op_call* call) {
    const berth_roll_params* params = call->params;
    const berth_view* x = &call->inputs[0];
    const int32_t dim = params->dim;
    if (berth_view_count(x) == 0) return;
    const berth_cut cut = berth_view_cut(x, dim);
    const int64_t row_bytes = cut.size * cut.inner_count * berth_dtype_bytes(x->dtype);
    int64_t head = params->shift % cut.size; // elements that come from the end
    if (head < 0) head += cut.size;
    berth_view part = *x;
    part.dims[dim] = head;
    if (head > 0)
        part.data = (unsigned char*)x->data +
                    (cut.size - head) * x->strides[dim] * berth_dtype_bytes(x->dtype);
    const int64_t offset = join_part(call, &part, cut.outer_count, row_bytes, 0);
    part.data = x->data;
    part.dims[dim] = cut.size - head;
    join_part(call, &part, cut.outer_count, row_bytes, offset);
}

void berth_cpu_fill_join_kernels(berth_kernel* table) {
    table[BERTH_OP_CAT] = kernel_join;
    table[BERTH_OP_CAT_MORE] = kernel_join_more;
    table[BERTH_OP_STACK] = kernel_join;
    table[BERTH_OP_STACK_MORE] = kernel_join_more;
    table[BERTH_OP_ROLL] = kernel_roll;
}
