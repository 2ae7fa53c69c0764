// SPDX-License-Identifier: Apache-2.0
// Writes by index: SCATTER SCATTER_ADD INDEX_COPY.
//
// Elements that may meet in one place differ along the indexed dimension alone: they are a line,
// and each line is written by one worker, in ascending order.
#include <string.h>

#include "base/op_params.h"
#include "device/cpu/kernel_basic.h"
#include "device/cpu/kernel_convert_scalar.h"
#include "device/cpu/kernel_joint.h"

#define GRAIN 4096
#define LEAST 16384

enum { OUT, INDEX, SOURCE }; // views of the walk

/// What a row of writes has in common.
typedef struct write_row {
    int64_t strides[BERTH_JOINT_VIEWS]; ///< bytes from one element of the row to the next
    int64_t step; ///< bytes from one place along the indexed dimension to the next
    int64_t size; ///< of the indexed dimension
} write_row;

typedef void (*write_row_fn)(const write_row* row,
                             unsigned char* out,
                             const unsigned char* index,
                             const unsigned char* source,
                             int64_t count);

#define SET(old, new) (new)
#define ADD_INTEGER(old, new) ((old) + (new))
#define ADD_BOOL(old, new) (((old) | (new)) != 0)
#define ADD_F16(old, new) berth_f32_to_f16(berth_f16_to_f32(old) + berth_f16_to_f32(new))
#define ADD_BF16(old, new) berth_f32_to_bf16(berth_bf16_to_f32(old) + berth_bf16_to_f32(new))

/// The element at `to` becomes what COMBINE makes of it and of the one at `from`.
#define COMBINE_INTO(to, from, type, COMBINE)                                                      \
    do {                                                                                           \
        type old, value;                                                                           \
        memcpy(&old, to, sizeof old);                                                              \
        memcpy(&value, from, sizeof value);                                                        \
        old = (type)COMBINE(old, value);                                                           \
        memcpy(to, &old, sizeof old);                                                              \
    } while (0)

/// A row of neighbours that have one index; a function of its own, as restrict is a promise of
/// parameters.
#define DEFINE_WRITE_ONE(name, type, COMBINE)                                                      \
    static void name##_one(                                                                        \
        unsigned char* restrict to, const unsigned char* restrict source, int64_t count) {         \
        const int64_t item = sizeof(type);                                                         \
        for (int64_t i = 0; i < count; ++i)                                                        \
            COMBINE_INTO(to + i * item, source + i * item, type, COMBINE);                         \
    }

#define DEFINE_WRITE(name, one, type, index_type, COMBINE)                                         \
    static void name(const write_row* row,                                                         \
                     unsigned char* out,                                                           \
                     const unsigned char* index,                                                   \
                     const unsigned char* source,                                                  \
                     int64_t count) {                                                              \
        const uint64_t size = (uint64_t)row->size;                                                 \
        const int64_t step = row->step, out_stride = row->strides[OUT];                            \
        const int64_t index_stride = row->strides[INDEX], stride = row->strides[SOURCE];           \
        const int64_t item = sizeof(type);                                                         \
        index_type at;                                                                             \
        if (index_stride == 0 && out_stride == item && stride == item) {                           \
            memcpy(&at, index, sizeof at);                                                         \
            if ((uint64_t)at < size) one(out + at * step, source, count);                          \
            return;                                                                                \
        }                                                                                          \
        for (int64_t i = 0; i < count; ++i) {                                                      \
            memcpy(&at, index + i * index_stride, sizeof at);                                      \
            if ((uint64_t)at >= size) continue;                                                    \
            COMBINE_INTO(out + i * out_stride + at * step, source + i * stride, type, COMBINE);    \
        }                                                                                          \
    }
