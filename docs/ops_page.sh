#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Keeps the page of ops equal to what the headers and the op table say.
#
# usage: ops_page.sh check|write OPS_PAGE INCLUDE_DIR PAGE
set -eu

mode=$1
program=$2
include=$3
page=$4
scratch=$(mktemp)
trap 'rm -f "$scratch"' EXIT

"$program" "$include" >"$scratch"
case $mode in
check)
    diff -u "$page" "$scratch" || {
        echo "$page is out of date: run ./dev docs" >&2
        exit 1
    }
    ;;
write) cat "$scratch" >"$page" ;;
*)
    echo "usage: ops_page.sh check|write OPS_PAGE INCLUDE_DIR PAGE" >&2
    exit 2
    ;;
esac
