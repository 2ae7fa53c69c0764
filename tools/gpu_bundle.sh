#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Makes a folder that runs on a machine with a GPU and nothing else: programs with their libraries,
# the CUDA module, small generated models with their expected tokens, and run.sh (gpu_run.sh).
#
# usage: gpu_bundle.sh BUILD FOLDER [MODULE]
#   BUILD   a build of the targets gpu-bundle-programs and berth_cuda; as OpenBLAS takes most of
#           the room and nothing here needs it, one with -DBERTH_OPENBLAS=OFF
#   FOLDER  the bundle, made anew
#   MODULE  another libberth_cuda.so than the build's: then the size does not matter
set -eu
most_bytes=52428800
programs="bin/bench-gpu bin/gpu-tokens bin/berth-generate
    tests/test_device tests/test_gpu_ops tests/test_gpu_programs"

die() {
    printf 'gpu-bundle: %s\n' "$*" >&2
    exit 1
}

[ $# -ge 2 ] || die "usage: gpu_bundle.sh BUILD FOLDER [MODULE]"
here=$(cd "$(dirname "$0")" && pwd)
build=$1
folder=$2
module=${3:-$build/lib/libberth_cuda.so}
[ -f "$module" ] || die "$module is not there: the bundle needs a build with the CUDA Toolkit, which
CMake finds by nvcc on the PATH or by -DCUDAToolkit_ROOT=/usr/local/cuda"

[ ! -e "$folder" ] || [ -f "$folder/run.sh" ] ||
    die "$folder is there and is no bundle: it would be deleted"
rm -rf "$folder"
mkdir -p "$folder/bin" "$folder/lib" "$folder/model" "$folder/licenses"
cp "$here/gpu_run.sh" "$folder/run.sh"
chmod +x "$folder/run.sh"
cp "$here/../LICENSE" "$folder/"
for program in $programs; do
    [ -x "$build/$program" ] || die "$build/$program is not built"
    strip -o "$folder/bin/$(basename "$program")" "$build/$program"
done
strip -o "$folder/lib/libberth_cuda.so" "$module"
[ ! -f "$build/lib/libcuda_counted.so" ] ||
    strip -o "$folder/lib/libcuda_counted.so" "$build/lib/libcuda_counted.so"

# The libraries that programs load, but for the C library's own.
libraries() {
    for file in "$folder"/bin/* "$folder"/lib/libberth_cuda.so; do
        ldd "$file" | sed -n 's/^[[:space:]]*[^ ]* => \(\/[^ ]*\) .*/\1/p'
    done | sort -u | grep -Ev '/(libc|libm|libdl|librt|libpthread|ld-linux[^/]*)\.so[^/]*$' || true
}
# What others wrote has its own terms, which Debian keeps by package; jemalloc is in the programs.
keep_terms() { # PACKAGE
    terms=/usr/share/doc/$1/copyright
    [ ! -f "$terms" ] || cp -L "$terms" "$folder/licenses/$1"
}
package_of() { # FILE
    dpkg -S "$1" "/usr$1" 2>/dev/null | sed -n '1s/:.*//p'
}
for library in $(libraries); do
    cp -L "$library" "$folder/lib/"
    keep_terms "$(package_of "$library")"
done
keep_terms libjemalloc-dev

# The C library is the machine's: what the oldest that works must have.
newest=$(for file in "$folder"/bin/* "$folder"/lib/*.so*; do objdump -T "$file"; done |
    grep -o 'GLIBC_2\.[0-9]*' | sort -uV | tail -n 1)
printf '%s\n' "${newest#GLIBC_}" >"$folder/lib/glibc"

cp "$here/../bench/gpu/torch_peer.py" "$folder/"
export LD_LIBRARY_PATH="$folder/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
"$folder/bin/gpu-tokens" --make "$folder/model"
"$folder/bin/bench-gpu" --write-lengths "$folder/lengths.csv"

bytes=$(du -sb "$folder" | cut -f 1)
printf 'gpu-bundle: %s, %s.%s MiB, needs glibc %s\n' "$folder" $((bytes / 1048576)) \
    $((bytes % 1048576 * 10 / 1048576)) "${newest#GLIBC_}"
[ $# -ge 3 ] || [ "$bytes" -le $most_bytes ] ||
    die "it is larger than $((most_bytes / 1048576)) MiB: is the build one with -DBERTH_OPENBLAS=OFF?"
