// SPDX-License-Identifier: Apache-2.0
// SORT ARGSORT TOPK, along one dimension.
//
// Short rows are shared out among the workers; long ones are sorted by the whole team, one after
// another. The few largest of a row are found by keeping candidates: what cannot be among them is
// passed over, and when their place is full they are sorted and cut.
#include "device/cpu/kernel_sort.h"

#include <stdatomic.h>
#include <string.h>

#include "base/op_params.h"
#include "device/cpu/kernel_sort_records.h"

#define PIECE BERTH_SELECT_PIECE
#define LEAST 4096 // elements that are worth a second worker

enum {
    TOPK_SPARE = 2 * PIECE, // candidates beyond twice those that are kept
    TOPK_FIRST = 256,       // elements looked at before there is a limit
    TOPK_PARTS = 8,         // of a long row
    TOPK_FEW = 4,           // what is kept of a row is few up to this part of it,
    TOPK_FEW_LONG = 64      // and up to this part where parts keep as many each
};

/// The rows of an operand, and the memory to sort them in.
typedef struct sort_job {
    berth_sorting sorting;
    berth_view x; ///< of rank 1 at least
    int32_t dim;
    berth_walk rows; ///< first items of the rows
    int64_t row_count;
    int64_t inner_count; ///< rows that lie side by side
    int64_t length;
    int64_t kept;     ///< of each row, in the output
    int64_t capacity; ///< records of a region
    bool is_long;     ///< the team works on one row at a time
    bool is_few;      ///< TOPK: candidates are kept instead of sorting whole rows
    void* scratch;
    unsigned char* out_values; ///< or NULL
    int64_t* out_numbers;      ///< or NULL
} sort_job;

/// One row under way.
typedef struct sort_row {
    const sort_job* job;
    berth_walk from;
    berth_sort_region region;
    void* sorted;
    unsigned char* values; ///< or NULL
    int64_t* numbers;      ///< or NULL
    berth_team* team;      ///< or NULL
    atomic_bool is_untold; ///< an element's key does not tell all of it
} sort_row;

// --- Rows ----------------------------------------------------------------------------------------

/// A scalar is a row of one.
static berth_view with_a_dimension(const berth_view* x) {
    berth_view view = *x;
    if (view.rank > 0) return view;
    view.rank = 1;
    view.dims[0] = view.strides[0] = 1;
    return view;
}

static void find_rows(sort_job* job) {
    const berth_cut sizes = berth_view_cut(&job->x, job->dim);
    job->length = sizes.size;
    job->inner_count = sizes.inner_count;
    job->row_count = sizes.outer_count * sizes.inner_count;
    berth_view rest = job->x;
    --rest.rank;
    for (int32_t d = job->dim; d < rest.rank; ++d) {
        rest.dims[d] = rest.dims[d + 1];
        rest.strides[d] = rest.strides[d + 1];
    }
    berth_walk_init(&job->rows, &rest);
}

static void row_init(sort_row* row, const sort_job* job, int64_t index, int64_t region) {
    *row = (sort_row){.job = job};
    row->from = (berth_walk){
        .data = berth_walk_at(&job->rows, index),
        .dtype = job->x.dtype,
        .rank = 1,
        .item_bytes = job->sorting.item_bytes,
        .dims = {job->length},
        .strides = {job->x.strides[job->dim] * job->sorting.item_bytes},
    };
    const int64_t inner = job->inner_count;
    const int64_t first = index / inner * job->kept * inner + index % inner;
    if (job->out_values != NULL) row->values = job->out_values + first * job->sorting.item_bytes;
    if (job->out_numbers != NULL) row->numbers = job->out_numbers + first;
    row->region = berth_sort_region_at(&job->sorting, job->scratch, region, job->capacity);
}

static void run_pieces(sort_row* row, int64_t count, berth_range_fn fn) {
    if (row->team == NULL)
        fn(row, 0, count, 0);
    else
        berth_team_for(row->team, count, PIECE, fn, row);
}

static void load_range(void* data, int64_t begin, int64_t end, uint32_t worker) {
    (void)worker;
    sort_row* row = data;
    const berth_sorting* sorting = &row->job->sorting;
    unsigned char* records = row->region.records;
    for (int64_t at = begin; at < end; at += PIECE) {
        const int64_t count = berth_min_i64(PIECE, end - at);
        unsigned char* to = records + at * sorting->record_bytes;
        uint64_t keys[PIECE];
        const bool is_bare = !berth_sorting_is_numbered(sorting);
        void* target = is_bare ? (void*)to : keys;
        const bool is_whole = berth_sorting_keys(sorting, &row->from, at, count, target);
        if (!is_bare)
            berth_sorting_number(sorting, keys, NULL, at, count, to);
        else if (!is_whole)
            atomic_store_explicit(&row->is_untold, true, memory_order_relaxed);
    }
}

