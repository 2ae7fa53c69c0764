// SPDX-License-Identifier: Apache-2.0
// Error detail (a fixed buffer for each thread), propagation, assertions in cost tiers.
#ifndef BERTH_BASE_ERROR_H
#define BERTH_BASE_ERROR_H

#include "berth/status.h"

/// Sets this thread's detail text (cut at 1023 bytes) and returns `status`.
berth_status berth_fail(berth_status status, const char* format, ...) BERTH_PRINTF(2, 3);

/// Puts `format` and ": " in front of this thread's detail text; returns `status`.
berth_status berth_fail_prefix(berth_status status, const char* format, ...) BERTH_PRINTF(2, 3);

/// Empties this thread's detail text.
void berth_error_clear(void);

/// Returns from the caller with the status of `expr` unless it is BERTH_OK.
#define BERTH_TRY(expr)                                                                            \
    do {                                                                                           \
        const berth_status berth_try_status_ = (expr);                                             \
        if (berth_try_status_ != BERTH_OK) return berth_try_status_;                               \
    } while (0)

/// Assertions up to this tier are checked; the others are compiled, but never run.
#ifndef BERTH_CHECK_LEVEL
#define BERTH_CHECK_LEVEL 1
#endif

/// Reports a broken invariant and aborts: for our own mistakes only.
_Noreturn void berth_check_failed(const char* condition, const char* file, int line);

/// Assertion of tier `level`: 1 arguments, 2 constant-time invariants, 3 whole-structure walks.
#define BERTH_CHECK(level, condition)                                                              \
    do {                                                                                           \
        if ((level) <= BERTH_CHECK_LEVEL && !(condition))                                          \
            berth_check_failed(#condition, __FILE__, __LINE__);                                    \
    } while (0)

#endif // BERTH_BASE_ERROR_H
