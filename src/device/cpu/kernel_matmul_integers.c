// SPDX-License-Identifier: Apache-2.0
// MATMUL of integers: exact modulo the type's range, so the order of additions does not matter.
//
// Each row of the result is summed in stretches of columns, one row of b at a time, in 64 bits.
#include <string.h>

#include "device/cpu/kernel_basic.h"
#include "device/cpu/kernel_matmul.h"

#define LEAST_PRODUCTS 65536 // multiplications that are worth a second thread

typedef struct integer_job {
    berth_view a;
    berth_view b;
    berth_view out;
    int64_t m;
    int64_t n;
    int64_t k;
} integer_job;

static int64_t load(berth_dtype dtype, const unsigned char* at) {
    if (dtype == BERTH_I64) {
        int64_t value;
        memcpy(&value, at, sizeof value);
        return value;
    }
    if (dtype == BERTH_I32) {
        int32_t value;
        memcpy(&value, at, sizeof value);
        return value;
    }
    return dtype == BERTH_I8 ? (int8_t)*at : *at;
}

/// Address of the matrix of product `batch`, of an operand that is broadcast.
static const unsigned char* matrix_at(const berth_view* x, const berth_view* out, int64_t batch) {
    int64_t offset = 0;
    for (int32_t d = out->rank - 3; d >= 0; --d) {
        const int32_t at = d - (out->rank - x->rank);
        if (at >= 0 && x->dims[at] != 1) offset += batch % out->dims[d] * x->strides[at];
        batch /= out->dims[d];
    }
    return (const unsigned char*)x->data + offset * berth_dtype_bytes(x->dtype);
}

/// sums[c] += factor * row[c], for one row of b from a column on.
static void add_row(const integer_job* job,
                    const unsigned char* row,
                    int64_t factor,
                    int64_t count,
                    uint64_t* restrict sums) {
    const berth_dtype dtype = job->b.dtype;
    const int64_t step = job->b.strides[job->b.rank - 1] * berth_dtype_bytes(dtype);
    if (dtype == BERTH_I32 && step == (int64_t)sizeof(int32_t)) {
        const int32_t* restrict values = (const void*)row;
        for (int64_t c = 0; c < count; ++c)
            sums[c] += (uint64_t)factor * (uint64_t)values[c];
    } else if (dtype == BERTH_I64 && step == (int64_t)sizeof(int64_t)) {
        const int64_t* restrict values = (const void*)row;
        for (int64_t c = 0; c < count; ++c)
            sums[c] += (uint64_t)factor * (uint64_t)values[c];
    } else {
        for (int64_t c = 0; c < count; ++c)
            sums[c] += (uint64_t)factor * (uint64_t)load(dtype, row + c * step);
    }
}

/// Items are rows of all products, one after another.
static void multiply_rows(void* data, int64_t begin, int64_t end, uint32_t worker) {
    (void)worker;
    const integer_job* job = data;
    const berth_dtype dtype = job->out.dtype;
    const int64_t bytes = berth_dtype_bytes(dtype);
    const int64_t a_row = job->a.strides[job->a.rank - 2] * bytes;
    const int64_t a_step = job->a.strides[job->a.rank - 1] * bytes;
    const int64_t b_row = job->b.strides[job->b.rank - 2] * bytes;
    const int64_t b_step = job->b.strides[job->b.rank - 1] * bytes;
    for (int64_t item = begin; item < end; ++item) {
        const unsigned char* a = matrix_at(&job->a, &job->out, item / job->m);
        const unsigned char* b = matrix_at(&job->b, &job->out, item / job->m);
        a += item % job->m * a_row;
        for (int64_t first = 0; first < job->n; first += BERTH_CHUNK) {
            const int64_t count = berth_min_i64(BERTH_CHUNK, job->n - first);
            uint64_t sums[BERTH_CHUNK] = {0};
            for (int64_t k = 0; k < job->k; ++k)
                add_row(
                    job, b + k * b_row + first * b_step, load(dtype, a + k * a_step), count, sums);
            unsigned char* out = (unsigned char*)job->out.data + (item * job->n + first) * bytes;
            berth_store_i64(dtype, (const int64_t*)sums, out, count);
        }
    }
}

void berth_cpu_matmul_integers(const berth_op_call* call) {
    integer_job job;
    berth_matmul_operands(call, &job.a, &job.b, &job.out);
    job.m = job.out.dims[job.out.rank - 2];
    job.n = job.out.dims[job.out.rank - 1];
    job.k = job.a.dims[job.a.rank - 1];
    const int64_t elements = berth_view_count(&job.out);
    if (elements == 0) return;
    const int64_t rows = elements / job.n;
    const int64_t work = elements * berth_min_i64(job.k, INT64_C(1) << 20);
    berth_run_range(call, rows, 1, work < LEAST_PRODUCTS ? rows + 1 : 1, multiply_rows, &job);
}
