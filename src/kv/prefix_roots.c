// SPDX-License-Identifier: Apache-2.0
// Keys: kept and compared in full, found by their hash, forgotten when nobody has them open and no
// block is known under them.
#include <string.h>

#include "base/error.h"
#include "base/hash.h"
#include "kv/prefix_internal.h"

static uint32_t* bucket_of(const berth_prefix_index* index, uint64_t salt) {
    return &index->key_buckets.items[salt & (index->key_buckets.count - 1)];
}

/// Twice as many buckets, or the first ones.
static berth_status grow_buckets(berth_prefix_index* index) {
    const size_t count = index->key_buckets.count == 0 ? 8 : index->key_buckets.count * 2;
    BERTH_TRY(berth_prefix_bucket_vec_reserve(&index->key_buckets, index->host, count));
    index->key_buckets.count = count;
    memset(index->key_buckets.items, 0xFF, count * sizeof *index->key_buckets.items);
    for (uint32_t i = 0; i < index->keys.count; ++i) {
        if (!berth_prefix_key_is_used(index, i)) continue;
        uint32_t* bucket = bucket_of(index, index->keys.items[i].salt);
        index->keys.items[i].next_in_bucket = *bucket;
        *bucket = i;
    }
    return BERTH_OK;
}

/// A free place; there is a bucket for each.
static berth_status take_place(berth_prefix_index* index, uint32_t* out_root) {
    *out_root = index->free_key;
    if (*out_root != BERTH_PREFIX_NONE) {
        index->free_key = index->keys.items[*out_root].next_in_bucket;
        return BERTH_OK;
    }
    if (index->keys.count == index->key_buckets.count) BERTH_TRY(grow_buckets(index));
    *out_root = (uint32_t)index->keys.count;
    return berth_prefix_key_vec_push(
        &index->keys, index->host, (berth_prefix_key_record){.bytes = NULL});
}

static void give_place(berth_prefix_index* index, uint32_t root) {
    index->keys.items[root] = (berth_prefix_key_record){.next_in_bucket = index->free_key};
    index->free_key = root;
}

static berth_status add(berth_prefix_index* index,
                        const void* key,
                        size_t key_bytes,
                        uint64_t salt,
                        uint32_t* out_root) {
    BERTH_TRY(take_place(index, out_root));
    char* bytes = berth_host_alloc(index->host, key_bytes);
    if (bytes == NULL) {
        give_place(index, *out_root);
        return BERTH_ERR_OUT_OF_MEMORY;
    }
    if (key_bytes > 0) memcpy(bytes, key, key_bytes);
    uint32_t* bucket = bucket_of(index, salt);
    index->keys.items[*out_root] = (berth_prefix_key_record){.salt = salt,
                                                             .bytes = bytes,
                                                             .byte_count = (uint32_t)key_bytes,
                                                             .first_child = BERTH_PREFIX_NONE,
                                                             .next_in_bucket = *bucket};
    *bucket = *out_root;
    index->key_bytes += key_bytes;
    ++index->counted.roots;
    return BERTH_OK;
}

static uint32_t find(const berth_prefix_index* index,
                     const void* key,
                     size_t key_bytes,
                     uint64_t salt) {
    if (index->key_buckets.count == 0) return BERTH_PREFIX_NONE;
    uint32_t at = *bucket_of(index, salt);
    for (; at != BERTH_PREFIX_NONE; at = index->keys.items[at].next_in_bucket) {
        const berth_prefix_key_record* record = &index->keys.items[at];
        if (record->salt != salt || record->byte_count != key_bytes) continue;
        if (key_bytes == 0 || memcmp(record->bytes, key, key_bytes) == 0) break;
    }
    return at;
}

static void drop_if_unused(berth_prefix_index* index, uint32_t root) {
    if (berth_prefix_key_is_used(index, root)) return;
    const berth_prefix_key_record* record = &index->keys.items[root];
    uint32_t* link = bucket_of(index, record->salt);
    while (*link != root)
        link = &index->keys.items[*link].next_in_bucket;
    *link = record->next_in_bucket;
    index->key_bytes -= record->byte_count;
    berth_host_free(index->host, record->bytes);
    give_place(index, root);
    --index->counted.roots;
}

berth_status berth_prefix_index_open_root(berth_prefix_index* index,
                                          const void* key,
                                          size_t key_bytes,
                                          uint32_t tenant,
                                          berth_prefix_root* out_root) {
    *out_root = (berth_prefix_root){.id = BERTH_PREFIX_NONE};
    if (key_bytes > BERTH_PREFIX_MAX_KEY_BYTES || (key == NULL && key_bytes > 0))
        return berth_fail(BERTH_ERR_INVALID_ARGUMENT,
                          "a key of %zu bytes%s; it may have up to %u",
                          key_bytes,
                          key == NULL ? " at NULL" : "",
                          BERTH_PREFIX_MAX_KEY_BYTES);
    const uint64_t salt = berth_hash64(key, key_bytes, 1);
    uint32_t root = find(index, key, key_bytes, salt);
    if (root == BERTH_PREFIX_NONE && add(index, key, key_bytes, salt, &root) != BERTH_OK)
        return berth_fail(
            BERTH_ERR_OUT_OF_MEMORY, "no host memory for a key of %zu bytes", key_bytes);
    ++index->keys.items[root].opens;
    *out_root = (berth_prefix_root){.id = root, .tenant = tenant};
    return BERTH_OK;
}

void berth_prefix_index_retain_root(berth_prefix_index* index, berth_prefix_root root) {
    BERTH_CHECK(1, root.id < index->keys.count && index->keys.items[root.id].opens > 0);
    ++index->keys.items[root.id].opens;
}

void berth_prefix_index_close_root(berth_prefix_index* index, berth_prefix_root root) {
    BERTH_CHECK(1, root.id < index->keys.count && index->keys.items[root.id].opens > 0);
    --index->keys.items[root.id].opens;
    drop_if_unused(index, root.id);
}

void berth_prefix_key_drop_block(berth_prefix_index* index, uint32_t root) {
    --index->keys.items[root].blocks;
    drop_if_unused(index, root);
}

void berth_prefix_keys_fini(berth_prefix_index* index) {
    for (size_t i = 0; i < index->keys.count; ++i)
        berth_host_free(index->host, index->keys.items[i].bytes);
    berth_prefix_key_vec_fini(&index->keys, index->host);
    berth_prefix_bucket_vec_fini(&index->key_buckets, index->host);
}
