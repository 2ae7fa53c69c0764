// SPDX-License-Identifier: Apache-2.0
// What a thread does in its turns, and the callbacks.
#include "sharing_worker.h"

#include <dlpack/dlpack.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PLAIN_BYTES = 100000, LONGEST = 150000, ROWS = 60, COLUMNS = 7, MOST_VALUE = 100000 };

#define MIB (UINT64_C(1) << 20)

/// The worker whose thread this is.
static _Thread_local sharing_worker* current;

static uint64_t below(sharing_worker* w, uint64_t bound) {
    return test_random_below(&w->random, bound);
}

static void fail(sharing_shop* shop, const char* format, ...) BERTH_PRINTF(2, 3);

/// Keeps the first failure.
static void fail(sharing_shop* shop, const char* format, ...) {
    if (atomic_exchange(&shop->has_failed, true)) return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(shop->failure, sizeof shop->failure, format, arguments);
    va_end(arguments);
}

/// Clears a context's error, which may only be one of memory.
static void settle(sharing_worker* w, berth_context* ctx) {
    const berth_status status = berth_context_error(ctx);
    if (status == BERTH_OK) return;
    if (status != BERTH_ERR_OUT_OF_MEMORY)
        fail(w->shop, "an op: %s", berth_context_error_text(ctx));
    atomic_fetch_add(&w->shop->refusals, 1);
    berth_context_clear_error(ctx);
}

/// Looks at all elements. A tensor of a context that is in a call has none to show.
static void check(sharing_worker* w, const sharing_tensor* t) {
    const uint64_t bytes = berth_tensor_bytes(t->tensor);
    float* values = bytes > 0 ? malloc(bytes) : NULL;
    if (values == NULL) return;
    const berth_status status = berth_tensor_read(t->tensor, values, bytes);
    const bool is_barred = status == BERTH_ERR_STATE || status == BERTH_ERR_UNSUPPORTED;
    if (status != BERTH_OK && !is_barred) fail(w->shop, "a read: %s", berth_last_error());
    for (uint64_t i = 0; status == BERTH_OK && i < bytes / sizeof *values; i++) {
        if (values[i] == t->value) continue;
        fail(w->shop,
             "element %llu is %g, not %g",
             (unsigned long long)i,
             (double)values[i],
             (double)t->value);
        break;
    }
    free(values);
}

static void end(sharing_worker* w, sharing_tensor* t) {
    if (t->tensor == NULL) return;
    if (below(w, 3) == 0) check(w, t);
    if (t->is_mapped) berth_tensor_unmap(t->tensor);
    if (t->loan != NULL) t->loan->deleter(t->loan);
    berth_release(t->tensor);
    *t = (sharing_tensor){0};
}

/// Keeps a result, if it is one.
static void keep(sharing_worker* w, berth_tensor* tensor, float value) {
    settle(w, w->ctx);
    if (tensor == NULL) return;
    sharing_tensor* t = &w->tensors[below(w, SHARING_TENSORS)];
    end(w, t);
    *t = (sharing_tensor){.tensor = tensor, .value = value};
    if (below(w, 8) == 0) check(w, t);
}

/// A tensor in play whose number may still double; NULL if none is found.
static sharing_tensor* pick(sharing_worker* w) {
    sharing_tensor* t = &w->tensors[below(w, SHARING_TENSORS)];
    if (t->value > MOST_VALUE || t->value < -MOST_VALUE) end(w, t);
    return t->tensor != NULL ? t : NULL;
}

// --- Steps ---------------------------------------------------------------------------------------

/// An op of a step, which is full of `*value` before and after.
static berth_tensor* run_step_op(berth_context* ctx, uint64_t op, berth_tensor* x, float* value) {
    switch (op) {
    case 0:
        *value = -*value;
        return berth_neg(ctx, berth_move(x));
    case 1:
        x = berth_transpose(ctx, berth_move(x), 0, 1);
        return berth_contiguous(ctx, berth_move(berth_transpose(ctx, berth_move(x), 0, 1)));
    case 2: {
        *value *= COLUMNS;
        berth_tensor* ones = berth_ones(ctx, BERTH_F32, BERTH_SHAPE(COLUMNS, COLUMNS));
        return berth_linear(ctx, berth_move(x), berth_move(ones), NULL);
    }
    default: {
        berth_tensor* y = berth_copy(ctx, x);
        berth_release(x);
        return y;
    }
    }
}

