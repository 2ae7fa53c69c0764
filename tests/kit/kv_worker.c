// SPDX-License-Identifier: Apache-2.0
// Random use of a KV cache against stories of what must be in it.
#include "kv_worker.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "device/sim/sim_device.h"
#include "kv/kv_internal.h"

enum { OPERATIONS_A_CHECK = 32, MOST_PARTS = 4, ALPHABET = 3, KEYS = 3 };

/// Keeps the first thing that was wrong; returns false.
BERTH_PRINTF(2, 3) static bool wrong(kv_worker* w, const char* format, ...) {
    if (w->failure[0] != '\0') return false;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(w->failure, sizeof w->failure, format, arguments);
    va_end(arguments);
    return false;
}

static uint64_t mix(uint64_t a, uint64_t b) {
    test_random random = test_random_make(a * UINT64_C(0x9E3779B97F4A7C15) + b);
    return test_random_u64(&random);
}

// --- Stories -------------------------------------------------------------------------------------

static void add_token(kv_story* story, int32_t token) {
    story->tokens[story->count] = token;
    story->chain[story->count + 1] = mix(story->chain[story->count], (uint64_t)(uint32_t)token);
    ++story->count;
}

/// The next token of somebody who mostly says what others say.
static int32_t draw_token(kv_worker* w, int64_t position) {
    if (!test_random_one_in(&w->random, 24)) return (int32_t)(position * 7 % 1000);
    return (int32_t)test_random_below(&w->random, ALPHABET);
}

/// A slot that holds a sequence, or does not; NULL if there is none.
static kv_story* pick(kv_worker* w, bool is_used, bool is_parked) {
    const size_t first = test_random_below(&w->random, KV_SEQUENCES);
    for (size_t i = 0; i < KV_SEQUENCES; ++i) {
        kv_story* story = &w->stories[(first + i) % KV_SEQUENCES];
        if ((story->handle != NULL) == is_used && (!is_used || story->is_parked == is_parked))
            return story;
    }
    return NULL;
}

// --- Content -------------------------------------------------------------------------------------

static uint64_t* row_of(
    const kv_worker* w, uint32_t block, int64_t layer, bool value, int64_t row) {
    const berth_kv_layout* l = &w->layout;
    const uint64_t at = block * l->block_bytes + (uint64_t)layer * (l->key_bytes + l->value_bytes) +
                        (value ? l->key_bytes : 0) +
                        (uint64_t)row * (l->key_bytes / (uint64_t)l->block_tokens);
    return (uint64_t*)(void*)((unsigned char*)berth_kv_cache_base(w->cache) + at);
}

/// Writes a token's rows, or compares them.
static bool visit_token(
    const kv_worker* w, uint32_t block, int64_t row, uint64_t content, bool is_write) {
    const size_t words =
        (size_t)(w->layout.key_bytes / (uint64_t)w->layout.block_tokens / sizeof(uint64_t));
    for (int64_t layer = 0; layer < w->setting.layers; ++layer) {
        for (int value = 0; value < 2; ++value) {
            uint64_t* at = row_of(w, block, layer, value != 0, row);
            const uint64_t word = content + (uint64_t)(2 * layer + value);
            // the ends of a row tell of it all
            if (is_write)
                at[0] = at[words - 1] = word;
            else if (at[0] != word || at[words - 1] != word)
                return false;
        }
    }
    return true;
}

static void write_batch(kv_worker* w,
                        const berth_kv_batch* batch,
                        kv_story* const* stories,
                        const int64_t* counts,
                        size_t parts) {
    const berth_kv_tables* t = berth_kv_batch_tables(batch);
    for (size_t s = 0; s < parts; ++s) {
        for (int64_t i = stories[s]->count - counts[s]; i < stories[s]->count; ++i) {
            const int64_t at = t->block_starts[s] + i / w->layout.block_tokens;
            visit_token(w,
                        (uint32_t)t->block_indices[at],
                        i % w->layout.block_tokens,
                        stories[s]->chain[i + 1],
                        true);
        }
    }
}

