// SPDX-License-Identifier: Apache-2.0
// A tensor made to fit another shape, or a triangle of it: REPEAT PAD TRIL TRIU.
#include <string.h>

#include "base/op_params.h"
#include "device/cpu/kernel_basic.h"

#define GRAIN 4096
#define LEAST 65536

/// How an output's dimension comes of the input's.
typedef struct fit_dim {
    int64_t size;   ///< of the input
    int64_t stride; ///< bytes, of the input
    int64_t whole;  ///< size of the output
    int64_t before; ///< PAD: elements before the input's first; below 0: of the input left out
} fit_dim;

typedef struct fit_job {
    const unsigned char* x;
    unsigned char* out;
    int64_t bytes;                    ///< an element
    int32_t rank;                     ///< the last dimension is the row
    fit_dim dims[BERTH_MAX_RANK + 1]; ///< the first one is of size 1, or what merges with that
    unsigned char value[8];           ///< PAD: an element
} fit_job;

/// Appends a dimension; merged with the one before where that changes nothing: `is_kept` says that
/// it is the same in the output.
static void append_dim(fit_job* job, const fit_dim* dim, bool is_kept) {
    fit_dim* last = &job->dims[job->rank - 1];
    if (!is_kept || (last->size != 1 && last->stride != dim->size * dim->stride)) {
        job->dims[job->rank++] = *dim;
        return;
    }
    last->size *= dim->size;
    last->whole *= dim->size;
    last->before *= dim->size;
    last->stride = dim->stride;
}

static void start_job(fit_job* job, const berth_op_call* call) {
    job->x = call->inputs[0].data;
    job->out = call->outputs[0].data;
    job->bytes = berth_dtype_bytes(call->inputs[0].dtype);
    job->dims[0] = (fit_dim){.size = 1, .whole = 1};
    job->rank = 1;
}

// --- REPEAT --------------------------------------------------------------------------------------

/// Elements [begin, end) of a row of the output: those of x's row over and over.
static void repeat_row(
    const fit_job* job, const unsigned char* x, int64_t begin, int64_t end, unsigned char* out) {
    const fit_dim* row = &job->dims[job->rank - 1];
    const int64_t bytes = job->bytes, phase = begin % row->size, count = end - begin;
    const int64_t tail = berth_min_i64(row->size - phase, count);
    berth_copy_run(x + phase * row->stride, row->stride, bytes, tail, out);
    const int64_t head = berth_min_i64(phase, count - tail);
    berth_copy_run(x, row->stride, bytes, head, out + tail * bytes);
    berth_repeat_run(row->size * bytes, count * bytes, out);
}

static void repeat_range(void* data, int64_t begin, int64_t end, uint32_t worker) {
    (void)worker;
    const fit_job* job = data;
    const int64_t width = job->dims[job->rank - 1].whole;
    while (begin < end) {
        const int64_t inside = begin % width;
        const int64_t count = berth_min_i64(width - inside, end - begin);
        const unsigned char* x = job->x;
        int64_t rest = begin / width;
        for (int32_t d = job->rank - 1; d-- > 0; rest /= job->dims[d].whole)
            x += rest % job->dims[d].whole % job->dims[d].size * job->dims[d].stride;
        repeat_row(job, x, inside, inside + count, job->out + begin * job->bytes);
        begin += count;
    }
}

static void kernel_repeat(const berth_op_call* call) {
    const berth_repeat_params* params = call->params;
    const berth_view* x = &call->inputs[0];
    const berth_view* out = &call->outputs[0];
    const int32_t missing = out->rank - x->rank;
    fit_job job;
    start_job(&job, call);
    for (int32_t d = 0; d < out->rank; ++d) {
        const bool exists = d >= missing;
        const fit_dim dim = {
            .size = exists ? x->dims[d - missing] : 1,
            .stride = exists ? x->strides[d - missing] * job.bytes : 0,
            .whole = out->dims[d],
        };
        if (dim.whole > 1) append_dim(&job, &dim, params->times[d] == 1);
    }
    berth_run_range(call, berth_view_count(out), GRAIN, LEAST, repeat_range, &job);
}

// --- PAD -----------------------------------------------------------------------------------------

/// The place in the input of place `at` of the output; outside the dimension if it is padding.
static int64_t place_in(const fit_dim* dim, int64_t at) { return at - dim->before; }

static bool is_inside(const fit_dim* dim, int64_t place) { return place >= 0 && place < dim->size; }

static void fill(const fit_job* job, int64_t count, unsigned char* out) {
    if (count > 0) berth_fill_run(job->value, job->bytes, count, out);
}

