// SPDX-License-Identifier: Apache-2.0
// PAGED_ATTENTION: new keys and values are written into the blocks first, by all workers; then
// every sequence attends, as ATTENTION would to its keys side by side.
//
// The tables are data, and on an asynchronous device nobody has looked at them: a sequence whose
// numbers do not fit the operands is passed over, a number that is no block hides its keys, and
// what would be written there is not written. No block is touched that the tables do not name.
#include <string.h>

#include "base/checked.h"
#include "base/op_params.h"
#include "device/cpu/kernel_attention.h"
#include "device/cpu/kernel_attention_units.h"

#define LEAST_WRITTEN 65536 // values that are worth a second thread

enum { Q, KEY_BLOCKS, VALUE_BLOCKS, SEQUENCES, BLOCKS, NEW_KEYS, NEW_VALUES };

/// The new rows of a sequence: they come after all other new rows before them in the job.
typedef struct new_rows {
    int64_t begin;       ///< rows of the sequences before
    int64_t first_row;   ///< of the operands
    int64_t first_key;   ///< position in the sequence
    int64_t first_entry; ///< of the sequence in the table
} new_rows;

/// What the scratch holds, in this order: a row for each sequence, workers, slots.
typedef struct scratch_sizes {
    uint64_t sequence_bytes;
    uint64_t worker_bytes; ///< of all workers
    uint64_t slot_bytes;   ///< of all slots
} scratch_sizes;

static bool scratch_of(const berth_op_call* call, scratch_sizes* s) {
    const berth_view* q = &call->inputs[Q];
    const berth_view* keys = &call->inputs[KEY_BLOCKS];
    const int64_t width = call->inputs[VALUE_BLOCKS].dims[3];
    const uint64_t sequences = (uint64_t)call->inputs[SEQUENCES].dims[0];
    const uint64_t workers = berth_team_worker_count(call->team);
    const uint64_t worker =
        (uint64_t)berth_attention_worker_floats(q->dims[2], width, BERTH_ATTENTION_ROWS, true) *
        sizeof(float);
    // whole cache lines for each, so that the sum is linear in the sequences
    const uint64_t each = berth_round_up(sizeof(berth_attention_sequence) + sizeof(new_rows), 64);
    if (!berth_mul_u64(sequences, each, &s->sequence_bytes) ||
        !berth_mul_u64(workers, worker, &s->worker_bytes))
        return false;
    s->slot_bytes = 0;
    if (workers == 1) return true;
    // A little more than the segments of all sequences take, but linear in the sizes.
    const uint64_t row =
        (uint64_t)berth_attention_slot_floats(width) * sizeof(float) * (uint64_t)q->dims[1];
    const int64_t block = berth_ceil_div((int64_t)row * keys->dims[1], BERTH_ATTENTION_SEGMENT);
    uint64_t of_blocks;
    return berth_mul_u64(row, sequences, &s->slot_bytes) &&
           berth_mul_u64((uint64_t)block, (uint64_t)call->inputs[BLOCKS].dims[0], &of_blocks) &&
           berth_add_u64(s->slot_bytes, of_blocks, &s->slot_bytes);
}

uint64_t berth_cpu_paged_attention_scratch(const berth_op_call* call) {
    scratch_sizes s;
    uint64_t bytes;
    if (!scratch_of(call, &s) || !berth_add_u64(s.sequence_bytes, s.worker_bytes, &bytes) ||
        !berth_add_u64(bytes, s.slot_bytes, &bytes))
        return UINT64_MAX; // more than any device has
    return bytes;
}

// --- Tables --------------------------------------------------------------------------------------

/// True if `count` items from `first` on are among `size`.
static bool is_within(int64_t first, int64_t count, int64_t size) {
    return first >= 0 && count >= 0 && first + count <= size;
}

