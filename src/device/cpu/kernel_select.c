// SPDX-License-Identifier: Apache-2.0
// NONZERO MASKED_SELECT: a counting kernel finds where the results of each chunk go, the kernel
// proper writes them there.
#include <string.h>

#include "device/cpu/kernel_basic.h"
#include "device/cpu/kernel_select_rows.h"
#include "device/cpu/kernel_sort.h"

#define PIECE BERTH_SELECT_PIECE
#define CHUNK 16384 // elements, a multiple of PIECE

/// The workspace: results in all, then in the chunks before each.
typedef struct select_counts {
    int64_t total;
    int64_t before[];
} select_counts;

typedef struct select_job {
    const berth_select_rows* rows;
    berth_walk flags; ///< of items that count if they are not zero
    int64_t count;    ///< items
    int64_t chunk_count;
    int64_t written; ///< results, by the outputs' shape
    select_counts* counts;
    // MASKED_SELECT
    berth_walk from;
    int32_t width; ///< of an element: which function packs it
    // NONZERO
    const berth_view* x;
    void* out;
} select_job;

static uint64_t scratch_bytes(int64_t count) {
    return sizeof(int64_t) * (uint64_t)(1 + berth_ceil_div(count, CHUNK));
}

static int64_t flags_of(const select_job* job, int64_t begin, int64_t count, uint8_t* flags) {
    uint64_t buffer[PIECE];
    const void* items = berth_walk_as(&job->flags, job->flags.dtype, begin, count, buffer);
    return job->rows->nonzero[job->flags.dtype](flags, items, count);
}

// --- Counting ------------------------------------------------------------------------------------

static void count_range(void* data, int64_t begin, int64_t end, uint32_t worker) {
    (void)worker;
    const select_job* job = data;
    for (int64_t chunk = begin; chunk < end; ++chunk) {
        const int64_t last = berth_min_i64((chunk + 1) * CHUNK, job->count);
        int64_t found = 0;
        for (int64_t at = chunk * CHUNK; at < last; at += PIECE) {
            uint8_t flags[PIECE];
            found += flags_of(job, at, berth_min_i64(PIECE, last - at), flags);
        }
        job->counts->before[chunk] = found;
    }
}

static void run_count(const berth_op_call* call, select_job* job) {
    berth_run_range(call, job->chunk_count, 1, 2, count_range, job);
    int64_t total = 0;
    for (int64_t chunk = 0; chunk < job->chunk_count; ++chunk) {
        const int64_t found = job->counts->before[chunk];
        job->counts->before[chunk] = total;
        total += found;
    }
    job->counts->total = total;
}

static void job_init(select_job* job, const berth_op_call* call, int64_t count) {
    *job = (select_job){
        .rows = berth_select_query_rows(),
        .count = count,
        .chunk_count = berth_ceil_div(count, CHUNK),
        .counts = call->scratch,
        .x = &call->inputs[0],
    };
}

/// How many results of `chunk` there is room for: what was counted, whatever the data is now.
static int64_t room_of(const select_job* job, int64_t chunk) {
    const int64_t next =
        chunk + 1 < job->chunk_count ? job->counts->before[chunk + 1] : job->written;
    return next - job->counts->before[chunk];
}

// --- NONZERO -------------------------------------------------------------------------------------

/// The indices of an element, counted up.
typedef struct odometer {
    const berth_view* x;
    int64_t row; ///< number of the first element of its row
    int64_t index[BERTH_MAX_RANK];
} odometer;

static void odometer_set(odometer* at, const berth_view* x, int64_t number) {
    const int64_t length = x->dims[x->rank - 1];
    int64_t rest = number / length;
    *at = (odometer){.x = x, .row = rest * length};
    for (int32_t d = x->rank - 1; d-- > 0;) {
        at->index[d] = rest % x->dims[d];
        rest /= x->dims[d];
    }
}

static void odometer_next_row(odometer* at) {
    at->row += at->x->dims[at->x->rank - 1];
    for (int32_t d = at->x->rank - 1; d-- > 0;) {
        if (++at->index[d] < at->x->dims[d]) return;
        at->index[d] = 0;
    }
}

/// Writes the indices of the elements first + positions[i].
static int64_t* write_indices(
    odometer* at, const uint32_t* positions, int64_t count, int64_t first, int64_t* out) {
    const int32_t rank = at->x->rank;
    const int64_t length = at->x->dims[rank - 1];
    if (rank == 1) {
        for (int64_t i = 0; i < count; ++i)
            out[i] = first + positions[i];
        return out + count;
    }
    for (int64_t i = 0; i < count; ++i) {
        const int64_t number = first + positions[i];
        while (number - at->row >= length)
            odometer_next_row(at);
        for (int32_t d = 0; d < rank - 1; ++d)
            out[d] = at->index[d];
        out[rank - 1] = number - at->row;
        out += rank;
    }
    return out;
}

