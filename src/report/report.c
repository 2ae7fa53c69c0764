// SPDX-License-Identifier: Apache-2.0
// Report layer: statistics as text.
#include <inttypes.h>

#include "base/error.h"
#include "base/text.h"
#include "berth/health.h"
#include "exec/quotas.h"

const char* berth_estimate_text(berth_estimate_kind kind) {
    static const char* const texts[] = {
        [BERTH_ESTIMATE_UNKNOWN] = "unknown",
        [BERTH_ESTIMATE_OBSERVED] = "observed",
        [BERTH_ESTIMATE_BOUND] = "bound",
        [BERTH_ESTIMATE_EXACT] = "exact",
    };
    return (unsigned)kind <= BERTH_ESTIMATE_EXACT ? texts[kind] : "unknown";
}

static void add_step(berth_text* text, const char* name, const berth_step_counters* counters) {
    berth_text_add(text, "step %s\n", name);
#define ADD_COUNTER(field, help)                                                                   \
    berth_text_add(text, "  %-20s %20" PRIu64 "  %s\n", #field, counters->field, help);
    BERTH_STEP_STATS_MAP(ADD_COUNTER)
#undef ADD_COUNTER
}

static void add_memory(berth_text* text, const berth_memory_stats* memory) {
    berth_text_add(text, "memory\n");
#define ADD_STAT(field, help)                                                                      \
    berth_text_add(text, "  %-20s %20" PRIu64 "  %s\n", #field, memory->field, help);
    BERTH_MEMORY_STATS_MAP(ADD_STAT)
#undef ADD_STAT
}

static void add_health(berth_text* text, const berth_health_stats* health) {
    berth_text_add(text, "health\n");
#define ADD_FIGURE(field, help)                                                                    \
    berth_text_add(text, "  %-23s %17" PRIu64 "  %s\n", #field, health->field, help);
    BERTH_HEALTH_STATS_MAP(ADD_FIGURE)
#undef ADD_FIGURE
}

berth_status berth_runtime_format_report(berth_runtime* runtime,
                                         char* buffer,
                                         size_t size,
                                         size_t* out_needed) {
    if (out_needed != NULL) *out_needed = 0;
    if (runtime == NULL || (buffer == NULL && size > 0))
        return berth_fail(BERTH_ERR_INVALID_ARGUMENT, "a runtime and a buffer are needed");
    berth_text text = {.buffer = buffer, .size = size};
    if (size > 0) buffer[0] = '\0';
    berth_memory_stats memory;
    berth_health_stats health;
    BERTH_TRY(berth_runtime_query_memory(runtime, &memory));
    BERTH_TRY(berth_runtime_query_health(runtime, &health));
    const size_t count = berth_runtime_query_step_count(runtime);
    for (size_t i = 0; i < count; ++i) {
        const char* name;
        berth_step_counters counters;
        BERTH_TRY(berth_runtime_query_step(runtime, i, &name, &counters));
        add_step(&text, name, &counters);
    }
    add_memory(&text, &memory);
    berth_quotas_write(&text, runtime);
    add_health(&text, &health);
    if (out_needed != NULL) *out_needed = text.length;
    return BERTH_OK;
}