static void run_step(sharing_worker* w, uint32_t depth) {
    static const char* const names[] = {"short", "middle", "long"};
    const uint64_t kind = below(w, 3);
    const int64_t length = 1 + (int64_t)below(w, 12);
    const berth_step_input input = {.name = "n", .rank = 1, .dims = &length};
    const berth_step_desc desc = {.name = names[kind], .inputs = &input, .input_count = 1};
    if (below(w, 8) == 0) berth_step_reserve_extra(w->ctx, below(w, MIB));
    if (berth_step_begin(w->ctx, &desc) != BERTH_OK) {
        settle(w, w->ctx);
        berth_step_cancel_extra(w->ctx);
        return;
    }
    float value = (float)length;
    berth_tensor* x =
        berth_full(w->ctx, (double)length, BERTH_F32, BERTH_SHAPE(length * ROWS, COLUMNS));
    for (uint64_t i = 0; i < 3 + 2 * kind && x != NULL; i++)
        x = run_step_op(w->ctx, (kind + i) % 4, x, &value);
    if (kind > 0 && depth < 2) run_step(w, depth + 1);
    if (x != NULL && below(w, 2) == 0) keep(w, berth_retain(x), value);
    settle(w, w->ctx);
    (void)!berth_step_end(w->ctx);
    if (x != NULL) check(w, &(sharing_tensor){.tensor = x, .value = value});
    berth_release(x);
    settle(w, w->ctx);
}

// --- Turns ---------------------------------------------------------------------------------------

static void map_or_lend(sharing_worker* w, sharing_tensor* t) {
    void* data;
    if (t->is_mapped) {
        berth_tensor_unmap(t->tensor);
        t->is_mapped = false;
    } else if (below(w, 2) == 0) {
        t->is_mapped = berth_tensor_map(t->tensor, &data) == BERTH_OK;
    } else if (t->loan == NULL) {
        (void)!berth_tensor_to_dlpack(t->tensor, &t->loan);
    }
}

/// Leaves a tensor to the other threads, and ends what they have left.
static void send(sharing_worker* w, sharing_tensor* t) {
    sharing_tensor* letter = calloc(1, sizeof *letter);
    if (letter == NULL || t->is_mapped || t->loan != NULL) {
        free(letter);
        return;
    }
    *letter = *t;
    *t = (sharing_tensor){0};
    sharing_tensor* old = atomic_exchange(&w->shop->mail[below(w, SHARING_MAIL)], letter);
    if (old != NULL) end(w, old);
    free(old);
}

static void receive(sharing_worker* w) {
    sharing_tensor* letter = atomic_exchange(&w->shop->mail[below(w, SHARING_MAIL)], NULL);
    if (letter != NULL) keep(w, letter->tensor, letter->value);
    free(letter);
}

static void put_into_cache(sharing_worker* w, const sharing_tensor* t) {
    sharing_tensor* cached = &w->cache[below(w, SHARING_CACHE)];
    end(w, cached);
    *cached = (sharing_tensor){.tensor = berth_retain(t->tensor), .value = t->value};
}

static void take_or_free_bytes(sharing_worker* w) {
    const uint64_t i = below(w, SHARING_BYTES);
    if (w->bytes[i] == NULL) {
        w->bytes[i] = berth_alloc(w->ctx, PLAIN_BYTES);
        if (w->bytes[i] != NULL && w->shop->can_read) memset(w->bytes[i], (int)i + 1, PLAIN_BYTES);
        settle(w, w->ctx);
        return;
    }
    const unsigned char* data = w->bytes[i];
    for (size_t k = 0; w->shop->can_read && k < PLAIN_BYTES; k += 777)
        if (data[k] != i + 1) fail(w->shop, "plain bytes have changed");
    berth_free(w->ctx, w->bytes[i]);
    w->bytes[i] = NULL;
}

/// Ends the second context, or makes it.
static void change_second(sharing_worker* w) {
    berth_context* gone = w->second;
    w->second = NULL; // before callbacks of its end may come to it
    if (gone == NULL)
        (void)!berth_context_create(w->shop->runtime, &w->second);
    else
        berth_context_release(gone);
}

static void change_limits(sharing_worker* w) {
    const uint64_t bytes = below(w, 8 * MIB);
    const bool is_limited = below(w, 3) == 0;
    berth_context_memory memory;
    (void)!berth_context_set_quota(w->ctx, is_limited ? bytes : BERTH_UNLIMITED);
    (void)!berth_context_set_share(w->ctx, below(w, 3) == 0 ? bytes / 4 : 0);
    (void)!berth_runtime_set_quota(
        w->shop->runtime, BERTH_MEMORY_POOL, below(w, 4) == 0 ? 2 * bytes : BERTH_UNLIMITED);
    if (berth_context_query_memory(w->ctx, &memory) != BERTH_OK ||
        memory.share_bytes > memory.quota_bytes)
        fail(w->shop, "a share is above its quota");
}

