// SPDX-License-Identifier: Apache-2.0
// What both targets of packing problems do with what they could read.
#ifndef BERTH_TESTS_FUZZ_PROBLEM_H
#define BERTH_TESTS_FUZZ_PROBLEM_H

#include <stdlib.h>
#include <string.h>

#include "berth/trace.h"

/// More buffers than this are not packed, only read.
enum { FUZZ_BUFFERS = 300 };

static inline void fuzz_problem_rows(const berth_problem* problem) {
    const size_t count = berth_problem_query_pack(problem)->count;
    for (size_t i = 0; i < count; i++) {
        berth_problem_row row;
        if (berth_problem_query_row(problem, i, &row) != BERTH_OK) abort();
        if (row.id[0] == '\0' || row.lower > row.upper || row.line == 0) abort();
        if (row.in_place_from != BERTH_PROBLEM_NONE && row.in_place_from >= count) abort();
        if (strlen(row.label) > (size_t)1 << 31) abort();
    }
}

static inline void fuzz_problem_pack(const berth_problem* problem) {
    const berth_pack_problem* pack = berth_problem_query_pack(problem);
    uint64_t offsets[FUZZ_BUFFERS];
    berth_pack_result result;
    berth_pack_verdict verdict;
    if (pack->count > FUZZ_BUFFERS) return;
    if (berth_problem_solve(problem, NULL, offsets, &result) != BERTH_OK) return;
    if (berth_pack_verify(pack, offsets, &verdict) != BERTH_OK) abort();
    if (!verdict.valid || verdict.peak != result.peak || result.peak < result.lower_bound) abort();
}

/// Reads `data`, and plans each part at those of `settings` [count] that it has.
static inline void fuzz_problem_file(const char* name,
                                     const uint8_t* data,
                                     size_t size,
                                     const berth_trace_setting* settings,
                                     size_t count) {
    berth_trace_file* file;
    if (berth_trace_file_parse(name, data, size, &file) != BERTH_OK) return;
    for (size_t p = 0; p < berth_trace_file_query_part_count(file) && p < 32; p++) {
        berth_trace_part part;
        berth_problem* problem = NULL;
        if (berth_trace_file_query_part(file, p, &part) != BERTH_OK) abort();
        for (size_t s = 0; s < part.symbol_count; s++) {
            berth_trace_symbol symbol;
            if (berth_trace_file_query_symbol(file, p, s, &symbol) != BERTH_OK) abort();
            if (symbol.lowest > symbol.highest || symbol.name[0] == '\0') abort();
        }
        berth_status status = berth_problem_create(file, p, settings, count, &problem);
        if (status == BERTH_ERR_INVALID_ARGUMENT)
            status = berth_problem_create(file, p, NULL, 0, &problem);
        if (status == BERTH_OK) {
            fuzz_problem_rows(problem);
            fuzz_problem_pack(problem);
        }
        berth_problem_destroy(problem);
    }
    berth_trace_file_destroy(file);
}

#endif // BERTH_TESTS_FUZZ_PROBLEM_H
