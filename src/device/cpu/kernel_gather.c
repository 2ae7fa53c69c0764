// SPDX-License-Identifier: Apache-2.0
// Reads by index: GATHER TAKE_ALONG INDEX_SELECT EMBEDDING.
//
// All are one walk over the output's shape: the operand stands still along the indexed dimension,
// the index is repeated along those that it lacks.
#include <math.h>
#include <string.h>

#include "base/op_params.h"
#include "device/cpu/kernel_basic.h"
#include "device/cpu/kernel_convert_scalar.h"
#include "device/cpu/kernel_joint.h"

#define GRAIN 4096
#define LEAST 16384

/// What a row of reads has in common.
typedef struct read_row {
    int64_t x_stride;         ///< bytes from one element of the row to the next
    int64_t index_stride;     ///< bytes
    int64_t step;             ///< bytes from one place along the indexed dimension to the next
    int64_t size;             ///< of the indexed dimension
    int64_t bytes;            ///< an element
    unsigned char missing[8]; ///< the element that stands for an index out of range
} read_row;

typedef void (*read_row_fn)(const read_row* row,
                            const unsigned char* x,
                            const unsigned char* index,
                            unsigned char* out,
                            int64_t count);

/// Reads along the last dimension of contiguous operands know all strides beforehand.
#define DEFINE_READ(name, type, index_type)                                                        \
    static inline __attribute__((always_inline)) void name##_by(const read_row* row,               \
                                                                const unsigned char* x,            \
                                                                const unsigned char* index,        \
                                                                unsigned char* out,                \
                                                                int64_t count,                     \
                                                                int64_t x_stride,                  \
                                                                int64_t index_stride,              \
                                                                int64_t step) {                    \
        const uint64_t size = (uint64_t)row->size;                                                 \
        type missing;                                                                              \
        memcpy(&missing, row->missing, sizeof missing);                                            \
        for (int64_t i = 0; i < count; ++i) {                                                      \
            index_type at;                                                                         \
            memcpy(&at, index + i * index_stride, sizeof at);                                      \
            type value = missing;                                                                  \
            if ((uint64_t)at < size) memcpy(&value, x + i * x_stride + at * step, sizeof value);   \
            memcpy(out + i * (int64_t)sizeof value, &value, sizeof value);                         \
        }                                                                                          \
    }                                                                                              \
    static void name(const read_row* row,                                                          \
                     const unsigned char* x,                                                       \
                     const unsigned char* index,                                                   \
                     unsigned char* out,                                                           \
                     int64_t count) {                                                              \
        if (row->x_stride == 0 && row->index_stride == sizeof(index_type) &&                       \
            row->step == sizeof(type))                                                             \
            name##_by(row, x, index, out, count, 0, sizeof(index_type), sizeof(type));             \
        else                                                                                       \
            name##_by(row, x, index, out, count, row->x_stride, row->index_stride, row->step);     \
    }
DEFINE_READ(read_u8_i32, uint8_t, int32_t)
DEFINE_READ(read_u16_i32, uint16_t, int32_t)
DEFINE_READ(read_u32_i32, uint32_t, int32_t)
DEFINE_READ(read_u64_i32, uint64_t, int32_t)
DEFINE_READ(read_u8_i64, uint8_t, int64_t)
DEFINE_READ(read_u16_i64, uint16_t, int64_t)
DEFINE_READ(read_u32_i64, uint32_t, int64_t)
DEFINE_READ(read_u64_i64, uint64_t, int64_t)

static read_row_fn read_function(int64_t bytes, berth_dtype index) {
    const bool wide = index == BERTH_I64;
    switch (bytes) {
    case 1:
        return wide ? read_u8_i64 : read_u8_i32;
    case 2:
        return wide ? read_u16_i64 : read_u16_i32;
    case 4:
        return wide ? read_u32_i64 : read_u32_i32;
    default:
        return wide ? read_u64_i64 : read_u64_i32;
    }
}

/// NaN for floats, 0 for the rest.
static void set_missing(read_row* row, berth_dtype dtype) {
    const float nan_value = NAN;
    memset(row->missing, 0, sizeof row->missing);
    if (berth_dtype_is_float(dtype))
        berth_convert_query_from_f32(dtype)(&nan_value, row->missing, 1);
}

typedef struct read_job {
    berth_joint joint; ///< 0: x, 1: index
    const unsigned char* x;
    const unsigned char* index;
    unsigned char* out;
    read_row row;
    read_row_fn read;
    berth_dtype index_dtype;
} read_job;

/// A row with one index: a row of x, wherever it lies.
static void read_one(const read_job* job,
                     const unsigned char* x,
                     const unsigned char* index,
                     unsigned char* out,
                     int64_t count) {
    const read_row* row = &job->row;
    const int64_t at = berth_integer_to_i64(job->index_dtype, index);
    if (at >= 0 && at < row->size) {
        berth_copy_run(x + at * row->step, row->x_stride, row->bytes, count, out);
    } else {
        berth_copy_run(row->missing, 0, row->bytes, count, out);
    }
}

static void read_range(void* data, int64_t begin, int64_t end, uint32_t worker) {
    (void)worker;
    const read_job* job = data;
    berth_joint_at at;
    berth_joint_seek(&job->joint, begin, &at);
    while (begin < end) {
        const int64_t count = berth_min_i64(berth_joint_row_rest(&job->joint, &at), end - begin);
        const unsigned char* x = job->x + at.offsets[0];
        const unsigned char* index = job->index + at.offsets[1];
        unsigned char* out = job->out + begin * job->row.bytes;
        if (job->row.index_stride == 0)
            read_one(job, x, index, out, count);
        else
            job->read(&job->row, x, index, out, count);
        begin += count;
        berth_joint_advance(&job->joint, count, &at);
    }
}