/// What the books say at any moment.
static void look_at_books(sharing_worker* w) {
    berth_memory_stats stats;
    if (berth_runtime_query_memory(w->shop->runtime, &stats) != BERTH_OK ||
        stats.mapped_bytes > stats.capacity_bytes || stats.kept_bytes > stats.shares_bytes)
        fail(w->shop, "more is mapped or kept than there is");
}

static void use_a_tensor(sharing_worker* w, sharing_tensor* t) {
    switch (below(w, 10)) {
    case 0:
        keep(w, berth_neg(w->ctx, t->tensor), -t->value);
        break;
    case 1:
        keep(w, berth_add(w->ctx, t->tensor, t->tensor), 2 * t->value);
        break;
    case 2:
        keep(w,
             berth_slice(w->ctx, t->tensor, 0, 0, berth_tensor_dim(t->tensor, 0) / 2, 1),
             t->value);
        break;
    case 3:
        if (t->is_mapped || t->loan != NULL) break;
        const sharing_tensor moved = *t;
        *t = (sharing_tensor){0};
        keep(w, berth_neg(w->ctx, berth_move(moved.tensor)), -moved.value);
        break;
    case 4:
        map_or_lend(w, t);
        break;
    case 5:
        send(w, t);
        break;
    case 6:
        put_into_cache(w, t);
        break;
    case 7:
        if (w->second != NULL) keep(w, berth_neg(w->second, t->tensor), -t->value);
        if (w->second != NULL) settle(w, w->second);
        break;
    default:
        end(w, t);
        break;
    }
}

static void take_turn(sharing_worker* w) {
    const float value = (float)below(w, 1000);
    const int64_t count = (int64_t)below(w, below(w, 2) == 0 ? 600 : LONGEST);
    sharing_tensor* t = pick(w);
    switch (below(w, 16)) {
    case 0:
    case 1:
    case 2:
        keep(w, berth_full(w->ctx, (double)value, BERTH_F32, BERTH_SHAPE(count)), value);
        break;
    case 3:
    case 4:
        run_step(w, 0);
        break;
    case 5:
        receive(w);
        break;
    case 6:
        take_or_free_bytes(w);
        break;
    case 7:
        (void)!berth_idle(w->ctx, below(w, 200), NULL);
        break;
    case 8:
        (void)!berth_trim(w->shop->runtime, below(w, 2) * MIB, NULL);
        break;
    case 9:
        change_limits(w);
        look_at_books(w);
        break;
    case 10:
        if (below(w, 8) == 0) change_second(w);
        break;
    default:
        if (t != NULL) use_a_tensor(w, t);
        break;
    }
}

// --- Callbacks -----------------------------------------------------------------------------------

static bool release_cached(sharing_worker* w) {
    sharing_tensor* cached = &w->cache[below(w, SHARING_CACHE)];
    berth_tensor* tensor = cached->tensor;
    *cached = (sharing_tensor){0};
    berth_release(tensor);
    return tensor != NULL;
}

/// Releases, trims, computes elsewhere, raises quotas, or does not help.
static bool on_shortage(void* self, const berth_shortage* shortage) {
    sharing_shop* shop = self;
    sharing_worker* w = current;
    atomic_fetch_add(&shop->calls, 1);
    if (shortage->call == NULL || shortage->wanted_bytes == 0) fail(shop, "a shortage of nothing");
    const bool is_of_second = shortage->context == w->second;
    switch (below(w, 8)) {
    case 0:
        (void)!berth_trim(shop->runtime, 0, NULL);
        break;
    case 1:
        (void)!berth_context_set_quota(shortage->context, BERTH_UNLIMITED);
        (void)!berth_runtime_set_quota(shop->runtime, BERTH_MEMORY_POOL, BERTH_UNLIMITED);
        return true;
    case 2:
        if (w->second == NULL || is_of_second || w->is_alarmed) break;
        change_second(w);
        return true;
    case 3:
        if (w->second == NULL || is_of_second) break;
        berth_release(berth_ones(w->second, BERTH_F32, BERTH_SHAPE(2000)));
        settle(w, w->second);
        break;
    case 4:
        if (berth_ones(shortage->context, BERTH_F32, BERTH_SHAPE(8)) != NULL)
            fail(shop, "the context in need has run an op");
        break;
    case 5:
        return below(w, 2) == 0;
    default:
        break;
    }
    const bool has_first = release_cached(w);
    return release_cached(w) || has_first;
}

