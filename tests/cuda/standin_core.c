// SPDX-License-Identifier: Apache-2.0
// Settings, faults and counters of the stand-in; devices, contexts and modules.
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "standin_internal.h"

#define MOST_CURRENT 64
#define DRIVER_VERSION 13000

typedef struct module {
    struct module* next;
} module;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static standin_settings options;
static pid_t user; // the process that called cuInit; 0: none has
static uint64_t calls[STANDIN_CALL_COUNT];
static struct {
    uint64_t in;
    cu_result result;
    bool lasts;
} faults[STANDIN_CALL_COUNT + 1]; // the last: of any function
static cu_result sticky;
static bool is_dead; // an ordered fault was one after which a device runs nothing more
static uint64_t violations;
static char first_violation[256];
static uint64_t random_state;
static uint64_t context_references;
static module* modules;
static uint64_t module_count;
static char the_context; // its address is the one context's handle
static _Thread_local cu_context current[MOST_CURRENT];
static _Thread_local int current_count;

static const char* const symbols[] = {
#define SYMBOL(field, symbol, parameters) #symbol,
    CU_FUNCTION_MAP(SYMBOL)
#undef SYMBOL
};

static const standin_settings defaults = {
    .device_count = 1,
    .capability_major = 9,
    .has_virtual_memory = true,
    .granularity_bytes = 64u << 10,
    .capacity_bytes = 16u << 20,
    .is_hidden = true,
};

// --- Calls --------------------------------------------------------------------------------------

static void read_number(const char* name, uint64_t unit, uint64_t* out) {
    const char* text = getenv(name);
    if (text != NULL) *out = strtoull(text, NULL, 10) * unit;
}

static void order(const char* symbol, uint64_t nth, int result, bool lasts);

/// From the text FUNCTION:NTH:RESULT, or FUNCTION:NTH+:RESULT for a fault that lasts; without a
/// function, of any.
static void order_by(const char* text) {
    char symbol[64] = "";
    const char* end = text != NULL ? strchr(text, ':') : NULL;
    if (end == NULL || (size_t)(end - text) >= sizeof symbol) return;
    memcpy(symbol, text, (size_t)(end - text));
    char* rest;
    const uint64_t nth = strtoull(end + 1, &rest, 10);
    const bool lasts = *rest == '+';
    rest += lasts;
    if (*rest == ':')
        order(symbol[0] != '\0' ? symbol : NULL, nth, (int)strtol(rest + 1, NULL, 10), lasts);
}

/// When the library is loaded.
__attribute__((constructor)) static void start(void) {
    options = defaults;
    uint64_t hidden = options.is_hidden;
    read_number("STANDIN_CAPACITY_MB", 1 << 20, &options.capacity_bytes);
    read_number("STANDIN_SEED", 1, &options.seed);
    read_number("STANDIN_HIDDEN", 1, &hidden);
    read_number("STANDIN_GRANULARITY_KB", 1 << 10, &options.granularity_bytes);
    options.is_hidden = hidden != 0;
    uint64_t crash = 0;
    read_number("STANDIN_CRASH", 1, &crash);
    standin_crash_kernel(crash);
    order_by(getenv("STANDIN_FAIL"));
    random_state = options.seed;
}

/// When the library, or the process, ends: with STANDIN_STRICT, programs that no test looks after
/// fail if they did what a driver does not promise to bear.
__attribute__((destructor)) static void finish(void) {
    if (getenv("STANDIN_STRICT") == NULL || violations == 0) return;
    (void)fprintf(stderr, "stand-in: %s\n", first_violation);
    abort();
}

/// What is asked of the driver before it is initialised, or only to explain a result.
static bool is_always_answered(standin_call call) {
    return call == STANDIN_CALL_init || call == STANDIN_CALL_driver_get_version ||
           call == STANDIN_CALL_get_error_name || call == STANDIN_CALL_get_error_string;
}

/// Calls that a driver whose context has crashed still carries out.
static bool is_bookkeeping(standin_call call) {
    return is_always_answered(call) || call == STANDIN_CALL_ctx_push ||
           call == STANDIN_CALL_ctx_pop || call == STANDIN_CALL_primary_ctx_release;
}

