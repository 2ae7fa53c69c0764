// SPDX-License-Identifier: Apache-2.0
// The LINEAR kernel's driver: brings x to f32 rows, chooses between one row and tiles of many, and
// splits the work over the team. The arithmetic is in kernel_linear_rows.h.
#include "device/cpu/kernel_linear.h"

#include "base/checked.h"
#include "device/cpu/cpu_kernels.h"
#include "device/cpu/kernel_basic.h"
#include "device/cpu/kernel_gemm_library.h"
#include "device/cpu/kernel_matrix.h"

#define PANEL_ROWS BERTH_LINEAR_PANEL_ROWS
#define TILE_ROWS BERTH_LINEAR_TILE_ROWS
#define DOT_BLOCK 128      ///< outputs of one row that a worker finishes at a time
#define DOT_GROUP 4        ///< rows of w that are read together
#define GROUP_PANELS 8     ///< panels that share one reading of x, at most
#define GROUP_BYTES 409600 ///< of those panels, at most, as they are to stay in a core's cache
#define NEAR_ROWS 64       ///< rows of x up to which x is read again rather than panels
#define NEAR_BYTES 16384   ///< of panels then, which are to stay where they were just written
#define STRETCH 2048 ///< of K at a time: a longer panel falls out of the cache between two tiles
#define STRETCH_ROWS 128      ///< rows of x that keep their sums between stretches
#define CHUNK_ROWS 512        ///< rows of x that are converted at a time
#define WORKER_PRODUCTS 65536 ///< multiply-adds that are worth waking a worker for
#define LIBRARY_BYTES 1048576 ///< of decoded weights that the library multiplies at a time
#define LIBRARY_COLUMNS 16    ///< but so many rows of w at least
#define ALIGNMENT 64
#define SUMS_BYTES (BERTH_LINEAR_TILE_SUMS * (int64_t)sizeof(float))

/// What is known of a call before any data is seen.
typedef struct plan {
    int64_t rows;            ///< of x, all leading dims together
    int64_t columns;         ///< N
    int64_t k;               ///< K
    int64_t padded;          ///< k rounded up to a block
    int64_t stretch;         ///< of padded at a time, where there are many rows
    int64_t x_stride;        ///< elements from row to row, if uniform
    bool is_direct;          ///< x is read where it is, else from a converted chunk
    int64_t library_columns; ///< rows of w that the library takes at a time; 0: own kernels
    int64_t chunk_rows;      ///< rows of x done at a time
    int64_t group_panels;    ///< panels in a worker's workspace
    uint64_t x_bytes;        ///< workspace of the converted chunk
    uint64_t worker_bytes;   ///< workspace of each worker
} plan;

/// One chunk of rows.
typedef struct job {
    const plan* plan;
    const berth_linear_isa* isa;
    berth_dtype w_dtype;
    const uint8_t* w;
    int64_t w_row_bytes;
    const float* bias; ///< NULL if there is none
    const berth_view* x_view;
    int64_t first_row; ///< of the chunk
    int64_t rows;      ///< in the chunk
    const float* x;    ///< first row of the chunk
    int64_t x_stride;  ///< in floats
    float* converted;  ///< where the chunk is converted to
    uint8_t* y;        ///< first row of the chunk
    int64_t y_value_bytes;
    berth_from_f32_fn from_f32;
    uint8_t* workers; ///< workspace of worker 0; the others follow. NULL if there is none
} job;

/// The part for berth_cpu_query_isa().
static const berth_linear_isa* query_isa(void) {
#if defined(__x86_64__)
    switch (berth_cpu_query_isa()) {
    case BERTH_CPU_ISA_AVX512:
        return &berth_linear_isa_avx512;
    case BERTH_CPU_ISA_AVX2:
        return &berth_linear_isa_avx2;
    case BERTH_CPU_ISA_PORTABLE:
        break;
    }
#endif
    return &berth_linear_isa_portable;
}

static int64_t at_least(int64_t a, int64_t b) { return a > b ? a : b; }

static int64_t count_rows(const berth_view* x) {
    int64_t rows = 1;
    for (int32_t d = 0; d + 1 < x->rank; d++)
        rows *= x->dims[d];
    return rows;
}

