// SPDX-License-Identifier: Apache-2.0
// The MATMUL kernel's driver: cuts every product of the batch into blocks, brings their operands to
// a form that the tiles read, and splits the blocks over the team.
#include "device/cpu/kernel_matmul.h"

#include <string.h>

#include "base/checked.h"
#include "device/cpu/cpu_kernels.h"
#include "device/cpu/kernel_basic.h"
#include "device/cpu/kernel_matrix.h"

#define TILE_ROWS BERTH_MATMUL_TILE_ROWS
#define BLOCK_ROWS (16 * TILE_ROWS)
#define BLOCK_COLUMNS BERTH_MATMUL_TILE_COLUMNS
#define BLOCK_K 256               ///< products of a stretch: its piece of b stays in a core's cache
#define STEP_K 32                 ///< of those, turned from columns to rows at a time
#define PACK_ROWS (3 * TILE_ROWS) ///< rows from which on packing b pays
#define VECTOR 16                 ///< columns are rounded up to this
#define WORKER_PRODUCTS 65536     ///< multiply-adds that are worth waking a worker for
#define ALIGNMENT 64

_Static_assert(BLOCK_COLUMNS == BERTH_ATTENTION_TILE, "transpose_tile turns a block's columns");

/// A matrix of the batch in any strided form.
typedef struct matrix {
    const uint8_t* data;
    int64_t row_stride; ///< elements
    int64_t column_stride;
} matrix;

typedef struct job {
    const berth_op_call* call;
    berth_view a; ///< two dimensions at least
    berth_view b;
    berth_view out;
    berth_matmul_tile_fn tile;
    const berth_basic_rows* rows;
    berth_to_f32_fn to_f32;
    berth_from_f32_fn from_f32;
    int64_t value_bytes;
    int64_t m;
    int64_t n;
    int64_t k;
    int64_t row_blocks;
    int64_t column_blocks;
} job;

/// One block of one product of the batch.
typedef struct block {
    matrix a; ///< from the block's first row on
    matrix b; ///< from the block's first column on
    int64_t rows;
    int64_t columns;
    uint8_t* out; ///< element [0, 0] of the block; rows are n elements apart
    float* b_space;
    float* a_space;
    float* sums_space;
} block;

static berth_matmul_tile_fn query_tile(void) {
#if defined(__x86_64__)
    switch (berth_cpu_query_isa()) {
    case BERTH_CPU_ISA_AVX512:
        return berth_matmul_tile_avx512;
    case BERTH_CPU_ISA_AVX2:
        return berth_matmul_tile_avx2;
    case BERTH_CPU_ISA_PORTABLE:
        break;
    }
#endif
    return berth_matmul_tile_portable;
}

/// Bytes of a worker's workspace: its pieces of a and b, and the sums. The same for all sizes, so
/// that a step whose sizes vary needs the same scratch in every run.
static uint64_t worker_bytes(void) {
    const uint64_t floats = BLOCK_K * (BLOCK_COLUMNS + TILE_ROWS) + BLOCK_ROWS * BLOCK_COLUMNS;
    return berth_round_up(floats * sizeof(float), ALIGNMENT);
}

uint64_t berth_cpu_matmul_scratch(const berth_op_call* call) {
    if (!berth_dtype_is_float(call->inputs[0].dtype))
        return berth_cpu_matmul_integers_scratch(call);
    return worker_bytes() * berth_team_worker_count(call->team);
}

void berth_matmul_operands(const berth_op_call* call,
                           berth_view* a,
                           berth_view* b,
                           berth_view* out) {
    *a = call->inputs[0];
    *b = call->inputs[1];
    *out = call->outputs[0];
    if (a->rank == 1) { // a row
        a->dims[1] = a->dims[0];
        a->strides[1] = a->strides[0];
        a->dims[0] = 1;
        a->rank = 2;
        // the result has no dimension for it: one before the columns, if there are any
        const int32_t last = b->rank > 1 ? out->rank - 1 : out->rank;
        if (b->rank > 1) out->dims[out->rank] = out->dims[last];
        out->dims[last] = 1;
        ++out->rank;
    }
    if (b->rank == 1) { // a column
        b->dims[1] = 1;
        b->strides[1] = 1;
        b->rank = 2;
        out->dims[out->rank++] = 1;
    }
}

/// Exchanges the last two dimensions.
static void turn(berth_view* x) {
    const int64_t dim = x->dims[x->rank - 1];
    const int64_t stride = x->strides[x->rank - 1];
    x->dims[x->rank - 1] = x->dims[x->rank - 2];
    x->strides[x->rank - 1] = x->strides[x->rank - 2];
    x->dims[x->rank - 2] = dim;
    x->strides[x->rank - 2] = stride;
}