/// Calls that work is given by, or asked after.
static bool is_about_work(standin_call call) {
    return (call >= STANDIN_CALL_memcpy_to_device && call <= STANDIN_CALL_memcpy_on_device) ||
           call == STANDIN_CALL_launch_kernel || call == STANDIN_CALL_stream_synchronize ||
           call == STANDIN_CALL_stream_wait_event || call == STANDIN_CALL_event_record ||
           call == STANDIN_CALL_event_query || call == STANDIN_CALL_event_synchronize;
}

static bool is_fatal(cu_result result) {
    return result >= CU_ERROR_ILLEGAL_ADDRESS && result <= CU_ERROR_LAUNCH_FAILED &&
           result != CU_ERROR_LAUNCH_OUT_OF_RESOURCES;
}

static bool is_due(size_t which, cu_result* out_result) {
    if (faults[which].in == 0) return false;
    if (--faults[which].in > 0) return false;
    if (faults[which].lasts) faults[which].in = 1;
    *out_result = faults[which].result;
    return true;
}

cu_result standin_begin(standin_call call) {
    pthread_mutex_lock(&lock);
    calls[call]++;
    cu_result result = CU_SUCCESS;
    const bool is_own = is_due(call, &result);
    const bool is_any = is_due(STANDIN_CALL_COUNT, &result);
    if (is_own || is_any) {
        is_dead = is_dead || (is_fatal(result) && !is_always_answered(call));
        return result;
    }
    if (is_dead && is_about_work(call)) return CU_ERROR_ILLEGAL_ADDRESS;
    if (!is_always_answered(call) && user != getpid()) return CU_ERROR_NOT_INITIALIZED;
    if (sticky != CU_SUCCESS && !is_bookkeeping(call)) return sticky;
    if (!is_always_answered(call)) standin_streams_progress();
    return CU_SUCCESS;
}

cu_result standin_end(cu_result result) {
    pthread_mutex_unlock(&lock);
    return result;
}

const standin_settings* standin_options(void) { return &options; }

bool standin_has_context(void) { return current_count > 0; }

void standin_violate(const char* format, ...) {
    va_list arguments;
    va_start(arguments, format);
    if (violations++ == 0)
        (void)vsnprintf(first_violation, sizeof first_violation, format, arguments);
    va_end(arguments);
}

void standin_stick(cu_result result) {
    if (sticky == CU_SUCCESS) sticky = result;
}

cu_result standin_sticky(void) { return sticky; }

bool standin_is_dead(void) { return is_dead || sticky != CU_SUCCESS; }

uint64_t standin_draw(void) {
    uint64_t mixed = (random_state += 0x9e3779b97f4a7c15u);
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9u;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebu;
    return mixed ^ (mixed >> 31);
}

// --- Control ------------------------------------------------------------------------------------

static void query_live(standin_live* out_live) {
    pthread_mutex_lock(&lock);
    *out_live = (standin_live){.modules = module_count, .context_references = context_references};
    standin_memory_count(out_live);
    standin_streams_count(out_live);
    pthread_mutex_unlock(&lock);
}

static void reset(const standin_settings* settings) {
    pthread_mutex_lock(&lock);
    options = settings != NULL ? *settings : defaults;
    memset(calls, 0, sizeof calls);
    memset(faults, 0, sizeof faults);
    standin_crash_kernel(0);
    sticky = CU_SUCCESS;
    is_dead = false;
    violations = 0;
    random_state = options.seed;
    standin_memory_apply_hiding();
    pthread_mutex_unlock(&lock);
}

static void get_settings(standin_settings* out_settings) { *out_settings = options; }

static size_t find_call(const char* symbol) {
    size_t i = 0;
    while (symbol != NULL && i < STANDIN_CALL_COUNT && strcmp(symbols[i], symbol) != 0)
        i++;
    return symbol == NULL ? STANDIN_CALL_COUNT : i;
}

static void order(const char* symbol, uint64_t nth, int result, bool lasts) {
    const size_t call = find_call(symbol);
    if (symbol != NULL && call == STANDIN_CALL_COUNT) {
        (void)fprintf(stderr, "stand-in: there is no function %s\n", symbol);
        abort();
    }
    pthread_mutex_lock(&lock);
    faults[call].in = nth;
    faults[call].result = result;
    faults[call].lasts = lasts;
    pthread_mutex_unlock(&lock);
}