/// Finds the distance of neighbouring rows; false if there is no single one.
static bool find_row_stride(const berth_view* x, int64_t* out_stride) {
    int64_t stride = 0;
    int64_t inner = 0; // elements of the dims inside that have more than one entry
    for (int32_t d = x->rank - 2; d >= 0; d--) {
        if (x->dims[d] == 1) continue;
        if (inner == 0) {
            stride = x->strides[d];
            inner = x->dims[d];
        } else if (x->strides[d] == stride * inner) {
            inner *= x->dims[d];
        } else {
            return false;
        }
    }
    *out_stride = stride;
    return true;
}

static const uint8_t* row_address(const berth_view* x, int64_t row, int64_t value_bytes) {
    int64_t offset = 0;
    for (int32_t d = x->rank - 2; d >= 0; d--) {
        offset += row % x->dims[d] * x->strides[d];
        row /= x->dims[d];
    }
    return (const uint8_t*)x->data + offset * value_bytes;
}

static int64_t panels_bytes(const plan* p) {
    const int64_t panel_bytes = PANEL_ROWS * p->stretch * (int64_t)sizeof(float);
    const int64_t bytes = p->group_panels * panel_bytes;
    if (p->stretch == p->padded) return bytes;
    const int64_t tiles = berth_ceil_div(berth_min_i64(p->rows, STRETCH_ROWS), TILE_ROWS);
    return bytes + p->group_panels * tiles * SUMS_BYTES;
}

static void plan_worker(const berth_op_call* call, plan* p) {
    const int64_t row_bytes = p->padded * (int64_t)sizeof(float);
    const int64_t panel_bytes = PANEL_ROWS * p->stretch * (int64_t)sizeof(float);
    const int64_t fit = panel_bytes == 0 ? GROUP_PANELS : GROUP_BYTES / panel_bytes;
    p->group_panels =
        berth_min_i64(berth_min_i64(fit, GROUP_PANELS), berth_ceil_div(p->columns, PANEL_ROWS));
    int64_t bytes = p->k == 0 ? ALIGNMENT : 0; // so that empty panels have an address
    // one row needs none of it, and asks for it all the same: so the bytes are one form of the rows
    if (p->library_columns == 0) bytes += panels_bytes(p);
    if (p->library_columns != 0 && call->inputs[1].dtype != BERTH_F32) {
        bytes += p->library_columns * row_bytes;
    }
    p->worker_bytes = berth_round_up((uint64_t)bytes, ALIGNMENT);
}

/// The library takes f32 with rows that do not overlap, and its dimensions are int.
static bool suits_library(const berth_op_call* call, const plan* p) {
    if (call->batch_invariant || p->rows < berth_gemm_library_query_rows()) return false;
    const bool has_rows = !p->is_direct || p->x_stride >= p->k;
    const int64_t largest = at_least(at_least(p->rows, p->columns), at_least(p->k, p->x_stride));
    return has_rows && p->k > 0 && call->outputs[0].dtype == BERTH_F32 && largest <= INT32_MAX &&
           call->inputs[1].strides[0] <= INT32_MAX;
}

static void plan_call(const berth_op_call* call, plan* p) {
    const berth_view* x = &call->inputs[0];
    const berth_view* w = &call->inputs[1];
    *p = (plan){.rows = count_rows(x), .columns = w->dims[0], .k = w->dims[1]};
    p->padded = berth_ceil_div(p->k, BERTH_LINEAR_BLOCK) * BERTH_LINEAR_BLOCK;
    p->stretch = berth_min_i64(p->padded, STRETCH);
    p->is_direct = find_row_stride(x, &p->x_stride) && x->dtype == BERTH_F32 && p->padded == p->k;
    p->chunk_rows = p->is_direct ? p->rows : berth_min_i64(p->rows, CHUNK_ROWS);
    const uint64_t chunk_bytes = (uint64_t)(p->chunk_rows * p->padded) * sizeof(float);
    p->x_bytes = p->is_direct ? 0 : berth_round_up(chunk_bytes, ALIGNMENT);
    if (suits_library(call, p)) {
        const int64_t fit = LIBRARY_BYTES / (p->padded * (int64_t)sizeof(float));
        p->library_columns = berth_min_i64(at_least(fit, LIBRARY_COLUMNS), p->columns);
    }
    plan_worker(call, p);
}

