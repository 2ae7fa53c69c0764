// SPDX-License-Identifier: Apache-2.0
// The one function that every fuzz target defines, for libFuzzer and for the replay of a corpus.
#ifndef BERTH_TESTS_FUZZ_TARGET_H
#define BERTH_TESTS_FUZZ_TARGET_H

#include <stddef.h>
#include <stdint.h>

/// Runs the target on one input. Returns 0; whatever is wrong ends the process.
int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

#endif // BERTH_TESTS_FUZZ_TARGET_H
