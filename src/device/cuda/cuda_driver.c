// SPDX-License-Identifier: Apache-2.0
// Loads the driver. The core and the module link nothing of CUDA, so that both start where there is
// none.
#include "device/cuda/cuda_driver.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"

#define REASON_BYTES 256

void berth_cuda_driver_explain(const berth_cuda_driver* driver,
                               cu_result result,
                               char* text,
                               size_t size) {
    const char* name = NULL;
    const char* meaning = NULL;
    if (driver->get_error_name(result, &name) != CU_SUCCESS) name = NULL;
    if (driver->get_error_string(result, &meaning) != CU_SUCCESS) meaning = NULL;
    if (name == NULL)
        (void)snprintf(text, size, "CUDA error %d", result);
    else if (meaning == NULL)
        (void)snprintf(text, size, "%s", name);
    else
        (void)snprintf(text, size, "%s (%s)", name, meaning);
}

bool berth_cuda_result_is_fatal(cu_result result) {
    switch (result) {
    case CU_ERROR_DEINITIALIZED:
    case CU_ERROR_ECC_UNCORRECTABLE:
    case CU_ERROR_NVLINK_UNCORRECTABLE:
    case CU_ERROR_ILLEGAL_ADDRESS:
    case CU_ERROR_LAUNCH_TIMEOUT:
    case CU_ERROR_CONTEXT_IS_DESTROYED:
    case CU_ERROR_ASSERT:
    case CU_ERROR_HARDWARE_STACK_ERROR:
    case CU_ERROR_ILLEGAL_INSTRUCTION:
    case CU_ERROR_MISALIGNED_ADDRESS:
    case CU_ERROR_INVALID_ADDRESS_SPACE:
    case CU_ERROR_INVALID_PC:
    case CU_ERROR_LAUNCH_FAILED:
        return true;
    default:
        return false;
    }
}

/// By its bytes: ISO C converts no object pointer to a function.
bool berth_cuda_look_up(void* library, const char* symbol, void* out_function) {
    void* const found = dlsym(library, symbol);
    memcpy(out_function, &found, sizeof found);
    return found != NULL;
}

static const char* find_functions(void* library, berth_cuda_driver* driver) {
#define LOOK_UP(field, symbol, parameters)                                                         \
    if (!berth_cuda_look_up(library, #symbol, &driver->field)) return #symbol;
    CU_FUNCTION_MAP(LOOK_UP)
#undef LOOK_UP
    return NULL;
}

static berth_status start(const char* library, berth_cuda_driver* driver) {
    char reason[REASON_BYTES];
    const cu_result result = driver->init(0);
    if (result == CU_ERROR_STUB_LIBRARY)
        return berth_fail(BERTH_ERR_DEVICE,
                          "no CUDA device: %s is the toolkit's stub for linking, no driver",
                          library);
    if (result != CU_SUCCESS) {
        berth_cuda_driver_explain(driver, result, reason, sizeof reason);
        return berth_fail(BERTH_ERR_DEVICE, "no CUDA device: %s: %s", library, reason);
    }
    if (driver->driver_get_version(&driver->version) != CU_SUCCESS) driver->version = 0;
    return BERTH_OK;
}

berth_status berth_cuda_driver_load(const char* library, berth_cuda_driver* out_driver) {
    *out_driver = (berth_cuda_driver){0};
    void* const loaded = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (loaded == NULL) {
        const char* reason = dlerror();
        return berth_fail(BERTH_ERR_DEVICE,
                          "no CUDA device: %s",
                          reason != NULL ? reason : "the driver's library cannot be loaded");
    }
    const char* missing = find_functions(loaded, out_driver);
    if (missing != NULL) {
        (void)dlclose(loaded);
        return berth_fail(BERTH_ERR_DEVICE,
                          "no CUDA device: %s has no function %s: it is too old, or no driver",
                          library,
                          missing);
    }
    return start(library, out_driver);
}
