// SPDX-License-Identifier: Apache-2.0
// Fills the table of basic kernels; the parts that they share.
#include "device/cpu/kernel_basic.h"

#include <string.h>

#include "device/cpu/cpu_kernels.h"

// --- Walks ---------------------------------------------------------------------------------------

static void walk_start(berth_walk* walk, const berth_view* view) {
    walk->data = view->data;
    walk->dtype = view->dtype;
    walk->rank = 0;
    walk->item_bytes = berth_dtype_bytes(view->dtype);
}

/// Appends a dimension, merged with the one before where they lie one behind the other.
static void walk_append(berth_walk* walk, int64_t dim, int64_t stride_bytes) {
    if (dim == 1) return;
    const int32_t last = walk->rank - 1;
    if (last >= 0 && walk->strides[last] == dim * stride_bytes) {
        walk->dims[last] *= dim;
        walk->strides[last] = stride_bytes;
        return;
    }
    walk->dims[walk->rank] = dim;
    walk->strides[walk->rank] = stride_bytes;
    ++walk->rank;
}

void berth_walk_init(berth_walk* walk, const berth_view* view) {
    const berth_dtype_info* info = berth_dtype_info_of(view->dtype);
    walk_start(walk, view);
    for (int32_t d = 0; d < view->rank; ++d) {
        int64_t dim = view->dims[d];
        if (d == view->rank - 1) dim /= (int64_t)info->block_values;
        walk_append(walk, dim, view->strides[d] * walk->item_bytes);
    }
}

void berth_walk_init_like(berth_walk* walk, const berth_view* view, const berth_view* shape) {
    walk_start(walk, view);
    const int32_t missing = shape->rank - view->rank;
    for (int32_t d = 0; d < shape->rank; ++d) {
        const bool repeated = d < missing || view->dims[d - missing] == 1;
        walk_append(
            walk, shape->dims[d], repeated ? 0 : view->strides[d - missing] * walk->item_bytes);
    }
}

bool berth_walk_is_contiguous(const berth_walk* walk) {
    return walk->rank == 0 || (walk->rank == 1 && walk->strides[0] == walk->item_bytes);
}

const unsigned char* berth_walk_at(const berth_walk* walk, int64_t index) {
    const unsigned char* at = walk->data;
    for (int32_t d = walk->rank; d-- > 0;) {
        at += index % walk->dims[d] * walk->strides[d];
        index /= walk->dims[d];
    }
    return at;
}

void berth_walk_copy(const berth_walk* walk, int64_t begin, int64_t count, void* target) {
    if (count <= 0) return;
    if (walk->rank == 0) {
        memcpy(target, walk->data, (size_t)walk->item_bytes);
        return;
    }
    const int32_t last = walk->rank - 1;
    int64_t index[BERTH_MAX_RANK];
    int64_t rest = begin;
    const unsigned char* at = walk->data;
    for (int32_t d = last; d >= 0; --d) {
        index[d] = rest % walk->dims[d];
        rest /= walk->dims[d];
        at += index[d] * walk->strides[d];
    }
    unsigned char* out = target;
    for (;;) {
        const int64_t run = berth_min_i64(walk->dims[last] - index[last], count);
        berth_copy_run(at, walk->strides[last], walk->item_bytes, run, out);
        count -= run;
        if (count == 0) return;
        out += run * walk->item_bytes;
        at -= index[last] * walk->strides[last];
        index[last] = 0;
        for (int32_t d = last - 1; d >= 0; --d) { // the next row, carrying as an odometer does
            at += walk->strides[d];
            if (++index[d] < walk->dims[d]) break;
            at -= index[d] * walk->strides[d];
            index[d] = 0;
        }
    }
}

/// Where items [begin, begin + count) lie one behind the other, NULL if they do not.
static const unsigned char* run_at(const berth_walk* walk, int64_t begin, int64_t count) {
    const int32_t last = walk->rank - 1;
    if (last < 0 || count <= 0) return walk->data;
    if (walk->strides[last] != walk->item_bytes) return NULL;
    if (last == 0) return walk->data + begin * walk->item_bytes;
    if (begin % walk->dims[last] + count > walk->dims[last]) return NULL;
    return berth_walk_at(walk, begin);
}

const void* berth_walk_as(
    const berth_walk* walk, berth_dtype dtype, int64_t begin, int64_t count, void* buffer) {
    const unsigned char* direct = run_at(walk, begin, count);
    if (walk->dtype == dtype) {
        if (direct != NULL) return direct;
        berth_walk_copy(walk, begin, count, buffer);
        return buffer;
    }
    _Alignas(64) int64_t gathered[BERTH_CHUNK];
    if (direct == NULL) berth_walk_copy(walk, begin, count, gathered);
    const void* from = direct != NULL ? (const void*)direct : gathered;
    berth_convert_plain(walk->dtype, dtype, from, buffer, count);
    return buffer;
}

void berth_walk_i64(const berth_walk* walk, int64_t begin, int64_t count, int64_t* buffer) {
    if (walk->dtype == BERTH_I64)
        berth_walk_copy(walk, begin, count, buffer);
    else
        berth_walk_as(walk, BERTH_I64, begin, count, buffer);
}

// --- Stores and shapes ---------------------------------------------------------------------------

void berth_store_f32(berth_dtype dtype, const float* values, void* target, int64_t count) {
    if (target != (const void*)values) berth_convert_query_from_f32(dtype)(values, target, count);
}

void berth_store_i64(berth_dtype dtype, const int64_t* values, void* target, int64_t count) {
    berth_convert_plain(BERTH_I64, dtype, values, target, count);
}

