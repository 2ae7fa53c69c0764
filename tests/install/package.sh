#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs the build into an empty prefix, moves that, and uses it as a stranger would: through
# pkg-config and through find_package, from C and C++, shared and static. In every program libc must
# own malloc, and the headers must suit every language standard.
#
# usage: package.sh BUILD_DIR SOURCE_DIR CC [CXX]
set -eu

build=$1
tests=$2/tests/install
cc=$3
cxx=${4:-}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

fail() {
    echo "package.sh: $*" >&2
    exit 1
}

# --------------------------------------------------------------------------------- the installed tree

cmake --install "$build" --prefix "$scratch/first" >"$scratch/install.log"
prefix=$scratch/moved
mv "$scratch/first" "$prefix"
lib=$(dirname "$(find "$prefix" -name libberth.a)")
[ -f "$lib/libberth.so" ] || fail "libberth.so is not installed"
[ -f "$prefix/include/berth/berth.h" ] || fail "berth/berth.h is not installed"
for place in "$build" "$2/" "$scratch/first"; do
    if grep -rF "$place" "$lib/cmake" "$lib/pkgconfig" "$prefix/include"; then
        fail "the installed text above names $place"
    fi
done

# The exports of the shared library are the business of symbols.sh.
symbols=$(nm -g --defined-only "$lib/libberth.a" |
    awk 'NF == 3 && $2 ~ /[A-Z]/ { print $3 }' | grep -v '^berth_' || true)
[ -z "$symbols" ] || fail "libberth.a defines foreign symbols: $symbols"
if readelf -d "$lib/libberth.so" | grep NEEDED | grep -qE 'jemalloc|xxhash|stdc\+\+'; then
    fail "libberth.so needs a library that it should carry itself"
fi

# ---------------------------------------------------------------------------------------- pkg-config

export PKG_CONFIG_PATH="$lib/pkgconfig"
export LD_LIBRARY_PATH="$lib"
flags=$(pkg-config --cflags berth)
shared_libs=$(pkg-config --libs berth)
static_libs=$(pkg-config --static --libs berth | sed 's/-lberth/-l:libberth.a/')

# Builds and runs one program: COMPILER SOURCE NAME LIBRARIES
use() {
    # The lists of flags are meant to split.
    # shellcheck disable=SC2086
    $1 -Wall -Wextra -Wpedantic -Werror -D_GNU_SOURCE $flags "$tests/$2" -o "$scratch/$3" $4 -ldl || fail "$3 does not build"
    "$scratch/$3" || fail "$3 failed"
    case $3 in
    *_shared) readelf -d "$scratch/$3" | grep NEEDED | grep -q libberth ||
        fail "$3 does not use the shared library" ;;
    *) ! readelf -d "$scratch/$3" | grep NEEDED | grep -q libberth ||
        fail "$3 uses the shared library" ;;
    esac
}
use "$cc" malloc_owner.c c_shared "$shared_libs"
use "$cc" malloc_owner.c c_static "$static_libs"
if [ -n "$cxx" ]; then
    use "$cxx" malloc_owner.cpp cpp_shared "$shared_libs"
    use "$cxx" malloc_owner.cpp cpp_static "$static_libs"
fi
echo "pkg-config: libc owns malloc"

# ----------------------------------------------------------------------------------- the CUDA module

# The moved tree's own, or where there was no toolkit the tests', with the stand-in for the driver.
[ -f "$lib/libberth_cuda.so" ] || cp "$build/tests/libberth_cuda.so" "$lib/"
mkdir -p "$prefix/bin"
cp "$scratch/c_static" "$prefix/bin/"
for program in "$scratch/c_shared" "$prefix/bin/c_static"; do
    (cd / && env -u BERTH_CUDA_MODULE BERTH_DEVICE=cuda \
        BERTH_CUDA_DRIVER="$build/tests/libcuda_standin.so" "$program") ||
        fail "$(basename "$program") does not find the CUDA module that is installed"
    said=$(BERTH_DEVICE=cuda BERTH_CUDA_DRIVER=/nowhere/libcuda.so.1 "$program" 2>&1) &&
        fail "$(basename "$program") has found a CUDA device"
    case $said in
    *"no CUDA device: /nowhere/libcuda.so.1: "*) ;;
    *) fail "without a driver it says: $said" ;;
    esac
done
echo "the CUDA module is found"

# ------------------------------------------------------------------------------------- find_package

set -- -DCMAKE_C_COMPILER="$cc" -DCONSUMER_VERSION="$(pkg-config --modversion berth)"
[ -z "$cxx" ] || set -- "$@" -DCMAKE_CXX_COMPILER="$cxx" -DCONSUMER_CXX=ON
cmake -S "$tests/consumer" -B "$scratch/consumer" -G Ninja -DCMAKE_PREFIX_PATH="$prefix" "$@" \
    >"$scratch/consumer.log" 2>&1 ||
    fail "find_package(berth) fails: $(tail -n 20 "$scratch/consumer.log")"
cmake --build "$scratch/consumer" >"$scratch/consumer.log" 2>&1 ||
    fail "the consumer does not build: $(tail -n 20 "$scratch/consumer.log")"
for program in "$scratch"/consumer/owner_*; do
    [ -x "$program" ] || fail "the consumer made no program"
    "$program" || fail "the consumer's $(basename "$program") failed"
done
echo "find_package: libc owns malloc"

# ------------------------------------------------------------------------------------------- headers

# Checks each public header alone, and berth.h so among them: COMPILER LANGUAGE STANDARD
check_headers() {
    for header in "$prefix"/include/berth/*.h; do
        # shellcheck disable=SC2086
        printf '#include <berth/%s>\n%s\n' "$(basename "$header")" 'int main(void) { return 0; }' |
            $1 -x "$2" -std="$3" -Wall -Wextra -Wpedantic -Werror $flags -fsyntax-only - ||
            fail "$(basename "$header") does not suit $1 -std=$3"
    done
}
checked=
is_new() { # COMPILER: false if there is none, or if it has been seen under another name
    path=$(command -v "$1") || return 1
    path=$(readlink -f "$path")
    case " $seen " in *" $path "*) return 1 ;; esac
    seen="$seen $path"
}
seen=
for compiler in "$cc" gcc clang; do
    is_new "$compiler" || continue
    for standard in c11 c17; do
        check_headers "$compiler" c $standard
        checked="$checked $(basename "$compiler"):$standard"
    done
done
seen= # clang++ is clang by another name, which matters
for compiler in $cxx g++ clang++; do
    is_new "$compiler" || continue
    for standard in c++11 c++20; do
        check_headers "$compiler" c++ $standard
        checked="$checked $(basename "$compiler"):$standard"
    done
done
echo "headers suit$checked"
