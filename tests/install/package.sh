#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs the build into an empty prefix and uses it as a stranger would: through pkg-config and
# through find_package, from C and C++, shared and static. In every program libc must own malloc.
#
# usage: package.sh BUILD_DIR SOURCE_DIR CC [CXX]
set -eu

build=$1
tests=$2/tests/install
cc=$3
cxx=${4:-}
prefix=$(mktemp -d)
trap 'rm -rf "$prefix"' EXIT

fail() {
    echo "package.sh: $*" >&2
    exit 1
}

# Prints the defined global symbols of a library that do not begin with berth_.
foreign_symbols() {
    nm --defined-only "$@" | awk 'NF == 3 && $2 ~ /[A-Z]/ { print $3 }' | grep -v '^berth_' || true
}

cmake --install "$build" --prefix "$prefix" >"$prefix/install.log"
lib=$(dirname "$(find "$prefix" -name libberth.a)")
[ -f "$lib/libberth.so" ] || fail "libberth.so is not installed"

symbols=$(foreign_symbols -g "$lib/libberth.a")
[ -z "$symbols" ] || fail "libberth.a defines foreign symbols: $symbols"
symbols=$(foreign_symbols -D "$lib/libberth.so")
[ -z "$symbols" ] || fail "libberth.so exports foreign symbols: $symbols"
if nm -D --defined-only "$lib/libberth.so" | grep -q ' berth_je_'; then
    fail "libberth.so exports its private jemalloc"
fi
if readelf -d "$lib/libberth.so" | grep NEEDED | grep -qE 'jemalloc|xxhash|stdc\+\+'; then
    fail "libberth.so needs a library that it should carry itself"
fi

export PKG_CONFIG_PATH="$lib/pkgconfig"
export LD_LIBRARY_PATH="$lib"
flags=$(pkg-config --cflags berth)
static_libs=$(pkg-config --static --libs berth | sed 's/-lberth/-l:libberth.a/')

# Builds and runs one program: COMPILER SOURCE NAME LIBRARIES
use() {
    # The lists of flags are meant to split.
    # shellcheck disable=SC2086
    $1 -D_GNU_SOURCE $flags "$tests/$2" -o "$prefix/$3" $4 -ldl || fail "$3 does not build"
    "$prefix/$3" || fail "$3 failed"
    echo "$3: libc owns malloc"
}
use "$cc" malloc_owner.c c_shared "$(pkg-config --libs berth)"
use "$cc" malloc_owner.c c_static "$static_libs"
if [ -n "$cxx" ]; then
    use "$cxx" malloc_owner.cpp cpp_shared "$(pkg-config --libs berth)"
    use "$cxx" malloc_owner.cpp cpp_static "$static_libs"
fi

cmake -S "$tests/consumer" -B "$prefix/consumer" -G Ninja -DCMAKE_C_COMPILER="$cc" \
    -DCMAKE_PREFIX_PATH="$prefix" >"$prefix/consumer.log" || fail "find_package(berth) fails"
cmake --build "$prefix/consumer" >>"$prefix/consumer.log" ||
    fail "the consumer does not build: $(tail -n 5 "$prefix/consumer.log")"
"$prefix/consumer/owner_berth" || fail "owner_berth failed"
"$prefix/consumer/owner_berth_static" || fail "owner_berth_static failed"
echo "find_package: libc owns malloc"
