// SPDX-License-Identifier: Apache-2.0
// Public packing problems as intervals.
#ifndef BERTH_TEST_PUBLIC_PROBLEMS_H
#define BERTH_TEST_PUBLIC_PROBLEMS_H

#include <stdio.h>

#include "berth/trace.h"
#include "kit/shared_data.h"

/// Reads the problem `name`, a file below data/ of the shared folder, into `items` [most]; how many
/// buffers it has. The test is skipped where there is no such folder.
static inline size_t public_problem_load(const char* name, berth_interval* items, size_t most) {
    char path[1024];
    snprintf(path, sizeof path, "%s/data/%s", shared_data_folder("packing problems"), name);
    berth_trace_file* file;
    berth_problem* problem;
    assert_ok(berth_trace_file_read(path, &file));
    assert_ok(berth_problem_create(file, 0, NULL, 0, &problem));
    const berth_pack_problem* pack = berth_problem_query_pack(problem);
    const size_t count = pack->count;
    assert_true(count <= most);
    memcpy(items, pack->intervals, count * sizeof *items);
    berth_problem_destroy(problem);
    berth_trace_file_destroy(file);
    return count;
}

#endif // BERTH_TEST_PUBLIC_PROBLEMS_H
