// SPDX-License-Identifier: Apache-2.0
// Reading of problems and traces in tests: from text, with what is expected of it.
#ifndef BERTH_TEST_PROBLEM_KIT_H
#define BERTH_TEST_PROBLEM_KIT_H

#include <stdio.h>
#include <stdlib.h>

#include "kit/failing_host.h"
#include "kit/test.h"
#include "plan/trace_file.h"

/// The file that `text` is.
static inline berth_trace_file* problem_kit_parse(const char* text) {
    berth_trace_file* file;
    assert_ok(berth_trace_file_parse("file.csv", text, strlen(text), &file));
    return file;
}

/// Fails unless `text` is refused with a sentence that begins "file.csv:LINE: " and contains
/// `reason`.
static inline void problem_kit_refuse(const char* text, unsigned line, const char* reason) {
    berth_trace_file* file;
    char place[64];
    snprintf(place, sizeof place, "file.csv:%u: ", line);
    assert_int_equal(berth_trace_file_parse("file.csv", text, strlen(text), &file),
                     BERTH_ERR_CORRUPT);
    assert_null(file);
    if (strncmp(berth_last_error(), place, strlen(place)) != 0 ||
        strstr(berth_last_error(), reason) == NULL)
        fail_msg("'%s' is not '%s...%s...'", berth_last_error(), place, reason);
}

/// The problem of a part at the values of `settings` [count].
static inline berth_problem* problem_kit_make(const berth_trace_file* file,
                                              size_t part,
                                              const berth_trace_setting* settings,
                                              size_t count) {
    berth_problem* problem;
    assert_ok(berth_problem_create(file, part, settings, count, &problem));
    return problem;
}

/// Solves the quick way, and checks the packing.
static inline berth_pack_result problem_kit_solve(const berth_problem* problem) {
    const berth_pack_problem* pack = berth_problem_query_pack(problem);
    uint64_t* offsets = calloc(pack->count + 1, sizeof *offsets);
    berth_pack_result result;
    berth_pack_verdict verdict;
    assert_non_null(offsets);
    assert_ok(berth_problem_solve(problem, NULL, offsets, &result));
    assert_ok(berth_pack_verify(pack, offsets, &verdict));
    assert_true(verdict.valid);
    assert_int_equal(verdict.peak, result.peak);
    free(offsets);
    return result;
}

/// The row of a buffer.
static inline berth_problem_row problem_kit_row(const berth_problem* problem, size_t index) {
    berth_problem_row row;
    assert_ok(berth_problem_query_row(problem, index, &row));
    return row;
}

/// Reads `text` and makes its first problem with each allocation failing in turn; nothing is lost.
static inline void problem_kit_fail_each(const char* text) {
    static failing_host failing;
    berth_host* host;
    for (size_t nth = 1;; nth++) {
        failing_host_init(&failing);
        assert_ok(berth_host_create(&failing.allocator, &host));
        const size_t own = atomic_load(&failing.live_blocks);
        failing_host_fail(&failing, nth, false);
        berth_trace_file* file;
        berth_problem* problem = NULL;
        berth_status status =
            berth_trace_file_parse_with(host, "file.csv", text, strlen(text), &file);
        if (status == BERTH_OK) status = berth_problem_create(file, 0, NULL, 0, &problem);
        const bool failed = failing_host_has_failed(&failing);
        assert_int_equal(status, failed ? BERTH_ERR_OUT_OF_MEMORY : BERTH_OK);
        berth_problem_destroy(problem);
        berth_trace_file_destroy(file);
        assert_int_equal(atomic_load(&failing.live_blocks), own);
        berth_host_destroy(host);
        if (!failed) break;
    }
    assert_false(atomic_load(&failing.mismatch));
}

#endif // BERTH_TEST_PROBLEM_KIT_H
