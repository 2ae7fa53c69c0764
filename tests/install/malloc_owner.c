// SPDX-License-Identifier: Apache-2.0
// A C program that uses Berth keeps libc's malloc. Built against the installed library by
// package.sh, once shared and once static.
#include "owner.h"

int main(void) {
    int failures = use_berth() + expect_version();
    failures += expect_libc_allocator();
    return failures == 0 ? 0 : 1;
}
