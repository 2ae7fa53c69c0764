#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds the shared library as programs need it that load it by dlopen.
#
# usage: build.sh SOURCE_DIR BUILD_DIR CC GENERATOR
set -eu

cmake -S "$1" -B "$2" -G "$4" -DCMAKE_C_COMPILER="$3" -DCMAKE_BUILD_TYPE=Debug \
    -DBERTH_CHECK_LEVEL=3 -DBERTH_HOST=libc -DBERTH_TESTS=OFF
cmake --build "$2" --target berth --parallel 2