uint64_t berth_cpu_linear_scratch(const berth_op_call* call) {
    plan p;
    plan_call(call, &p);
    return p.x_bytes + p.worker_bytes * berth_team_worker_count(call->team);
}

static float* worker_space(const job* j, uint32_t worker) {
    if (j->plan->worker_bytes == 0) return NULL;
    return (float*)(void*)(j->workers + worker * j->plan->worker_bytes);
}

/// Items are rows of the chunk.
static void convert_rows(void* context, int64_t begin, int64_t end, uint32_t worker) {
    (void)worker;
    const job* j = context;
    const plan* p = j->plan;
    const berth_to_f32_fn to_f32 = berth_convert_query_to_f32(j->x_view->dtype);
    for (int64_t r = begin; r < end; r++) {
        float* to = j->converted + r * p->padded;
        to_f32(row_address(j->x_view, j->first_row + r, j->y_value_bytes), to, p->k);
        for (int64_t i = p->k; i < p->padded; i++)
            to[i] = 0.0f;
    }
}

/// Address of element [row, k0] of w; k0 is at the beginning of a block.
static const uint8_t* w_address(const job* j, int64_t row, int64_t k0) {
    const berth_dtype_info* info = berth_dtype_info_of(j->w_dtype);
    return j->w + row * j->w_row_bytes + k0 / info->block_values * info->block_bytes;
}

/// One row of x. Items are rows of w.
static void one_row(void* context, int64_t begin, int64_t end, uint32_t worker) {
    (void)worker;
    const job* j = context;
    const berth_linear_dot_fn dot = j->isa->dot[j->w_dtype];
    float out[DOT_BLOCK];
    for (int64_t first = begin; first < end; first += DOT_BLOCK) {
        const int64_t rows = berth_min_i64(DOT_BLOCK, end - first);
        dot(w_address(j, first, 0), j->w_row_bytes, rows, j->x, j->plan->k, out);
        if (j->bias != NULL) {
            for (int64_t i = 0; i < rows; i++)
                out[i] += j->bias[first + i];
        }
        j->from_f32(out, j->y + first * j->y_value_bytes, rows);
    }
}

static int64_t panel_columns(const plan* p, int64_t panel) {
    return berth_min_i64(PANEL_ROWS, p->columns - panel * PANEL_ROWS);
}

/// Panels [first, first + count) over a stretch of K, at most p->group_panels of them.
typedef struct group {
    int64_t first;
    int64_t count;
    int64_t k0;
    int64_t k;            ///< of w; the panels are longer if it is no whole number of blocks
    int64_t panel_floats; ///< of one panel
    float* panels;
    float* sums; ///< [STRETCH_ROWS / TILE_ROWS][p->group_panels] of tiles
} group;

static void pack_group(const job* j, const group* g) {
    for (int64_t i = 0; i < g->count; i++) {
        const int64_t first = (g->first + i) * PANEL_ROWS;
        j->isa->pack[j->w_dtype](w_address(j, first, g->k0),
                                 j->w_row_bytes,
                                 panel_columns(j->plan, g->first + i),
                                 g->k,
                                 g->panels + i * g->panel_floats);
    }
}

/// Hands the tile to the instruction set, and its outputs through f32 if y has another type.
static void finish_tile(const job* j, berth_linear_tile* t, uint8_t* y) {
    float out[TILE_ROWS * PANEL_ROWS];
    const bool is_f32 = j->y_value_bytes == sizeof(float);
    t->y = is_f32 ? (float*)(void*)y : out;
    t->y_stride = is_f32 ? j->plan->columns : PANEL_ROWS;
    j->isa->tile(t);
    if (is_f32 || !t->is_last) return;
    for (int64_t r = 0; r < t->rows; r++) {
        j->from_f32(out + r * PANEL_ROWS, y + r * j->plan->columns * j->y_value_bytes, t->columns);
    }
}