/// Elements [begin, end) of a row of the output that has a row `x` of the input.
static void pad_row(
    const fit_job* job, const unsigned char* x, int64_t begin, int64_t end, unsigned char* out) {
    const fit_dim* row = &job->dims[job->rank - 1];
    int64_t first = place_in(row, begin), last = place_in(row, end); // of the input: [first, last)
    const int64_t before = first < 0 ? berth_min_i64(-first, end - begin) : 0;
    fill(job, before, out);
    out += before * job->bytes;
    first += before;
    const int64_t stop = berth_min_i64(last, row->size);
    const int64_t count = stop > first ? stop - first : 0;
    if (count > 0) berth_copy_run(x + first * row->stride, row->stride, job->bytes, count, out);
    fill(job, last - first - count, out + count * job->bytes);
}

static void pad_range(void* data, int64_t begin, int64_t end, uint32_t worker) {
    (void)worker;
    const fit_job* job = data;
    const int64_t width = job->dims[job->rank - 1].whole;
    while (begin < end) {
        const int64_t inside = begin % width;
        const int64_t count = berth_min_i64(width - inside, end - begin);
        unsigned char* out = job->out + begin * job->bytes;
        const unsigned char* x = job->x;
        bool exists = true;
        int64_t rest = begin / width;
        for (int32_t d = job->rank - 1; d-- > 0; rest /= job->dims[d].whole) {
            const int64_t place = place_in(&job->dims[d], rest % job->dims[d].whole);
            exists = exists && is_inside(&job->dims[d], place);
            if (exists) x += place * job->dims[d].stride;
        }
        if (exists)
            pad_row(job, x, inside, inside + count, out);
        else
            fill(job, count, out);
        begin += count;
    }
}

static void kernel_pad(const berth_op_call* call) {
    const berth_pad_params* params = call->params;
    const berth_view* x = &call->inputs[0];
    const berth_view* out = &call->outputs[0];
    fit_job job;
    start_job(&job, call);
    berth_store_double(x->dtype, params->value, job.value);
    for (int32_t d = 0; d < x->rank; ++d) {
        const fit_dim dim = {
            .size = x->dims[d],
            .stride = x->strides[d] * job.bytes,
            .whole = out->dims[d],
            .before = params->pads[d][0],
        };
        append_dim(&job, &dim, params->pads[d][0] == 0 && params->pads[d][1] == 0);
    }
    berth_run_range(call, berth_view_count(out), GRAIN, LEAST, pad_range, &job);
}

// --- TRIL TRIU -----------------------------------------------------------------------------------

typedef struct triangle_job {
    berth_walk x;
    unsigned char* out;
    int64_t rows;     ///< of a matrix
    int64_t columns;  ///< of a matrix
    int64_t diagonal; ///< the first column that row 0 loses (TRIL) or keeps (TRIU); may be outside
    bool is_lower;
    bool is_in_place; ///< what is kept lies there already
} triangle_job;

/// Rows [begin, end) of all matrices.
static void triangle_range(void* data, int64_t begin, int64_t end, uint32_t worker) {
    (void)worker;
    const triangle_job* job = data;
    const int64_t bytes = job->x.item_bytes, columns = job->columns;
    for (int64_t row = begin; row < end; ++row) {
        int64_t border = row % job->rows + job->diagonal;
        if (border < 0) border = 0;
        border = berth_min_i64(border, columns);
        const int64_t kept = job->is_lower ? 0 : border; // where the kept part begins
        const int64_t count = job->is_lower ? border : columns - border;
        const int64_t lost = job->is_lower ? border : 0;
        unsigned char* out = job->out + row * columns * bytes;
        if (!job->is_in_place)
            berth_walk_copy(&job->x, row * columns + kept, count, out + kept * bytes);
        memset(out + lost * bytes, 0, (size_t)((columns - count) * bytes));
    }
}

static void run_triangle(const berth_op_call* call, bool is_lower) {
    const berth_triangle_params* params = call->params;
    const berth_view* x = &call->inputs[0];
    const berth_view* out = &call->outputs[0];
    triangle_job job = {
        .out = out->data,
        .rows = x->dims[x->rank - 2],
        .columns = x->dims[x->rank - 1],
        .is_lower = is_lower,
        .is_in_place = out->data == x->data,
    };
    const int64_t count = berth_view_count(x);
    if (count == 0) return;
    // beyond the corners it makes no difference
    job.diagonal = params->diagonal;
    if (job.diagonal < -job.rows) job.diagonal = -job.rows;
    if (job.diagonal > job.columns) job.diagonal = job.columns;
    if (is_lower) ++job.diagonal;
    berth_walk_init(&job.x, x);
    berth_run_range(call,
                    count / job.columns,
                    1 + GRAIN / job.columns,
                    1 + LEAST / job.columns,
                    triangle_range,
                    &job);
}

static void kernel_tril(const berth_op_call* call) { run_triangle(call, true); }

static void kernel_triu(const berth_op_call* call) { run_triangle(call, false); }

void berth_cpu_fill_fit_kernels(berth_kernel* table) {
    table[BERTH_OP_REPEAT] = kernel_repeat;
    table[BERTH_OP_PAD] = kernel_pad;
    table[BERTH_OP_TRIL] = kernel_tril;
    table[BERTH_OP_TRIU] = kernel_triu;
}
