// SPDX-License-Identifier: Apache-2.0
// How benchmarks write rows for programs to read: a JSON array of objects, one a line.
#ifndef BERTH_BENCH_JSON_ROWS_H
#define BERTH_BENCH_JSON_ROWS_H

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>

#include "kit/fail.h"

/// An array that is being written; zeroed, one that nobody wants: all calls do nothing.
typedef struct json_rows {
    FILE* file;
    const char* path;
    const char* between; ///< before the next row
} json_rows;

/// Begins the file at `path`; NULL: nobody wants rows. Ends the program if it cannot be written.
static inline json_rows json_rows_open(const char* path) {
    if (path == NULL) return (json_rows){.file = NULL};
    FILE* file = fopen(path, "w");
    if (file == NULL) bench_fail_for(path, "cannot be written");
    return (json_rows){.file = file, .path = path, .between = "[\n"};
}

/// Ends the file. Ends the program if not all of it could be written.
static inline void json_rows_close(json_rows* rows) {
    if (rows->file == NULL) return;
    (void)fprintf(rows->file, "%s]\n", rows->between[0] == '[' ? "[" : "\n");
    const bool is_written = ferror(rows->file) == 0;
    if (fclose(rows->file) != 0 || !is_written) bench_fail_for(rows->path, "cannot be written");
    rows->file = NULL;
}

/// Begins a row with its first field, a text without quotes and controls in it.
static inline void json_rows_begin(json_rows* rows, const char* key, const char* text) {
    if (rows->file == NULL) return;
    (void)fprintf(rows->file, "%s  {\"%s\": \"%s\"", rows->between, key, text);
    rows->between = ",\n";
}

static inline void json_rows_end(const json_rows* rows) {
    if (rows->file != NULL) (void)fputc('}', rows->file);
}

/// A text without quotes and controls in it.
static inline void json_rows_text(const json_rows* rows, const char* key, const char* text) {
    if (rows->file != NULL) (void)fprintf(rows->file, ", \"%s\": \"%s\"", key, text);
}

static inline void json_rows_count(const json_rows* rows, const char* key, uint64_t count) {
    if (rows->file != NULL) (void)fprintf(rows->file, ", \"%s\": %" PRIu64, key, count);
}

/// A number in six digits; null if it is none.
static inline void json_rows_number(const json_rows* rows, const char* key, double number) {
    if (rows->file == NULL) return;
    if (isfinite(number))
        (void)fprintf(rows->file, ", \"%s\": %.6g", key, number);
    else
        (void)fprintf(rows->file, ", \"%s\": null", key);
}

static inline void json_rows_bool(const json_rows* rows, const char* key, bool is_so) {
    if (rows->file != NULL)
        (void)fprintf(rows->file, ", \"%s\": %s", key, is_so ? "true" : "false");
}

#endif // BERTH_BENCH_JSON_ROWS_H