/// Runs the reads of a job whose shape has all its dimensions.
static void run_reads(const berth_op_call* call, read_job* job, int64_t step, int64_t size) {
    const berth_view* x = &call->inputs[0];
    const berth_view* index = &call->inputs[1];
    berth_joint_finish(&job->joint);
    const int32_t last = job->joint.rank - 1;
    job->x = x->data;
    job->index = index->data;
    job->out = call->outputs[0].data;
    job->index_dtype = index->dtype;
    job->row = (read_row){
        .x_stride = job->joint.strides[0][last],
        .index_stride = job->joint.strides[1][last],
        .step = step,
        .size = size,
        .bytes = berth_dtype_bytes(x->dtype),
    };
    set_missing(&job->row, x->dtype);
    job->read = read_function(job->row.bytes, index->dtype);
    berth_run_range(call, berth_joint_count(&job->joint), GRAIN, LEAST, read_range, job);
}

// --- GATHER TAKE_ALONG ---------------------------------------------------------------------------

static void kernel_gather(const berth_op_call* call) {
    const berth_index_params* params = call->params;
    const berth_view* x = &call->inputs[0];
    const berth_view* index = &call->inputs[1];
    const berth_view* out = &call->outputs[0];
    const int64_t bytes = berth_dtype_bytes(x->dtype);
    const int64_t index_bytes = berth_dtype_bytes(index->dtype);
    read_job job = {.joint = berth_joint_make(2)};
    for (int32_t d = 0; d < out->rank; ++d) {
        const bool stands = d == params->dim || x->dims[d] == 1;
        const int64_t strides[2] = {
            stands ? 0 : x->strides[d] * bytes,
            index->dims[d] == 1 ? 0 : index->strides[d] * index_bytes,
        };
        berth_joint_append(&job.joint, out->dims[d], strides);
    }
    run_reads(call, &job, x->strides[params->dim] * bytes, x->dims[params->dim]);
}

// --- INDEX_SELECT EMBEDDING ----------------------------------------------------------------------

/// x with its dimension `dim` replaced by those of the index.
static void select_along(const berth_op_call* call, int32_t dim) {
    const berth_view* x = &call->inputs[0];
    const berth_view* index = &call->inputs[1];
    const int64_t bytes = berth_dtype_bytes(x->dtype);
    const int64_t index_bytes = berth_dtype_bytes(index->dtype);
    read_job job = {.joint = berth_joint_make(2)};
    for (int32_t d = 0; d < x->rank; ++d) {
        if (d != dim) {
            berth_joint_append(&job.joint, x->dims[d], (int64_t[2]){x->strides[d] * bytes, 0});
            continue;
        }
        for (int32_t i = 0; i < index->rank; ++i) {
            const int64_t strides[2] = {0, index->strides[i] * index_bytes};
            berth_joint_append(&job.joint, index->dims[i], strides);
        }
    }
    run_reads(call, &job, x->strides[dim] * bytes, x->dims[dim]);
}

static void kernel_index_select(const berth_op_call* call) {
    const berth_index_params* params = call->params;
    select_along(call, params->dim);
}

typedef struct dequantise_job {
    const berth_view* table;
    berth_walk ids;
    float* out;
    int64_t row_bytes; ///< from one row of the table to the next
} dequantise_job;

/// Rows [begin, end) of a quantised table's output.
static void dequantise_range(void* data, int64_t begin, int64_t end, uint32_t worker) {
    (void)worker;
    const dequantise_job* job = data;
    const berth_view* table = job->table;
    const berth_to_f32_fn convert = berth_convert_query_to_f32(table->dtype);
    const int64_t width = table->dims[1];
    const float nan_value = NAN;
    for (int64_t i = begin; i < end; ++i) {
        int64_t id;
        berth_walk_i64(&job->ids, i, 1, &id);
        float* out = job->out + i * width;
        if (id >= 0 && id < table->dims[0])
            convert((const unsigned char*)table->data + id * job->row_bytes, out, width);
        else
            berth_copy_run((const void*)&nan_value, 0, sizeof *out, width, (void*)out);
    }
}

static void kernel_embedding(const berth_op_call* call) {
    const berth_view* table = &call->inputs[0];
    if (table->dtype == call->outputs[0].dtype) {
        select_along(call, 0);
        return;
    }
    dequantise_job job = {
        .table = table,
        .out = call->outputs[0].data,
        .row_bytes = table->strides[0] * berth_dtype_bytes(table->dtype),
    };
    if (table->dims[1] == 0) return;
    berth_walk_init(&job.ids, &call->inputs[1]);
    const int64_t rows = berth_view_count(&call->inputs[1]);
    berth_run_range(call, rows, 4, 1 + LEAST / table->dims[1], dequantise_range, &job);
}

void berth_cpu_fill_gather_kernels(berth_kernel* table) {
    table[BERTH_OP_GATHER] = kernel_gather;
    table[BERTH_OP_TAKE_ALONG] = kernel_gather;
    table[BERTH_OP_INDEX_SELECT] = kernel_index_select;
    table[BERTH_OP_EMBEDDING] = kernel_embedding;
}
