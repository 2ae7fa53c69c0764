// SPDX-License-Identifier: Apache-2.0
// Leaks are reported when the user releases the runtime, when it ends, and when the process ends.
#include "exec/debugging.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "berth/debug.h"

// --- Runtimes that are still there when the process ends -----------------------------------------

/// Guards the list and the flag.
static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static berth_runtime* first_reported;
static bool is_waiting;
static uint32_t list_generation; ///< of forks; a child leaves the list alone

static void report_at_exit(void) {
    if (list_generation != berth_fork_generation) return;
    pthread_mutex_lock(&list_lock);
    for (berth_runtime* r = first_reported; r != NULL; r = r->next_reported)
        if (r->fork_generation == list_generation) berth_debugging_report(r, "as the process ends");
    pthread_mutex_unlock(&list_lock);
}

static void list_runtime(berth_runtime* runtime) {
    pthread_mutex_lock(&list_lock);
    list_generation = runtime->fork_generation;
    runtime->next_reported = first_reported;
    first_reported = runtime;
    // without room for one more function there is one report less
    if (!is_waiting) is_waiting = atexit(report_at_exit) == 0;
    pthread_mutex_unlock(&list_lock);
}

static void unlist_runtime(berth_runtime* runtime) {
    pthread_mutex_lock(&list_lock);
    berth_runtime** link = &first_reported;
    while (*link != runtime)
        link = &(*link)->next_reported;
    *link = runtime->next_reported;
    pthread_mutex_unlock(&list_lock);
}

// --- Reports -------------------------------------------------------------------------------------

/// Hands `text` to the log, line by line.
static void log_lines(char* text) {
    for (char* line = text; *line != '\0';) {
        char* end = strchr(line, '\n');
        if (end != NULL) *end = '\0';
        berth_log_line(BERTH_LOG_WARN, "leaks: %s", line);
        if (end == NULL) break;
        line = end + 1;
    }
}

void berth_debugging_report(berth_runtime* runtime, const char* when) {
    if (!runtime->reports_leaks) return;
    uint64_t blocks = 0, bytes = 0;
    berth_audit_query_out(runtime->audit, &blocks, &bytes);
    if (blocks == 0) return;
    berth_log_line(BERTH_LOG_WARN,
                   "leaks: %" PRIu64 " blocks, %" PRIu64 " bytes are out %s",
                   blocks,
                   bytes,
                   when);
    size_t needed = 0;
    if (berth_runtime_format_leaks(runtime, NULL, 0, &needed) != BERTH_OK) return;
    // other threads may take more meanwhile: then the last line is cut
    char* text = berth_host_alloc(runtime->host, needed + 1);
    if (text != NULL && berth_runtime_format_leaks(runtime, text, needed + 1, NULL) == BERTH_OK)
        log_lines(text);
    berth_host_free(runtime->host, text);
}

berth_status berth_runtime_format_leaks(berth_runtime* runtime,
                                        char* buffer,
                                        size_t size,
                                        size_t* out_needed) {
    if (out_needed != NULL) *out_needed = 0;
    if (runtime == NULL || (buffer == NULL && size > 0))
        return berth_fail(BERTH_ERR_INVALID_ARGUMENT, "a runtime and a buffer are needed");
    BERTH_TRY(berth_fork_check(runtime->fork_generation));
    if (runtime->audit == NULL)
        return berth_fail(BERTH_ERR_STATE,
                          "nothing is noted: BERTH_LEAKS, BERTH_HISTORY and BERTH_GUARD are off");
    berth_text text = {.buffer = buffer, .size = size};
    if (size > 0) buffer[0] = '\0';
    BERTH_TRY(berth_audit_write_leaks(runtime->audit, &text));
    if (out_needed != NULL) *out_needed = text.length;
    return BERTH_OK;
}

// --- The audit -----------------------------------------------------------------------------------

berth_status berth_debugging_start(berth_runtime* runtime, const berth_options* options) {
    const uint64_t events = berth_options_u64(options, BERTH_OPTION_HISTORY);
    const bool leaks = berth_options_bool(options, BERTH_OPTION_LEAKS);
    runtime->history_events = events;
    runtime->guards = berth_options_bool(options, BERTH_OPTION_GUARD);
    runtime->is_strict = berth_options_bool(options, BERTH_OPTION_STRICT);
    if (events == 0 && !leaks && !runtime->guards) return BERTH_OK;
    const berth_status status = berth_audit_create(runtime->host, events, &runtime->audit);
    if (status != BERTH_OK) return berth_fail_prefix(status, "BERTH_HISTORY");
    if (leaks) list_runtime(runtime);
    runtime->reports_leaks = leaks;
    return BERTH_OK;
}

void berth_debugging_stop(berth_runtime* runtime) {
    if (runtime->reports_leaks) {
        berth_debugging_report(runtime, "as the runtime ends");
        unlist_runtime(runtime);
    }
    berth_audit_destroy(runtime->audit);
    runtime->audit = NULL;
}

static void where(berth_home* home, berth_audit_site* out_site) {
    const berth_run* run = berth_home_context(home)->run;
    *out_site = (berth_audit_site){.op = home->doing, .event = BERTH_AUDIT_NO_EVENT};
    if (run == NULL) return;
    out_site->step = berth_step_model_name(run->entry->model);
    if (run->mode != BERTH_RUN_MODE_UNTRACKED) out_site->event = run->ledger.event;
}

static void fail_context(berth_home* home) {
    berth_context_fail(berth_home_context(home), BERTH_ERR_CORRUPT, "release", NULL);
}

void berth_debugging_join(berth_context* context) {
    const berth_runtime* runtime = context->runtime;
    berth_home* home = &context->home;
    home->audit = runtime->audit;
    home->where = where;
    if (!runtime->guards) return;
    const berth_account account = {
        .store = runtime->store, .tenant = &context->tenant, .owner = BERTH_OWNER_POOL};
    const bool is_system = runtime->mode == BERTH_MODE_SYSTEM;
    berth_guards_init(&home->guards, home->host, account, home->stream, is_system);
    berth_arena_set_guards(home->arena);
    home->guard_bytes = BERTH_GUARD_LINE_BYTES;
    if (runtime->is_strict) home->on_damage = fail_context;
}

berth_status berth_debugging_note(berth_runtime* runtime,
                                  const void* data,
                                  uint64_t bytes,
                                  const char* call) {
    if (runtime->audit == NULL) return BERTH_OK;
    const berth_audit_site site = {.op = call, .event = BERTH_AUDIT_NO_EVENT};
    return berth_audit_note_take(runtime->audit, BERTH_AUDIT_BESIDE, data, bytes, &site);
}

void berth_debugging_forget(berth_runtime* runtime, const void* data) {
    if (runtime->audit != NULL) berth_audit_note_give(runtime->audit, data);
}

const char* berth_debugging_event_name(berth_runtime* runtime, uint32_t kind) {
    if (kind < BERTH_OP_COUNT) return berth_op_table[kind].name;
    if (kind == BERTH_EVENT_ALLOC) return "empty";
    if (kind == BERTH_EVENT_STEP) return "step";
    berth_mutex_lock(&runtime->lock);
    const berth_op* op = runtime->first_op;
    while (op != NULL && op->id != kind)
        op = op->next;
    berth_mutex_unlock(&runtime->lock);
    return op != NULL ? op->desc.name : "op";
}