void berth_matmul_turn_column(berth_view* a, berth_view* b, berth_view* out) {
    const berth_view kept = *a;
    *a = *b;
    *b = kept;
    turn(a);
    turn(b);
    turn(out);
}

const unsigned char* berth_matmul_matrix_at(const berth_view* x,
                                            const berth_view* out,
                                            int64_t batch) {
    int64_t offset = 0;
    for (int32_t d = out->rank - 3; d >= 0; d--) {
        const int32_t at = d - (out->rank - x->rank);
        if (at >= 0 && x->dims[at] != 1) offset += batch % out->dims[d] * x->strides[at];
        batch /= out->dims[d];
    }
    return (const unsigned char*)x->data + offset * berth_dtype_bytes(x->dtype);
}

static matrix matrix_of(const berth_view* x, const berth_view* out, int64_t batch) {
    return (matrix){
        .data = berth_matmul_matrix_at(x, out, batch),
        .row_stride = x->strides[x->rank - 2],
        .column_stride = x->strides[x->rank - 1],
    };
}

static const uint8_t* element(const job* j, const matrix* x, int64_t row, int64_t column) {
    return x->data + (row * x->row_stride + column * x->column_stride) * j->value_bytes;
}

/// Converts `count` <= BLOCK_K elements, `stride` elements apart.
static void gather(const job* j, const uint8_t* from, int64_t stride, int64_t count, float* to) {
    if (stride == 1) {
        j->to_f32(from, to, count);
        return;
    }
    uint32_t raw[BLOCK_K];
    uint8_t* at = (uint8_t*)raw;
    for (int64_t i = 0; i < count; i++) {
        // Constant sizes, so that the copies become loads and stores.
        if (j->value_bytes == 4) {
            memcpy(at + 4 * i, from + i * stride * 4, 4);
        } else {
            memcpy(at + 2 * i, from + i * stride * 2, 2);
        }
    }
    j->to_f32(raw, to, count);
}

/// Rows [k0, k0 + count) of the block's columns of b, to [count][width] in the block's space;
/// returns the width.
static int64_t pack_b(const job* j, const block* x, int64_t k0, int64_t count) {
    if (x->b.row_stride == 1 && x->columns >= VECTOR) {
        const berth_rows_ahead nothing = {0};
        j->rows->transpose_tile[j->b.dtype](x->b_space,
                                            BLOCK_COLUMNS,
                                            element(j, &x->b, k0, 0),
                                            x->b.column_stride,
                                            x->columns,
                                            count,
                                            &nothing);
        return BLOCK_COLUMNS;
    }
    const int64_t width = berth_ceil_div(x->columns, VECTOR) * VECTOR;
    for (int64_t i = 0; i < count; i++) {
        for (int64_t c = x->columns; c < width; c++)
            x->b_space[i * width + c] = 0.0f;
    }
    if (x->b.column_stride == 1) {
        for (int64_t i = 0; i < count; i++) {
            j->to_f32(element(j, &x->b, k0 + i, 0), x->b_space + i * width, x->columns);
        }
        return width;
    }
    for (int64_t i = 0; i < count; i += STEP_K) {
        const int64_t step = berth_min_i64(STEP_K, count - i);
        for (int64_t c = 0; c < x->columns; c++) {
            float column[STEP_K];
            gather(j, element(j, &x->b, k0 + i, c), x->b.row_stride, step, column);
            for (int64_t s = 0; s < step; s++)
                x->b_space[(i + s) * width + c] = column[s];
        }
    }
    return width;
}

static void point_at_b(const job* j, const block* x, int64_t k0, berth_matmul_tile* t) {
    const bool is_readable = j->value_bytes == sizeof(float) && x->b.column_stride == 1 &&
                             x->columns % VECTOR == 0 && x->rows < PACK_ROWS;
    if (is_readable) {
        t->b = (const float*)(const void*)element(j, &x->b, k0, 0);
        t->b_row = x->b.row_stride;
        return;
    }
    t->b_row = pack_b(j, x, k0, t->k);
    t->b = x->b_space;
}

