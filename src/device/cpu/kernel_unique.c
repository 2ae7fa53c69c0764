// SPDX-License-Identifier: Apache-2.0
// UNIQUE: the counting kernel sorts all elements in the workspace and counts where a value begins;
// the kernel proper reads the result off.
#include <string.h>

#include "base/op_params.h"
#include "device/cpu/kernel_sort.h"
#include "device/cpu/kernel_sort_records.h"

#define PIECE BERTH_SELECT_PIECE
#define CHUNK 16384 // records, a multiple of PIECE

/// The workspace begins with this; a region to sort in follows, whose place for counts then holds
/// the distinct values before each chunk.
typedef struct unique_head {
    int64_t count;    ///< of distinct values
    int64_t is_spare; ///< the sorted records are in the region's spare half
    uint64_t unused[6];
} unique_head;
_Static_assert(sizeof(unique_head) == 64, "records are aligned as the workspace is");

typedef struct unique_job {
    berth_sorting sorting;
    berth_walk x;
    int64_t count; ///< elements
    int64_t chunk_count;
    unique_head* head;
    berth_sort_region region;
    const unsigned char* sorted;
    unsigned char* values;
    int64_t* inverse; ///< or NULL
    int64_t* starts;  ///< or NULL: where the records of each distinct value begin
} unique_job;

static void job_init(unique_job* job, const berth_op_call* call) {
    const berth_view* x = &call->inputs[0];
    *job = (unique_job){.count = berth_view_count(x), .head = call->scratch};
    job->chunk_count = berth_ceil_div(job->count, CHUNK);
    job->sorting = berth_sorting_make(x->dtype, job->count, false, true);
    berth_walk_init(&job->x, x);
    job->region = berth_sort_region_at(&job->sorting, job->head + 1, 0, job->count);
}

uint64_t berth_cpu_unique_scratch(const berth_op_call* call) {
    const int64_t count = berth_view_count(&call->inputs[0]);
    const berth_sorting sorting = berth_sorting_make(call->inputs[0].dtype, count, false, true);
    return sizeof(unique_head) + berth_sort_region_bytes(&sorting, count) +
           berth_sort_team_bytes(count);
}

// --- Counting ------------------------------------------------------------------------------------

static void load_range(void* data, int64_t begin, int64_t end, uint32_t worker) {
    (void)worker;
    const unique_job* job = data;
    unsigned char* records = job->region.records;
    for (int64_t at = begin; at < end; at += PIECE) {
        const int64_t count = berth_min_i64(PIECE, end - at);
        uint64_t keys[PIECE];
        (void)berth_sorting_keys(&job->sorting, &job->x, at, count, keys);
        berth_sorting_number(
            &job->sorting, keys, NULL, at, count, records + at * job->sorting.record_bytes);
    }
}

/// flags[i]: record begin + i is the first of its value. Returns how many are.
static int64_t find_firsts(const unique_job* job, int64_t begin, int64_t count, uint8_t* flags) {
    const berth_sorting* sorting = &job->sorting;
    uint64_t previous = begin > 0 ? berth_record_key(sorting, job->sorted, begin - 1) : 0;
    int64_t found = 0;
    for (int64_t i = 0; i < count; ++i) {
        const uint64_t key = berth_record_key(sorting, job->sorted, begin + i);
        flags[i] = key != previous || berth_sorting_is_nan(sorting, key) || begin + i == 0;
        found += flags[i];
        previous = key;
    }
    return found;
}

static void count_range(void* data, int64_t begin, int64_t end, uint32_t worker) {
    (void)worker;
    const unique_job* job = data;
    for (int64_t chunk = begin; chunk < end; ++chunk) {
        const int64_t last = berth_min_i64((chunk + 1) * CHUNK, job->count);
        int64_t found = 0;
        for (int64_t at = chunk * CHUNK; at < last; at += PIECE) {
            uint8_t flags[PIECE];
            found += find_firsts(job, at, berth_min_i64(PIECE, last - at), flags);
        }
        job->region.counts[chunk] = found;
    }
}

void berth_cpu_unique_count(const berth_op_call* call) {
    unique_job job;
    job_init(&job, call);
    *job.head = (unique_head){0};
    if (job.count == 0) return;
    berth_run_range(call, job.count, PIECE, CHUNK, load_range, &job);
    void* sorted = berth_sorting_run(&job.sorting, &job.region, call->team, job.count);
    job.head->is_spare = sorted == job.region.spare;
    job.sorted = sorted;
    berth_run_range(call, job.chunk_count, 1, 2, count_range, &job);
    for (int64_t chunk = 0; chunk < job.chunk_count; ++chunk) {
        const int64_t found = job.region.counts[chunk];
        job.region.counts[chunk] = job.head->count;
        job.head->count += found;
    }
}

// --- Reading off ---------------------------------------------------------------------------------

/// Writes the values that begin among the records of a piece, from distinct value `first` on.
static void write_values(
    const unique_job* job, int64_t begin, int64_t count, const uint8_t* flags, int64_t first) {
    const int64_t bytes = job->sorting.record_bytes;
    berth_sort_pair room[PIECE]; // records of any kind
    unsigned char* firsts = (unsigned char*)room;
    int64_t found = 0;
    for (int64_t i = 0; i < count; ++i) {
        if (flags[i] == 0) continue;
        memcpy(firsts + found * bytes, job->sorted + (begin + i) * bytes, (size_t)bytes);
        if (job->starts != NULL) job->starts[first + found] = begin + i;
        ++found;
    }
    const int64_t item = job->sorting.item_bytes;
    berth_sorting_store(&job->sorting, &job->x, firsts, 0, found, job->values + first * item, item);
}

static void read_range(void* data, int64_t begin, int64_t end, uint32_t worker) {
    (void)worker;
    const unique_job* job = data;
    for (int64_t chunk = begin; chunk < end; ++chunk) {
        const int64_t last = berth_min_i64((chunk + 1) * CHUNK, job->count);
        int64_t next = job->region.counts[chunk]; // the distinct value that begins next
        for (int64_t at = chunk * CHUNK; at < last; at += PIECE) {
            const int64_t count = berth_min_i64(PIECE, last - at);
            uint8_t flags[PIECE];
            const int64_t found = find_firsts(job, at, count, flags);
            write_values(job, at, count, flags, next);
            int64_t value = next - 1;
            for (int64_t i = 0; i < count && job->inverse != NULL; ++i) {
                value += flags[i];
                job->inverse[berth_record_number(&job->sorting, job->sorted, at + i)] = value;
            }
            next += found;
        }
    }
}

static void kernel_unique(const berth_op_call* call) {
    const berth_unique_params* params = call->params;
    unique_job job;
    job_init(&job, call);
    if (job.count == 0) return;
    job.sorted = job.head->is_spare ? job.region.spare : job.region.records;
    job.values = call->outputs[0].data;
    if (params->with_inverse) job.inverse = call->outputs[1].data;
    if (params->with_counts) job.starts = call->outputs[params->with_inverse ? 2 : 1].data;
    berth_run_range(call, job.chunk_count, 1, 2, read_range, &job);
    if (job.starts == NULL) return;
    for (int64_t i = 0; i < job.head->count; ++i) {
        const int64_t end = i + 1 < job.head->count ? job.starts[i + 1] : job.count;
        job.starts[i] = end - job.starts[i];
    }
}

void berth_cpu_fill_unique_kernels(berth_kernel* table) { table[BERTH_OP_UNIQUE] = kernel_unique; }
