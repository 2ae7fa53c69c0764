// SPDX-License-Identifier: Apache-2.0
// The stand-in's inside. Every exported function takes the one lock; functions declared here expect
// it to be held.
#ifndef BERTH_TESTS_CUDA_STANDIN_INTERNAL_H
#define BERTH_TESTS_CUDA_STANDIN_INTERNAL_H

#include "cuda/emulation.h"
#include "cuda/standin.h"
#include "device/cuda/cuda_api.h"

#define STANDIN_EXPORT __attribute__((visibility("default")))

#define STANDIN_DECLARE(field, symbol, parameters) STANDIN_EXPORT cu_result symbol parameters;
CU_FUNCTION_MAP(STANDIN_DECLARE)
#undef STANDIN_DECLARE

typedef enum standin_call {
#define STANDIN_ENUM(field, symbol, parameters) STANDIN_CALL_##field,
    CU_FUNCTION_MAP(STANDIN_ENUM)
#undef STANDIN_ENUM
        STANDIN_CALL_COUNT
} standin_call;

/// Takes the lock, counts the call, and returns what it must fail with, or CU_SUCCESS. The call
/// ends with standin_end() either way.
cu_result standin_begin(standin_call call);
/// Gives the lock back; returns `result`.
cu_result standin_end(cu_result result);

/// For bodies of exported functions: everything between is under the lock.
#define STANDIN_BEGIN(field)                                                                       \
    const cu_result standin_refusal_ = standin_begin(STANDIN_CALL_##field);                        \
    if (standin_refusal_ != CU_SUCCESS) return standin_end(standin_refusal_)
#define STANDIN_REFUSE_UNLESS(condition, result)                                                   \
    if (!(condition)) return standin_end(result)

const standin_settings* standin_options(void);
bool standin_has_context(void); ///< the calling thread has a current context
void standin_violate(const char* format, ...) __attribute__((format(printf, 1, 2)));
void standin_stick(cu_result result); ///< every later call returns it
cu_result standin_sticky(void);       ///< what sticks, or CU_SUCCESS
bool standin_is_dead(void);           ///< kernels and copies do nothing any more
uint64_t standin_draw(void);          ///< the next number of the seed

// Memory.

/// Kernels may use device memory from open to close.
void standin_memory_open(void);
void standin_memory_close(void);
typedef struct standin_copy {
    void* target;
    const void* source;
    uint64_t size;
    bool is_target_device, is_source_device;
} standin_copy;

/// Copies; what is of the device is usable. Memory need not be open: that takes a system call for
/// every mapping.
void standin_memory_copy(const standin_copy* copied);
/// All of [address, address + size) is mapped and may be accessed.
bool standin_memory_is_usable(cu_address address, uint64_t size);
void standin_memory_count(standin_live* live);
void standin_memory_apply_hiding(void); ///< after is_hidden has changed

// Streams.

void standin_streams_progress(void); ///< with a seed, runs something now and then
void standin_streams_count(standin_live* live);
void standin_crash_kernel(uint64_t nth);

#endif // BERTH_TESTS_CUDA_STANDIN_INTERNAL_H