static void point_at_a(
    const job* j, const block* x, int64_t row, int64_t k0, berth_matmul_tile* t) {
    if (j->value_bytes == sizeof(float)) {
        t->a = (const float*)(const void*)element(j, &x->a, row, k0);
        t->a_row = x->a.row_stride;
        t->a_step = x->a.column_stride;
        return;
    }
    for (int64_t r = 0; r < t->rows; r++) {
        gather(j, element(j, &x->a, row + r, k0), x->a.column_stride, t->k, x->a_space + r * t->k);
    }
    t->a = x->a_space;
    t->a_row = t->k;
    t->a_step = 1;
}

static void multiply_block(const job* j, const block* x) {
    const bool is_direct = j->value_bytes == sizeof(float) && x->columns % VECTOR == 0;
    float* sums = is_direct ? (float*)(void*)x->out : x->sums_space;
    berth_matmul_tile t = {
        .columns = x->columns, .is_first = true, .sums_stride = is_direct ? j->n : BLOCK_COLUMNS};
    int64_t k0 = 0;
    do {
        t.k = berth_min_i64(BLOCK_K, j->k - k0);
        point_at_b(j, x, k0, &t);
        for (int64_t row = 0; row < x->rows; row += TILE_ROWS) {
            t.rows = berth_min_i64(TILE_ROWS, x->rows - row);
            t.sums = sums + row * t.sums_stride;
            point_at_a(j, x, row, k0, &t);
            j->tile(&t);
        }
        t.is_first = false;
        k0 += t.k;
    } while (k0 < j->k);
    if (is_direct) return;
    for (int64_t row = 0; row < x->rows; row++) {
        uint8_t* out = x->out + row * j->n * j->value_bytes;
        j->from_f32(sums + row * t.sums_stride, out, x->columns);
    }
}

/// Items are blocks: [batch][row block][column block].
static void multiply_blocks(void* context, int64_t begin, int64_t end, uint32_t worker) {
    const job* j = context;
    const berth_view* out = &j->out;
    float* space = (float*)(void*)((uint8_t*)j->call->scratch + worker * worker_bytes());
    for (int64_t item = begin; item < end; item++) {
        const int64_t column = item % j->column_blocks * BLOCK_COLUMNS;
        const int64_t row = item / j->column_blocks % j->row_blocks * BLOCK_ROWS;
        const int64_t batch = item / j->column_blocks / j->row_blocks;
        block x = {
            .a = matrix_of(&j->a, out, batch),
            .b = matrix_of(&j->b, out, batch),
            .rows = berth_min_i64(BLOCK_ROWS, j->m - row),
            .columns = berth_min_i64(BLOCK_COLUMNS, j->n - column),
            .out = (uint8_t*)out->data + ((batch * j->m + row) * j->n + column) * j->value_bytes,
        };
        x.a.data = element(j, &x.a, row, 0);
        x.b.data = element(j, &x.b, 0, column);
        const int64_t stretch = berth_min_i64(j->k, BLOCK_K);
        x.b_space = space;
        x.a_space = space + stretch * BLOCK_COLUMNS;
        x.sums_space = x.a_space + stretch * TILE_ROWS;
        multiply_block(j, &x);
    }
}

void berth_cpu_matmul(const berth_op_call* call) {
    if (!berth_dtype_is_float(call->inputs[0].dtype)) {
        berth_cpu_matmul_integers(call);
        return;
    }
    job j = {.call = call, .tile = query_tile(), .rows = berth_basic_query_rows()};
    berth_matmul_operands(call, &j.a, &j.b, &j.out);
    // a single column would leave most lanes without work
    if (j.out.dims[j.out.rank - 1] == 1) berth_matmul_turn_column(&j.a, &j.b, &j.out);
    const berth_view* out = &j.out;
    j.to_f32 = berth_convert_query_to_f32(out->dtype);
    j.from_f32 = berth_convert_query_from_f32(out->dtype);
    j.value_bytes = berth_dtype_bytes(out->dtype);
    j.m = out->dims[out->rank - 2];
    j.n = out->dims[out->rank - 1];
    j.k = j.a.dims[j.a.rank - 1];
    j.row_blocks = berth_ceil_div(j.m, BLOCK_ROWS);
    j.column_blocks = berth_ceil_div(j.n, BLOCK_COLUMNS);
    int64_t items = j.row_blocks * j.column_blocks;
    for (int32_t d = 0; d + 2 < out->rank; d++)
        items *= out->dims[d];
    if (items == 0) return;
    const int64_t products = berth_min_i64(j.m, BLOCK_ROWS) * berth_min_i64(j.n, BLOCK_COLUMNS) *
                             berth_min_i64(j.k, INT64_C(1) << 40);
    berth_team_for(call->team, items, WORKER_PRODUCTS / (products + 1) + 1, multiply_blocks, &j);
}