static bool check_story(kv_worker* w, const kv_story* story) {
    const berth_kv_sequence* handle = story->handle;
    if (berth_kv_sequence_length(handle) != story->count)
        return wrong(w,
                     "a sequence has %" PRId64 " tokens, not %" PRId64,
                     berth_kv_sequence_length(handle),
                     story->count);
    if (story->is_parked || story->count == 0) return true;
    if (memcmp(berth_kv_sequence_tokens(handle),
               story->tokens,
               (size_t)story->count * sizeof *story->tokens) != 0)
        return wrong(w, "a sequence has other tokens");
    for (int64_t i = 0; i < story->count; ++i) {
        const uint32_t block = handle->blocks.items[i / w->layout.block_tokens];
        if (!visit_token(w, block, i % w->layout.block_tokens, story->chain[i + 1], false))
            return wrong(w,
                         "token %" PRId64 " of %" PRId64 " has other keys or values (block %" PRIu32
                         ")",
                         i,
                         story->count,
                         block);
    }
    return true;
}

static bool check_books(kv_worker* w) {
    if (!berth_kv_cache_is_valid(w->cache)) return wrong(w, "the cache is invalid");
    berth_kv_stats kv;
    berth_kv_cache_query_stats(w->cache, &kv);
    berth_memory_stats memory;
    if (berth_runtime_query_memory(w->runtime, &memory) != BERTH_OK) return wrong(w, "no numbers");
    if (memory.kv_bytes != kv.mapped_bytes)
        return wrong(w,
                     "%" PRIu64 " bytes are mapped for KV, %" PRIu64 " in the cache's books",
                     memory.kv_bytes,
                     kv.mapped_bytes);
    if (kv.parked_bytes > w->setting.park_bytes) return wrong(w, "too much is parked");
    if ((kv.held_blocks + kv.cached_blocks + kv.free_blocks) * kv.block_bytes > kv.mapped_bytes)
        return wrong(w, "there are more blocks than memory");
    return true;
}

/// What is enqueued of copies is done before anybody looks. A fault strikes once.
static bool synchronize(kv_worker* w) {
    if (berth_context_synchronize(w->ctx) == BERTH_OK) return true;
    if (w->is_armed && berth_context_synchronize(w->ctx) == BERTH_OK) return true;
    return wrong(w, "no end of the work: %s", berth_last_error());
}

static bool check_all(kv_worker* w) {
    if (!synchronize(w)) return false;
    for (size_t i = 0; i < KV_SEQUENCES; ++i)
        if (w->stories[i].handle != NULL && !check_story(w, &w->stories[i])) return false;
    return check_books(w);
}

// --- Operations ----------------------------------------------------------------------------------

/// Whether a status may be: errors need a reason.
static bool may_fail(kv_worker* w, berth_status status, const char* what) {
    if (status == BERTH_OK) return true;
    if (status == BERTH_ERR_OUT_OF_MEMORY) return true;
    if (w->is_armed && status == BERTH_ERR_DEVICE) return true;
    return wrong(w, "%s: %s: %s", what, berth_status_name(status), berth_last_error());
}

static bool begin_story(kv_worker* w) {
    kv_story* story = pick(w, false, false);
    if (story == NULL) return true;
    story->key = test_random_below(&w->random, KEYS);
    story->is_private = test_random_one_in(&w->random, 10);
    story->is_parked = false;
    story->count = 0;
    story->chain[0] = mix(story->key, 1);
    const berth_kv_sequence_options options = {.struct_size = sizeof options,
                                               .key = &story->key,
                                               .key_bytes = sizeof story->key,
                                               .tenant = (uint32_t)story->key,
                                               .is_private = story->is_private};
    berth_kv_sequence* handle;
    berth_status status = berth_kv_sequence_create(w->cache, &options, &handle);
    if (status != BERTH_OK) return may_fail(w, status, "create");
    const int64_t count = test_random_between(&w->random, 1, KV_MOST_TOKENS / 2);
    for (int64_t i = 0; i < count; ++i)
        add_token(story, draw_token(w, i));
    berth_kv_match match;
    status = berth_kv_sequence_match(handle, story->tokens, count, &match);
    if (!may_fail(w, status, "match")) return false;
    if (match.tokens >= count || match.tokens != match.shared_tokens + match.copied_tokens ||
        (story->is_private && match.tokens > 0))
        return wrong(w, "%" PRId64 " of %" PRId64 " tokens were found", match.tokens, count);
    w->hits += (uint64_t)match.tokens;
    story->count = match.tokens;
    story->handle = handle;
    return true;
}