berth_view berth_view_at(const berth_view* view, int64_t index) {
    berth_view one = {.dtype = view->dtype, .rank = view->rank - 1};
    one.data =
        (unsigned char*)view->data + index * view->strides[0] * berth_dtype_bytes(view->dtype);
    memcpy(one.dims, view->dims + 1, (size_t)one.rank * sizeof one.dims[0]);
    memcpy(one.strides, view->strides + 1, (size_t)one.rank * sizeof one.strides[0]);
    return one;
}

berth_cut berth_view_cut(const berth_view* view, int32_t dim) {
    berth_cut cut = {.outer_count = 1, .size = view->dims[dim], .inner_count = 1};
    for (int32_t d = 0; d < dim; ++d)
        cut.outer_count *= view->dims[d];
    for (int32_t d = dim + 1; d < view->rank; ++d)
        cut.inner_count *= view->dims[d];
    return cut;
}

void berth_run_range(const berth_op_call* call,
                     int64_t count,
                     int64_t grain,
                     int64_t least,
                     berth_range_fn fn,
                     void* job) {
    if (count <= 0) return;
    if (call->team == NULL || count < least || count <= grain)
        fn(job, 0, count, 0);
    else
        berth_team_for(call->team, count, grain, fn, job);
}

// --- Squares -------------------------------------------------------------------------------------

#define ELEMENTS_GRAIN 4096
#define SQUARE_ROWS 32
#define SQUARE_COLUMNS 64

/// Elements in squares of the last two dimensions; a unit is a row of squares.
typedef struct square_job {
    berth_range_fn fn;
    void* job;
    int64_t rows;
    int64_t columns;
    int64_t units; ///< of each matrix
} square_job;

static void square_range(void* data, int64_t begin, int64_t end, uint32_t worker) {
    const square_job* squares = data;
    const int64_t columns = squares->columns;
    for (int64_t unit = begin; unit < end; ++unit) {
        const int64_t top = unit % squares->units * SQUARE_ROWS;
        const int64_t bottom = berth_min_i64(top + SQUARE_ROWS, squares->rows);
        const int64_t matrix = unit / squares->units * squares->rows;
        for (int64_t left = 0; left < columns; left += SQUARE_COLUMNS) {
            const int64_t width = berth_min_i64(SQUARE_COLUMNS, columns - left);
            for (int64_t row = top; row < bottom; ++row) {
                const int64_t at = (matrix + row) * columns + left;
                squares->fn(squares->job, at, at + width, worker);
            }
        }
    }
}

/// True if going down a column stays closer than going along a row does.
static bool is_turned(const berth_walk* walk) {
    if (walk->rank < 2) return false;
    const int32_t last = walk->rank - 1;
    const int64_t along = walk->strides[last], down = walk->strides[last - 1];
    const int64_t step = along < 0 ? -along : along;
    return step >= 64 && step > (down < 0 ? -down : down) && walk->dims[last] >= 8 &&
           walk->dims[last - 1] >= 8;
}

void berth_run_elements(const berth_op_call* call,
                        int64_t count,
                        int64_t least,
                        const berth_walk* const* walks,
                        uint32_t walk_count,
                        berth_range_fn fn,
                        void* job) {
    for (uint32_t i = 0; i < walk_count && count > 0; ++i) {
        if (!is_turned(walks[i])) continue;
        const int32_t last = walks[i]->rank - 1;
        square_job squares = {
            .fn = fn,
            .job = job,
            .rows = walks[i]->dims[last - 1],
            .columns = walks[i]->dims[last],
        };
        squares.units = (squares.rows + SQUARE_ROWS - 1) / SQUARE_ROWS;
        const int64_t units = count / (squares.rows * squares.columns) * squares.units;
        berth_run_range(call, units, 1, count < least ? units + 1 : 1, square_range, &squares);
        return;
    }
    berth_run_range(call, count, ELEMENTS_GRAIN, least, fn, job);
}

// --- Tables --------------------------------------------------------------------------------------

const berth_basic_rows* berth_basic_query_rows(void) {
#if defined(__x86_64__)
    const berth_cpu_isa isa = berth_cpu_query_isa();
    if (isa >= BERTH_CPU_ISA_AVX512) return &berth_basic_rows_avx512;
    if (isa >= BERTH_CPU_ISA_AVX2) return &berth_basic_rows_avx2;
#endif
    return &berth_basic_rows_portable;
}

void berth_cpu_fill_basic_kernels(berth_kernel* table) {
    // Kernels ask for the rows of the instruction set at each call, so one function serves all.
    berth_cpu_fill_create_kernels(table);
    berth_cpu_fill_random_kernels(table);
    berth_cpu_fill_cast_kernels(table);
    berth_cpu_fill_unary_kernels(table);
    berth_cpu_fill_binary_kernels(table);
    berth_cpu_fill_reduce_kernels(table);
    berth_cpu_fill_softmax_kernels(table);
    berth_cpu_fill_cumsum_kernels(table);
    berth_cpu_fill_norm_kernels(table);
    berth_cpu_fill_rope_kernels(table);
    berth_cpu_fill_attention_kernels(table);
    berth_cpu_fill_paged_attention_kernels(table);
    berth_cpu_fill_copy_kernels(table);
    berth_cpu_fill_join_kernels(table);
    berth_cpu_fill_fit_kernels(table);
    berth_cpu_fill_gather_kernels(table);
    berth_cpu_fill_scatter_kernels(table);
    berth_cpu_fill_sort_kernels(table);
    berth_cpu_fill_select_kernels(table);
    berth_cpu_fill_unique_kernels(table);
}