static void fail(const char* symbol, uint64_t nth, int result) {
    order(symbol, nth, result, false);
}

static void fail_from(const char* symbol, uint64_t nth, int result) {
    order(symbol, nth, result, true);
}

static void crash_kernel(uint64_t nth) {
    pthread_mutex_lock(&lock);
    standin_crash_kernel(nth);
    pthread_mutex_unlock(&lock);
}

static uint64_t query_calls(const char* symbol) {
    const size_t call = find_call(symbol);
    uint64_t sum = 0;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < STANDIN_CALL_COUNT; i++)
        if (call == STANDIN_CALL_COUNT || call == i) sum += calls[i];
    pthread_mutex_unlock(&lock);
    return sum;
}

static uint64_t query_violations(const char** out_first) {
    pthread_mutex_lock(&lock);
    const uint64_t count = violations;
    pthread_mutex_unlock(&lock);
    *out_first = count > 0 ? first_violation : "";
    return count;
}

STANDIN_EXPORT const standin_control* standin_control_table(void) {
    static const standin_control table = {
        .reset = reset,
        .get_settings = get_settings,
        .fail = fail,
        .fail_from = fail_from,
        .crash_kernel = crash_kernel,
        .query_calls = query_calls,
        .query_live = query_live,
        .query_violations = query_violations,
    };
    return &table;
}

// --- The driver and its devices -----------------------------------------------------------------

cu_result cuInit(unsigned flags) {
    STANDIN_BEGIN(init);
    STANDIN_REFUSE_UNLESS(flags == 0, CU_ERROR_INVALID_VALUE);
    STANDIN_REFUSE_UNLESS(user == 0 || user == getpid(), CU_ERROR_NOT_INITIALIZED);
    if (options.init_result == CU_SUCCESS) user = getpid();
    return standin_end(options.init_result);
}

cu_result cuDriverGetVersion(int* out_version) {
    STANDIN_BEGIN(driver_get_version);
    *out_version = DRIVER_VERSION;
    return standin_end(CU_SUCCESS);
}

cu_result cuGetErrorName(cu_result result, const char** out_name) {
    STANDIN_BEGIN(get_error_name);
    *out_name = NULL;
    switch (result) {
#define NAME(name, number)                                                                         \
    case number:                                                                                   \
        *out_name = "CUDA_" #name;                                                                 \
        break;
        CU_RESULT_MAP(NAME)
#undef NAME
    default:
        break;
    }
    return standin_end(*out_name != NULL ? CU_SUCCESS : CU_ERROR_INVALID_VALUE);
}

cu_result cuGetErrorString(cu_result result, const char** out_text) {
    STANDIN_BEGIN(get_error_string);
    *out_text = result == CU_ERROR_ILLEGAL_ADDRESS ? "an illegal memory access was encountered"
                                                   : "what the stand-in was told to answer";
    return standin_end(CU_SUCCESS);
}

cu_result cuDeviceGetCount(int* out_count) {
    STANDIN_BEGIN(device_get_count);
    *out_count = options.device_count;
    return standin_end(CU_SUCCESS);
}

cu_result cuDeviceGet(cu_device* out_device, int ordinal) {
    STANDIN_BEGIN(device_get);
    STANDIN_REFUSE_UNLESS(ordinal >= 0 && ordinal < options.device_count, CU_ERROR_INVALID_DEVICE);
    *out_device = ordinal;
    return standin_end(CU_SUCCESS);
}

cu_result cuDeviceGetName(char* name, int size, cu_device device) {
    STANDIN_BEGIN(device_get_name);
    STANDIN_REFUSE_UNLESS(size > 0, CU_ERROR_INVALID_VALUE);
    (void)snprintf(name, (size_t)size, "stand-in %d", device);
    return standin_end(CU_SUCCESS);
}