static int64_t needed_blocks(const berth_kv_part* parts, size_t count) {
    int64_t needed = 0;
    for (size_t i = 0; i < count; ++i)
        needed += berth_kv_sequence_growth(parts[i].sequence, parts[i].count);
    return needed;
}

/// A refusal is right only if there was too little.
static bool check_refusal(kv_worker* w, const berth_kv_room* room, int64_t needed) {
    ++w->refusals;
    const int64_t had = room->ready_blocks + room->cached_blocks + room->mappable_blocks;
    if (w->is_armed || needed > had) return true;
    return wrong(w, "%" PRId64 " blocks were refused, there were %" PRId64, needed, had);
}

static bool run_batch(kv_worker* w) {
    kv_story* stories[MOST_PARTS];
    berth_kv_part parts[MOST_PARTS];
    int64_t counts[MOST_PARTS];
    size_t count = 0;
    const size_t wanted = (size_t)test_random_between(&w->random, 1, MOST_PARTS);
    for (size_t i = 0; i < wanted; ++i) {
        kv_story* story = pick(w, true, false);
        bool is_new = story != NULL && story->count < KV_MOST_TOKENS;
        for (size_t j = 0; j < count; ++j)
            is_new = is_new && stories[j] != story;
        if (!is_new) continue;
        const bool is_decode = test_random_one_in(&w->random, 2);
        int64_t most = KV_MOST_TOKENS - story->count;
        if (most > 70) most = 70;
        counts[count] = is_decode ? 1 : test_random_between(&w->random, 1, most);
        const int64_t before = story->count;
        for (int64_t k = 0; k < counts[count]; ++k)
            add_token(story, draw_token(w, before + k));
        stories[count] = story;
        parts[count] = (berth_kv_part){story->handle, story->tokens + before, counts[count]};
        ++count;
    }
    if (count == 0) return true;
    berth_kv_room room;
    if (berth_kv_cache_query_room(w->cache, &room) != BERTH_OK) return wrong(w, "no room known");
    const int64_t needed = needed_blocks(parts, count);
    berth_kv_batch* batch;
    const berth_status status = berth_kv_batch_begin(w->cache, parts, count, &batch);
    const bool is_kept = status == BERTH_OK && !test_random_one_in(&w->random, 8);
    if (status == BERTH_OK) {
        if (!synchronize(w)) return false;
        write_batch(w, batch, stories, counts, count);
        if (berth_kv_batch_end(batch, is_kept) != BERTH_OK) return wrong(w, "the batch has no end");
    }
    for (size_t i = 0; i < count && !is_kept; ++i)
        stories[i]->count -= counts[i];
    if (status == BERTH_ERR_OUT_OF_MEMORY) return check_refusal(w, &room, needed);
    return may_fail(w, status, "batch");
}

static bool fork_story(kv_worker* w) {
    kv_story* story = pick(w, true, false);
    kv_story* child = pick(w, false, false);
    if (story == NULL || child == NULL) return true;
    berth_kv_sequence* handle;
    const berth_status status = berth_kv_sequence_fork(story->handle, &handle);
    if (status != BERTH_OK) return may_fail(w, status, "fork");
    *child = *story;
    child->handle = handle;
    return true;
}

static bool shorten_story(kv_worker* w) {
    kv_story* story = pick(w, true, false);
    if (story == NULL) return true;
    const int64_t count = test_random_between(&w->random, 0, story->count);
    const berth_status status = berth_kv_sequence_truncate(story->handle, count);
    if (status == BERTH_OK) story->count = count;
    return may_fail(w, status, "truncate");
}

static bool end_story(kv_worker* w) {
    kv_story* story = pick(w, true, test_random_one_in(&w->random, 4));
    if (story == NULL) return true;
    berth_kv_sequence_release(story->handle);
    story->handle = NULL;
    return true;
}

