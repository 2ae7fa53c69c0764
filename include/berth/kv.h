// SPDX-License-Identifier: Apache-2.0
// A paged cache of keys and values for sequences of tokens: blocks of a fixed number of tokens,
// taken from the same memory as everything else, shared between sequences that begin alike, found
// again by their tokens, and given up under pressure.
//
// A server makes one cache, and a sequence for each request. What a step adds to its sequences is
// declared as a batch: berth_kv_batch_begin() finds the room, or refuses while nothing is lost; the
// step's ops read the batch's tensors and attend; berth_kv_batch_end() keeps what was computed.
#ifndef BERTH_KV_H
#define BERTH_KV_H

#include "berth/dtype.h"
#include "berth/kv_miss.h"
#include "berth/runtime.h"
#include "berth/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/// A cache of one context. Calls on it, its sequences and its batches come from one thread at a
/// time, the context's.
typedef struct berth_kv_cache berth_kv_cache;

/// The cached tokens of one request: a handle that owns its hold on blocks and ends it.
typedef struct berth_kv_sequence berth_kv_sequence;

/// What one step adds to some sequences.
typedef struct berth_kv_batch berth_kv_batch;

/// Which cached block is given up first when there is no room.
typedef enum berth_kv_eviction {
    BERTH_KV_EVICT_REUSE, ///< by observed reuse, depth in its prompt, and tenant
    BERTH_KV_EVICT_LRU,   ///< the one whose last use is longest ago
} berth_kv_eviction;

/// How a cache is laid out, and its limits.
typedef struct berth_kv_options {
    size_t struct_size; ///< sizeof(berth_kv_options) compiled against
    int64_t layers;     ///< of the model, at least 1
    int64_t kv_heads;   ///< key and value heads of a layer, at least 1
    int64_t key_dims;   ///< values of one key, at least 1
    int64_t value_dims; ///< of one value; 0: as key_dims
    berth_dtype dtype;  ///< BERTH_F32, BERTH_F16, BERTH_BF16; BERTH_Q8_0 with sizes that are whole
                        ///< quantisation blocks
    int64_t block_tokens; ///< 1 to 1,024; 0: 16
    uint64_t max_bytes;  ///< most memory of the blocks, of whole granules; 0: the device's capacity
    uint64_t park_bytes; ///< most host memory for parked sequences, apart from the device's
                         ///< memory; 0: none, parked sequences are computed again
    berth_kv_eviction eviction; ///< which cached block goes first
} berth_kv_options;

/// Sizes that follow from a cache's options.
typedef struct berth_kv_layout {
    int64_t block_tokens; ///< that a block has room for
    uint64_t token_bytes; ///< keys and values of a token, all layers
    /// The least that a sequence takes: block_tokens of each layer's keys and values, rounded up to
    /// the alignment.
    uint64_t block_bytes;
    uint64_t key_bytes;     ///< of a block, one layer
    uint64_t value_bytes;   ///< of a block, one layer
    int64_t max_blocks;     ///< that fit into max_bytes
    uint64_t granule_bytes; ///< unit in which memory is mapped, for blocks and all else
} berth_kv_layout;

/// Makes an empty cache in `context`. No memory of the device is taken before the first tokens.
/// Ownership: the caller gives `*out_cache` to berth_kv_cache_release(), before it releases the
///            context; the cache of a context that has ended refuses every call.
/// Errors:    BERTH_ERR_INVALID_ARGUMENT names the option and its range, BERTH_ERR_UNSUPPORTED for
///            a dtype, BERTH_ERR_OUT_OF_MEMORY; then `*out_cache` is NULL.
BERTH_API BERTH_NODISCARD berth_status berth_kv_cache_create(berth_context* context,
                                                             const berth_kv_options* options,
                                                             berth_kv_cache** out_cache);

/// Gives the caller's reference back; NULL is allowed. Sequences that are out keep the cache.
BERTH_API void berth_kv_cache_release(berth_kv_cache* cache);

/// Sizes of `cache`.
BERTH_API void berth_kv_cache_layout(const berth_kv_cache* cache, berth_kv_layout* out_layout);

/// Tells what computing a token again costs, in nanoseconds; 0: not known. berth_kv_sequence_park()
/// weighs it against copying.
BERTH_API void berth_kv_cache_set_recompute_cost(berth_kv_cache* cache, double ns_per_token);

/// Gives up cached blocks, least valuable first, until at most `keep_bytes` of memory are mapped
/// for the cache or no block is cached, packs the rest, and gives the memory back. The cache stays
/// usable. `*out_released_bytes` (may be NULL) is what the device got back.
/// Errors: BERTH_ERR_STATE while a batch is open; of the device.
BERTH_API BERTH_NODISCARD berth_status berth_kv_cache_trim(berth_kv_cache* cache,
                                                           uint64_t keep_bytes,
                                                           uint64_t* out_released_bytes);

