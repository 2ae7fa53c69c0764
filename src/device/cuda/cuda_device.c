// SPDX-License-Identifier: Apache-2.0
// Finds the device, and holds it: its context, its kernels, whether it is lost.
#include "device/cuda/cuda_device.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "device/cuda/cuda_blas.h"
#include "device/cuda/cuda_images.h"
#include "device/cuda/cuda_internal.h"
#include "device/cuda/cuda_launch.h"
#include "device/cuda/cuda_memory.h"
#include "device/cuda/cuda_stream.h"

/// The oldest devices that the kernels are made for.
#define MIN_MAJOR 8

/// The fork generation of the process that first used the driver, and 1; 0: none has.
static _Atomic uint64_t first_user;

// --- Errors -------------------------------------------------------------------------------------

berth_status berth_cuda_lose(cuda_device* cuda, const char* format, ...) {
    char reason[BERTH_CUDA_REASON_BYTES];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(reason, sizeof reason, format, arguments);
    va_end(arguments);
    berth_mutex_lock(&cuda->lock);
    if (!atomic_load(&cuda->is_lost)) memcpy(cuda->reason, reason, sizeof reason);
    atomic_store(&cuda->is_lost, true);
    berth_mutex_unlock(&cuda->lock);
    return berth_fail(BERTH_ERR_DEVICE, "%s; the device is lost", reason);
}

bool berth_cuda_is_lost(cuda_device* cuda) { return atomic_load(&cuda->is_lost); }

/// `reason` does not change any more once the device is lost.
berth_status berth_cuda_check(cuda_device* cuda) {
    if (!berth_cuda_is_lost(cuda)) return BERTH_OK;
    return berth_fail(BERTH_ERR_DEVICE, "the device is lost since: %s", cuda->reason);
}

berth_status berth_cuda_judge(cuda_device* cuda, cu_result result, const char* what) {
    if (result == CU_SUCCESS) return BERTH_OK;
    char reason[BERTH_CUDA_REASON_BYTES / 2];
    berth_cuda_driver_explain(&cuda->driver, result, reason, sizeof reason);
    if (berth_cuda_result_is_fatal(result))
        return berth_cuda_lose(cuda, "%s failed: %s", what, reason);
    const bool is_memory = result == CU_ERROR_OUT_OF_MEMORY;
    return berth_fail(
        is_memory ? BERTH_ERR_OUT_OF_MEMORY : BERTH_ERR_DEVICE, "%s failed: %s", what, reason);
}

// --- The context --------------------------------------------------------------------------------

/// Asks twice. A driver that refuses both is of no use any more: neither could what was enqueued be
/// waited for.
static berth_status make_current(cuda_device* cuda) {
    cu_result result = cuda->driver.ctx_push(cuda->context);
    if (result != CU_SUCCESS) result = cuda->driver.ctx_push(cuda->context);
    if (result == CU_SUCCESS) return BERTH_OK;
    char reason[BERTH_CUDA_REASON_BYTES / 2];
    berth_cuda_driver_explain(&cuda->driver, result, reason, sizeof reason);
    return berth_cuda_lose(cuda, "cuCtxPushCurrent failed twice: %s", reason);
}

berth_status berth_cuda_enter(cuda_device* cuda) {
    BERTH_TRY(berth_fork_check(cuda->fork_generation));
    BERTH_TRY(berth_cuda_check(cuda));
    return make_current(cuda);
}

bool berth_cuda_enter_to_release(cuda_device* cuda) {
    return cuda->fork_generation == berth_fork_generation && make_current(cuda) == BERTH_OK;
}

void berth_cuda_leave(cuda_device* cuda) {
    cu_context popped;
    (void)cuda->driver.ctx_pop(&popped);
}

// --- Kernels ------------------------------------------------------------------------------------

static const char* kernel_symbol(berth_cuda_kernel kernel) {
    static const char* const symbols[] = {
#define SYMBOL(name, args, is_cooperative) "berth_cuda_" #name,
        BERTH_CUDA_KERNEL_MAP(SYMBOL)
#undef SYMBOL
    };
    return symbols[kernel];
}

static berth_status look_up(cuda_device* cuda, const char* symbol, cu_function* out_function) {
    for (size_t i = 0; i < cuda->module_count; i++) {
        const cu_result result =
            cuda->driver.module_get_function(out_function, cuda->modules[i], symbol);
        if (result != CU_ERROR_NOT_FOUND) return berth_cuda_judge(cuda, result, symbol);
    }
    return berth_fail(BERTH_ERR_DEVICE, "the CUDA module has no kernel %s", symbol);
}

