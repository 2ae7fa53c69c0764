#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Makes the bundle and goes through its run.sh in short form, with the stand-in in the driver's
# place: all that is unproved of it then is a GPU.
#
# usage: bundle_on_standin.sh BUILD SOURCE
set -eu
build=$1
source=$2
folder=$build/tests/gpu-bundle

sh "$source/tools/gpu_bundle.sh" "$build" "$folder" "$build/tests/libberth_cuda.so"
export BERTH_CUDA_DRIVER="$build/tests/libcuda_standin.so"
export OUT="$folder/results"
unset BERTH_CUDA_MODULE # that of the bundle is to be found
"$folder/run.sh" --quick

# what was skipped here is what this machine lacks, and nothing else
for name in conformance programs ops tokens sample bench; do
    grep -q "^$name *passed" "$OUT/table.txt" || {
        echo "$name has not passed"
        exit 1
    }
done
for file in ops.json bench.json; do
    python3 -m json.tool "$OUT/$file" >/dev/null
done
# without a driver it says so, and ends well
BERTH_CUDA_DRIVER=/nowhere/libcuda.so.1 OUT="$folder/no_driver" "$folder/run.sh" --quick tokens
grep -q '^tokens *skipped .*/nowhere/libcuda.so.1' "$folder/no_driver/table.txt"
