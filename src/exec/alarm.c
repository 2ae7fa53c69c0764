// SPDX-License-Identifier: Apache-2.0
// Watermarks: a line in the log, and the program's callback.
#include "exec/alarm.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/error.h"
#include "base/log.h"
#include "berth/memory.h"

/// What callbacks bring about themselves is told in so many rounds; the rest by a later call.
enum { ROUNDS = 4, TENTHS = 10, DETAIL_BYTES = 1024 };

berth_status berth_alarm_start(berth_runtime* runtime, const berth_options* options) {
    berth_store_stats stats;
    berth_store_query_stats(runtime->store, &stats);
    const uint64_t capacity = stats.capacity_bytes;
    const uint64_t high = berth_options_bytes(options, BERTH_OPTION_HIGH_WATERMARK, capacity);
    uint64_t low = berth_options_bytes(options, BERTH_OPTION_LOW_WATERMARK, capacity);
    if (high == 0 || high == BERTH_OPTION_UNLIMITED) return BERTH_OK;
    if (low == 0) low = high - high / TENTHS - 1;
    if (low >= high)
        return berth_fail(BERTH_ERR_INVALID_ARGUMENT,
                          "BERTH_LOW_WATERMARK is %" PRIu64
                          " bytes, not less than BERTH_HIGH_WATERMARK of %" PRIu64,
                          low,
                          high);
    berth_store_set_watermarks(runtime->store, high, low);
    return BERTH_OK;
}

static void tell_of(berth_runtime* runtime, const berth_crossing* crossing, uint64_t capacity) {
    berth_log_line(crossing->is_rise ? BERTH_LOG_WARN : BERTH_LOG_INFO,
                   "memory: %" PRIu64 " of %" PRIu64 " bytes are in use, which %s of %" PRIu64,
                   crossing->used_bytes,
                   capacity,
                   crossing->is_rise ? "reaches BERTH_HIGH_WATERMARK"
                                     : "is back at BERTH_LOW_WATERMARK",
                   crossing->mark_bytes);
    berth_mutex_lock(&runtime->lock);
    const berth_alarm_callback callback = runtime->on_alarm;
    void* self = runtime->on_alarm_self;
    berth_mutex_unlock(&runtime->lock);
    if (callback == NULL) return;
    const berth_memory_alarm alarm = {
        .runtime = runtime,
        .is_high = crossing->is_rise,
        .used_bytes = crossing->used_bytes,
        .watermark_bytes = crossing->mark_bytes,
        .capacity_bytes = capacity,
    };
    callback(self, &alarm);
}

/// One round: all that there is to tell now. True if there is more then.
static bool tell_all(berth_runtime* runtime) {
    berth_crossing crossings[BERTH_CROSSINGS_MOST];
    const size_t count = berth_store_take_crossings(runtime->store, crossings);
    if (count == 0) return false;
    char detail[DETAIL_BYTES]; // of the call that is interrupted
    snprintf(detail, sizeof detail, "%s", berth_last_error());
    berth_store_stats stats;
    berth_store_query_stats(runtime->store, &stats);
    for (size_t i = 0; i < count; i++)
        tell_of(runtime, &crossings[i], stats.capacity_bytes);
    (void)berth_fail(BERTH_OK, "%s", detail);
    return berth_store_end_telling(runtime->store);
}

void berth_alarm_tell(berth_runtime* runtime) {
    if (berth_home_in_callback != NULL) return;
    berth_runtime_retain(runtime);
    bool has_more = true;
    for (int round = 0; round < ROUNDS && has_more; round++)
        has_more = tell_all(runtime);
    berth_runtime_drop(runtime);
}

static void on_ring(berth_home* home) { berth_alarm_tell(berth_home_context(home)->runtime); }

void berth_alarm_join(berth_context* context) {
    context->home.on_ring = on_ring;
    context->tenant.bell = &context->home.rings;
}

berth_status berth_runtime_set_alarm_callback(berth_runtime* runtime,
                                              berth_alarm_callback callback,
                                              void* self) {
    if (runtime == NULL) return berth_fail(BERTH_ERR_INVALID_ARGUMENT, "a runtime is needed");
    BERTH_TRY(berth_fork_check(runtime->fork_generation));
    berth_mutex_lock(&runtime->lock);
    runtime->on_alarm = callback;
    runtime->on_alarm_self = self;
    berth_mutex_unlock(&runtime->lock);
    return BERTH_OK;
}