/// Not all at creation: the driver loads a kernel when it is looked up.
berth_status berth_cuda_find_function(cuda_device* cuda,
                                      berth_cuda_kernel kernel,
                                      cu_function* out_function) {
    *out_function = atomic_load_explicit(&cuda->functions[kernel], memory_order_acquire);
    if (*out_function != NULL) return BERTH_OK;
    BERTH_TRY(look_up(cuda, kernel_symbol(kernel), out_function));
    atomic_store_explicit(&cuda->functions[kernel], *out_function, memory_order_release);
    return BERTH_OK;
}

/// The newest toolkit's kernels need a driver that knows it.
static berth_status refuse_image(const cuda_device* cuda, berth_status status, const char* name) {
    return berth_fail_prefix(status,
                             "kernels %s cannot be loaded (the driver is of CUDA %d.%d)",
                             name,
                             cuda->driver.version / 1000,
                             cuda->driver.version % 1000 / 10);
}

static berth_status load_images(cuda_device* cuda) {
    const size_t count = berth_cuda_image_count;
    cuda->modules = berth_host_calloc(cuda->device.host, count, sizeof *cuda->modules);
    if (cuda->modules == NULL)
        return berth_fail(BERTH_ERR_OUT_OF_MEMORY, "no memory for a list of kernels");
    for (size_t i = 0; i < count; i++) {
        const berth_cuda_image* image = &berth_cuda_images[i];
        const cu_result result =
            cuda->driver.module_load(&cuda->modules[cuda->module_count], image->data);
        const berth_status status = berth_cuda_judge(cuda, result, "cuModuleLoadData");
        if (status != BERTH_OK) return refuse_image(cuda, status, image->name);
        cuda->module_count++;
    }
    return BERTH_OK;
}

// --- Creation -----------------------------------------------------------------------------------

/// Loads the driver, unless this process's parent has used one.
static berth_status load_driver(cuda_device* cuda, const char* library) {
    const uint64_t self = (uint64_t)berth_fork_generation + 1;
    uint64_t first = atomic_load(&first_user);
    if (first != 0 && first != self)
        return berth_fail(BERTH_ERR_FORKED,
                          "the process that this one was forked from has used CUDA; start the "
                          "child by exec, or fork before the first use");
    BERTH_TRY(berth_cuda_driver_load(library, &cuda->driver));
    (void)atomic_compare_exchange_strong(&first_user, &first, self);
    return BERTH_OK;
}

static berth_status query_attribute(cuda_device* cuda, int attribute, int* out_value) {
    const cu_result result = cuda->driver.device_get_attribute(out_value, attribute, cuda->handle);
    return berth_cuda_judge(cuda, result, "cuDeviceGetAttribute");
}

static berth_status find_device(cuda_device* cuda, uint32_t ordinal) {
    int count = 0;
    BERTH_TRY(berth_cuda_judge(cuda, cuda->driver.device_get_count(&count), "cuDeviceGetCount"));
    if (count <= 0) return berth_fail(BERTH_ERR_DEVICE, "no CUDA device: the driver lists none");
    if (ordinal >= (uint32_t)count)
        return berth_fail(BERTH_ERR_DEVICE,
                          "no CUDA device %u: the driver lists %d, counted from 0",
                          ordinal,
                          count);
    return berth_cuda_judge(
        cuda, cuda->driver.device_get(&cuda->handle, (int)ordinal), "cuDeviceGet");
}

static berth_status check_device(cuda_device* cuda) {
    char name[128] = "";
    if (cuda->driver.device_get_name(name, (int)sizeof name, cuda->handle) != CU_SUCCESS)
        name[0] = '\0';
    int major = 0, minor = 0, has_mapping = 0, multiprocessors = 0;
    BERTH_TRY(query_attribute(cuda, CU_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, &major));
    BERTH_TRY(query_attribute(cuda, CU_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, &minor));
    BERTH_TRY(query_attribute(cuda, CU_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT, &has_mapping));
    BERTH_TRY(query_attribute(cuda, CU_ATTRIBUTE_MULTIPROCESSOR_COUNT, &multiprocessors));
    if (major < MIN_MAJOR)
        return berth_fail(BERTH_ERR_DEVICE,
                          "the CUDA device '%s' has compute capability %d.%d, %d.0 is needed",
                          name,
                          major,
                          minor,
                          MIN_MAJOR);
    if (has_mapping == 0)
        return berth_fail(BERTH_ERR_DEVICE,
                          "the CUDA device '%s' cannot map memory by addresses (virtual memory "
                          "management), which is needed",
                          name);
    cuda->multiprocessors = multiprocessors > 0 ? (uint32_t)multiprocessors : 1;
    return BERTH_OK;
}

