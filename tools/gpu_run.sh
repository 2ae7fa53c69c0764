#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Proves and measures Berth on this machine's GPU: within 8 minutes, what is worth most first. Needs
# a driver and a C library; PyTorch, cuBLAS and compute-sanitizer are used where they are.
#
# usage: run.sh [--quick] [SECTION...]
#   conformance  the device keeps its contract; random programs whose memory is managed in many ways
#   ops          every op against the CPU
#   tokens       what small language models answer, against the CPU
#   memcheck     some of it under compute-sanitizer
#   bench        bench-gpu: allocation, shapes that vary, bandwidth, products, launches
# Full outputs and numbers go to $OUT, else to results/ beside this file.
# The exit status is 0 unless a row of the table, printed last, says FAILED (skipped is not failed);
# it is 2 for a section that there is not.
# BERTH_CUDA_MODULE and BERTH_CUDA_DRIVER may name others than lib/libberth_cuda.so and libcuda.so.1.
set -u
case ${1:-} in
-h | --help)
    sed -n '3,/^set -u/{ /^#/s/^# \{0,1\}//p; }' "$0"
    exit 0
    ;;
esac

refuse() { # STATUS SENTENCE
    printf 'run.sh: %s\n' "$2" >&2
    exit "$1"
}

# Everything that is asked for is looked at before anything runs.
sections="conformance ops tokens memcheck bench"
quick=
wanted=
for word in "$@"; do
    case $word in
    --quick) quick=yes ;;
    conformance | ops | tokens | memcheck | bench) wanted="$wanted $word" ;;
    *) refuse 2 "there is no section '$word', only $sections; --help says more" ;;
    esac
done
# shellcheck disable=SC2086 # a list of words
set -- ${wanted:-$sections}

here=$(cd "$(dirname "$0")" && pwd)
out=${OUT:-$here/results}
mkdir -p "$out" 2>/dev/null && [ -d "$out" ] && [ -w "$out" ] ||
    refuse 1 "nothing can be written to $out: name another folder, OUT=FOLDER $0"
: "${BERTH_CUDA_MODULE:=$here/lib/libberth_cuda.so}"
export BERTH_CUDA_MODULE

