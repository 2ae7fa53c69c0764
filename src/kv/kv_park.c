// SPDX-License-Identifier: Apache-2.0
// Parking: a sequence gives its blocks up and keeps its tokens, perhaps with a copy of the blocks
// in host memory.
#include <inttypes.h>

#include "base/clock.h"
#include "base/error.h"
#include "kv/kv_internal.h"

/// How much a new measurement of the cost of copying counts.
static const double copy_weight = 0.25;

static uint64_t copy_bytes(const berth_kv_sequence* sequence) {
    return sequence->blocks.count * sequence->cache->layout.block_bytes;
}

/// What may be copied for parked sequences in addition.
static uint64_t left_bytes(const berth_kv_cache* cache) {
    const uint64_t most = cache->options.park_bytes;
    return most > cache->parked_bytes ? most - cache->parked_bytes : 0;
}

/// Enqueues the copies of blocks [first, end) from or to `host`, and waits for them: the host's
/// memory may be freed then.
static berth_status copy_blocks(
    berth_kv_sequence* sequence, size_t first, size_t end, unsigned char* host, bool is_out) {
    berth_kv_cache* cache = sequence->cache;
    const uint64_t size = cache->layout.block_bytes;
    berth_stream* stream = cache->context->home.stream;
    const uint64_t began = berth_clock_now_ns();
    berth_status status = BERTH_OK;
    for (size_t i = first; i < end && status == BERTH_OK; ++i) {
        unsigned char* data = berth_kv_blocks_data(&cache->blocks, sequence->blocks.items[i]);
        unsigned char* copy = host + i * size;
        status = is_out ? berth_stream_copy(stream, copy, data, size, BERTH_COPY_DEVICE_TO_HOST)
                        : berth_stream_copy(stream, data, copy, size, BERTH_COPY_HOST_TO_DEVICE);
    }
    const berth_status drained = berth_stream_drain(stream);
    if (status == BERTH_OK) status = drained;
    const uint64_t bytes = (end - first) * size;
    if (status != BERTH_OK || bytes == 0) return status;
    const double ns = (double)(berth_clock_now_ns() - began) / (double)bytes;
    cache->copy_ns += (ns - cache->copy_ns) * copy_weight;
    return BERTH_OK;
}

static bool is_copy_cheaper(const berth_kv_sequence* sequence) {
    const berth_kv_cache* cache = sequence->cache;
    if (copy_bytes(sequence) > left_bytes(cache)) return false;
    const double copying = 2.0 * (double)copy_bytes(sequence) * cache->copy_ns;
    return cache->recompute_ns == 0 ||
           copying < (double)sequence->tokens.count * cache->recompute_ns;
}

static berth_status copy_out(berth_kv_sequence* sequence) {
    berth_kv_cache* cache = sequence->cache;
    const uint64_t bytes = copy_bytes(sequence);
    if (bytes > left_bytes(cache))
        return berth_fail(BERTH_ERR_OUT_OF_MEMORY,
                          "a copy of %" PRIu64 " bytes is needed to park a sequence; %" PRIu64
                          " of at most %" PRIu64 " bytes are left for that",
                          bytes,
                          left_bytes(cache),
                          cache->options.park_bytes);
    unsigned char* copy = berth_host_alloc(cache->blocks.host, (size_t)bytes);
    if (copy == NULL)
        return berth_fail(BERTH_ERR_OUT_OF_MEMORY,
                          "no host memory for a copy of %" PRIu64 " bytes of a parked sequence",
                          bytes);
    const berth_status status = copy_blocks(sequence, 0, sequence->blocks.count, copy, true);
    if (status != BERTH_OK) {
        berth_host_free(cache->blocks.host, copy);
        return status;
    }
    sequence->copy = copy;
    sequence->copied_blocks = sequence->blocks.count;
    cache->parked_bytes += bytes;
    return BERTH_OK;
}

void berth_kv_drop_copy(berth_kv_sequence* sequence) {
    berth_kv_cache* cache = sequence->cache;
    if (sequence->copy == NULL) return;
    cache->parked_bytes -= sequence->copied_blocks * cache->layout.block_bytes;
    berth_host_free(cache->blocks.host, sequence->copy);
    sequence->copy = NULL;
    sequence->copied_blocks = 0;
}

static berth_status park(berth_kv_sequence* sequence,
                         berth_kv_parking how,
                         berth_kv_parked* out_parked) {
    berth_kv_cache* cache = sequence->cache;
    if (how == BERTH_KV_PARK_CHEAPER)
        how = is_copy_cheaper(sequence) && copy_out(sequence) == BERTH_OK ? BERTH_KV_PARK_HOST
                                                                          : BERTH_KV_PARK_DROP;
    else if (how == BERTH_KV_PARK_HOST)
        BERTH_TRY(copy_out(sequence));
    berth_kv_publish(sequence, true);
    const size_t held = sequence->blocks.count;
    size_t cached;
    const size_t freed = berth_kv_drop_blocks(sequence, 0, &cached);
    sequence->is_parked = true;
    ++cache->parked_sequences;
    ++*(how == BERTH_KV_PARK_HOST ? &cache->counted.parks_host : &cache->counted.parks_drop);
    *out_parked = (berth_kv_parked){
        .how = how,
        .freed_blocks = (int64_t)freed,
        .cached_blocks = (int64_t)cached,
        .shared_blocks = (int64_t)(held - freed - cached),
        .host_bytes = sequence->copied_blocks * cache->layout.block_bytes,
    };
    return BERTH_OK;
}

