// SPDX-License-Identifier: Apache-2.0
// The module's door: what it exports, and the functions of the core that its files call, handed on
// to the core that loaded it. Not part of programs that hold the core themselves.
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "berth/op.h"
#include "berth/version.h"
#include "device/cuda/cuda_device.h"
#include "device/native_stream.h"

#define TEXT_BYTES 1024

/// Given anew with each device that is opened, while other threads use theirs.
static _Atomic(const berth_cuda_core*) given_core;

static const berth_cuda_core* core(void) {
    return atomic_load_explicit(&given_core, memory_order_acquire);
}

static void write_text(char* text, const char* format, va_list arguments) BERTH_PRINTF(2, 0);

static void write_text(char* text, const char* format, va_list arguments) {
    if (vsnprintf(text, TEXT_BYTES, format, arguments) < 0) text[0] = '\0';
}

// --- What error.h promises ----------------------------------------------------------------------

berth_status berth_fail(berth_status status, const char* format, ...) {
    char text[TEXT_BYTES];
    va_list arguments;
    va_start(arguments, format);
    write_text(text, format, arguments);
    va_end(arguments);
    return core()->fail(status, text);
}

berth_status berth_op_fail(berth_status status, const char* format, ...) {
    char text[TEXT_BYTES];
    va_list arguments;
    va_start(arguments, format);
    write_text(text, format, arguments);
    va_end(arguments);
    return core()->fail(status, text);
}

berth_status berth_fail_prefix(berth_status status, const char* format, ...) {
    char text[TEXT_BYTES];
    va_list arguments;
    va_start(arguments, format);
    write_text(text, format, arguments);
    va_end(arguments);
    return core()->fail_prefix(status, text);
}

_Noreturn void berth_check_failed(const char* condition, const char* file, int line) {
    core()->check_failed(condition, file, line);
    abort(); // it does not return
}

// --- host.h and log.h ---------------------------------------------------------------------------

void* berth_host_alloc(const berth_host* host, size_t size) {
    return core()->host_alloc(host, size);
}

void* berth_host_calloc(const berth_host* host, size_t count, size_t size) {
    return core()->host_calloc(host, count, size);
}

char* berth_host_strdup(const berth_host* host, const char* text) {
    const size_t bytes = strlen(text) + 1;
    char* copy = berth_host_alloc(host, bytes);
    if (copy != NULL) memcpy(copy, text, bytes);
    return copy;
}

void berth_host_free(const berth_host* host, void* block) { core()->host_free(host, block); }

void berth_log_line(berth_log_level level, const char* format, ...) {
    char text[TEXT_BYTES];
    va_list arguments;
    va_start(arguments, format);
    write_text(text, format, arguments);
    va_end(arguments);
    core()->log(level, text);
}

void berth_log_forget_writer(void) {} // the core does

void berth_native_stream_note(void* native) { core()->note_stream(native); }

// --- The export ---------------------------------------------------------------------------------

BERTH_API const berth_cuda_module* berth_cuda_module_query_v1(const berth_cuda_core* given);

const berth_cuda_module* berth_cuda_module_query_v1(const berth_cuda_core* given) {
    static const berth_cuda_module module = {
        .abi_version = BERTH_CUDA_MODULE_ABI_VERSION,
        .version = BERTH_VERSION,
        .create = berth_cuda_device_create,
    };
    if (given == NULL || given->abi_version != BERTH_CUDA_MODULE_ABI_VERSION) return NULL;
    atomic_store_explicit(&given_core, given, memory_order_release);
    return &module;
}
