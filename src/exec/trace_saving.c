// SPDX-License-Identifier: Apache-2.0
// Trace files: what all steps allocate, and what the pools have done lately.
#include "exec/trace_saving.h"

#include <string.h>

#include "base/error.h"
#include "base/file_writer.h"
#include "base/log.h"
#include "berth/debug.h"
#include "exec/step_entry.h"
#include "plan/trace_export.h"

static void collect(berth_runtime* runtime, berth_byte_writer* out) {
    berth_write_bytes(out, BERTH_TRACE_HEADER, strlen(BERTH_TRACE_HEADER));
    for (berth_step_entry* entry = berth_step_entry_next(runtime, NULL); entry != NULL;
         entry = berth_step_entry_next(runtime, entry))
        berth_step_model_write_trace(entry->model, &runtime->event_names, out);
}

static berth_status write_file(const berth_runtime* runtime,
                               const berth_byte_writer* text,
                               const char* path) {
    if (text->failed)
        return berth_fail(BERTH_ERR_OUT_OF_MEMORY, "no host memory to save traces to '%s'", path);
    berth_file_writer file;
    BERTH_TRY(berth_file_writer_init(&file, runtime->host, &berth_file_ops_system, path));
    return berth_file_writer_finish(&file, berth_file_writer_add(&file, text->data, text->count));
}

berth_status berth_runtime_save_traces(berth_runtime* runtime, const char* path) {
    if (runtime == NULL || path == NULL)
        return berth_fail(BERTH_ERR_INVALID_ARGUMENT, "a runtime and a path are needed");
    BERTH_TRY(berth_fork_check(runtime->fork_generation));
    berth_byte_writer text = {.host = runtime->host};
    collect(runtime, &text);
    const berth_status status = write_file(runtime, &text, path);
    berth_byte_writer_fini(&text);
    return status;
}

berth_status berth_runtime_save_history(berth_runtime* runtime, const char* path) {
    if (runtime == NULL || path == NULL)
        return berth_fail(BERTH_ERR_INVALID_ARGUMENT, "a runtime and a path are needed");
    BERTH_TRY(berth_fork_check(runtime->fork_generation));
    if (runtime->history_events == 0)
        return berth_fail(BERTH_ERR_STATE, "there is no history: BERTH_HISTORY is 0");
    berth_byte_writer text = {.host = runtime->host};
    berth_write_bytes(&text, BERTH_TRACE_HEADER, strlen(BERTH_TRACE_HEADER));
    berth_audit_write_history(runtime->audit, &text);
    const berth_status status = write_file(runtime, &text, path);
    berth_byte_writer_fini(&text);
    return status;
}

void berth_runtime_close_traces(berth_runtime* runtime) {
    if (runtime->trace_path[0] == '\0' || strcmp(runtime->trace_path, BERTH_OPTION_NO_FILE) == 0)
        return;
    if (berth_runtime_save_traces(runtime, runtime->trace_path) != BERTH_OK)
        berth_log_line(BERTH_LOG_WARN, "%s", berth_last_error());
}
