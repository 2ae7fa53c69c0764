// SPDX-License-Identifier: Apache-2.0
// The C++ twin of malloc_owner.c: operator new stays with libstdc++ as well.
#include "owner.h"

int main() {
    int failures = use_berth() + expect_version();
    int* number = new int(7); // makes the program need operator new
    failures += *number - 7;
    delete number;
    failures += expect_owner("operator new", dlsym(RTLD_DEFAULT, "_Znwm"), "libstdc++.so");
    failures += expect_owner("operator delete", dlsym(RTLD_DEFAULT, "_ZdlPv"), "libstdc++.so");
    failures += expect_libc_allocator();
    return failures == 0 ? 0 : 1;
}