static void store_range(void* data, int64_t begin, int64_t end, uint32_t worker) {
    (void)worker;
    const sort_row* row = data;
    const berth_sorting* sorting = &row->job->sorting;
    const int64_t inner = row->job->inner_count;
    if (row->values != NULL) {
        const int64_t stride = inner * sorting->item_bytes;
        unsigned char* out = row->values + begin * stride;
        berth_sorting_store(sorting, &row->from, row->sorted, begin, end - begin, out, stride);
    }
    if (row->numbers != NULL)
        berth_sorting_store_numbers(
            sorting, row->sorted, begin, end - begin, row->numbers + begin * inner, inner);
}

// --- Sorting -------------------------------------------------------------------------------------

static void sort_whole(sort_row* row) {
    const sort_job* job = row->job;
    run_pieces(row, job->length, load_range);
    row->sorted = berth_sorting_run(&job->sorting, &row->region, row->team, job->length);
    run_pieces(row, job->kept, store_range);
    if (atomic_load_explicit(&row->is_untold, memory_order_relaxed))
        berth_sorting_restore(&job->sorting,
                              &row->from,
                              row->sorted,
                              job->length,
                              row->values,
                              job->inner_count * job->sorting.item_bytes);
}

static void sort_range(void* data, int64_t begin, int64_t end, uint32_t worker) {
    const sort_job* job = data;
    for (int64_t index = begin; index < end; ++index) {
        sort_row row;
        row_init(&row, job, index, worker);
        sort_whole(&row);
    }
}

/// Workers' numbers choose regions, so that there is one for each; a long row's parts have theirs.
static uint64_t scratch_bytes(const sort_job* job, const berth_op_call* call) {
    int64_t regions = (int64_t)berth_team_worker_count(call->team);
    if (job->is_long) regions = job->is_few ? TOPK_PARTS + 1 : 1;
    const uint64_t bytes =
        (uint64_t)regions * berth_sort_region_bytes(&job->sorting, job->capacity);
    return bytes + (job->is_long ? berth_sort_team_bytes(job->capacity) : 0);
}

static void job_init(sort_job* job, const berth_op_call* call, int32_t dim) {
    *job = (sort_job){.x = with_a_dimension(&call->inputs[0]), .dim = dim};
    find_rows(job);
    job->kept = job->capacity = job->length;
    job->is_long = job->length >= BERTH_SORT_LONG &&
                   job->row_count < (int64_t)berth_team_worker_count(call->team);
    job->scratch = call->scratch;
}

static void sort_job_init(sort_job* job, const berth_op_call* call, bool numbered) {
    const berth_sort_params* params = call->params;
    job_init(job, call, params->dim);
    job->sorting = berth_sorting_make(job->x.dtype, job->length, params->descending, numbered);
}

uint64_t berth_cpu_sort_scratch(const berth_op_call* call) {
    sort_job job;
    sort_job_init(&job, call, call->output_count > 1);
    return scratch_bytes(&job, call);
}

uint64_t berth_cpu_argsort_scratch(const berth_op_call* call) {
    sort_job job;
    sort_job_init(&job, call, true);
    return scratch_bytes(&job, call);
}

static void run_sort(sort_job* job, const berth_op_call* call) {
    if (job->kept == 0) return;
    if (!job->is_long) {
        const int64_t least = 1 + LEAST / job->length;
        berth_run_range(call, job->row_count, 1, least, sort_range, job);
        return;
    }
    for (int64_t index = 0; index < job->row_count; ++index) {
        sort_row row;
        row_init(&row, job, index, 0);
        row.team = call->team;
        sort_whole(&row);
    }
}

static void kernel_sort(const berth_op_call* call) {
    sort_job job;
    sort_job_init(&job, call, call->output_count > 1);
    job.out_values = call->outputs[0].data;
    if (call->output_count > 1) job.out_numbers = call->outputs[1].data;
    run_sort(&job, call);
}

static void kernel_argsort(const berth_op_call* call) {
    sort_job job;
    sort_job_init(&job, call, true);
    job.out_numbers = call->outputs[0].data;
    run_sort(&job, call);
}

// --- The few first -------------------------------------------------------------------------------

/// What may still be among the first of a row.
typedef struct candidates {
    const sort_job* job;
    berth_sort_region region;
    int64_t held;    ///< records
    bool is_limited; ///< only keys below `limit` are let in
    uint64_t limit;
} candidates;

/// Sorts the candidates and keeps the first.
static void cut(candidates* c) {
    void* sorted = berth_sorting_run(&c->job->sorting, &c->region, NULL, c->held);
    if (sorted != c->region.records) {
        c->region.spare = c->region.records;
        c->region.records = sorted;
    }
    if (c->held < c->job->kept) return;
    c->held = c->job->kept;
    c->is_limited = true;
    c->limit = berth_record_key(&c->job->sorting, sorted, c->held - 1);
}

static unsigned char* next_record(candidates* c, int64_t wanted) {
    if (c->held + wanted > c->job->capacity) cut(c);
    return (unsigned char*)c->region.records + c->held * c->job->sorting.record_bytes;
}

