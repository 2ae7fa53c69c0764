// SPDX-License-Identifier: Apache-2.0
// The driver, loaded by name as Berth's module loads it.
#include <dlfcn.h>
#include <string.h>

#include "gpu/gpu_bench.h"

enum { SKIPPED = 77 };

_Noreturn static void skip(const char* reason) {
    printf("skipped: %s\n", reason);
    exit(SKIPPED);
}

static void* load(const char* path) {
    void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) skip(dlerror());
    return library;
}

void gpu_driver_open(gpu_driver* driver) {
    const char* path = getenv("BERTH_CUDA_DRIVER");
    void* library = load(path != NULL ? path : "libcuda.so.1");
    *driver = (gpu_driver){0};
#define GPU_DRIVER_LOAD(field, symbol, parameters)                                                 \
    {                                                                                              \
        void* function = dlsym(library, #symbol);                                                  \
        memcpy(&driver->field, &function, sizeof function);                                        \
    }
    GPU_DRIVER_MAP(GPU_DRIVER_LOAD)
#undef GPU_DRIVER_LOAD
    cu_context context;
    if (driver->init == NULL || driver->init(0) != CU_SUCCESS) skip("the driver finds no GPU");
    if (driver->device_get(&driver->device, 0) != CU_SUCCESS ||
        driver->primary_ctx_retain(&context, driver->device) != CU_SUCCESS ||
        driver->ctx_push(context) != CU_SUCCESS ||
        driver->stream_create(&driver->stream, CU_STREAM_IS_NON_BLOCKING) != CU_SUCCESS)
        skip("the driver gives no context");
}
