// SPDX-License-Identifier: Apache-2.0
// The operands of bench-ops.
#include <stdlib.h>

#include "base/dtype.h"
#include "ops/op_cases.h"

#define MOST_SQUARE_BYTES (8 << 20)   // a product takes side^3 multiplications
#define MOST_SEQUENCE_BYTES (6 << 20) // attention tokens^2
#define HEADS 8
#define HEAD_SIZE 64
#define BLOCK_TOKENS 16
#define SEQUENCES 16
#define MOST_COLUMNS 1024
#define STRIDE 1000003 // a prime: its multiples go through all rows before they come again

static int64_t at_most(int64_t a, int64_t b) { return a < b ? a : b; }

static int64_t element_bytes(berth_dtype dtype) {
    return (int64_t)berth_dtype_info_of(dtype)->block_bytes;
}

/// [count] random elements: floats of [0.5, 1.5), integers of [1, 100), or to 10^6 if they are
/// wide.
static berth_tensor* random_elements(berth_context* ctx, berth_dtype dtype, int64_t count) {
    if (berth_dtype_is_float(dtype)) return berth_rand(ctx, 1, 0.5f, 1.5f, dtype, 1, &count);
    if (dtype == BERTH_BOOL) {
        berth_tensor* numbers = berth_randint(ctx, 1, 0, 2, BERTH_U8, 1, &count);
        return berth_cast(ctx, berth_move(numbers), BERTH_BOOL);
    }
    const bool is_wide = dtype == BERTH_I32 || dtype == BERTH_I64;
    return berth_randint(ctx, 1, 1, is_wide ? 1000000 : 100, dtype, 1, &count);
}

/// 0 .. count - 1, count a power of two, in no order.
static berth_tensor* shuffled(berth_context* ctx, int64_t count) {
    int64_t* values = malloc((size_t)count * sizeof *values);
    if (values == NULL) return NULL;
    for (int64_t i = 0; i < count; ++i)
        values[i] = (i * STRIDE + 7) % count;
    berth_tensor* result = berth_from_data(ctx, values, BERTH_I64, 1, &count);
    free(values);
    return result;
}

/// The first `dims` of x.
static berth_tensor* part_of(bench_data* data, int32_t rank, const int64_t* dims) {
    int64_t count = 1;
    for (int32_t d = 0; d < rank; ++d)
        count *= dims[d];
    berth_tensor* part = berth_narrow(data->ctx, data->x, 0, 0, count);
    return berth_reshape_view(data->ctx, berth_move(part), rank, dims);
}

static void make_indices(bench_data* data) {
    berth_context* ctx = data->ctx;
    const int64_t rows = data->count / data->columns;
    data->row_index = shuffled(ctx, rows);
    berth_tensor* row = berth_cast(ctx, berth_move(shuffled(ctx, data->columns)), BERTH_I32);
    berth_tensor* spread = berth_expand(ctx, berth_move(row), 2, (int64_t[]){rows, data->columns});
    data->item_index = berth_contiguous(ctx, berth_move(spread));
}

static void make_products(bench_data* data, int64_t bytes) {
    const int64_t size = element_bytes(data->dtype);
    int64_t side = 8;
    while (8 * side * side * size <= at_most(bytes, MOST_SQUARE_BYTES)) {
        side *= 2;
    }
    data->squares[0] = part_of(data, 2, (int64_t[]){side, side});
    data->squares[1] = berth_copy(data->ctx, data->squares[0]);
}