// --- Sequences -----------------------------------------------------------------------------------

/// Whose sequence it is, and with whom it may share.
typedef struct berth_kv_sequence_options {
    size_t struct_size; ///< sizeof(berth_kv_sequence_options) compiled against
    /// What has to be equal, byte for byte, for blocks to be shared: model, adapter, a tenant's
    /// salt. NULL with key_bytes 0: the empty key.
    const void* key;
    size_t key_bytes; ///< 256 at most
    uint32_t tenant;  ///< for eviction and statistics
    bool is_private;  ///< neither finds blocks of others nor leaves its own for them
} berth_kv_sequence_options;

/// The word for a reason, such as "evicted"; "unknown" for what is none.
BERTH_API const char* berth_kv_miss_text(berth_kv_miss miss);

/// What a prompt had in common with what is cached.
typedef struct berth_kv_match {
    int64_t tokens;        ///< found, and in the sequence now
    int64_t shared_tokens; ///< of them, in blocks shared as they are
    int64_t copied_tokens; ///< of them, copied from the begin of a block
    berth_kv_miss miss;    ///< why the next token was not found
} berth_kv_match;

/// Begins a sequence without tokens. `options` NULL: the empty key, tenant 0.
/// Ownership: the caller gives `*out_sequence` to berth_kv_sequence_release().
/// Errors:    BERTH_ERR_INVALID_ARGUMENT, BERTH_ERR_OUT_OF_MEMORY (host memory), BERTH_ERR_STATE;
///            then `*out_sequence` is NULL.
BERTH_API BERTH_NODISCARD berth_status
berth_kv_sequence_create(berth_kv_cache* cache,
                         const berth_kv_sequence_options* options,
                         berth_kv_sequence** out_sequence);

/// Ends a sequence; NULL is allowed. Its hold on blocks ends; whole blocks, and the begun last one,
/// stay cached until they are evicted, unless it is private.
BERTH_API void berth_kv_sequence_release(berth_kv_sequence* sequence);

/// Looks up `tokens` [count] and puts those at their begin whose keys and values are cached into
/// the empty sequence: whole blocks as they are, of the next block what agrees, as a copy. Every
/// hit is verified token by token. The last token is never taken from the cache, as a step needs
/// one to compute. Finding nothing is no error, nor is having no room for a copy.
/// Errors: BERTH_ERR_INVALID_ARGUMENT, BERTH_ERR_STATE if the sequence has tokens, is parked or a
///         batch is open; BERTH_ERR_OUT_OF_MEMORY (host memory); nothing changed.
BERTH_API BERTH_NODISCARD berth_status berth_kv_sequence_match(berth_kv_sequence* sequence,
                                                               const int32_t* tokens,
                                                               int64_t count,
                                                               berth_kv_match* out_match);

/// Makes a second sequence with the same tokens, which shares all blocks; whoever adds to the last
/// one first gets a copy of it.
/// Errors: as of berth_kv_sequence_create.
BERTH_API BERTH_NODISCARD berth_status berth_kv_sequence_fork(berth_kv_sequence* sequence,
                                                              berth_kv_sequence** out_sequence);

/// Forgets the tokens from `tokens` on. What the sequence alone had of blocks behind them is cached
/// like that of a sequence that ends.
/// Errors: BERTH_ERR_INVALID_ARGUMENT beyond its length, BERTH_ERR_STATE in a batch or parked;
///         nothing changed.
BERTH_API BERTH_NODISCARD berth_status berth_kv_sequence_truncate(berth_kv_sequence* sequence,
                                                                  int64_t tokens);

/// Tokens in the sequence; of a parked one, those that it had.
BERTH_API int64_t berth_kv_sequence_length(const berth_kv_sequence* sequence);

/// The tokens themselves, [length], until the sequence changes.
BERTH_API const int32_t* berth_kv_sequence_tokens(const berth_kv_sequence* sequence);

/// What its end would free at once: blocks that no other sequence has.
BERTH_API int64_t berth_kv_sequence_own_blocks(const berth_kv_sequence* sequence);

// --- Preemption ----------------------------------------------------------------------------------

/// How a sequence is parked.
typedef enum berth_kv_parking {
    BERTH_KV_PARK_CHEAPER, ///< whichever is estimated cheaper and possible
    BERTH_KV_PARK_HOST,    ///< copied to host memory
    BERTH_KV_PARK_DROP,    ///< dropped, and computed again
} berth_kv_parking;

