// SPDX-License-Identifier: Apache-2.0
// Status codes and error text, shared by every public header.
#ifndef BERTH_STATUS_H
#define BERTH_STATUS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
/// A function that the shared library exports.
#define BERTH_API __attribute__((visibility("default")))
/// The compiler warns where the result is not looked at.
#define BERTH_NODISCARD __attribute__((warn_unused_result))
/// The compiler checks the arguments from `first_at` against the format at `format_at`; both count
/// parameters from 1.
#define BERTH_PRINTF(format_at, first_at) __attribute__((format(printf, format_at, first_at)))
#else
#define BERTH_API
#define BERTH_NODISCARD
#define BERTH_PRINTF(format_at, first_at)
#endif

// clang-format off
/// Every status: X(name, value, text).
#define BERTH_STATUS_MAP(X)                                                        \
    X(OK,                    0, "no error")                                        \
    X(ERR_INVALID_ARGUMENT,  1, "an argument is not acceptable")                   \
    X(ERR_OUT_OF_MEMORY,     2, "not enough memory")                               \
    X(ERR_OVERFLOW,          3, "a size does not fit its type")                    \
    X(ERR_UNSUPPORTED,       4, "the combination is valid but not supported")      \
    X(ERR_STATE,             5, "the object is not in a state that allows this")   \
    X(ERR_NOT_FOUND,         6, "the named thing does not exist")                  \
    X(ERR_IO,                7, "reading or writing failed")                       \
    X(ERR_CORRUPT,           8, "the data is damaged or not in the right format")  \
    X(ERR_DEVICE,            9, "the device reported a failure")                   \
    X(ERR_FORKED,           10, "the runtime belongs to the parent process")       \
    X(ERR_INTERNAL,         11, "an invariant of the library is broken")
// clang-format on

/// How a call ended: BERTH_OK or one of BERTH_STATUS_MAP's errors.
typedef enum berth_status {
#define BERTH_STATUS_ENUM(name, value, text) BERTH_##name = value,
    BERTH_STATUS_MAP(BERTH_STATUS_ENUM)
#undef BERTH_STATUS_ENUM
} berth_status;

/// Returns the constant's name, such as "BERTH_ERR_OUT_OF_MEMORY"; never NULL.
BERTH_API const char* berth_status_name(berth_status status);

/// Returns a short English sentence for `status`; never NULL.
BERTH_API const char* berth_status_text(berth_status status);

/// Returns the sentence that explains the last failure of a call on this thread that returned a
/// berth_status other than BERTH_OK. Never NULL; valid until the next failure on this thread.
/// Failures of ops are kept by their context instead: see berth_context_error_text().
BERTH_API const char* berth_last_error(void);

#ifdef __cplusplus
}
#endif

#endif // BERTH_STATUS_H
