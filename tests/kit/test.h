// SPDX-License-Identifier: Apache-2.0
// cmocka with the headers that it wants before itself, and a few assertions of ours.
#ifndef BERTH_TEST_TEST_H
#define BERTH_TEST_TEST_H

// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
// clang-format on

#include <string.h>

#include "berth/status.h"

/// Fails with the error's text unless `expr` is BERTH_OK.
#define assert_ok(expr)                                                                            \
    do {                                                                                           \
        const berth_status assert_ok_status_ = (expr);                                             \
        if (assert_ok_status_ != BERTH_OK)                                                         \
            fail_msg(                                                                              \
                "%s: %s: %s", #expr, berth_status_name(assert_ok_status_), berth_last_error());    \
    } while (0)

/// Fails unless `expr` is `status` and the error's text contains `part`.
#define assert_fails(expr, status, part)                                                           \
    do {                                                                                           \
        assert_int_equal(expr, status);                                                            \
        if (strstr(berth_last_error(), part) == NULL)                                              \
            fail_msg("'%s' does not mention '%s'", berth_last_error(), part);                      \
    } while (0)

#endif // BERTH_TEST_TEST_H
