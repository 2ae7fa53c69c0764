#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Makes a private copy of jemalloc that cannot stand in for anybody's malloc.
#
# Linking Debian's archive as it is would put its malloc, free and operator new into every program
# that uses Berth. The copy leaves out the C++ member and gives every symbol that the archive
# defines the prefix berth_je_, so mallocx becomes berth_je_mallocx and the names it borrows from
# libc keep meaning libc.
#
# usage: prefix_jemalloc.sh ARCHIVE OUT_OBJECT OUT_ARCHIVE
# AR, NM, LD and OBJCOPY name the tools.
set -eu

archive=$1
object=$2
library=$3
: "${AR:=ar}" "${NM:=nm}" "${LD:=ld}" "${OBJCOPY:=objcopy}"

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

cp "$archive" "$scratch/jemalloc.a"
for member in $("$AR" t "$archive"); do
    case $member in
    *_cpp.*) "$AR" d "$scratch/jemalloc.a" "$member" ;;
    esac
done

"$LD" -r --whole-archive -o "$scratch/whole.o" "$scratch/jemalloc.a"
"$NM" -g --defined-only "$scratch/whole.o" |
    awk 'NF == 3 { print $3, "berth_je_" $3 }' | sort -u >"$scratch/names"
"$OBJCOPY" --redefine-syms="$scratch/names" "$scratch/whole.o" "$object"

if "$NM" -g --defined-only "$object" | awk 'NF == 3 { print $3 }' | grep -qv '^berth_je_'; then
    echo "prefix_jemalloc.sh: $object still defines a symbol without the prefix" >&2
    rm -f "$object"
    exit 1
fi
rm -f "$library"
"$AR" rcs "$library" "$object"
