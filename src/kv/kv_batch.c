// SPDX-License-Identifier: Apache-2.0
// Batches: room for what a step adds, its tables, its ops.
#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "berth/ops.h"
#include "exec/api.h"
#include "exec/paged_attention.h"
#include "exec/upkeep.h"
#include "kv/kv_internal.h"

enum { ROW_NUMBERS = 6 }; // of a part, as the attention op takes them

// --- Arrays --------------------------------------------------------------------------------------

/// Room for the arrays of so many parts. Errors: BERTH_ERR_OUT_OF_MEMORY.
static berth_status reserve_parts(berth_kv_cache* cache, size_t count) {
    berth_kv_batch* batch = &cache->batch;
    const berth_host* host = cache->blocks.host;
    if (count <= batch->sequence_capacity) return BERTH_OK;
    // one array for three: pointers, and two sizes each
    berth_kv_sequence** sequences =
        berth_host_calloc(host, count, sizeof *sequences + 2 * sizeof(size_t));
    if (sequences == NULL)
        return berth_fail(BERTH_ERR_OUT_OF_MEMORY, "no host memory for the parts of a batch");
    berth_host_free(host, batch->sequences);
    batch->sequences = sequences;
    batch->old_tokens = (size_t*)(void*)(sequences + count);
    batch->old_blocks = batch->old_tokens + count;
    batch->sequence_capacity = count;
    return BERTH_OK;
}

/// Lays the arrays of numbers out for S parts, T tokens and M blocks.
static berth_status reserve_numbers(berth_kv_cache* cache, size_t s, size_t t, size_t m) {
    berth_kv_batch* batch = &cache->batch;
    const berth_host* host = cache->blocks.host;
    const size_t count = 2 * (s + 1) + 3 * s + 2 * ROW_NUMBERS * s + 2 * t + m;
    if (count > batch->number_capacity) {
        const size_t capacity = count + count / 2;
        int32_t* numbers = berth_host_calloc(host, capacity, sizeof *numbers);
        if (numbers == NULL)
            return berth_fail(BERTH_ERR_OUT_OF_MEMORY, "no host memory for the tables of a batch");
        berth_host_free(host, batch->numbers);
        batch->numbers = numbers;
        batch->number_capacity = capacity;
    }
    int32_t* at = batch->numbers;
    batch->token_starts = at;
    batch->block_starts = at += s + 1;
    batch->last_block_tokens = at += s + 1;
    batch->lengths = at += s;
    batch->last_rows = at += s;
    batch->rows = at += s;
    batch->last_queries = at += ROW_NUMBERS * s;
    batch->ids = at += ROW_NUMBERS * s;
    batch->positions = at += t;
    batch->block_indices = at + t;
    return BERTH_OK;
}

void berth_kv_batch_fini(berth_kv_cache* cache) {
    // the device may not have read the arrays yet
    if (cache->batch.ticket != 0) (void)!berth_stream_drain(cache->context->home.stream);
    berth_host_free(cache->blocks.host, cache->batch.sequences);
    berth_host_free(cache->blocks.host, cache->batch.numbers);
    cache->batch = (berth_kv_batch){0};
}

// --- Beginning -----------------------------------------------------------------------------------

static berth_status check_part(const berth_kv_cache* cache, const berth_kv_part* part, size_t at) {
    const berth_kv_sequence* sequence = part->sequence;
    const char* what = NULL;
    if (sequence == NULL)
        what = "has no sequence";
    else if (sequence->cache != cache)
        what = "has a sequence of another cache";
    else if (sequence->is_parked)
        what = "has a sequence that is parked";
    else if (sequence->is_in_batch)
        what = "has a sequence that another part has";
    else if (part->count < 1 || part->tokens == NULL)
        what = "adds no tokens";
    else if ((uint64_t)part->count > (uint64_t)INT32_MAX - sequence->tokens.count)
        what = "adds more tokens than a sequence may have";
    if (what == NULL) return BERTH_OK;
    return berth_fail(BERTH_ERR_INVALID_ARGUMENT, "part %zu of the batch %s", at, what);
}

static size_t blocks_for(const berth_kv_cache* cache, size_t tokens) {
    const uint32_t size = berth_kv_block_tokens(cache);
    return (tokens + size - 1) / size;
}

/// The sizes of a batch that is to begin.
typedef struct extent {
    size_t tokens;
    size_t blocks;     ///< of all parts, new ones included
    size_t new_blocks; ///< copies included
} extent;