static void make_sequences(bench_data* data, int64_t bytes) {
    berth_context* ctx = data->ctx;
    const int64_t row = HEADS * HEAD_SIZE * element_bytes(data->dtype);
    const int64_t tokens = at_most(bytes, MOST_SEQUENCE_BYTES) / 3 / row;
    const int64_t cached = bytes / 2 / row;
    const int64_t dims[3] = {tokens > 4 ? tokens : 4, HEADS, HEAD_SIZE};
    data->sequence[0] = berth_rand(ctx, 2, -1, 1, data->dtype, 3, dims);
    data->sequence[1] = berth_rand(ctx, 3, -1, 1, data->dtype, 3, dims);
    data->query = berth_rand(ctx, 4, -1, 1, data->dtype, 3, (int64_t[]){1, HEADS, HEAD_SIZE});
    const int64_t cache_dims[3] = {cached > 4 ? cached : 4, HEADS, HEAD_SIZE};
    data->cache[0] = berth_rand(ctx, 5, -1, 1, data->dtype, 3, cache_dims);
    data->cache[1] = berth_rand(ctx, 6, -1, 1, data->dtype, 3, cache_dims);
    const int64_t size = at_most(data->columns, HEAD_SIZE);
    const int64_t rows = data->count / data->columns;
    data->heads = part_of(data, 3, (int64_t[]){rows, data->columns / size, size});
    data->positions = berth_arange(ctx, 0, (double)rows, 1, BERTH_I32);
}

/// The whole blocks of the cache as those of up to 16 sequences of equal lengths, a query for each.
static void make_blocks(bench_data* data) {
    berth_context* ctx = data->ctx;
    if (data->cache[0] == NULL) return;
    const int64_t tokens = berth_tensor_dim(data->cache[0], 0);
    const int64_t size = at_most(tokens, BLOCK_TOKENS);
    const int64_t blocks = tokens / size;
    const int64_t sequences = at_most(blocks, SEQUENCES);
    for (int i = 0; i < 2; ++i) {
        berth_tensor* whole = berth_narrow(ctx, data->cache[i], 0, 0, blocks * size);
        data->blocks[i] = berth_reshape_view(
            ctx, berth_move(whole), 4, (int64_t[]){blocks, size, HEADS, HEAD_SIZE});
    }
    data->queries =
        berth_rand(ctx, 7, -1, 1, data->dtype, 3, (int64_t[]){sequences, HEADS, HEAD_SIZE});
    int32_t rows[SEQUENCES][4];
    for (int64_t i = 0; i < sequences; ++i) {
        rows[i][0] = (int32_t)i;
        rows[i][1] = 1;
        rows[i][2] = (int32_t)(blocks / sequences * size);
        rows[i][3] = (int32_t)(blocks / sequences * i);
    }
    data->sequences = berth_from_data(ctx, rows, BERTH_I32, 2, (int64_t[]){sequences, 4});
    data->block_table = berth_cast(ctx, berth_move(shuffled(ctx, blocks)), BERTH_I32);
}

bool bench_data_make(bench_data* data, berth_context* ctx, berth_dtype dtype, int64_t bytes) {
    const int64_t count = bytes / element_bytes(dtype);
    const int64_t half = count / 2;
    *data = (bench_data){.ctx = ctx, .dtype = dtype, .count = count};
    data->columns = at_most(MOST_COLUMNS, count / 4);
    data->x = random_elements(ctx, dtype, count);
    data->rows = part_of(data, 2, (int64_t[]){count / data->columns, data->columns});
    data->halves[0] = berth_narrow(ctx, data->x, 0, 0, half);
    data->halves[1] = berth_narrow(ctx, data->x, 0, half, half);
    data->vector = berth_copy(ctx, berth_move(part_of(data, 1, &data->columns)));
    data->mask = random_elements(ctx, BERTH_BOOL, count);
    data->half_mask = berth_narrow(ctx, data->mask, 0, 0, half);
    if (dtype == BERTH_F32 || dtype == BERTH_I64) make_indices(data);
    if (dtype != BERTH_BOOL) make_products(data, bytes);
    if (berth_dtype_is_float(dtype)) {
        make_sequences(data, bytes);
        make_blocks(data);
    }
    return berth_context_error(ctx) == BERTH_OK;
}

void bench_data_free(bench_data* data) {
    berth_release_all(data->x,
                      data->rows,
                      data->halves[0],
                      data->halves[1],
                      data->vector,
                      data->mask,
                      data->half_mask,
                      data->row_index,
                      data->item_index,
                      data->squares[0],
                      data->squares[1],
                      data->heads,
                      data->positions,
                      data->sequence[0],
                      data->sequence[1],
                      data->cache[0],
                      data->cache[1],
                      data->query,
                      data->blocks[0],
                      data->blocks[1],
                      data->queries,
                      data->sequences,
                      data->block_table);
    *data = (bench_data){0};
}