/// What parking a sequence did.
typedef struct berth_kv_parked {
    berth_kv_parking how;  ///< HOST or DROP
    int64_t freed_blocks;  ///< that nobody holds any more and nothing finds: free now
    int64_t cached_blocks; ///< that nobody holds any more, but that stay findable until evicted
    int64_t shared_blocks; ///< that other sequences hold
    uint64_t host_bytes;   ///< taken for the copy
} berth_kv_parked;

/// Gives up the sequence's hold on its blocks while keeping its tokens. `*out_parked` may be NULL.
/// Errors: BERTH_ERR_OUT_OF_MEMORY with HOST if park_bytes or host memory do not suffice;
///         BERTH_ERR_STATE in a batch or if parked already; nothing changed.
BERTH_API BERTH_NODISCARD berth_status berth_kv_sequence_park(berth_kv_sequence* sequence,
                                                              berth_kv_parking how,
                                                              berth_kv_parked* out_parked);

/// Brings a parked sequence back: blocks that are still cached are found again, a copy in host
/// memory fills in the rest. `*out_length` are the tokens that it has now; those beyond, up to what
/// berth_kv_sequence_length() said before, are to be computed again with a batch, and so with the
/// same result; the caller has kept them.
/// Errors: BERTH_ERR_OUT_OF_MEMORY if there is no room for the copy; it stays parked.
///         BERTH_ERR_STATE if it is not parked.
BERTH_API BERTH_NODISCARD berth_status berth_kv_sequence_resume(berth_kv_sequence* sequence,
                                                                int64_t* out_length);

// --- Batches -------------------------------------------------------------------------------------

/// What a step adds to one sequence.
typedef struct berth_kv_part {
    berth_kv_sequence* sequence; ///< in one part of the batch only
    const int32_t* tokens;       ///< [count] that follow what it has; read during the call
    int64_t count;               ///< at least 1
} berth_kv_part;

/// What is free for a batch, of this moment; O(1).
typedef struct berth_kv_room {
    int64_t ready_blocks;    ///< free, their memory is mapped
    int64_t cached_blocks;   ///< that nobody holds: evicted where needed
    int64_t mappable_blocks; ///< for which the device has memory that nobody uses
} berth_kv_room;

/// Tells what is free. Errors: BERTH_ERR_STATE; then nothing is.
BERTH_API BERTH_NODISCARD berth_status berth_kv_cache_query_room(berth_kv_cache* cache,
                                                                 berth_kv_room* out_room);

/// The blocks that `count` more tokens of `sequence` take, a copy of a shared last block included.
BERTH_API int64_t berth_kv_sequence_growth(const berth_kv_sequence* sequence, int64_t count);

/// Finds room for the tokens of all parts, taking free blocks, memory of the device, and cached
/// blocks, in this order. All or nothing. Until it ends, the blocks of its sequences are not moved.
/// One batch of a cache is open at a time.
/// Ownership: the caller gives `*out_batch` to berth_kv_batch_end().
/// Errors: BERTH_ERR_OUT_OF_MEMORY says how many blocks were needed and how many there were;
///         BERTH_ERR_INVALID_ARGUMENT, BERTH_ERR_STATE. Then `*out_batch` is NULL, nothing changed
///         but that cached blocks may be gone.
BERTH_API BERTH_NODISCARD berth_status berth_kv_batch_begin(berth_kv_cache* cache,
                                                            const berth_kv_part* parts,
                                                            size_t count,
                                                            berth_kv_batch** out_batch);

/// A batch in the form that attention libraries take. Arrays are the batch's, until it ends.
typedef struct berth_kv_tables {
    int64_t sequences;                ///< S, its parts
    int64_t tokens;                   ///< T, new tokens of all parts, one part behind the other
    int64_t blocks;                   ///< M, blocks of all parts
    const int32_t* token_starts;      ///< [S + 1]: part s has new tokens [token_starts[s], [s + 1])
    const int32_t* block_starts;      ///< [S + 1]: index pointer into block_indices
    const int32_t* block_indices;     ///< [M]
    const int32_t* last_block_tokens; ///< [S]: tokens in the last block, new ones included
    const int32_t* lengths;           ///< [S]: tokens in all, new ones included
    const int32_t* positions;         ///< [T]: of the new tokens in their sequences
} berth_kv_tables;

/// The tables of an open batch; their sizes T, S and M are what a step should declare (as inputs
/// `tokens` [T], `sequences` [S], `blocks` [M]).
BERTH_API const berth_kv_tables* berth_kv_batch_tables(const berth_kv_batch* batch);

/// Where the blocks lie, for kernels of the caller's: layer l of block b has its keys at base +
/// b * block_bytes + l * (key_bytes + value_bytes), as [block_tokens, kv_heads, key_dims], and its
/// values behind them. Only what an open batch's tables name is mapped.
BERTH_API void* berth_kv_cache_base(const berth_kv_cache* cache);