static bool park_story(kv_worker* w) {
    kv_story* story = pick(w, true, false);
    if (story == NULL) return true;
    const berth_kv_parking how = (berth_kv_parking)test_random_below(&w->random, 3);
    berth_kv_parked parked;
    const berth_status status = berth_kv_sequence_park(story->handle, how, &parked);
    if (status != BERTH_OK) return may_fail(w, status, "park");
    story->is_parked = true;
    const int64_t size = w->layout.block_tokens;
    if (parked.freed_blocks + parked.cached_blocks + parked.shared_blocks !=
        (story->count + size - 1) / size)
        return wrong(w, "a sequence of %" PRId64 " tokens gave up other blocks", story->count);
    return true;
}

static bool resume_story(kv_worker* w) {
    kv_story* story = pick(w, true, true);
    if (story == NULL) return true;
    int64_t length;
    const berth_status status = berth_kv_sequence_resume(story->handle, &length);
    if (status != BERTH_OK) return may_fail(w, status, "resume");
    if (length > story->count) return wrong(w, "a sequence came back longer");
    story->is_parked = false;
    story->count = length;
    return true;
}

/// Memory for something else comes or goes.
static bool press(kv_worker* w) {
    const size_t at = test_random_below(&w->random, KV_PRESSURES);
    berth_context* ctx = at < KV_PRESSURES / 2 ? w->ctx : w->other;
    if (w->pressures[at] != NULL) {
        berth_free(ctx, w->pressures[at]);
        w->pressures[at] = NULL;
        return true;
    }
    const int64_t most = w->setting.memory_bytes / 4;
    w->pressures[at] = berth_alloc(ctx, (uint64_t)test_random_between(&w->random, 1, most));
    const berth_status status = berth_context_error(ctx);
    berth_context_clear_error(ctx);
    return may_fail(w, status, "alloc");
}

static bool upkeep(kv_worker* w) {
    berth_status status = BERTH_OK;
    switch (test_random_below(&w->random, 3)) {
    case 0:
        status = berth_idle(w->ctx, 200, NULL);
        break;
    case 1:
        status = berth_trim(w->runtime, 0, NULL);
        break;
    default: {
        uint64_t released;
        const uint64_t keep = test_random_below(&w->random, (uint64_t)w->setting.memory_bytes);
        status = berth_kv_cache_trim(w->cache, keep, &released);
    }
    }
    return may_fail(w, status, "upkeep");
}

static bool operate(kv_worker* w) {
    switch (test_random_below(&w->random, 20)) {
    case 0:
    case 1:
    case 2:
        return begin_story(w);
    case 3:
        return fork_story(w);
    case 4:
    case 5:
        return end_story(w);
    case 6:
        return shorten_story(w);
    case 7:
        return park_story(w);
    case 8:
    case 9:
        return resume_story(w);
    case 10:
        return press(w);
    case 11:
        return upkeep(w);
    default:
        return run_batch(w);
    }
}

/// Lets a call fail in the next operation, or none any more.
static void arm(kv_worker* w, bool is_on) {
    w->is_armed = is_on;
    const bool is_host = is_on && test_random_one_in(&w->random, 2);
    failing_host_fail(&w->failing, is_host ? 1 + test_random_below(&w->random, 3) : 0, false);
    berth_device* device = w->runtime->device;
    const uint64_t nth = is_on && !is_host ? 1 + test_random_below(&w->random, 6) : 0;
    if (w->setting.fail_device != NULL)
        w->setting.fail_device(nth);
    else if (device->kind == BERTH_DEVICE_SIM)
        berth_sim_fail_any(device, nth);
}

// --- Beginning and end ---------------------------------------------------------------------------