# A folder with cuBLAS, where the loader does not find it by itself; PyTorch brings one along.
blas_folder() {
    ! ldconfig -p 2>/dev/null | grep -q 'libcublasLt\.so' || return 0
    for folder in /usr/local/cuda*/lib64 /usr/local/cuda*/targets/*/lib \
        $(python3 -c 'import sys; print(*[p for p in sys.path if p])' 2>/dev/null |
            tr ' ' '\n' | sed 's|$|/nvidia/cublas/lib|; p; s|cublas/lib|cu13/lib|'); do
        for library in "$folder"/libcublasLt.so.*; do
            [ ! -e "$library" ] || {
                printf ':%s\n' "$folder"
                return 0
            }
        done
    done
}
libraries="$here/lib$(blas_folder)${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"

failures=0
table=

note() { # SECTION VERDICT REMARK
    table="$table$(printf '%-12s %-8s %4s s  %s' "$1" "$2" "$(($(date +%s) - began))" "$3")
"
    [ "$2" != FAILED ] || failures=$((failures + 1))
}

# The line of a log that says most about its end.
remark() { # LOG PATTERN
    line=$(grep -E "$2" "$1" | tail -n 1)
    printf '%s' "$line" | cut -c 1-150
    [ -n "$line" ]
}

# Runs a command of our own for SECONDS at most, its output also into LOG.
limited() { # SECONDS LOG COMMAND...
    seconds=$1
    log=$2
    shift 2
    {
        rc=0
        LD_LIBRARY_PATH="$libraries" timeout -k 5 "$seconds" "$@" || rc=$?
        echo "$rc" >"$log.rc"
    } 2>&1 | tee "$log"
    rc=$(cat "$log.rc")
    rm -f "$log.rc"
    return "$rc"
}

# One command of a section, and its row of the table.
part() { # NAME SECONDS COMMAND...
    name=$1
    seconds=$2
    shift 2
    printf '\n== %s\n' "$name"
    began=$(date +%s)
    log="$out/$(printf '%s' "$name" | tr ' ' '_').txt"
    limited "$seconds" "$log" "$@"
    case $? in
    0) note "$name" passed "$(remark "$log" '^(goal|f32|q8_0)|\[  PASSED')" ;;
    77) note "$name" skipped "$(remark "$log" '^skipped' | sed 's/^skipped: //')" ;;
    124 | 137) note "$name" FAILED "stopped after $seconds s" ;;
    *)  if grep -q 'no CUDA device' "$log"; then
            note "$name" skipped "$(remark "$log" 'no CUDA device')"
        else
            note "$name" FAILED "$(remark "$log" 'ERROR: |WRONG|wrong' || remark "$log" '.')"
        fi
        ;;
    esac
}

run_conformance() {
    part conformance 40 "$here/bin/test_device" cuda
    part programs 45 "$here/bin/test_gpu_programs" ${quick:+4}
}

run_ops() {
    if [ -n "$quick" ]; then
        part ops 100 "$here/bin/test_gpu_ops" --programs 4 --sizes 1024 --table \
            --json "$out/ops.json"
    else
        part ops 100 "$here/bin/test_gpu_ops" --programs 400 --sizes 1024,37008,3000000 --table \
            --json "$out/ops.json"
    fi
}

run_tokens() {
    part tokens 30 "$here/bin/gpu-tokens" --check "$here/model" ${quick:+--prompts 1 --answer 2}
    part sample 15 env BERTH_DEVICE=cuda "$here/bin/berth-generate" --model "$here/model/q8_0.gguf" \
        --tokens "20 30 40" -n 8 --print-tokens ${quick:+-n 2}
}

run_memcheck() {
    began=$(date +%s)
    tool=$(command -v compute-sanitizer)
    for path in /usr/local/cuda*/bin/compute-sanitizer; do
        [ -n "$tool" ] || [ ! -x "$path" ] || tool=$path
    done
    if [ -z "$tool" ]; then
        note memcheck skipped "compute-sanitizer is not installed"
        return
    fi
    printf '\n== memcheck\n'
    log="$out/memcheck.txt"
    limited 70 "$log" "$tool" --error-exitcode 9 "$here/bin/test_gpu_ops" --programs 2 --sizes 1024
    case $? in
    0) note memcheck passed "$(remark "$log" 'ERROR SUMMARY')" ;;
    9) note memcheck FAILED "$(remark "$log" 'ERROR SUMMARY|Invalid|=====')" ;;
    124 | 137) note memcheck FAILED "stopped after 70 s" ;;
    *)  # what the tests themselves say is told apart from a tool that does not take the device
        if grep -q 'FAILED TEST' "$log"; then
            note memcheck FAILED "$(remark "$log" 'ERROR')"
        else
            note memcheck skipped "$(remark "$log" '.')"
        fi
        ;;
    esac
}

run_bench() {
    part bench 100 "$here/bin/bench-gpu" ${quick:+--quick} --lengths "$here/lengths.csv" \
        --json "$out/bench.json"
    began=$(date +%s)
    if ! why=$(python3 -c 'import torch; assert torch.cuda.is_available(), "it has no GPU"' 2>&1); then
        note torch skipped "$(printf '%s\n' "$why" | tail -n 1)"
        return
    fi
    for segments in False True; do
        printf '\n== PyTorch, expandable_segments:%s\n' $segments
        began=$(date +%s)
        log="$out/torch_$segments.txt"
        PYTORCH_CUDA_ALLOC_CONF=expandable_segments:$segments PYTORCH_ALLOC_CONF=expandable_segments:$segments \
            timeout -k 5 35 python3 "$here/torch_peer.py" "$here/lengths.csv" ${quick:+--quick} \
            >"$log" 2>&1
        rc=$?
        cat "$log"
        if [ $rc -eq 0 ]; then verdict=passed; else verdict=FAILED; fi
        note "torch" "$verdict" "expandable_segments:$segments $(tail -n 1 "$log" | cut -c 1-120)"
    done
}

printf 'glibc: %s, needed %s\n' "$(getconf GNU_LIBC_VERSION 2>/dev/null)" "$(cat "$here/lib/glibc")"
command -v nvidia-smi >/dev/null 2>&1 &&
    nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader
for section in "$@"; do
    "run_$section"
done
printf '\n%s' "$table" | tee "$out/table.txt"
printf 'full outputs and numbers: %s\n' "$out"
[ $failures -eq 0 ]