cu_result cuDeviceGetAttribute(int* out_value, int attribute, cu_device device) {
    STANDIN_BEGIN(device_get_attribute);
    STANDIN_REFUSE_UNLESS(device >= 0 && device < options.device_count, CU_ERROR_INVALID_DEVICE);
    switch (attribute) {
    case CU_ATTRIBUTE_MULTIPROCESSOR_COUNT:
        *out_value = 4;
        break;
    case CU_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
        *out_value = options.capability_major;
        break;
    case CU_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
        *out_value = options.capability_minor;
        break;
    case CU_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT:
        *out_value = options.has_virtual_memory;
        break;
    default:
        return standin_end(CU_ERROR_INVALID_VALUE);
    }
    return standin_end(CU_SUCCESS);
}

cu_result cuDeviceTotalMem_v2(size_t* out_bytes, cu_device device) {
    STANDIN_BEGIN(device_total_mem);
    STANDIN_REFUSE_UNLESS(device >= 0 && device < options.device_count, CU_ERROR_INVALID_DEVICE);
    *out_bytes = (size_t)options.capacity_bytes;
    return standin_end(CU_SUCCESS);
}

// --- Contexts and modules -----------------------------------------------------------------------

cu_result cuDevicePrimaryCtxRetain(cu_context* out_context, cu_device device) {
    STANDIN_BEGIN(primary_ctx_retain);
    STANDIN_REFUSE_UNLESS(device >= 0 && device < options.device_count, CU_ERROR_INVALID_DEVICE);
    context_references++;
    *out_context = (cu_context)(void*)&the_context;
    return standin_end(CU_SUCCESS);
}

cu_result cuDevicePrimaryCtxRelease_v2(cu_device device) {
    STANDIN_BEGIN(primary_ctx_release);
    STANDIN_REFUSE_UNLESS(device >= 0 && device < options.device_count, CU_ERROR_INVALID_DEVICE);
    STANDIN_REFUSE_UNLESS(context_references > 0, CU_ERROR_INVALID_VALUE);
    context_references--;
    return standin_end(CU_SUCCESS);
}

cu_result cuCtxPushCurrent_v2(cu_context context) {
    STANDIN_BEGIN(ctx_push);
    STANDIN_REFUSE_UNLESS(context == (cu_context)(void*)&the_context && context_references > 0 &&
                              current_count < MOST_CURRENT,
                          CU_ERROR_INVALID_VALUE);
    current[current_count++] = context;
    return standin_end(CU_SUCCESS);
}

cu_result cuCtxPopCurrent_v2(cu_context* out_context) {
    STANDIN_BEGIN(ctx_pop);
    STANDIN_REFUSE_UNLESS(current_count > 0, CU_ERROR_INVALID_VALUE);
    *out_context = current[--current_count];
    return standin_end(CU_SUCCESS);
}

cu_result cuModuleLoadData(cu_module* out_module, const void* image) {
    STANDIN_BEGIN(module_load);
    STANDIN_REFUSE_UNLESS(standin_has_context() && image != NULL, CU_ERROR_INVALID_VALUE);
    module* made = malloc(sizeof *made);
    STANDIN_REFUSE_UNLESS(made != NULL, CU_ERROR_OUT_OF_MEMORY);
    made->next = modules;
    modules = made;
    module_count++;
    *out_module = (cu_module)(void*)made;
    return standin_end(CU_SUCCESS);
}

cu_result cuModuleUnload(cu_module loaded) {
    STANDIN_BEGIN(module_unload);
    module** link = &modules;
    while (*link != NULL && (void*)*link != (void*)loaded)
        link = &(*link)->next;
    STANDIN_REFUSE_UNLESS(*link != NULL, CU_ERROR_INVALID_HANDLE);
    module* gone = *link;
    *link = gone->next;
    module_count--;
    free(gone);
    return standin_end(CU_SUCCESS);
}

/// A function's handle is its kernel's number, one up.
cu_result cuModuleGetFunction(cu_function* out_function, cu_module loaded, const char* name) {
    STANDIN_BEGIN(module_get_function);
    STANDIN_REFUSE_UNLESS(loaded != NULL, CU_ERROR_INVALID_HANDLE);
    const berth_cuda_kernel kernel = emulation_find(name);
    STANDIN_REFUSE_UNLESS(kernel != BERTH_CUDA_KERNEL_COUNT, CU_ERROR_NOT_FOUND);
    *out_function = (cu_function)(uintptr_t)(kernel + 1);
    return standin_end(CU_SUCCESS);
}
