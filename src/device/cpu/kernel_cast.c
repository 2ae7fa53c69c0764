// SPDX-License-Identifier: Apache-2.0
// Elements of another type: CAST.
#include "base/op_params.h"
#include "device/cpu/kernel_basic.h"

#define LEAST 65536 // fewer elements are not worth a second thread

typedef struct cast_job {
    berth_walk from;
    unsigned char* out;
    berth_dtype to;
    int64_t bytes;  ///< an output element
    int64_t values; ///< elements an item of `from`
} cast_job;

static void cast_range(void* data, int64_t begin, int64_t end, uint32_t worker) {
    (void)worker;
    const cast_job* job = data;
    _Alignas(64) int64_t buffer[BERTH_CHUNK];
    // where the output is in the operand's place, a stretch is read before it is written
    const bool is_apart = berth_walk_is_contiguous(&job->from) && job->out != job->from.data;
    if (is_apart) {
        const unsigned char* from = job->from.data + begin * job->from.item_bytes;
        unsigned char* out = job->out + begin * job->bytes;
        berth_convert_plain(job->from.dtype, job->to, from, out, end - begin);
        return;
    }
    for (int64_t at = begin; at < end; at += BERTH_CHUNK) {
        const int64_t count = berth_min_i64(BERTH_CHUNK, end - at);
        berth_walk_copy(&job->from, at, count, buffer);
        berth_convert_plain(job->from.dtype, job->to, buffer, job->out + at * job->bytes, count);
    }
}

/// Blocks [begin, end) of a quantised tensor.
static void dequantise_range(void* data, int64_t begin, int64_t end, uint32_t worker) {
    (void)worker;
    enum { BLOCKS = 4, BLOCK_BYTES = 256, BLOCK_VALUES = 256 };
    const cast_job* job = data;
    const berth_to_f32_fn convert = berth_convert_query_to_f32(job->from.dtype);
    unsigned char blocks[BLOCKS * BLOCK_BYTES];
    float values[BLOCKS * BLOCK_VALUES];
    for (int64_t at = begin; at < end; at += BLOCKS) {
        const int64_t count = berth_min_i64(BLOCKS, end - at);
        berth_walk_copy(&job->from, at, count, blocks);
        void* out = job->out + at * job->values * job->bytes;
        float* to = job->to == BERTH_F32 ? out : values;
        convert(blocks, to, count * job->values);
        berth_store_f32(job->to, to, out, count * job->values);
    }
}

static void kernel_cast(const berth_op_call* call) {
    berth_view in = call->inputs[0];
    const berth_view* out = &call->outputs[0];
    const berth_dtype_info* info = berth_dtype_info_of(in.dtype);
    cast_job job = {
        .out = out->data,
        .to = out->dtype,
        .bytes = berth_dtype_bytes(out->dtype),
        .values = (int64_t)info->block_values,
    };
    berth_bring_turned(call, &in);
    berth_walk_init(&job.from, &in);
    const int64_t count = berth_view_count(out);
    if (!berth_dtype_is_plain(in.dtype)) {
        const int64_t least = LEAST / job.values;
        berth_run_range(call, count / job.values, 128, least, dequantise_range, &job);
        return;
    }
    const berth_walk* const walks[1] = {&job.from};
    berth_run_elements(call, count, LEAST, walks, 1, cast_range, &job);
}

void berth_cpu_fill_cast_kernels(berth_kernel* table) { table[BERTH_OP_CAST] = kernel_cast; }