/// Reads row `index` of `sequences`; false if its numbers do not fit the operands.
static bool read_sequence(const berth_op_call* call,
                          int64_t index,
                          berth_attention_sequence* out,
                          new_rows* out_new,
                          int64_t* out_new_count) {
    const berth_view* table = &call->inputs[SEQUENCES];
    int32_t numbers[6] = {0};
    for (int64_t i = 0; i < table->dims[1]; ++i) {
        const int64_t at = index * table->strides[0] + i * table->strides[1];
        memcpy(&numbers[i], (const unsigned char*)table->data + at * 4, sizeof numbers[i]);
    }
    const int64_t queries = numbers[1], keys = numbers[2], first_entry = numbers[3];
    const int64_t size = call->inputs[KEY_BLOCKS].dims[1];
    const int64_t rows = call->input_count > NEW_KEYS ? call->inputs[NEW_KEYS].dims[0] : 0;
    *out = (berth_attention_sequence){
        .first_query = numbers[0],
        .queries = queries,
        .keys = keys,
        .first_seen = keys - queries + 1,
        .first_entry = first_entry,
    };
    *out_new = (new_rows){
        .first_row = numbers[4], .first_key = keys - numbers[5], .first_entry = first_entry};
    *out_new_count = numbers[5];
    return (size > 0 || keys == 0) && queries <= keys && numbers[5] <= keys &&
           is_within(numbers[0], queries, call->inputs[Q].dims[0]) &&
           is_within(first_entry,
                     size > 0 ? berth_ceil_div(keys, size) : 0,
                     call->inputs[BLOCKS].dims[0]) &&
           is_within(numbers[4], numbers[5], rows);
}

// --- Writing -------------------------------------------------------------------------------------

typedef struct write_job {
    const berth_op_call* call;
    const berth_attention_job* attention;
    const new_rows* rows; ///< [count]
    int64_t count;
} write_job;

/// Writes row `row` of `x`, one head after the other, as row `place` of a block.
static void write_row(
    const berth_view* blocks, int64_t block, int64_t place, const berth_view* x, int64_t row) {
    const int64_t from_bytes = berth_dtype_bytes(x->dtype);
    for (int64_t head = 0; head < x->dims[1]; ++head) {
        const int64_t from = row * x->strides[0] + head * x->strides[1];
        const int64_t to =
            block * blocks->strides[0] + place * blocks->strides[1] + head * blocks->strides[2];
        const unsigned char* source = (const unsigned char*)x->data + from * from_bytes;
        unsigned char* target =
            (unsigned char*)blocks->data + to * berth_dtype_bytes(blocks->dtype);
        if (berth_dtype_is_plain(blocks->dtype)) {
            berth_convert_plain(x->dtype, blocks->dtype, source, target, x->dims[2]);
            continue;
        }
        const berth_dtype_info* info = berth_dtype_info_of(blocks->dtype);
        float values[BERTH_CHUNK];
        for (int64_t d = 0; d < x->dims[2]; d += BERTH_CHUNK) {
            const int64_t count = berth_min_i64(BERTH_CHUNK, x->dims[2] - d);
            berth_convert_query_to_f32(x->dtype)(source + d * from_bytes, values, count);
            berth_convert_query_from_f32(blocks->dtype)(
                values, target + d / info->block_values * info->block_bytes, count);
        }
    }
}

/// The new rows that row `index` of all is among: the last ones that begin there or before.
static const new_rows* rows_of(const write_job* job, int64_t index) {
    int64_t low = 0, high = job->count; // they are in [low, high)
    while (high - low > 1) {
        const int64_t middle = low + (high - low) / 2;
        if (job->rows[middle].begin <= index)
            low = middle;
        else
            high = middle;
    }
    return &job->rows[low];
}

