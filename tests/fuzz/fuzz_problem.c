// SPDX-License-Identifier: Apache-2.0
// Fuzz target: any bytes as a file of packing problems. What is read is packed, and the packing is
// right; what the solver refuses, it says.
#include "fuzz_target.h"

#include "fuzz_problem.h"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    fuzz_problem_file("problem", data, size, NULL, 0);
    return 0;
}
