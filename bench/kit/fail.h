// SPDX-License-Identifier: Apache-2.0
// How benchmarks end when they cannot go on.
#ifndef BERTH_BENCH_FAIL_H
#define BERTH_BENCH_FAIL_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "berth/status.h"

/// Ends the program with `what` and the reason.
_Noreturn static inline void bench_fail_for(const char* what, const char* reason) {
    (void)fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, what, reason);
    exit(1);
}

/// Ends the program with `what` and Berth's last error.
_Noreturn static inline void bench_fail(const char* what) {
    bench_fail_for(what, berth_last_error());
}

#endif // BERTH_BENCH_FAIL_H