/// The group times rows [begin, end) of the chunk.
static void do_tiles(const job* j, const group* g, int64_t begin, int64_t end) {
    const plan* p = j->plan;
    float* sums = g->sums;
    for (int64_t row = begin; row < end; row += TILE_ROWS) {
        for (int64_t i = 0; i < g->count; i++) {
            const int64_t column = (g->first + i) * PANEL_ROWS;
            berth_linear_tile t = {
                .x = j->x + row * j->x_stride + g->k0,
                .x_stride = j->x_stride,
                .rows = berth_min_i64(TILE_ROWS, end - row),
                .panel = g->panels + i * g->panel_floats,
                .k = g->panel_floats / PANEL_ROWS,
                .sums = sums,
                .is_first = g->k0 == 0,
                .is_last = g->k0 + g->k == p->k,
                .bias = j->bias == NULL ? NULL : j->bias + column,
                .columns = panel_columns(p, g->first + i),
            };
            finish_tile(j, &t, j->y + (row * p->columns + column) * j->y_value_bytes);
            sums += p->stretch < p->padded ? BERTH_LINEAR_TILE_SUMS : 0;
        }
    }
}

/// A group of panels times rows [begin, end), stretch by stretch.
static void do_group(const job* j, group* g, int64_t begin, int64_t end) {
    const plan* p = j->plan;
    g->k0 = 0;
    do {
        g->k = berth_min_i64(p->stretch, p->k - g->k0);
        g->panel_floats = berth_min_i64(p->stretch, p->padded - g->k0) * PANEL_ROWS;
        pack_group(j, g);
        do_tiles(j, g, begin, end);
        g->k0 += g->k;
    } while (g->k0 < p->k);
}

/// Panels at a time: a group stays in the core's cache while x passes.
static int64_t panels_at_a_time(const job* j) {
    const plan* p = j->plan;
    const int64_t panel_bytes = PANEL_ROWS * p->stretch * (int64_t)sizeof(float);
    if (j->rows > NEAR_ROWS || panel_bytes == 0) return p->group_panels;
    return berth_min_i64(at_least(NEAR_BYTES / panel_bytes, 1), p->group_panels);
}

/// Panels [panel_begin, panel_end) times rows [row_begin, row_end).
static void do_panels(const job* j,
                      int64_t panel_begin,
                      int64_t panel_end,
                      int64_t row_begin,
                      int64_t row_end,
                      float* space) {
    const plan* p = j->plan;
    const int64_t step = p->stretch < p->padded ? STRETCH_ROWS : j->rows;
    group g = {.panels = space};
    g.sums = g.panels + p->group_panels * PANEL_ROWS * p->stretch;
    const int64_t panels = panels_at_a_time(j);
    for (g.first = panel_begin; g.first < panel_end; g.first += panels) {
        g.count = berth_min_i64(panels, panel_end - g.first);
        for (int64_t row = row_begin; row < row_end; row += step) {
            do_group(j, &g, row, berth_min_i64(row + step, row_end));
        }
    }
}

static void many_rows_by_panel(void* context, int64_t begin, int64_t end, uint32_t worker) {
    const job* j = context;
    do_panels(j, begin, end, 0, j->rows, worker_space(j, worker));
}

static void many_rows_by_tile(void* context, int64_t begin, int64_t end, uint32_t worker) {
    const job* j = context;
    const int64_t panels = berth_ceil_div(j->plan->columns, PANEL_ROWS);
    const int64_t row_end = berth_min_i64(end * TILE_ROWS, j->rows);
    do_panels(j, 0, panels, begin * TILE_ROWS, row_end, worker_space(j, worker));
}

/// Decodes `rows` rows of w to f32 rows in `to`.
static void decode_rows(const job* j, int64_t first, int64_t rows, float* to) {
    const berth_to_f32_fn to_f32 = berth_convert_query_to_f32(j->w_dtype);
    for (int64_t r = 0; r < rows; r++) {
        to_f32(w_address(j, first + r, 0), to + r * j->plan->k, j->plan->k);
    }
}

static void fill_with_bias(const job* j, int64_t first, int64_t columns) {
    const plan* p = j->plan;
    for (int64_t r = 0; r < j->rows; r++) {
        float* y = (float*)(void*)j->y + r * p->columns + first;
        for (int64_t c = 0; c < columns; c++)
            y[c] = j->bias == NULL ? 0.0f : j->bias[first + c];
    }
}

