#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The shared library exports what the public headers declare, nothing else, all of it under the
# version of its interface; its SONAME carries that version too.
#
# usage: symbols.sh LIBBERTH_SO INCLUDE_DIR CC MAJOR.MINOR
set -eu

library=$1
include=$2
cc=$3
interface=$4
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failures=0

complain() { # TITLE FILE: fails if the file has lines
    [ -s "$2" ] || return 0
    echo "symbols.sh: $1:" >&2
    sed 's/^/    /' "$2" >&2
    failures=1
}

# Declarations, one a line, after the preprocessor. A name before (* is that of a type: the pointer to
# a function follows.
echo '#include "berth/berth.h"' | "$cc" -std=c17 -I"$include" -E -P - | tr '\n' ' ' |
    sed 's/[;{}]/&\n/g' | grep -E '(^|[ *])berth_[a-z0-9_]+ *\(([^*]|$)' |
    grep -vE 'typedef|static inline|^ *(return|else|if) ' >"$scratch/statements"
grep -F 'visibility("default")' "$scratch/statements" |
    sed -E 's/__attribute__ *\(\(([^()]|\([^()]*\))*\)\)//g; s/^[^(]*(berth_[a-z0-9_]+) *\(.*/\1/' |
    sort >"$scratch/declared"
grep -vF 'visibility("default")' "$scratch/statements" >"$scratch/unmarked" || true
complain "declared without BERTH_API" "$scratch/unmarked"
[ -s "$scratch/declared" ] || {
    echo "symbols.sh: no declaration found" >&2
    exit 1
}
uniq -d "$scratch/declared" >"$scratch/twice"
complain "declared twice" "$scratch/twice"

nm -D --defined-only --with-symbol-versions "$library" | awk '{ print $NF }' |
    grep -vx "BERTH_$interface" | sort >"$scratch/exports"
grep -vE "^berth_[a-z0-9_]+@@BERTH_$interface\$" "$scratch/exports" >"$scratch/foreign" || true
complain "exported under another name or version" "$scratch/foreign"
sed 's/@.*//' "$scratch/exports" | sort >"$scratch/exported"

comm -23 "$scratch/declared" "$scratch/exported" >"$scratch/missing"
complain "declared but not exported" "$scratch/missing"
comm -13 "$scratch/declared" "$scratch/exported" >"$scratch/hidden"
complain "exported but not declared" "$scratch/hidden"

soname=$(readelf -d "$library" | sed -n 's/.*SONAME.*\[\(.*\)\]/\1/p')
[ "$soname" = "libberth.so.$interface" ] || {
    echo "symbols.sh: the SONAME is $soname, expected libberth.so.$interface" >&2
    failures=1
}

# The whole API is berth.h: no header is left out, directly or through others.
echo '#include "berth/berth.h"' | "$cc" -std=c17 -I"$include" -x c -MM - | tr ' ' '\n' |
    sed -n 's|.*/berth/\([a-z0-9_]*\.h\).*|\1|p' | sort >"$scratch/included"
(cd "$include/berth" && ls -- *.h) | sort | comm -23 - "$scratch/included" >"$scratch/left"
complain "headers that berth.h does not include" "$scratch/left"

echo "$(wc -l <"$scratch/exported") functions exported as BERTH_$interface"
exit $failures