static bool open_worker(kv_worker* w, const kv_setting* setting, uint64_t seed) {
    memset(w, 0, sizeof *w);
    failing_host_init(&w->failing);
    w->random = test_random_make(seed);
    w->setting = *setting;
    char memory[32];
    snprintf(memory, sizeof memory, "%" PRId64, setting->memory_bytes);
    const berth_option_setting settings[] = {
        {"device", setting->device},
        {"threads", "1"},
        {"memory", memory},
        {"compact", setting->compact},
        {"keep", setting->keep},
        {"poison", setting->poison},
        {"decay_ms", "unlimited"},
        {"log", "off"},
    };
    const berth_runtime_options options = {.struct_size = sizeof options,
                                           .host = &w->failing.allocator,
                                           .settings = settings,
                                           .setting_count = sizeof settings / sizeof *settings};
    const berth_kv_options kv = {.struct_size = sizeof kv,
                                 .layers = setting->layers,
                                 .kv_heads = setting->heads,
                                 .key_dims = setting->dims,
                                 .dtype = BERTH_F32,
                                 .block_tokens = setting->block_tokens,
                                 .park_bytes = setting->park_bytes,
                                 .eviction = setting->eviction};
    if (berth_runtime_create(&options, &w->runtime) != BERTH_OK ||
        berth_context_create(w->runtime, &w->ctx) != BERTH_OK ||
        berth_context_create(w->runtime, &w->other) != BERTH_OK ||
        berth_kv_cache_create(w->ctx, &kv, &w->cache) != BERTH_OK)
        return wrong(w, "no beginning: %s", berth_last_error());
    berth_kv_cache_layout(w->cache, &w->layout);
    return true;
}

static void close_worker(kv_worker* w) {
    for (size_t i = 0; i < KV_SEQUENCES; ++i)
        berth_kv_sequence_release(w->stories[i].handle);
    for (size_t i = 0; i < KV_PRESSURES; ++i)
        berth_free(i < KV_PRESSURES / 2 ? w->ctx : w->other, w->pressures[i]);
    berth_kv_cache_release(w->cache);
    if (w->ctx != NULL && w->failure[0] == '\0') {
        berth_memory_stats memory;
        if (berth_runtime_query_memory(w->runtime, &memory) != BERTH_OK || memory.kv_bytes != 0)
            wrong(w, "memory of the cache is left");
    }
    berth_context_release(w->ctx);
    berth_context_release(w->other);
    berth_runtime_release(w->runtime);
    if (w->failing.live_blocks != 0)
        wrong(w, "%zu blocks of host memory are left", (size_t)w->failing.live_blocks);
}

bool kv_worker_run(kv_worker* w, const kv_setting* setting, uint64_t operations, uint64_t seed) {
    bool is_right = open_worker(w, setting, seed);
    for (uint64_t i = 0; i < operations && is_right; ++i) {
        const bool has_fault = setting->has_faults && test_random_one_in(&w->random, 6);
        if (has_fault) arm(w, true);
        is_right = operate(w);
        if (has_fault) arm(w, false);
        if (is_right && i % OPERATIONS_A_CHECK == 0) is_right = check_all(w);
    }
    if (is_right) (void)check_all(w);
    close_worker(w);
    return w->failure[0] == '\0';
}

static const char* draw_word(test_random* random, const char* const words[3]) {
    return words[test_random_below(random, 3)];
}

kv_setting kv_setting_draw(uint64_t seed) {
    test_random random = test_random_make(mix(seed, 77));
    const bool is_sim = !test_random_one_in(&random, 4);
    const int64_t sizes[] = {1, 4, 16, 24};
    const int64_t granule = is_sim ? 65536 : 2097152;
    return (kv_setting){
        .device = is_sim ? "sim" : "cpu",
        .memory_bytes = granule * test_random_between(&random, 6, 20),
        .layers = test_random_between(&random, 1, 3),
        .heads = test_random_between(&random, 1, 2),
        .dims = is_sim ? 8 * test_random_between(&random, 1, 2) : 256,
        .block_tokens = sizes[test_random_below(&random, 4)],
        .park_bytes = test_random_one_in(&random, 3) ? 0 : (uint64_t)granule * 4,
        .eviction = test_random_one_in(&random, 2) ? BERTH_KV_EVICT_LRU : BERTH_KV_EVICT_REUSE,
        .compact = draw_word(&random, (const char* const[]){"off", "auto", "always"}),
        .keep = draw_word(&random, (const char* const[]){"all", "none", "auto"}),
        .poison = draw_word(&random, (const char* const[]){"off", "both", "free"}),
        .has_faults = test_random_one_in(&random, 3),
    };
}