static void nonzero_range(void* data, int64_t begin, int64_t end, uint32_t worker) {
    (void)worker;
    const select_job* job = data;
    for (int64_t chunk = begin; chunk < end; ++chunk) {
        const int64_t last = berth_min_i64((chunk + 1) * CHUNK, job->count);
        int64_t* out = (int64_t*)job->out + job->counts->before[chunk] * job->x->rank;
        int64_t room = room_of(job, chunk);
        odometer at;
        odometer_set(&at, job->x, chunk * CHUNK);
        for (int64_t i = chunk * CHUNK; i < last && room > 0; i += PIECE) {
            const int64_t count = berth_min_i64(PIECE, last - i);
            uint8_t flags[PIECE];
            uint32_t positions[PIECE];
            if (flags_of(job, i, count, flags) == 0) continue;
            int64_t found = job->rows->positions(positions, flags, count);
            found = berth_min_i64(found, room);
            out = write_indices(&at, positions, found, i, out);
            room -= found;
        }
    }
}

static void nonzero_init(select_job* job, const berth_op_call* call) {
    job_init(job, call, berth_view_count(&call->inputs[0]));
    berth_walk_init(&job->flags, &call->inputs[0]);
}

uint64_t berth_cpu_nonzero_scratch(const berth_op_call* call) {
    return scratch_bytes(berth_view_count(&call->inputs[0]));
}

void berth_cpu_nonzero_count(const berth_op_call* call) {
    select_job job;
    nonzero_init(&job, call);
    run_count(call, &job);
}

static void kernel_nonzero(const berth_op_call* call) {
    select_job job;
    nonzero_init(&job, call);
    job.out = call->outputs[0].data;
    job.written = call->outputs[0].dims[0];
    if (job.x->rank > 0) berth_run_range(call, job.chunk_count, 1, 2, nonzero_range, &job);
}

// --- MASKED_SELECT -------------------------------------------------------------------------------

static void select_range(void* data, int64_t begin, int64_t end, uint32_t worker) {
    (void)worker;
    const select_job* job = data;
    const int64_t bytes = job->from.item_bytes;
    for (int64_t chunk = begin; chunk < end; ++chunk) {
        const int64_t last = berth_min_i64((chunk + 1) * CHUNK, job->count);
        unsigned char* out = (unsigned char*)job->out + job->counts->before[chunk] * bytes;
        int64_t room = room_of(job, chunk);
        for (int64_t i = chunk * CHUNK; i < last && room > 0; i += PIECE) {
            const int64_t count = berth_min_i64(PIECE, last - i);
            uint8_t flags[PIECE];
            uint64_t buffer[PIECE], packed[PIECE];
            if (flags_of(job, i, count, flags) == 0) continue;
            const void* items = berth_walk_as(&job->from, job->from.dtype, i, count, buffer);
            int64_t found = job->rows->pack[job->width](packed, items, flags, count);
            found = berth_min_i64(found, room);
            memcpy(out, packed, (size_t)(found * bytes));
            out += found * bytes;
            room -= found;
        }
    }
}

/// The shape that x and mask are broadcast to.
static berth_view common_shape(const berth_op_call* call) {
    const berth_view* x = &call->inputs[0];
    const berth_view* mask = &call->inputs[1];
    const bool x_is_longer = x->rank >= mask->rank;
    const berth_view* other = x_is_longer ? mask : x;
    berth_view shape = x_is_longer ? *x : *mask;
    const int32_t missing = shape.rank - other->rank;
    for (int32_t d = 0; d < other->rank; ++d)
        if (other->dims[d] != 1) shape.dims[missing + d] = other->dims[d];
    return shape;
}

static void masked_select_init(select_job* job, const berth_op_call* call) {
    const berth_view shape = common_shape(call);
    job_init(job, call, berth_view_count(&shape));
    berth_walk_init_like(&job->flags, &call->inputs[1], &shape);
    berth_walk_init_like(&job->from, &call->inputs[0], &shape);
    job->width = berth_width_of(job->from.item_bytes);
}

uint64_t berth_cpu_masked_select_scratch(const berth_op_call* call) {
    const berth_view shape = common_shape(call);
    return scratch_bytes(berth_view_count(&shape));
}

void berth_cpu_masked_select_count(const berth_op_call* call) {
    select_job job;
    masked_select_init(&job, call);
    run_count(call, &job);
}

static void kernel_masked_select(const berth_op_call* call) {
    select_job job;
    masked_select_init(&job, call);
    job.out = call->outputs[0].data;
    job.written = call->outputs[0].dims[0];
    berth_run_range(call, job.chunk_count, 1, 2, select_range, &job);
}

void berth_cpu_fill_select_kernels(berth_kernel* table) {
    table[BERTH_OP_NONZERO] = kernel_nonzero;
    table[BERTH_OP_MASKED_SELECT] = kernel_masked_select;
}
