// SPDX-License-Identifier: Apache-2.0
// MATMUL of integers: exact modulo the type's range, so the order of additions does not matter.
//
// Blocks of rows and columns are brought into lanes, a stretch of K at a time, and multiplied tile
// by tile. Bytes take lanes of 16 bits, which processors can multiply. A column from rows that lie
// in one piece needs no blocks: each of its elements is a sum along two rows.
#include <string.h>

#include "base/checked.h"
#include "device/cpu/cpu_kernels.h"
#include "device/cpu/kernel_basic.h"
#include "device/cpu/kernel_matmul.h"

#define COLUMNS BERTH_MATMUL_TILE_COLUMNS
#define ROWS 64      // of a block
#define STRETCH 128  // of K
#define PIECE 1024   // elements of a row that are gathered at once
#define LEAST 65536  // multiplications that are worth a second thread
#define ALIGNMENT 64 // of a worker's workspace

typedef struct integer_job {
    const berth_op_call* call;
    berth_view a;
    berth_view b;
    berth_view out;
    const berth_matmul_integer_rows* rows;
    int type;      ///< of `rows`
    int64_t bytes; ///< an element
    int64_t lane;  ///< bytes of a lane
    int64_t m;
    int64_t n;
    int64_t k;
    int64_t row_blocks;
    int64_t column_blocks;
    uint64_t worker_bytes;
} integer_job;

/// A block of one product, and where it is brought to.
typedef struct integer_block {
    const unsigned char* a; ///< its first row
    const unsigned char* b; ///< its first column
    unsigned char* out;
    int64_t rows;
    int64_t columns;
    unsigned char* a_lanes; ///< [rows, stretch]
    unsigned char* b_lanes; ///< [stretch, COLUMNS]
    unsigned char* sums;    ///< [rows, COLUMNS]
} integer_block;

static const berth_matmul_integer_rows* query_rows(void) {
#if defined(__x86_64__)
    switch (berth_cpu_query_isa()) {
    case BERTH_CPU_ISA_AVX512:
        return &berth_matmul_integer_rows_avx512;
    case BERTH_CPU_ISA_AVX2:
        return &berth_matmul_integer_rows_avx2;
    case BERTH_CPU_ISA_PORTABLE:
        break;
    }
#endif
    return &berth_matmul_integer_rows_portable;
}

static int64_t lane_bytes(berth_dtype dtype) {
    const int64_t bytes = berth_dtype_bytes(dtype);
    return bytes == 1 ? 2 : bytes;
}

/// Bytes of a worker's workspace. The same for all sizes, so that a step whose sizes vary needs the
/// same scratch in every run.
static uint64_t worker_bytes_for(berth_dtype dtype) {
    const int64_t lanes = STRETCH * (ROWS + COLUMNS) + ROWS * COLUMNS;
    return berth_round_up((uint64_t)(lanes * lane_bytes(dtype)), ALIGNMENT);
}

uint64_t berth_cpu_matmul_integers_scratch(const berth_op_call* call) {
    return worker_bytes_for(call->inputs[0].dtype) * berth_team_worker_count(call->team);
}

static int64_t row_step(const integer_job* job, const berth_view* x) {
    return x->strides[x->rank - 2] * job->bytes;
}

static int64_t column_step(const integer_job* job, const berth_view* x) {
    return x->strides[x->rank - 1] * job->bytes;
}

// --- Blocks --------------------------------------------------------------------------------------

/// Brings `count` elements, `step` bytes apart, into lanes that are `lanes` lanes apart.
static void widen(const integer_job* job,
                  const unsigned char* from,
                  int64_t step,
                  int64_t count,
                  unsigned char* to,
                  int64_t lanes) {
    if (job->bytes == 1) {
        uint16_t* wide = (uint16_t*)(void*)to;
        if (step == 1 && lanes == 1) {
            for (int64_t i = 0; i < count; ++i)
                wide[i] = from[i];
            return;
        }
        for (int64_t i = 0; i < count; ++i)
            wide[i * lanes] = from[i * step];
    } else if (step == job->bytes && lanes == 1) {
        memcpy(to, from, (size_t)(count * step));
    } else if (job->bytes == 4) {
        for (int64_t i = 0; i < count; ++i)
            memcpy(to + i * lanes * 4, from + i * step, 4);
    } else {
        for (int64_t i = 0; i < count; ++i)
            memcpy(to + i * lanes * 8, from + i * step, 8);
    }
}

/// Rows [k0, k0 + count) of the block's columns of b; zeros in the columns behind them.
static void bring_b(const integer_job* job, const integer_block* x, int64_t k0, int64_t count) {
    const int64_t step = row_step(job, &job->b);
    const int64_t column = column_step(job, &job->b);
    const unsigned char* from = x->b + k0 * step;
    if (x->columns < COLUMNS) memset(x->b_lanes, 0, (size_t)(count * COLUMNS * job->lane));
    if (column == job->bytes) {
        for (int64_t i = 0; i < count; ++i)
            widen(
                job, from + i * step, column, x->columns, x->b_lanes + i * COLUMNS * job->lane, 1);
        return;
    }
    for (int64_t c = 0; c < x->columns; ++c)
        widen(job, from + c * column, step, count, x->b_lanes + c * job->lane, COLUMNS);
}

static void bring_a(const integer_job* job, const integer_block* x, int64_t k0, int64_t count) {
    const int64_t step = column_step(job, &job->a);
    for (int64_t r = 0; r < x->rows; ++r)
        widen(job,
              x->a + r * row_step(job, &job->a) + k0 * step,
              step,
              count,
              x->a_lanes + r * count * job->lane,
              1);
}

