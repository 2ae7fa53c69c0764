#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Makes the bundle and goes through its run.sh in short form, with the stand-in in the driver's
# place: all that is unproved of it then is a GPU.
#
# usage: bundle_on_standin.sh BUILD SOURCE
set -eu
build=$1
source=$2
folder="$build/tests/gpu bundle" # a name as people give it

rm -rf "$folder"
sh "$source/tools/gpu_bundle.sh" "$build" "$folder" "$build/tests/libberth_cuda.so"
export BERTH_CUDA_DRIVER="$build/tests/libcuda_standin.so"
export OUT="$folder/results"
unset BERTH_CUDA_MODULE # that of the bundle is to be found
cmp "$source/LICENSE" "$folder/LICENSE"
(cd / && "$folder/run.sh" --quick)

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
# what cannot be done is said, in one line, before anything runs
refused() { # STATUS SENTENCE [SECTION...]
    status=$1
    sentence=$2
    shift 2
    rc=0
    said=$("$folder/run.sh" "$@" 2>&1) || rc=$?
    case $rc:$said in
    "$status:run.sh: $sentence"*) ;;
    *)
        printf 'expected %s and "%s", got %s and: %s\n' "$status" "$sentence" "$rc" "$said"
        exit 1
        ;;
    esac
}
refused 2 "there is no section 'nonsense'" conformance nonsense
export OUT="$folder/run.sh/results"
refused 1 "nothing can be written to $OUT" conformance
# a folder that is something else is not deleted
mkdir -p "$folder/other/kept"
rc=0
sh "$source/tools/gpu_bundle.sh" "$build" "$folder/other" "$build/tests/libberth_cuda.so" || rc=$?
[ $rc -eq 1 ]
[ -d "$folder/other/kept" ]
