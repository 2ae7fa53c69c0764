#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Keeps the table of options in the README equal to what the library prints. The table stands
# between the lines <!-- options --> and <!-- /options -->.
#
# usage: options_table.sh check|write BERTH_CONFIG README
set -eu

mode=$1
command=$2
readme=$3
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

if ! grep -q '^<!-- options -->$' "$readme" || ! grep -q '^<!-- /options -->$' "$readme"; then
    echo "$readme has no lines <!-- options --> and <!-- /options -->" >&2
    exit 1
fi
"$command" --markdown >"$scratch/table"
awk -v table="$scratch/table" '
    /^<!-- options -->$/ { print; while ((getline line < table) > 0) print line; inside = 1; next }
    /^<!-- \/options -->$/ { inside = 0 }
    !inside { print }
' "$readme" >"$scratch/readme"

case $mode in
check)
    diff -u "$readme" "$scratch/readme" || {
        echo "the table of options in $readme is out of date: run ./dev options" >&2
        exit 1
    }
    ;;
write) cat "$scratch/readme" >"$readme" ;;
*)
    echo "usage: options_table.sh check|write BERTH_CONFIG README" >&2
    exit 2
    ;;
esac
