// SPDX-License-Identifier: Apache-2.0
// The CUDA device as the core opens it, the module without images over the stand-in for the driver.
#ifndef BERTH_TESTS_CUDA_DEVICE_KIT_H
#define BERTH_TESTS_CUDA_DEVICE_KIT_H

#include "test.h"

#include <dlfcn.h>
#include <stdlib.h>

#include "cuda/standin.h"
#include "device/cuda_open.h"
#include "failing_host.h"

typedef struct cuda_fixture {
    const standin_control* driver;
    failing_host allocator;
    berth_host* host;
    berth_device* device;
    uint64_t granule;
} cuda_fixture;

/// A function of the stand-in's library, to be copied to a pointer of its type.
static inline void cuda_kit_find(const char* symbol, void* out_function) {
    void* const library = dlopen(BERTH_TEST_CUDA_DRIVER, RTLD_NOW | RTLD_LOCAL);
    assert_non_null(library);
    void* const found = dlsym(library, symbol);
    assert_non_null(found);
    memcpy(out_function, &found, sizeof found);
}

static inline const standin_control* cuda_kit_driver(void) {
    const standin_control* (*query)(void);
    cuda_kit_find("standin_control_table", &query);
    return query();
}

static inline berth_cuda_options cuda_kit_options(void) {
    return (berth_cuda_options){.driver = BERTH_TEST_CUDA_DRIVER};
}

static inline void cuda_kit_begin(cuda_fixture* f) {
    *f = (cuda_fixture){.driver = cuda_kit_driver()};
    f->driver->reset(NULL);
    failing_host_init(&f->allocator);
    assert_ok(berth_host_create(&f->allocator.allocator, &f->host));
}

static inline void cuda_kit_open(cuda_fixture* f, const berth_cuda_options* options) {
    assert_ok(berth_cuda_open(f->host, BERTH_TEST_CUDA_MODULE, options, &f->device));
    f->granule = f->device->granule_bytes;
}

/// Nothing of the host's memory is left, and nothing was done that the driver leaves undefined.
static inline void cuda_kit_end(cuda_fixture* f) {
    berth_device_destroy(f->device);
    berth_host_destroy(f->host);
    assert_int_equal(f->allocator.live_blocks, 0);
    const char* first;
    if (f->driver->query_violations(&first) != 0) fail_msg("%s", first);
}

static inline standin_live cuda_kit_live(const cuda_fixture* f) {
    standin_live live;
    f->driver->query_live(&live);
    return live;
}

/// The nth call of `symbol` (NULL: of any function) fails; 0: none.
static inline void cuda_kit_fail(const cuda_fixture* f,
                                 const char* symbol,
                                 uint64_t nth,
                                 int result) {
    (f->driver->fail)(symbol, nth, result); // cmocka has a macro of the name
}

/// Also nothing of the driver's.
static inline void cuda_kit_end_clean(cuda_fixture* f) {
    cuda_kit_end(f);
    static const standin_live none;
    const standin_live live = cuda_kit_live(f);
    assert_memory_equal(&live, &none, sizeof live);
}

static inline int cuda_kit_set_up(void** state) {
    static cuda_fixture fixture;
    cuda_kit_begin(&fixture);
    const berth_cuda_options options = cuda_kit_options();
    cuda_kit_open(&fixture, &options);
    *state = &fixture;
    return 0;
}

static inline int cuda_kit_tear_down(void** state) {
    cuda_kit_end_clean(*state);
    return 0;
}

#endif // BERTH_TESTS_CUDA_DEVICE_KIT_H