/// Writes the low bits of sums.
static void store_sums(const integer_job* job, const integer_block* x) {
    for (int64_t r = 0; r < x->rows; ++r) {
        const unsigned char* sums = x->sums + r * COLUMNS * job->lane;
        unsigned char* out = x->out + r * job->n * job->bytes;
        if (job->bytes > 1) {
            memcpy(out, sums, (size_t)(x->columns * job->bytes));
            continue;
        }
        for (int64_t c = 0; c < x->columns; ++c)
            out[c] = (unsigned char)((const uint16_t*)(const void*)sums)[c];
    }
}

static void multiply_block(const integer_job* job, const integer_block* x) {
    memset(x->sums, 0, (size_t)(x->rows * COLUMNS * job->lane));
    for (int64_t k0 = 0; k0 < job->k; k0 += STRETCH) {
        const berth_integer_tile tile = {
            .a = x->a_lanes,
            .b = x->b_lanes,
            .sums = x->sums,
            .rows = x->rows,
            .columns = x->columns,
            .k = berth_min_i64(STRETCH, job->k - k0),
        };
        bring_a(job, x, k0, tile.k);
        bring_b(job, x, k0, tile.k);
        job->rows->tile[job->type](&tile);
    }
    store_sums(job, x);
}

/// Items are blocks: [batch][row block][column block].
static void multiply_blocks(void* data, int64_t begin, int64_t end, uint32_t worker) {
    const integer_job* job = data;
    const int64_t stretch = berth_min_i64(job->k, STRETCH);
    unsigned char* space = (unsigned char*)job->call->scratch + worker * job->worker_bytes;
    for (int64_t item = begin; item < end; ++item) {
        const int64_t column = item % job->column_blocks * COLUMNS;
        const int64_t row = item / job->column_blocks % job->row_blocks * ROWS;
        const int64_t batch = item / job->column_blocks / job->row_blocks;
        integer_block x = {
            .a = berth_matmul_matrix_at(&job->a, &job->out, batch) + row * row_step(job, &job->a),
            .b = berth_matmul_matrix_at(&job->b, &job->out, batch) +
                 column * column_step(job, &job->b),
            .out = (unsigned char*)job->out.data +
                   ((batch * job->m + row) * job->n + column) * job->bytes,
            .rows = berth_min_i64(ROWS, job->m - row),
            .columns = berth_min_i64(COLUMNS, job->n - column),
            .sums = space,
        };
        x.b_lanes = x.sums + ROWS * COLUMNS * job->lane;
        x.a_lanes = x.b_lanes + stretch * COLUMNS * job->lane;
        multiply_block(job, &x);
    }
}

// --- Sums along rows -----------------------------------------------------------------------------

/// `count` elements where they lie if they lie so, else gathered in `buffer`.
static const void* gather(const integer_job* job,
                          const unsigned char* from,
                          int64_t step,
                          int64_t count,
                          unsigned char* buffer) {
    if (step == job->bytes) return from;
    for (int64_t i = 0; i < count; ++i)
        memcpy(buffer + i * job->bytes, from + i * step, (size_t)job->bytes);
    return buffer;
}

/// Items are elements of the only column, of all products one after another.
static void sum_rows(void* data, int64_t begin, int64_t end, uint32_t worker) {
    (void)worker;
    const integer_job* job = data;
    const int64_t step = row_step(job, &job->b);
    for (int64_t item = begin; item < end; ++item) {
        const unsigned char* a = berth_matmul_matrix_at(&job->a, &job->out, item / job->m) +
                                 item % job->m * row_step(job, &job->a);
        const unsigned char* b = berth_matmul_matrix_at(&job->b, &job->out, item / job->m);
        uint64_t sum = 0;
        uint64_t buffer[PIECE];
        for (int64_t k = 0; k < job->k; k += PIECE) {
            const int64_t count = berth_min_i64(PIECE, job->k - k);
            const void* column = gather(job, b + k * step, step, count, (unsigned char*)buffer);
            sum += job->rows->dot[job->type](a + k * job->bytes, column, count);
        }
        memcpy((unsigned char*)job->out.data + item * job->bytes, &sum, (size_t)job->bytes);
    }
}

void berth_cpu_matmul_integers(const berth_op_call* call) {
    integer_job job = {.call = call, .rows = query_rows()};
    berth_matmul_operands(call, &job.a, &job.b, &job.out);
    const int64_t elements = berth_view_count(&job.out);
    if (elements == 0) return;
    job.bytes = berth_dtype_bytes(job.out.dtype);
    job.lane = lane_bytes(job.out.dtype);
    job.type = job.bytes == 1 ? 0 : job.bytes == 4 ? 1 : 2;
    const bool is_column = job.out.dims[job.out.rank - 1] == 1;
    const bool sums_rows = is_column && job.a.strides[job.a.rank - 1] == 1;
    if (is_column && !sums_rows) berth_matmul_turn_column(&job.a, &job.b, &job.out);
    job.m = job.out.dims[job.out.rank - 2];
    job.n = job.out.dims[job.out.rank - 1];
    job.k = job.a.dims[job.a.rank - 1];
    const int64_t products = berth_min_i64(job.k, INT64_C(1) << 20) + 1; // an element
    if (sums_rows) {
        berth_run_range(call, elements, 1, LEAST / products + 1, sum_rows, &job);
        return;
    }
    job.row_blocks = (job.m + ROWS - 1) / ROWS;
    job.column_blocks = (job.n + COLUMNS - 1) / COLUMNS;
    job.worker_bytes = worker_bytes_for(job.out.dtype);
    const int64_t blocks = elements / (job.m * job.n) * job.row_blocks * job.column_blocks;
    const int64_t of_block = berth_min_i64(job.m, ROWS) * berth_min_i64(job.n, COLUMNS) * products;
    berth_run_range(call, blocks, 1, LEAST / of_block + 1, multiply_blocks, &job);
}
