// SPDX-License-Identifier: Apache-2.0
// A C program that uses Berth keeps libc's malloc. Built against the installed library by
// package.sh, once shared and once static.
#include "owner.h"

#include <berth/status.h>

int main(void) {
    if (strcmp(berth_status_name(BERTH_OK), "BERTH_OK") != 0) {
        fprintf(stderr, "berth_status_name(BERTH_OK) is %s\n", berth_status_name(BERTH_OK));
        return 1;
    }
    return expect_libc_allocator() == 0 ? 0 : 1;
}