static void write_range(void* data, int64_t begin, int64_t end, uint32_t worker) {
    (void)worker;
    const write_job* job = data;
    const berth_op_call* call = job->call;
    const int64_t size = call->inputs[KEY_BLOCKS].dims[1];
    for (int64_t i = begin; i < end; ++i) {
        const new_rows* rows = rows_of(job, i);
        const int64_t key = rows->first_key + i - rows->begin;
        const int64_t block =
            berth_attention_block_at(job->attention, rows->first_entry + key / size);
        if (block < 0) continue;
        const int64_t row = rows->first_row + i - rows->begin;
        write_row(&call->inputs[KEY_BLOCKS], block, key % size, &call->inputs[NEW_KEYS], row);
        write_row(&call->inputs[VALUE_BLOCKS], block, key % size, &call->inputs[NEW_VALUES], row);
    }
}

static void write_rows(write_job* job, int64_t rows) {
    const berth_op_call* call = job->call;
    const berth_view* keys = &call->inputs[KEY_BLOCKS];
    const int64_t values = keys->dims[2] * (keys->dims[3] + call->inputs[VALUE_BLOCKS].dims[3]);
    berth_run_range(call, rows, 1, LEAST_WRITTEN / (values + 1) + 1, write_range, job);
}

// --- The call ------------------------------------------------------------------------------------

/// Sequences of a call in its scratch, those that fit the operands.
typedef struct sequence_list {
    berth_attention_sequence* sequences;
    new_rows* rows;
    int64_t count;
    int64_t new_count;  ///< rows to write in all
    bool cover_queries; ///< each row of q is some sequence's
} sequence_list;

static void read_sequences(const berth_op_call* call, sequence_list* list) {
    const int64_t most = call->inputs[SEQUENCES].dims[0];
    int64_t covered = 0;
    *list = (sequence_list){.sequences = call->scratch};
    list->rows = (new_rows*)(void*)(list->sequences + most);
    for (int64_t i = 0; i < most; ++i) {
        berth_attention_sequence* sequence = &list->sequences[list->count];
        new_rows* rows = &list->rows[list->count];
        int64_t new_count;
        if (!read_sequence(call, i, sequence, rows, &new_count)) continue;
        rows->begin = list->new_count;
        list->new_count += new_count;
        if (sequence->first_query == covered) covered += sequence->queries;
        ++list->count;
    }
    list->cover_queries = covered == call->inputs[Q].dims[0];
}

static void kernel_paged_attention(const berth_op_call* call) {
    const berth_paged_attention_params* params = call->params;
    const berth_view* out = &call->outputs[0];
    scratch_sizes sizes;
    sequence_list list;
    if (!scratch_of(call, &sizes)) return;
    read_sequences(call, &list);
    const int64_t out_count = berth_view_count(out);
    if (!list.cover_queries && out_count > 0)
        memset(out->data, 0, (size_t)(out_count * berth_dtype_bytes(out->dtype)));
    unsigned char* scratch = call->scratch;
    berth_attention_job job = {
        .q = call->inputs[Q],
        .keys = call->inputs[KEY_BLOCKS],
        .values = call->inputs[VALUE_BLOCKS],
        .out = *out,
        .table = &call->inputs[BLOCKS],
        .scale = params->scale,
        .unit_rows = BERTH_ATTENTION_ROWS,
        .workers = (float*)(void*)(scratch + sizes.sequence_bytes),
        .slots = (float*)(void*)(scratch + sizes.sequence_bytes + sizes.worker_bytes),
    };
    const int64_t slot_floats = berth_attention_slot_floats(job.values.dims[3]);
    job.slot_count = (int64_t)(sizes.slot_bytes / sizeof(float)) / slot_floats;
    write_job writing = {.call = call, .attention = &job, .rows = list.rows, .count = list.count};
    write_rows(&writing, list.new_count);
    berth_attention_run(call, &job, list.sequences, list.count);
}

void berth_cpu_fill_paged_attention_kernels(berth_kernel* table) {
    table[BERTH_OP_PAGED_ATTENTION] = kernel_paged_attention;
}