/// Lets in items [begin, begin + count) of the row. An element with the limit's own key comes too
/// late: those that are held stand before it.
static void admit(candidates* c, const berth_walk* row, int64_t begin, int64_t count) {
    const berth_sorting* sorting = &c->job->sorting;
    uint64_t keys[PIECE];
    (void)berth_sorting_keys(sorting, row, begin, count, keys);
    unsigned char* to = next_record(c, count);
    if (!c->is_limited) {
        berth_sorting_number(sorting, keys, NULL, begin, count, to);
        c->held += count;
        return;
    }
    uint8_t flags[PIECE];
    uint32_t positions[PIECE];
    const void* from = keys;
    const int64_t below = sorting->dtype == BERTH_I64
                              ? sorting->rows->below_64(flags, from, count, c->limit)
                              : sorting->rows->below(flags, from, count, (uint32_t)c->limit);
    if (below == 0) return;
    sorting->rows->positions(positions, flags, count);
    berth_sorting_number(sorting, keys, positions, begin, below, to);
    c->held += below;
}

static candidates first_of(const sort_row* row, int64_t begin, int64_t end, int64_t region) {
    const sort_job* job = row->job;
    candidates c = {
        .job = job,
        .region = berth_sort_region_at(&job->sorting, job->scratch, region, job->capacity),
    };
    for (int64_t at = begin; at < end;) {
        // the sooner there is a limit, the more is passed over
        const int64_t count = berth_min_i64(c.is_limited ? PIECE : TOPK_FIRST, end - at);
        admit(&c, &row->from, at, count);
        at += count;
        if (!c.is_limited && c.held >= job->kept + TOPK_FIRST / 2) cut(&c);
    }
    cut(&c);
    return c;
}

static void store_first(sort_row* row, const candidates* c) {
    row->sorted = c->region.records;
    store_range(row, 0, row->job->kept, 0);
}

static void topk_range(void* data, int64_t begin, int64_t end, uint32_t worker) {
    const sort_job* job = data;
    for (int64_t index = begin; index < end; ++index) {
        sort_row row;
        row_init(&row, job, index, worker);
        const candidates c = first_of(&row, 0, job->length, worker);
        store_first(&row, &c);
    }
}

typedef struct parts_job {
    const sort_row* row;
    candidates parts[TOPK_PARTS];
} parts_job;

static void parts_range(void* data, int64_t begin, int64_t end, uint32_t worker) {
    (void)worker;
    parts_job* job = data;
    const int64_t size = job->row->job->length / TOPK_PARTS;
    for (int64_t part = begin; part < end; ++part) {
        const bool is_last = part == TOPK_PARTS - 1;
        const int64_t last = is_last ? job->row->job->length : (part + 1) * size;
        job->parts[part] = first_of(job->row, part * size, last, part + 1);
    }
}

/// Adds what a later part of the row has found.
static void join(candidates* c, const candidates* part) {
    const berth_sorting* sorting = &c->job->sorting;
    int64_t count = part->held;
    unsigned char* to = next_record(c, count);
    while (c->is_limited && count > 0 &&
           berth_record_key(sorting, part->region.records, count - 1) >= c->limit)
        --count;
    memcpy(to, part->region.records, (size_t)(count * sorting->record_bytes));
    c->held += count;
}

static void topk_by_parts(const sort_job* job, berth_team* team, int64_t index) {
    sort_row row;
    row_init(&row, job, index, 0);
    parts_job parts = {.row = &row};
    berth_team_for(team, TOPK_PARTS, 1, parts_range, &parts);
    candidates all = {.job = job, .region = row.region};
    for (int64_t part = 0; part < TOPK_PARTS; ++part)
        join(&all, &parts.parts[part]);
    cut(&all);
    store_first(&row, &all);
}

static void topk_job_init(sort_job* job, const berth_op_call* call) {
    const berth_topk_params* params = call->params;
    job_init(job, call, params->dim);
    job->sorting = berth_sorting_make(job->x.dtype, job->length, params->largest, true);
    job->kept = params->k;
    job->is_few = job->kept <= job->length / (job->is_long ? TOPK_FEW_LONG : TOPK_FEW);
    if (job->is_few) job->capacity = 2 * job->kept + TOPK_SPARE;
}

uint64_t berth_cpu_topk_scratch(const berth_op_call* call) {
    sort_job job;
    topk_job_init(&job, call);
    return scratch_bytes(&job, call);
}

static void kernel_topk(const berth_op_call* call) {
    sort_job job;
    topk_job_init(&job, call);
    job.out_values = call->outputs[0].data;
    if (call->output_count > 1) job.out_numbers = call->outputs[1].data;
    if (!job.is_few) {
        run_sort(&job, call);
    } else if (job.kept > 0 && !job.is_long) {
        const int64_t least = 1 + LEAST / job.length;
        berth_run_range(call, job.row_count, 1, least, topk_range, &job);
    } else if (job.kept > 0) {
        for (int64_t index = 0; index < job.row_count; ++index)
            topk_by_parts(&job, call->team, index);
    }
}

void berth_cpu_fill_sort_kernels(berth_kernel* table) {
    table[BERTH_OP_SORT] = kernel_sort;
    table[BERTH_OP_ARGSORT] = kernel_argsort;
    table[BERTH_OP_TOPK] = kernel_topk;
}
