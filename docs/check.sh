#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What Doxygen's warnings leave out: an enum value without a doc comment, and a function that it
# misread so that it has no page at all.
#
# usage: check.sh XML_DIR INCLUDE_DIR
set -eu

xml=$1
include=$2
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

awk '/<enumvalue / { name = ""; described = 0 }
     /<name>/ && name == "" { name = $0; gsub(/ *<[^>]*>/, "", name) }
     /<para>/ { described = 1 }
     /<\/enumvalue>/ && !described { print "enum value " name " has no doc comment" }' \
    "$xml"/*_8h.xml >"$scratch/complaints"

cat "$include"/berth/*.h | grep -v '^ *//' | tr '\n' ' ' |
    grep -oE 'BERTH_API [^(;]*[ *]berth_[a-z0-9_]+\(' | sed -E 's/.*[ *](berth_[a-z0-9_]+)\($/\1/' |
    sort >"$scratch/declared"
awk '/<memberdef kind="function"/ { inside = 1 }
     inside && /<name>/ { gsub(/ *<[^>]*>/, ""); print; inside = 0 }' "$xml"/*_8h.xml |
    sort >"$scratch/described"
comm -23 "$scratch/declared" "$scratch/described" |
    sed 's/.*/function & is not described/' >>"$scratch/complaints"

cat "$scratch/complaints" >&2
[ -s "$scratch/declared" ] && [ ! -s "$scratch/complaints" ]