/// Items are rows of w.
static void many_rows_by_library(void* context, int64_t begin, int64_t end, uint32_t worker) {
    const job* j = context;
    const plan* p = j->plan;
    const int64_t value_bytes = sizeof(float);
    const bool is_f32 = j->w_dtype == BERTH_F32;
    for (int64_t first = begin; first < end; first += p->library_columns) {
        const int64_t columns = berth_min_i64(p->library_columns, end - first);
        float* space = worker_space(j, worker);
        const float* w = is_f32 ? (const float*)(const void*)w_address(j, first, 0) : space;
        if (!is_f32) decode_rows(j, first, columns, space);
        fill_with_bias(j, first, columns);
        berth_gemm_library_multiply(j->rows,
                                    columns,
                                    p->k,
                                    j->x,
                                    j->x_stride,
                                    w,
                                    is_f32 ? j->w_row_bytes / value_bytes : p->k,
                                    (float*)(void*)j->y + first,
                                    p->columns);
    }
}

/// Items that make a worker's waking worth while, each of `products` multiply-adds.
static int64_t grain_of(int64_t products) {
    return products >= WORKER_PRODUCTS ? 1 : berth_ceil_div(WORKER_PRODUCTS, products + 1);
}

static void do_chunk(job* j, berth_team* team) {
    const plan* p = j->plan;
    if (j->rows == 1) {
        const int64_t grain = grain_of(p->k * DOT_GROUP) * DOT_GROUP;
        berth_team_for(team, p->columns, grain, one_row, j);
        return;
    }
    if (p->library_columns != 0) {
        // One piece a worker, as each makes the library pack all of x again.
        const int64_t share = berth_ceil_div(p->columns, berth_team_worker_count(team));
        berth_team_for(team, p->columns, at_least(share, LIBRARY_COLUMNS), many_rows_by_library, j);
        return;
    }
    const int64_t panels = berth_ceil_div(p->columns, PANEL_ROWS);
    const int64_t tiles = berth_ceil_div(j->rows, TILE_ROWS);
    if (panels < 4 * (int64_t)berth_team_worker_count(team) && tiles > panels) {
        const int64_t grain = grain_of(p->k * p->columns * TILE_ROWS);
        berth_team_for(team, tiles, grain, many_rows_by_tile, j);
    } else {
        berth_team_for(team, panels, grain_of(p->k * PANEL_ROWS * j->rows), many_rows_by_panel, j);
    }
}

static void take_chunk(job* j, int64_t first_row, int64_t rows, berth_team* team) {
    const plan* p = j->plan;
    j->first_row = first_row;
    j->rows = rows;
    if (p->is_direct) {
        j->x = (const float*)j->x_view->data + first_row * p->x_stride;
        j->x_stride = p->x_stride;
    } else {
        berth_team_for(team, rows, grain_of(p->k), convert_rows, j);
        j->x = j->converted;
        j->x_stride = p->padded;
    }
}

void berth_cpu_linear(const berth_op_call* call) {
    plan p;
    plan_call(call, &p);
    if (p.rows == 0 || p.columns == 0) return;
    const berth_view* w = &call->inputs[1];
    const berth_dtype y_dtype = call->outputs[0].dtype;
    uint8_t* scratch = call->scratch;
    job j = {
        .plan = &p,
        .isa = query_isa(),
        .w_dtype = w->dtype,
        .w = w->data,
        .w_row_bytes = w->strides[0] * berth_dtype_bytes(w->dtype),
        .bias = call->input_count > 2 ? call->inputs[2].data : NULL,
        .x_view = &call->inputs[0],
        .converted = (float*)(void*)scratch,
        .y_value_bytes = berth_dtype_bytes(y_dtype),
        .from_f32 = berth_convert_query_from_f32(y_dtype),
        .workers = p.worker_bytes == 0 ? NULL : scratch + p.x_bytes,
    };
    for (int64_t row = 0; row < p.rows; row += p.chunk_rows) {
        take_chunk(&j, row, berth_min_i64(p.chunk_rows, p.rows - row), call->team);
        j.y = (uint8_t*)call->outputs[0].data + row * p.columns * j.y_value_bytes;
        do_chunk(&j, call->team);
    }
}
