// SPDX-License-Identifier: Apache-2.0
// How tests steer the stand-in for the CUDA driver, libcuda_standin.so: the functions of
// cuda_api.h on memory of the host. It is strict where the real driver is (whole mappings, access
// set before use, a current context) and notes as a violation what the real one leaves undefined.
// Kernels run through emulation.h.
//
// Programs take settings from STANDIN_CAPACITY_MB, STANDIN_GRANULARITY_KB, STANDIN_SEED and
// STANDIN_HIDDEN, too, and failures from STANDIN_FAIL=FUNCTION:NTH:RESULT (NTH+: from then on) and
// STANDIN_CRASH=NTH, of kernels; with STANDIN_STRICT one that ends after a violation is aborted.
#ifndef BERTH_TESTS_CUDA_STANDIN_H
#define BERTH_TESTS_CUDA_STANDIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct standin_settings {
    int init_result; ///< what cuInit returns
    int device_count;
    int capability_major, capability_minor;
    bool has_virtual_memory;
    uint64_t granularity_bytes; ///< a power of two, at least 4096
    uint64_t capacity_bytes;    ///< of each device, at most STANDIN_MOST_BYTES
    /// 0: work runs in calls that wait; else now and then in other calls, in an order of streams
    /// that the seed decides.
    uint64_t seed;
    /// The host cannot touch device memory but while the driver copies or a kernel runs.
    bool is_hidden;
} standin_settings;

#define STANDIN_MOST_BYTES ((uint64_t)16 << 30)

/// What is there and has not been given back.
typedef struct standin_live {
    uint64_t reserved_ranges;
    uint64_t allocations; ///< physical ones, mapped or not
    uint64_t mappings;
    uint64_t mapped_bytes;
    uint64_t streams;
    uint64_t events;
    uint64_t modules;
    uint64_t context_references;
    uint64_t pinned_blocks;
    uint64_t pinned_bytes;
} standin_live;

/// One entry for each function below, for who loads the library by name.
typedef struct standin_control {
    /// Forgets counters, faults, violations and a sticky error, and takes `settings` (NULL: the
    /// defaults). Nothing is live, or `settings` differ from those in force in seed, init_result
    /// and is_hidden alone.
    void (*reset)(const standin_settings* settings);
    void (*get_settings)(standin_settings* out_settings);
    /// The nth (from 1, counted from now) call of `symbol` (NULL: of any function) returns `result`
    /// and does nothing; 0: none. After an illegal address, a failed launch or the like nothing
    /// runs until the reset, and every call about work fails.
    void (*fail)(const char* symbol, uint64_t nth, int result);
    /// The same from the nth call on, until `fail` or `reset` says otherwise.
    void (*fail_from)(const char* symbol, uint64_t nth, int result);
    /// The nth kernel that runs from now on crashes: it computes nothing, and from then on every
    /// call returns CUDA_ERROR_ILLEGAL_ADDRESS.
    void (*crash_kernel)(uint64_t nth);
    uint64_t (*query_calls)(const char* symbol); ///< since the reset; NULL: of all functions
    void (*query_live)(standin_live* out_live);
    uint64_t (*query_violations)(const char** out_first); ///< count, and the first as a sentence
} standin_control;

/// The library's export "standin_control_table".
const standin_control* standin_control_table(void);

#ifdef __cplusplus
}
#endif

#endif // BERTH_TESTS_CUDA_STANDIN_H