/// Checks the parts and marks their sequences.
static berth_status join_parts(berth_kv_cache* cache,
                               const berth_kv_part* parts,
                               size_t count,
                               extent* out_extent) {
    *out_extent = (extent){0};
    for (size_t i = 0; i < count; ++i) {
        BERTH_TRY(check_part(cache, &parts[i], i));
        berth_kv_sequence* sequence = parts[i].sequence;
        const size_t blocks = blocks_for(cache, sequence->tokens.count + (size_t)parts[i].count);
        sequence->is_in_batch = true;
        cache->batch.sequences[cache->batch.tables.sequences++] = sequence;
        out_extent->tokens += (size_t)parts[i].count;
        out_extent->blocks += blocks;
        out_extent->new_blocks += blocks - sequence->blocks.count;
        out_extent->new_blocks += berth_kv_needs_copy(sequence);
        if (out_extent->tokens > INT32_MAX || out_extent->blocks > INT32_MAX)
            return berth_fail(BERTH_ERR_INVALID_ARGUMENT,
                              "the batch has more tokens or blocks than tables can number");
    }
    return BERTH_OK;
}

/// Makes room in all tables. Errors: BERTH_ERR_OUT_OF_MEMORY.
static berth_status reserve_tables(berth_kv_cache* cache,
                                   const berth_kv_part* parts,
                                   const extent* sizes) {
    const berth_host* host = cache->blocks.host;
    const size_t count = (size_t)cache->batch.tables.sequences;
    for (size_t i = 0; i < count; ++i) {
        berth_kv_sequence* sequence = cache->batch.sequences[i];
        const size_t after = sequence->tokens.count + (size_t)parts[i].count;
        BERTH_TRY(berth_kv_token_vec_reserve(&sequence->tokens, host, after));
        BERTH_TRY(berth_kv_block_vec_reserve(&sequence->blocks, host, blocks_for(cache, after)));
    }
    return reserve_numbers(cache, count, sizes->tokens, sizes->blocks);
}

/// Lets the sequence write to its begun last block: it is its own, and the index does not know it.
static berth_status own_last_block(berth_kv_sequence* sequence) {
    berth_kv_cache* cache = sequence->cache;
    const uint32_t begun = (uint32_t)(sequence->tokens.count % berth_kv_block_tokens(cache));
    if (begun == 0) return BERTH_OK;
    uint32_t* last = &sequence->blocks.items[sequence->blocks.count - 1];
    if (!berth_kv_needs_copy(sequence)) {
        if (berth_prefix_index_has(cache->index, *last))
            berth_prefix_index_remove(cache->index, *last);
        return BERTH_OK;
    }
    const uint32_t own = berth_kv_take_block(cache, sequence->blocks.count - 1);
    const berth_status status = berth_kv_blocks_copy(&cache->blocks, *last, own);
    if (status != BERTH_OK) {
        (void)berth_kv_drop_block(cache, own);
        return status;
    }
    berth_kv_set_tokens(cache, own, begun);
    (void)berth_kv_drop_block(cache, *last);
    *last = own;
    ++cache->counted.copied_blocks;
    return BERTH_OK;
}

/// Takes the blocks and notes the tokens of all parts.
static berth_status extend_parts(berth_kv_cache* cache, const berth_kv_part* parts) {
    berth_kv_batch* batch = &cache->batch;
    for (size_t i = 0; i < (size_t)batch->tables.sequences; ++i) {
        berth_kv_sequence* sequence = batch->sequences[i];
        batch->old_tokens[i] = sequence->tokens.count;
        batch->old_blocks[i] = sequence->blocks.count;
    }
    for (size_t i = 0; i < (size_t)batch->tables.sequences; ++i) {
        berth_kv_sequence* sequence = batch->sequences[i];
        BERTH_TRY(own_last_block(sequence));
        const size_t count = (size_t)parts[i].count;
        const size_t blocks = blocks_for(cache, sequence->tokens.count + count);
        memcpy(sequence->tokens.items + sequence->tokens.count,
               parts[i].tokens,
               count * sizeof *parts[i].tokens);
        sequence->tokens.count += count;
        while (sequence->blocks.count < blocks) {
            const uint32_t block = berth_kv_take_block(cache, sequence->blocks.count);
            sequence->blocks.items[sequence->blocks.count++] = block;
        }
    }
    return BERTH_OK;
}

