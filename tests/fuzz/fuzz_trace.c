// SPDX-License-Identifier: Apache-2.0
// Fuzz target: any bytes as a trace. Each part is planned as recorded, and with its symbols set.
#include "fuzz_target.h"

#include "fuzz_problem.h"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    static const berth_trace_setting settings[] = {{"n", 0}, {"tokens.0", 777}};
    fuzz_problem_file("trace", data, size, NULL, 0);
    fuzz_problem_file("trace", data, size, settings, 2);
    return 0;
}
