// SPDX-License-Identifier: Apache-2.0
// What the parts of the trace reader share: the text, its lines, and adding what they say.
#ifndef BERTH_SAMPLES_LLM_REQUEST_TRACE_INTERNAL_H
#define BERTH_SAMPLES_LLM_REQUEST_TRACE_INTERNAL_H

#include <stdio.h>

#include "request_trace.h"

/// Ends the function with the status of `expr` unless that is BERTH_OK.
#define LLM_TRACE_TRY(expr)                                                                        \
    do {                                                                                           \
        const berth_status try_status_ = (expr);                                                   \
        if (try_status_ != BERTH_OK) return try_status_;                                           \
    } while (0)

/// Columns of a CSV that are looked at.
enum { LLM_TRACE_MOST_COLUMNS = 6, LLM_TRACE_MOST_FIELDS = 64 };

/// A text that is being read.
typedef struct llm_trace_reader {
    const char* name;
    FILE* file; ///< or `rest`
    llm_str rest;
    llm_bytes line; ///< the one that is read, terminated
    size_t number;  ///< its, from 1
    llm_request_trace* trace;
    llm_error* error;
    size_t columns[LLM_TRACE_MOST_COLUMNS]; ///< CSV: where the known columns are
} llm_trace_reader;

/// A sentence about the line that is read.
berth_status llm_trace_fail(llm_trace_reader* reader, const char* format, ...) BERTH_PRINTF(2, 3);

/// Adds a request whose ids follow with llm_trace_add_id().
BERTH_NODISCARD berth_status llm_trace_add_row(llm_trace_reader* reader, llm_trace_row row);
BERTH_NODISCARD berth_status llm_trace_add_id(llm_trace_reader* reader, int64_t id);

/// `value`, called `what`, if it is in [least, most]; else a sentence.
BERTH_NODISCARD berth_status llm_trace_check(
    llm_trace_reader* reader, const char* what, int64_t value, int64_t least, int64_t most);

/// Tells by the header what the CSV is; false if it is none that is known.
bool llm_trace_read_header(llm_trace_reader* reader);
BERTH_NODISCARD berth_status llm_trace_read_csv_line(llm_trace_reader* reader);

/// Tells by its first line what the text of JSON lines is; false if it is none that is known.
bool llm_trace_read_first_object(llm_trace_reader* reader);
BERTH_NODISCARD berth_status llm_trace_read_json_line(llm_trace_reader* reader);

#endif // BERTH_SAMPLES_LLM_REQUEST_TRACE_INTERNAL_H
