// SPDX-License-Identifier: Apache-2.0
// Looks at the indices of a call and refuses those that are out of range.
#include "ops/check_index.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>

#include "base/op_params.h"
#include "base/text.h"
#include "device/cpu/kernel_basic.h"
#include "device/cpu/kernel_convert_scalar.h"
#include "device/cpu/kernel_joint.h"

#define GRAIN 16384
#define LEAST 65536

typedef struct scan {
    berth_joint joint; ///< of the index alone
    const unsigned char* index;
    berth_dtype dtype;
    int64_t size; ///< of the dimension that the index is for
    atomic_bool has_bad;
} scan;

/// True if an index is below 0 or above `last`: the sign of what is gathered in `bad` tells.
#define DEFINE_SCAN(name, type, unsigned_type)                                                     \
    static inline __attribute__((always_inline)) bool name##_by(                                   \
        const unsigned char* index, int64_t stride, int64_t count, unsigned_type last) {           \
        unsigned_type bad = 0;                                                                     \
        for (int64_t i = 0; i < count; ++i) {                                                      \
            unsigned_type at;                                                                      \
            memcpy(&at, index + i * stride, sizeof at);                                            \
            bad |= at | (last - at);                                                               \
        }                                                                                          \
        return (type)bad < 0;                                                                      \
    }                                                                                              \
    static bool name(                                                                              \
        const unsigned char* index, int64_t stride, int64_t count, unsigned_type last) {           \
        if (stride == sizeof(type)) return name##_by(index, sizeof(type), count, last);            \
        return name##_by(index, stride, count, last);                                              \
    }
DEFINE_SCAN(scan_i32, int32_t, uint32_t)
DEFINE_SCAN(scan_i64, int64_t, uint64_t)

static bool scan_row(const scan* job, const unsigned char* index, int64_t count) {
    const int64_t stride = job->joint.strides[0][job->joint.rank - 1];
    if (job->dtype == BERTH_I64) return scan_i64(index, stride, count, (uint64_t)(job->size - 1));
    // a larger dimension holds every i32 that is not negative
    const int64_t size = berth_min_i64(job->size, (int64_t)INT32_MAX + 1);
    return scan_i32(index, stride, count, (uint32_t)(size - 1));
}

static void scan_range(void* data, int64_t begin, int64_t end, uint32_t worker) {
    (void)worker;
    scan* job = data;
    berth_joint_at at;
    berth_joint_seek(&job->joint, begin, &at);
    bool has_bad = false;
    while (begin < end) {
        const int64_t count = berth_min_i64(berth_joint_row_rest(&job->joint, &at), end - begin);
        has_bad |= scan_row(job, job->index + at.offsets[0], count);
        begin += count;
        berth_joint_advance(&job->joint, count, &at);
    }
    if (has_bad) atomic_store_explicit(&job->has_bad, true, memory_order_relaxed);
}

/// Says which index is the first that is out of range.
static berth_status refuse_first(const berth_view* index, int64_t size, int32_t dim) {
    const int64_t count = berth_view_count(index);
    const int64_t bytes = berth_dtype_bytes(index->dtype);
    for (int64_t i = 0; i < count; ++i) {
        int64_t position[BERTH_MAX_RANK], offset = 0, rest = i;
        for (int32_t d = index->rank; d-- > 0; rest /= index->dims[d]) {
            position[d] = rest % index->dims[d];
            offset += position[d] * index->strides[d];
        }
        const unsigned char* at = (const unsigned char*)index->data + offset * bytes;
        const int64_t value = berth_integer_to_i64(index->dtype, at);
        if (value >= 0 && value < size) continue;
        char buffer[200];
        berth_text text = {.buffer = buffer, .size = sizeof buffer};
        berth_text_add(&text, "[");
        for (int32_t d = 0; d < index->rank; ++d)
            berth_text_add(&text, "%s%" PRId64, d > 0 ? ", " : "", position[d]);
        berth_text_add(&text, "]");
        return berth_op_fail(BERTH_ERR_INVALID_ARGUMENT,
                             "index %" PRId64 " at %s is outside dimension %d of size %" PRId64
                             "%s",
                             value,
                             buffer,
                             (int)dim,
                             size,
                             value < 0 ? ": indices do not count from the end" : "");
    }
    return BERTH_OK;
}

/// Refuses an index operand of which an element is not a place in dimension `dim` of `x`.
static berth_status check_index(const berth_op_call* call, int32_t dim) {
    const berth_view* index = &call->inputs[1];
    const int64_t bytes = berth_dtype_bytes(index->dtype);
    scan job = {
        .joint = berth_joint_make(1),
        .index = index->data,
        .dtype = index->dtype,
        .size = call->inputs[0].dims[dim],
    };
    for (int32_t d = 0; d < index->rank; ++d) {
        // one of repeated indices is enough
        const bool is_repeated = index->strides[d] == 0 && index->dims[d] > 0;
        berth_joint_append(
            &job.joint, is_repeated ? 1 : index->dims[d], &(int64_t){index->strides[d] * bytes});
    }
    berth_joint_finish(&job.joint);
    const int64_t count = berth_joint_count(&job.joint);
    berth_run_range(call, count, GRAIN, LEAST, scan_range, &job);
    if (!atomic_load_explicit(&job.has_bad, memory_order_relaxed)) return BERTH_OK;
    return refuse_first(index, job.size, dim);
}

berth_status berth_check_embedding(const berth_op_call* call) { return check_index(call, 0); }

berth_status berth_check_along(const berth_op_call* call) {
    const berth_index_params* params = call->params;
    return check_index(call, params->dim);
}