/// Numbers of part `s` in all tables but those of its tokens and blocks.
static void fill_part(berth_kv_batch* batch, size_t s, int32_t token, int32_t block) {
    const berth_kv_sequence* sequence = batch->sequences[s];
    const int32_t length = (int32_t)sequence->tokens.count;
    const int32_t count = length - (int32_t)batch->old_tokens[s];
    const int32_t size = (int32_t)berth_kv_block_tokens(batch->cache);
    batch->token_starts[s] = token;
    batch->block_starts[s] = block;
    batch->lengths[s] = length;
    batch->last_block_tokens[s] = (length - 1) % size + 1;
    batch->last_rows[s] = token + count - 1;
    const int32_t row[ROW_NUMBERS] = {token, count, length, block, token, count};
    memcpy(batch->rows + s * ROW_NUMBERS, row, sizeof row);
    const int32_t last[ROW_NUMBERS] = {(int32_t)s, 1, length, block, token, count};
    memcpy(batch->last_queries + s * ROW_NUMBERS, last, sizeof last);
}

static void fill_tables(berth_kv_batch* batch) {
    const size_t parts = (size_t)batch->tables.sequences;
    int32_t token = 0, block = 0;
    for (size_t s = 0; s < parts; ++s) {
        const berth_kv_sequence* sequence = batch->sequences[s];
        fill_part(batch, s, token, block);
        for (size_t i = batch->old_tokens[s]; i < sequence->tokens.count; ++i, ++token) {
            batch->ids[token] = sequence->tokens.items[i];
            batch->positions[token] = (int32_t)i;
        }
        for (size_t i = 0; i < sequence->blocks.count; ++i)
            batch->block_indices[block++] = (int32_t)sequence->blocks.items[i];
    }
    batch->token_starts[parts] = token;
    batch->block_starts[parts] = block;
    batch->tables = (berth_kv_tables){
        .sequences = (int64_t)parts,
        .tokens = token,
        .blocks = block,
        .token_starts = batch->token_starts,
        .block_starts = batch->block_starts,
        .block_indices = batch->block_indices,
        .last_block_tokens = batch->last_block_tokens,
        .lengths = batch->lengths,
        .positions = batch->positions,
    };
}

/// Sequences are as before, but that a begun last block may be a copy of what it was.
static void undo_parts(berth_kv_batch* batch) {
    for (size_t i = 0; i < (size_t)batch->tables.sequences; ++i) {
        berth_kv_sequence* sequence = batch->sequences[i];
        sequence->tokens.count = batch->old_tokens[i];
        (void)berth_kv_drop_blocks(sequence, batch->old_blocks[i], NULL);
    }
}

/// Sequences may be changed again; those released meanwhile end.
static void leave_parts(berth_kv_batch* batch) {
    for (size_t i = 0; i < (size_t)batch->tables.sequences; ++i) {
        berth_kv_sequence* sequence = batch->sequences[i];
        sequence->is_in_batch = false;
        if (!sequence->is_released) continue;
        berth_kv_sequence_end(sequence);
        --batch->cache->refs; // the batch has one itself
    }
    batch->tables = (berth_kv_tables){0};
}

/// Waits until the device has read the arrays of the batch before.
static berth_status settle_arrays(berth_kv_batch* batch, berth_stream* stream) {
    if (batch->ticket == 0) return BERTH_OK;
    BERTH_TRY(berth_stream_wait(stream, batch->ticket));
    batch->ticket = 0;
    return BERTH_OK;
}

static berth_status begin(berth_kv_cache* cache, const berth_kv_part* parts, size_t count) {
    berth_kv_batch* batch = &cache->batch;
    batch->cache = cache;
    if (batch->is_open) return berth_fail(BERTH_ERR_STATE, "a batch of the KV cache is open");
    BERTH_TRY(settle_arrays(batch, cache->context->home.stream));
    BERTH_TRY(reserve_parts(cache, count));
    extent sizes;
    berth_status status = join_parts(cache, parts, count, &sizes);
    // what there is no room for takes no host memory either
    if (status == BERTH_OK) status = berth_kv_make_room(cache, sizes.new_blocks);
    if (status == BERTH_OK) status = reserve_tables(cache, parts, &sizes);
    if (status == BERTH_OK) {
        status = extend_parts(cache, parts);
        if (status != BERTH_OK) undo_parts(batch);
    }
    if (status != BERTH_OK) {
        ++cache->refs; // as an open batch has
        leave_parts(batch);
        --cache->refs;
        return status;
    }
    fill_tables(batch);
    batch->is_open = true;
    ++cache->refs;
    return BERTH_OK;
}

