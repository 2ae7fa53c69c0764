// SPDX-License-Identifier: Apache-2.0
// Tests on the CUDA device where there is none: the module that was built beside the tests, on the
// stand-in for the driver (standin.h). Needs BERTH_TEST_CUDA_MODULE and BERTH_TEST_CUDA_DRIVER, the
// paths of both, from the build.
#ifndef BERTH_TESTS_CUDA_CUDA_KIT_H
#define BERTH_TESTS_CUDA_CUDA_KIT_H

#include "test.h"

#include <dlfcn.h>
#include <stdlib.h>

#include "cuda/standin.h"
#include "device/cuda_open.h"

/// The stand-in's controls; loads it at the first call. It stays loaded.
static inline const standin_control* cuda_kit_control(void) {
    static const standin_control* found;
    if (found != NULL) return found;
    void* library = dlopen(BERTH_TEST_CUDA_DRIVER, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) fail_msg("%s", dlerror());
    const standin_control* (*query)(void);
    void* const symbol = dlsym(library, "standin_control_table");
    assert_non_null(symbol);
    memcpy(&query, &symbol, sizeof query); // ISO C converts no object pointer to a function
    found = query();
    return found;
}

/// The stand-in as it is when a program starts, but for `seed` (standin_settings).
static inline void cuda_kit_reset(uint64_t seed) {
    const standin_control* control = cuda_kit_control();
    control->reset(NULL);
    standin_settings settings;
    control->get_settings(&settings);
    settings.seed = seed;
    control->reset(&settings);
}

/// Creates the device on the stand-in.
static inline berth_status cuda_kit_create(const berth_host* host, berth_device** out_device) {
    (void)cuda_kit_control();
    const berth_cuda_options options = {.driver = BERTH_TEST_CUDA_DRIVER, .blas = NULL};
    return berth_cuda_open(host, BERTH_TEST_CUDA_MODULE, &options, out_device);
}

/// Makes runtimes that are created from now on do so, with options from the environment.
static inline void cuda_kit_set_environment(void) {
    (void)cuda_kit_control();
    assert_int_equal(setenv("BERTH_DEVICE", "cuda", 1), 0);
    assert_int_equal(setenv("BERTH_CUDA_MODULE", BERTH_TEST_CUDA_MODULE, 1), 0);
    assert_int_equal(setenv("BERTH_CUDA_DRIVER", BERTH_TEST_CUDA_DRIVER, 1), 0);
}

/// Fails if anything of the driver's is out still.
static inline void cuda_kit_assert_no_leak(void) {
    standin_live live;
    cuda_kit_control()->query_live(&live);
    assert_int_equal(live.reserved_ranges, 0);
    assert_int_equal(live.allocations, 0);
    assert_int_equal(live.mappings, 0);
    assert_int_equal(live.streams, 0);
    assert_int_equal(live.events, 0);
    assert_int_equal(live.modules, 0);
    assert_int_equal(live.context_references, 0);
    assert_int_equal(live.pinned_blocks, 0);
}

/// Fails if something was done that a driver does not promise to bear.
static inline void cuda_kit_assert_no_violation(void) {
    const char* first;
    if (cuda_kit_control()->query_violations(&first) > 0) fail_msg("%s", first);
}

static inline void cuda_kit_assert_clean(void) {
    cuda_kit_assert_no_violation();
    cuda_kit_assert_no_leak();
}

#endif // BERTH_TESTS_CUDA_CUDA_KIT_H