static berth_status retain_context(cuda_device* cuda) {
    const cu_result result = cuda->driver.primary_ctx_retain(&cuda->context, cuda->handle);
    BERTH_TRY(berth_cuda_judge(cuda, result, "cuDevicePrimaryCtxRetain"));
    cuda->has_context = true;
    return BERTH_OK;
}

static berth_status set_up(cuda_device* cuda, const berth_cuda_options* options) {
    BERTH_TRY(berth_fork_watch());
    cuda->fork_generation = berth_fork_generation;
    BERTH_TRY(berth_mutex_init(&cuda->lock));
    cuda->has_lock = true;
    BERTH_TRY(berth_cuda_blas_create(cuda->device.host, options->blas, &cuda->blas));
    BERTH_TRY(load_driver(cuda, options->driver));
    BERTH_TRY(find_device(cuda, options->ordinal));
    BERTH_TRY(check_device(cuda));
    BERTH_TRY(retain_context(cuda));
    BERTH_TRY(berth_cuda_enter(cuda));
    berth_status status = berth_cuda_memory_init(cuda);
    if (status == BERTH_OK) status = load_images(cuda);
    berth_cuda_leave(cuda);
    return status;
}

/// Accepts half-made devices.
static void destroy(berth_device* self) {
    cuda_device* cuda = cuda_device_of(self);
    // memory that the driver refused to take back has no owner any more
    const bool has_given_back =
        atomic_load(&cuda->mapped_bytes) == 0 || atomic_load(&cuda->has_refused);
    BERTH_CHECK(1,
                berth_cuda_is_lost(cuda) ||
                    (has_given_back && atomic_load(&cuda->stream_count) == 0 &&
                     atomic_load(&cuda->pinned_bytes) == 0));
    const bool has_entered = cuda->has_context && berth_cuda_enter_to_release(cuda);
    berth_cuda_memory_fini(cuda, has_entered);
    berth_cuda_blas_destroy(cuda->blas, has_entered);
    if (has_entered) {
        for (size_t i = 0; i < cuda->module_count; i++)
            (void)cuda->driver.module_unload(cuda->modules[i]);
        berth_cuda_leave(cuda);
    }
    if (cuda->has_context && cuda->fork_generation == berth_fork_generation &&
        cuda->driver.primary_ctx_release(cuda->handle) != CU_SUCCESS)
        (void)cuda->driver.primary_ctx_release(cuda->handle);
    berth_host_free(self->host, cuda->modules);
    if (cuda->has_lock) berth_mutex_fini(&cuda->lock);
    berth_host_free(self->host, cuda);
}

static const berth_device_ops ops = {
    .abi_version = BERTH_DEVICE_ABI_VERSION,
    .caps = BERTH_DEVICE_CAP_DATA | BERTH_DEVICE_CAP_ASYNC | BERTH_DEVICE_CAP_REMAP |
            BERTH_DEVICE_CAP_PIN,
    .destroy = destroy,
    .query_memory = berth_cuda_query_memory,
    .space_reserve = berth_cuda_space_reserve,
    .space_release = berth_cuda_space_release,
    .map = berth_cuda_map,
    .unmap = berth_cuda_unmap,
    .remap = berth_cuda_remap,
    .stream_create = berth_cuda_stream_create,
    .stream_destroy = berth_cuda_stream_destroy,
    .launch = berth_cuda_launch,
    .copy = berth_cuda_copy,
    .record = berth_cuda_record,
    .query = berth_cuda_query,
    .wait = berth_cuda_wait,
    .wait_stream = berth_cuda_wait_stream,
    .pin = berth_cuda_pin,
    .unpin = berth_cuda_unpin,
};

berth_status berth_cuda_device_create(const berth_host* host,
                                      const berth_cuda_options* options,
                                      berth_device** out_device) {
    *out_device = NULL;
    cuda_device* made = berth_host_calloc(host, 1, sizeof *made);
    if (made == NULL) return berth_fail(BERTH_ERR_OUT_OF_MEMORY, "no memory for the CUDA device");
    const berth_cuda_table* table = berth_cuda_kernel_table();
    made->device = (berth_device){
        .ops = &ops,
        .kernels = table->kernels,
        .scratch_rules = table->scratch,
        .counters = table->counters,
        .host = host,
        .name = "cuda",
        .kind = BERTH_DEVICE_CUDA,
    };
    made->is_blocking = options->is_blocking;
    const berth_status status = set_up(made, options);
    if (status != BERTH_OK) {
        destroy(&made->device);
        return status;
    }
    *out_device = &made->device;
    return BERTH_OK;
}