berth_status berth_kv_batch_begin(berth_kv_cache* cache,
                                  const berth_kv_part* parts,
                                  size_t count,
                                  berth_kv_batch** out_batch) {
    if (out_batch == NULL)
        return berth_fail(BERTH_ERR_INVALID_ARGUMENT, "a place for the batch is needed");
    *out_batch = NULL;
    if (parts == NULL || count == 0)
        return berth_fail(BERTH_ERR_INVALID_ARGUMENT, "a batch needs parts");
    if (count > INT32_MAX / ROW_NUMBERS)
        return berth_fail(BERTH_ERR_INVALID_ARGUMENT, "a batch of %zu parts is too large", count);
    BERTH_TRY(berth_kv_enter(cache));
    const berth_status status = begin(cache, parts, count);
    if (status == BERTH_OK) *out_batch = &cache->batch;
    berth_kv_leave(cache);
    return status;
}

const berth_kv_tables* berth_kv_batch_tables(const berth_kv_batch* batch) {
    return batch == NULL ? NULL : &batch->tables;
}

// --- Ops -----------------------------------------------------------------------------------------

/// A tensor of numbers from an array that stays until the next batch.
static berth_tensor* upload(berth_kv_batch* batch,
                            const int32_t* numbers,
                            int32_t rank,
                            const int64_t* dims) {
    berth_context* ctx = batch->cache->context;
    berth_tensor* tensor = berth_empty(ctx, BERTH_I32, rank, dims);
    if (tensor == NULL) return NULL;
    if (!berth_home_lock(&ctx->home)) {
        berth_release(tensor);
        return NULL;
    }
    const berth_status status = berth_stream_copy(ctx->home.stream,
                                                  berth_tensor_data(tensor),
                                                  numbers,
                                                  berth_tensor_bytes(tensor),
                                                  BERTH_COPY_HOST_TO_DEVICE);
    if (status != BERTH_OK) {
        berth_context_fail(ctx, status, "kv_batch_upload", NULL);
        berth_tensor_drop(tensor, &ctx->home);
        tensor = NULL;
    }
    berth_home_unlock(&ctx->home);
    return tensor;
}

bool berth_kv_batch_upload(berth_kv_batch* batch, berth_kv_tensors* out_tensors) {
    if (out_tensors == NULL) return false;
    *out_tensors = (berth_kv_tensors){0};
    if (batch == NULL || batch->cache == NULL) return false;
    if (!batch->is_open || batch->is_uploaded) {
        const berth_status status =
            berth_fail(BERTH_ERR_STATE,
                       batch->is_open ? "the tables of the batch have been uploaded already"
                                      : "the batch has ended");
        (void)berth_api_refuse(batch->cache->context, status, "kv_batch_upload", NULL, 0);
        return false;
    }
    const int64_t tokens = batch->tables.tokens, blocks = batch->tables.blocks;
    const int64_t rows[2] = {batch->tables.sequences, ROW_NUMBERS};
    batch->is_uploaded = true;
    batch->tensors.ids = upload(batch, batch->ids, 1, &tokens);
    batch->tensors.positions = upload(batch, batch->positions, 1, &tokens);
    batch->tensors.last_rows = upload(batch, batch->last_rows, 1, rows);
    batch->row_tensor = upload(batch, batch->rows, 2, rows);
    batch->last_query_tensor = upload(batch, batch->last_queries, 2, rows);
    batch->block_tensor = upload(batch, batch->block_indices, 1, &blocks);
    *out_tensors = batch->tensors;
    return batch->block_tensor != NULL;
}

static berth_status check_rows(const berth_tensor* tagged, const char* name, int64_t rows) {
    const berth_tensor* x = berth_untag(tagged);
    if (x == NULL || (x->rank == 3 && x->dims[0] == rows)) return BERTH_OK;
    return berth_fail(BERTH_ERR_INVALID_ARGUMENT,
                      "%s has %" PRId64 " rows, the batch needs %" PRId64 " of them",
                      name,
                      x->rank == 3 ? x->dims[0] : (int64_t)-1,
                      rows);
}