/// Tensors of an open batch; the batch's.
typedef struct berth_kv_tensors {
    berth_tensor* ids;       ///< [T] i32, the new tokens
    berth_tensor* positions; ///< [T] i32
    berth_tensor* last_rows; ///< [S] i32: the row of each part's last token
} berth_kv_tensors;

/// Makes the batch's tensors, inside the step that uses them: an op like others. False and the
/// context's error if that fails.
BERTH_API bool berth_kv_batch_upload(berth_kv_batch* batch, berth_kv_tensors* out_tensors);

/// The queries of an attention.
typedef enum berth_kv_queries {
    BERTH_KV_ALL_TOKENS,  ///< of all new tokens: q [T, H, D]
    BERTH_KV_LAST_TOKENS, ///< of each part's last token: q [S, H, D]
} berth_kv_queries;

/// Writes the new tokens' keys k [T, kv_heads, key_dims] and values v [T, kv_heads, value_dims] to
/// the cache, and attends with q [T or S, H, key_dims] to all keys of each query's sequence up to
/// its own: [T or S, H, value_dims] in q's dtype. H is a multiple of kv_heads. Floats. Each part
/// gets the bits that it would get alone, or token by token, with BERTH_BATCH_INVARIANT. `scale` 0
/// means 1 / sqrt(key_dims). An op: the operands may be moved, NULL and the context's error after a
/// failure. After berth_kv_batch_upload().
BERTH_API berth_tensor* berth_kv_attend(berth_kv_batch* batch,
                                        int64_t layer,
                                        berth_kv_queries queries,
                                        berth_tensor* q,
                                        berth_tensor* k,
                                        berth_tensor* v,
                                        float scale);

/// Ends a batch; NULL is allowed. With `keep` its tokens are in their sequences, and whole blocks
/// can be found by others; without, or while an error sticks in the context, the sequences are as
/// before.
/// Errors: the error that sticks in the context; then nothing was kept.
BERTH_API berth_status berth_kv_batch_end(berth_kv_batch* batch, bool keep);

// --- Statistics ----------------------------------------------------------------------------------

// clang-format off
/// Numbers of a cache: X(name, help). Exact, of the moment of the query.
#define BERTH_KV_STATS_MAP(X)                                                                      \
    X(block_bytes,        "of one block")                                                          \
    X(mapped_bytes,       "memory of the device mapped for the cache")                             \
    X(held_blocks,        "that sequences hold, shared ones once")                                 \
    X(cached_blocks,      "that nobody holds, findable by their tokens")                           \
    X(free_blocks,        "mapped and empty")                                                      \
    X(held_tokens,        "tokens in held blocks, shared ones once")                               \
    X(cached_tokens,      "tokens in cached blocks")                                               \
    X(wasted_tokens,      "room for tokens in held blocks that holds none")                        \
    X(sequences,          "alive")                                                                 \
    X(parked_sequences,   "of them, parked")                                                       \
    X(parked_bytes,       "host memory for them")                                                  \
    X(prompt_tokens,      "looked up so far")                                                      \
    X(hit_tokens,         "of them, found")                                                        \
    X(shared_hit_tokens,  "of them, in blocks shared as they are")                                 \
    X(miss_none_shared,   "tokens not found: nothing cached goes on like this")                    \
    X(miss_too_short,     "...: less than a block")                                                \
    X(miss_evicted,       "...: given up for want of room")                                        \
    X(miss_other_tenant,  "...: cached under another key")                                         \
    X(appended_tokens,    "computed and kept so far")                                              \
    X(copied_blocks,      "copied because they were shared or begun")                              \
    X(evicted_blocks,     "given up so far")                                                       \
    X(moved_blocks,       "moved by compaction so far")                                            \
    X(parks_host,         "sequences parked to host memory so far")                                \
    X(parks_drop,         "sequences parked by dropping so far")                                   \
    X(resumes,            "parked sequences brought back so far")                                  \
    X(restored_tokens,    "of them, tokens that need not be computed again")                       \
    X(refusals,           "batches refused for want of room")                                      \
    X(metadata_bytes,     "host memory for tables, bounded by the cache's size and its sequences")
// clang-format on

/// The numbers of BERTH_KV_STATS_MAP.
typedef struct berth_kv_stats {
#define BERTH_KV_STATS_FIELD(name, help) uint64_t name;
    BERTH_KV_STATS_MAP(BERTH_KV_STATS_FIELD)
#undef BERTH_KV_STATS_FIELD
} berth_kv_stats;

/// Fills in the numbers of `cache`. Cost: O(sequences).
BERTH_API void berth_kv_cache_query_stats(const berth_kv_cache* cache, berth_kv_stats* out_stats);

#ifdef __cplusplus
}
#endif

#endif // BERTH_KV_H
