// SPDX-License-Identifier: Apache-2.0
// Report layer: statistics as text.
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/error.h"
#include "berth/runtime.h"

/// Text that grows in a buffer of the caller's; `length` counts on where it ends.
typedef struct report_text {
    char* buffer;
    size_t size;
    size_t length;
} report_text;

static void add(report_text* text, const char* format, ...) BERTH_PRINTF(2, 3);

static void add(report_text* text, const char* format, ...) {
    va_list arguments;
    va_start(arguments, format);
    const bool has_room = text->length < text->size;
    const int wrote = vsnprintf(has_room ? text->buffer + text->length : NULL,
                                has_room ? text->size - text->length : 0,
                                format,
                                arguments);
    va_end(arguments);
    if (wrote > 0) text->length += (size_t)wrote;
}

static void add_step(report_text* text, const char* name, const berth_step_counters* counters) {
    add(text, "step %s\n", name);
#define ADD_COUNTER(field, help)                                                                   \
    add(text, "  %-18s %20" PRIu64 "  %s\n", #field, counters->field, help);
    BERTH_STEP_STATS_MAP(ADD_COUNTER)
#undef ADD_COUNTER
}

static void add_memory(report_text* text, const berth_memory_stats* memory) {
    add(text, "memory\n");
#define ADD_STAT(field, help) add(text, "  %-18s %20" PRIu64 "  %s\n", #field, memory->field, help);
    BERTH_MEMORY_STATS_MAP(ADD_STAT)
#undef ADD_STAT
}

berth_status berth_runtime_format_report(berth_runtime* runtime,
                                         char* buffer,
                                         size_t size,
                                         size_t* out_needed) {
    if (out_needed != NULL) *out_needed = 0;
    if (runtime == NULL || (buffer == NULL && size > 0))
        return berth_fail(BERTH_ERR_INVALID_ARGUMENT, "a runtime and a buffer are needed");
    report_text text = {.buffer = buffer, .size = size};
    if (size > 0) buffer[0] = '\0';
    berth_memory_stats memory;
    BERTH_TRY(berth_runtime_query_memory(runtime, &memory));
    const size_t count = berth_runtime_query_step_count(runtime);
    for (size_t i = 0; i < count; ++i) {
        const char* name;
        berth_step_counters counters;
        BERTH_TRY(berth_runtime_query_step(runtime, i, &name, &counters));
        add_step(&text, name, &counters);
    }
    add_memory(&text, &memory);
    if (out_needed != NULL) *out_needed = text.length + 1;
    return BERTH_OK;
}