berth_status berth_kv_sequence_park(berth_kv_sequence* sequence,
                                    berth_kv_parking how,
                                    berth_kv_parked* out_parked) {
    berth_kv_parked unused;
    if (out_parked == NULL) out_parked = &unused;
    *out_parked = (berth_kv_parked){0};
    if (sequence == NULL) return berth_fail(BERTH_ERR_INVALID_ARGUMENT, "a sequence is needed");
    if (how != BERTH_KV_PARK_CHEAPER && how != BERTH_KV_PARK_HOST && how != BERTH_KV_PARK_DROP)
        return berth_fail(BERTH_ERR_INVALID_ARGUMENT, "%d is no way to park", (int)how);
    BERTH_TRY(berth_kv_enter(sequence->cache));
    berth_status status;
    if (sequence->is_in_batch || sequence->is_parked)
        status = berth_fail(BERTH_ERR_STATE,
                            sequence->is_parked ? "the sequence is parked already"
                                                : "the sequence is in an open batch");
    else
        status = park(sequence, how, out_parked);
    berth_kv_leave(sequence->cache);
    return status;
}

/// Brings the blocks from `first` on back from the copy. All or nothing.
static berth_status copy_in(berth_kv_sequence* sequence, size_t first) {
    berth_kv_cache* cache = sequence->cache;
    const size_t end = sequence->copied_blocks;
    BERTH_TRY(berth_kv_make_room(cache, end - first));
    for (size_t i = first; i < end; ++i)
        sequence->blocks.items[sequence->blocks.count++] = berth_kv_take_block(cache, i);
    const berth_status status = copy_blocks(sequence, first, end, sequence->copy, false);
    if (status != BERTH_OK) {
        (void)berth_kv_drop_blocks(sequence, first, NULL);
        return status;
    }
    return BERTH_OK;
}

/// Notes the tokens of the blocks from `first` on.
static void note_tokens(berth_kv_sequence* sequence, size_t first) {
    const uint32_t size = berth_kv_block_tokens(sequence->cache);
    for (size_t i = first; i < sequence->blocks.count; ++i) {
        const size_t left = sequence->tokens.count - i * size;
        berth_kv_set_tokens(
            sequence->cache, sequence->blocks.items[i], left < size ? (uint32_t)left : size);
    }
}

/// Lets what is not cached any more come from the copy: whole blocks are found, the rest is copied.
static berth_status restore(berth_kv_sequence* sequence) {
    const size_t length = sequence->tokens.count;
    const uint32_t size = berth_kv_block_tokens(sequence->cache);
    berth_kv_match found;
    BERTH_TRY(berth_kv_find(sequence, sequence->tokens.items, length, length, &found));
    // the begin of a block that was found is in the copy, too
    const size_t kept = (size_t)found.shared_tokens / size;
    (void)berth_kv_drop_blocks(sequence, kept, NULL);
    const berth_status status = copy_in(sequence, kept);
    sequence->tokens.count = length;
    if (status != BERTH_OK) {
        (void)berth_kv_drop_blocks(sequence, 0, NULL);
        return status;
    }
    note_tokens(sequence, kept);
    return BERTH_OK;
}

static berth_status resume(berth_kv_sequence* sequence) {
    berth_kv_cache* cache = sequence->cache;
    const size_t length = sequence->tokens.count;
    if (sequence->copy != NULL) {
        BERTH_TRY(restore(sequence));
    } else {
        berth_kv_match found;
        BERTH_TRY(berth_kv_find(sequence, sequence->tokens.items, length, length, &found));
    }
    berth_kv_drop_copy(sequence);
    sequence->is_parked = false;
    --cache->parked_sequences;
    ++cache->counted.resumes;
    cache->counted.restored_tokens += sequence->tokens.count;
    return BERTH_OK;
}

berth_status berth_kv_sequence_resume(berth_kv_sequence* sequence, int64_t* out_length) {
    int64_t unused;
    if (out_length == NULL) out_length = &unused;
    *out_length = 0;
    if (sequence == NULL) return berth_fail(BERTH_ERR_INVALID_ARGUMENT, "a sequence is needed");
    BERTH_TRY(berth_kv_enter(sequence->cache));
    const berth_status status = sequence->is_parked
                                    ? resume(sequence)
                                    : berth_fail(BERTH_ERR_STATE, "the sequence is not parked");
    if (status == BERTH_OK) *out_length = (int64_t)sequence->tokens.count;
    berth_kv_leave(sequence->cache);
    return status;
}