static berth_status check_attend(const berth_kv_batch* batch,
                                 int64_t layer,
                                 berth_kv_queries queries,
                                 berth_tensor* const* operands) {
    if (!batch->is_uploaded)
        return berth_fail(BERTH_ERR_STATE, "the tables of the batch have not been uploaded");
    if (layer < 0 || layer >= batch->cache->options.layers)
        return berth_fail(BERTH_ERR_INVALID_ARGUMENT,
                          "there is no layer %" PRId64 " in a cache of %" PRId64,
                          layer,
                          batch->cache->options.layers);
    const bool is_last = queries == BERTH_KV_LAST_TOKENS;
    BERTH_TRY(
        check_rows(operands[0], "q", is_last ? batch->tables.sequences : batch->tables.tokens));
    BERTH_TRY(check_rows(operands[1], "k", batch->tables.tokens));
    return check_rows(operands[2], "v", batch->tables.tokens);
}

berth_tensor* berth_kv_attend(berth_kv_batch* batch,
                              int64_t layer,
                              berth_kv_queries queries,
                              berth_tensor* q,
                              berth_tensor* k,
                              berth_tensor* v,
                              float scale) {
    if (batch == NULL || batch->cache == NULL) return NULL;
    berth_context* ctx = batch->cache->context;
    berth_tensor* const operands[3] = {q, k, v};
    const berth_status status = check_attend(batch, layer, queries, operands);
    if (status != BERTH_OK) return berth_api_refuse(ctx, status, "kv_attend", operands, 3);
    return berth_dispatch_paged_attention(ctx,
                                          q,
                                          k,
                                          v,
                                          batch->cache->keys[layer],
                                          batch->cache->values[layer],
                                          queries == BERTH_KV_LAST_TOKENS ? batch->last_query_tensor
                                                                          : batch->row_tensor,
                                          batch->block_tensor,
                                          scale);
}

// --- Ending --------------------------------------------------------------------------------------

static void drop_tensors(berth_kv_batch* batch, berth_home* home) {
    berth_tensor* const tensors[] = {batch->tensors.ids,
                                     batch->tensors.positions,
                                     batch->tensors.last_rows,
                                     batch->row_tensor,
                                     batch->last_query_tensor,
                                     batch->block_tensor};
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; ++i)
        if (tensors[i] != NULL) berth_tensor_drop(tensors[i], home);
    batch->tensors = (berth_kv_tensors){0};
    batch->row_tensor = batch->last_query_tensor = batch->block_tensor = NULL;
    if (!batch->is_uploaded || !berth_device_is_async(home->stream->device)) return;
    if (berth_stream_record(home->stream, &batch->ticket) == BERTH_OK) return;
    batch->ticket = 0;
    (void)!berth_stream_drain(home->stream);
}

/// Counts the new tokens as computed, and offers whole blocks to others.
static void keep_part(berth_kv_batch* batch, size_t at) {
    berth_kv_cache* cache = batch->cache;
    berth_kv_sequence* sequence = batch->sequences[at];
    const uint32_t size = berth_kv_block_tokens(cache);
    const size_t length = sequence->tokens.count;
    for (size_t i = batch->old_tokens[at] / size; i < sequence->blocks.count; ++i) {
        const size_t left = length - i * size;
        berth_kv_set_tokens(cache, sequence->blocks.items[i], left < size ? (uint32_t)left : size);
    }
    cache->counted.appended_tokens += length - batch->old_tokens[at];
    berth_kv_publish(sequence, false);
}

static void end(berth_kv_batch* batch, bool keep) {
    berth_kv_cache* cache = batch->cache;
    drop_tensors(batch, &cache->context->home);
    for (size_t i = 0; keep && i < (size_t)batch->tables.sequences; ++i)
        keep_part(batch, i);
    if (!keep) undo_parts(batch);
    batch->is_open = batch->is_uploaded = false;
    leave_parts(batch);
}

berth_status berth_kv_batch_end(berth_kv_batch* batch, bool keep) {
    if (batch == NULL || batch->cache == NULL) return BERTH_OK;
    berth_kv_cache* cache = batch->cache;
    berth_context* context = cache->context;
    BERTH_TRY(berth_fork_check(context->home.fork_generation));
    if (!berth_home_lock(&context->home)) return BERTH_ERR_STATE;
    const berth_status status = context->error;
    if (!batch->is_open) {
        berth_kv_leave(cache);
        return status;
    }
    end(batch, keep && status == BERTH_OK);
    berth_upkeep_of_guests(context);
    berth_kv_cache_drop(cache, true);
    return status;
}