static void on_alarm(void* self, const berth_memory_alarm* alarm) {
    sharing_shop* shop = self;
    sharing_worker* w = current;
    atomic_fetch_add(&shop->calls, 1);
    if (alarm->is_high ? alarm->used_bytes < alarm->watermark_bytes
                       : alarm->used_bytes > alarm->watermark_bytes)
        fail(shop, "an alarm without a crossing");
    if (w == NULL || w->ctx == NULL) return;
    w->is_alarmed = true;
    if (below(w, 2) == 0) (void)release_cached(w);
    if (below(w, 2) == 0) (void)!berth_trim(shop->runtime, 0, NULL);
    berth_tensor* x = berth_full(w->ctx, 5, BERTH_F32, BERTH_SHAPE(1000));
    if (x != NULL) check(w, &(sharing_tensor){.tensor = x, .value = 5});
    berth_release(x);
    w->is_alarmed = false;
}

// --- The whole -----------------------------------------------------------------------------------

static void* work(void* opaque) {
    sharing_worker* w = opaque;
    current = w;
    for (uint64_t turn = 0; turn < w->turns && !atomic_load(&w->shop->has_failed); turn++)
        take_turn(w);
    for (size_t i = 0; i < SHARING_TENSORS; i++)
        end(w, &w->tensors[i]);
    for (size_t i = 0; i < SHARING_CACHE; i++)
        end(w, &w->cache[i]);
    for (size_t i = 0; i < SHARING_BYTES; i++)
        berth_free(w->ctx, w->bytes[i]);
    if (w->second != NULL) change_second(w);
    berth_context* gone = w->ctx;
    w->ctx = NULL;
    berth_context_release(gone);
    current = NULL;
    return NULL;
}

static bool open_shop(sharing_shop* shop,
                      const berth_option_setting* settings,
                      size_t count,
                      size_t workers,
                      uint64_t seed) {
    const berth_runtime_options options = {
        .struct_size = sizeof options, .settings = settings, .setting_count = count};
    berth_status status = berth_runtime_create(&options, &shop->runtime);
    if (status == BERTH_OK)
        status = berth_runtime_set_out_of_memory_callback(shop->runtime, on_shortage, shop);
    if (status == BERTH_OK)
        status = berth_runtime_set_alarm_callback(shop->runtime, on_alarm, shop);
    for (; status == BERTH_OK && shop->worker_count < workers; shop->worker_count++) {
        sharing_worker* w = &shop->workers[shop->worker_count];
        w->shop = shop;
        w->random = test_random_make(seed * SHARING_THREADS + shop->worker_count);
        status = berth_context_create(shop->runtime, &w->ctx);
        if (status != BERTH_OK) break;
    }
    if (status != BERTH_OK) fail(shop, "creation: %s", berth_last_error());
    return status == BERTH_OK;
}

/// Ends what is left; nothing may be mapped, promised or kept then.
static void close_shop(sharing_shop* shop) {
    for (size_t i = 0; i < SHARING_MAIL; i++) {
        sharing_tensor* letter = atomic_exchange(&shop->mail[i], NULL);
        if (letter != NULL) berth_release(letter->tensor);
        free(letter);
    }
    berth_memory_stats stats;
    if (berth_trim(shop->runtime, 0, NULL) != BERTH_OK ||
        berth_runtime_query_memory(shop->runtime, &stats) != BERTH_OK)
        fail(shop, "the end: %s", berth_last_error());
    else if ((stats.mapped_bytes | stats.reserved_bytes | stats.requested_bytes |
              stats.shares_bytes | stats.guards_broken | stats.order_refused) != 0)
        fail(shop,
             "left: %llu mapped, %llu reserved, %llu requested, %llu in shares; %llu guards broken",
             (unsigned long long)stats.mapped_bytes,
             (unsigned long long)stats.reserved_bytes,
             (unsigned long long)stats.requested_bytes,
             (unsigned long long)stats.shares_bytes,
             (unsigned long long)stats.guards_broken);
}

bool sharing_run(sharing_shop* shop,
                 const berth_option_setting* settings,
                 size_t count,
                 size_t workers,
                 uint64_t turns,
                 uint64_t seed) {
    *shop = (sharing_shop){.can_read = true};
    for (size_t i = 0; i < count; i++)
        if (strcmp(settings[i].name, "device") == 0)
            shop->can_read = strcmp(settings[i].value, "cpu") == 0;
    if (open_shop(shop, settings, count, workers, seed)) {
        size_t started = 0;
        for (; started < shop->worker_count; started++) {
            sharing_worker* w = &shop->workers[started];
            w->turns = turns;
            if (pthread_create(&w->thread, NULL, work, w) != 0) break;
        }
        for (size_t i = 0; i < started; i++)
            (void)pthread_join(shop->workers[i].thread, NULL);
        for (size_t i = started; i < shop->worker_count; i++)
            (void)work(&shop->workers[i]);
        close_shop(shop);
    } else {
        for (size_t i = 0; i < shop->worker_count; i++)
            berth_context_release(shop->workers[i].ctx);
    }
    berth_runtime_release(shop->runtime);
    return !atomic_load(&shop->has_failed);
}