#define DEFINE_WRITES(name, type, COMBINE)                                                         \
    DEFINE_WRITE_ONE(name, type, COMBINE)                                                          \
    DEFINE_WRITE(name##_i32, name##_one, type, int32_t, COMBINE)                                   \
    DEFINE_WRITE(name##_i64, name##_one, type, int64_t, COMBINE)
DEFINE_WRITES(set_u8, uint8_t, SET)
DEFINE_WRITES(set_u16, uint16_t, SET)
DEFINE_WRITES(set_u32, uint32_t, SET)
DEFINE_WRITES(set_u64, uint64_t, SET)
DEFINE_WRITES(add_f32, float, ADD_INTEGER)
DEFINE_WRITES(add_f16, uint16_t, ADD_F16)
DEFINE_WRITES(add_bf16, uint16_t, ADD_BF16)
DEFINE_WRITES(add_u32, uint32_t, ADD_INTEGER)
DEFINE_WRITES(add_u64, uint64_t, ADD_INTEGER)
DEFINE_WRITES(add_u8, uint8_t, ADD_INTEGER)
DEFINE_WRITES(add_bool, uint8_t, ADD_BOOL)

static write_row_fn set_function(int64_t bytes, bool wide) {
    switch (bytes) {
    case 1:
        return wide ? set_u8_i64 : set_u8_i32;
    case 2:
        return wide ? set_u16_i64 : set_u16_i32;
    case 4:
        return wide ? set_u32_i64 : set_u32_i32;
    default:
        return wide ? set_u64_i64 : set_u64_i32;
    }
}

static write_row_fn add_function(berth_dtype dtype, bool wide) {
    switch ((int)dtype) {
    case BERTH_F32:
        return wide ? add_f32_i64 : add_f32_i32;
    case BERTH_F16:
        return wide ? add_f16_i64 : add_f16_i32;
    case BERTH_BF16:
        return wide ? add_bf16_i64 : add_bf16_i32;
    case BERTH_I32:
        return wide ? add_u32_i64 : add_u32_i32;
    case BERTH_I64:
        return wide ? add_u64_i64 : add_u64_i32;
    case BERTH_BOOL:
        return wide ? add_bool_i64 : add_bool_i32;
    default:
        return wide ? add_u8_i64 : add_u8_i32;
    }
}

typedef struct write_job {
    berth_joint lines; ///< the positions of lines: all dimensions but the indexed one
    int64_t length;    ///< elements of a line
    int64_t along[BERTH_JOINT_VIEWS]; ///< bytes from one element of a line to the next
    bool is_line_by_line;             ///< else element by element of neighbouring lines
    bool is_add;
    unsigned char* out;
    const unsigned char* index;
    const unsigned char* source;
    int64_t bytes; ///< an element
    berth_dtype index_dtype;
    write_row row;
    write_row_fn write;
} write_job;

/// A row of neighbouring lines with one index: a row of the source replaces one of x.
static void copy_row(const write_job* job,
                     unsigned char* out,
                     const unsigned char* index,
                     const unsigned char* source,
                     int64_t count) {
    const int64_t at = berth_integer_to_i64(job->index_dtype, index);
    if (at < 0 || at >= job->row.size) return;
    berth_copy_run(source, job->row.strides[SOURCE], job->bytes, count, out + at * job->row.step);
}

/// One element of each of `count` neighbouring lines after the other.
static void write_across(const write_job* job,
                         unsigned char* out,
                         const unsigned char* index,
                         const unsigned char* source,
                         int64_t count) {
    const bool copies =
        !job->is_add && job->row.strides[INDEX] == 0 && job->row.strides[OUT] == job->bytes;
    for (int64_t i = 0; i < job->length; ++i) {
        const unsigned char* at = index + i * job->along[INDEX];
        const unsigned char* from = source + i * job->along[SOURCE];
        if (copies)
            copy_row(job, out, at, from, count);
        else
            job->write(&job->row, out, at, from, count);
    }
}

/// Lines [begin, end).
static void write_range(void* data, int64_t begin, int64_t end, uint32_t worker) {
    (void)worker;
    const write_job* job = data;
    berth_joint_at at;
    berth_joint_seek(&job->lines, begin, &at);
    while (begin < end) {
        int64_t count = berth_min_i64(berth_joint_row_rest(&job->lines, &at), end - begin);
        unsigned char* out = job->out + at.offsets[OUT];
        const unsigned char* index = job->index + at.offsets[INDEX];
        const unsigned char* source = job->source + at.offsets[SOURCE];
        if (job->is_line_by_line) {
            count = 1;
            job->write(&job->row, out, index, source, job->length);
        } else {
            write_across(job, out, index, source, count);
        }
        begin += count;
        berth_joint_advance(&job->lines, count, &at);
    }
}

/// Writes the elements of `shape`, as many as the index has once it is repeated over the
/// dimensions where `index_strides` (bytes) is 0.
static void run_writes(const berth_op_call* call,
                       const int64_t* shape,
                       const int64_t* index_strides,
                       int32_t dim,
                       bool is_add) {
    const berth_view* out = &call->outputs[0];
    const berth_view* index = &call->inputs[1];
    const berth_view* source = &call->inputs[2];
    const bool is_wide = index->dtype == BERTH_I64;
    const int64_t bytes = berth_dtype_bytes(out->dtype);
    write_job job = {
        .lines = berth_joint_make(BERTH_JOINT_VIEWS),
        .length = shape[dim],
        .along = {0, index_strides[dim], source->strides[dim] * bytes},
        .is_add = is_add,
        .out = out->data,
        .index = index->data,
        .source = source->data,
        .bytes = bytes,
        .index_dtype = index->dtype,
        .row = {.step = out->strides[dim] * bytes, .size = out->dims[dim]},
        .write = is_add ? add_function(out->dtype, is_wide) : set_function(bytes, is_wide),
    };
    for (int32_t d = 0; d < out->rank; ++d) {
        const int64_t strides[BERTH_JOINT_VIEWS] = {
            out->strides[d] * bytes, index_strides[d], source->strides[d] * bytes};
        if (d != dim) berth_joint_append(&job.lines, shape[d], strides);
    }
    berth_joint_finish(&job.lines);
    const int64_t count = berth_joint_count(&job.lines);
    if (count == 0 || job.length == 0) return;
    // rows go along what lies closest in x
    const int32_t last = job.lines.rank - 1;
    job.is_line_by_line = count == 1 || job.row.step < job.lines.strides[OUT][last];
    for (int32_t v = 0; v < BERTH_JOINT_VIEWS; ++v)
        job.row.strides[v] = job.is_line_by_line ? job.along[v] : job.lines.strides[v][last];
    const int64_t grain = 1 + GRAIN / job.length;
    berth_run_range(call, count, grain, 1 + LEAST / job.length, write_range, &job);
}

static void run_scatter(const berth_op_call* call, bool is_add) {
    const berth_index_params* params = call->params;
    const berth_view* index = &call->inputs[1];
    int64_t strides[BERTH_MAX_RANK];
    for (int32_t d = 0; d < index->rank; ++d)
        strides[d] = index->strides[d] * berth_dtype_bytes(index->dtype);
    run_writes(call, index->dims, strides, params->dim, is_add);
}

static void kernel_scatter(const berth_op_call* call) { run_scatter(call, false); }

static void kernel_scatter_add(const berth_op_call* call) { run_scatter(call, true); }

static void kernel_index_copy(const berth_op_call* call) {
    const berth_index_params* params = call->params;
    const berth_view* index = &call->inputs[1];
    int64_t strides[BERTH_MAX_RANK] = {0};
    strides[params->dim] = index->strides[0] * berth_dtype_bytes(index->dtype);
    run_writes(call, call->inputs[2].dims, strides, params->dim, false);
}

void berth_cpu_fill_scatter_kernels(berth_kernel* table) {
    table[BERTH_OP_SCATTER] = kernel_scatter;
    table[BERTH_OP_SCATTER_ADD] = kernel_scatter_add;
    table[BERTH_OP_INDEX_COPY] = kernel_index_copy;
}
