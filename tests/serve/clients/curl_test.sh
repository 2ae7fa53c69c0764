#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# berth-serve as curl sees it: the lines of the README, and what a client may do within HTTP/1.1.
#
# usage: curl_test.sh BERTH_SERVE README
set -eu

command -v curl >/dev/null || {
    echo "skipped: curl is not there"
    exit 77
}
scratch=$(mktemp -d)
"$1" --random=tiny --model-name model --memory 256M --port 0 >"$scratch/log" &
server=$!
trap 'kill "$server" 2>/dev/null || true; rm -rf "$scratch"' EXIT
while ! grep -q '^listening on ' "$scratch/log"; do
    kill -0 "$server" || exit 1
    sleep 0.05
done
url=$(sed -n 's/^listening on //p' "$scratch/log")

fail() {
    printf 'FAILED: %s\n' "$*" >&2
    sed 's/^/    /' "$scratch/answer" >&2
    exit 1
}

# Asks by curl and expects a pattern in headers and body: expect PATTERN ARGUMENTS...
expect() {
    pattern=$1
    shift
    curl -sS -i --max-time 120 "$@" >"$scratch/answer" || fail "curl $* ended with $?"
    grep -qE "$pattern" "$scratch/answer" || fail "curl $*: no $pattern in the answer"
}

# ---- The README's lines as they stand there, on this server's port.

awk '/^```/ { inside = $0 == "```sh"; next }
    inside && (/^curl / || goes_on) { print; goes_on = /\\$/ }' "$2" |
    sed "s#http://127.0.0.1:8080#$url#" >"$scratch/lines"
[ "$(grep -c '^curl ' "$scratch/lines")" -ge 1 ] || fail "the README asks nothing by curl"
sed 's/^curl /curl -sSf --max-time 120 /' "$scratch/lines" >"$scratch/run"
sh -eu "$scratch/run" >"$scratch/answer" || fail "the README's lines: $(cat "$scratch/lines")"
grep -q '"choices"' "$scratch/answer" || fail "the README's lines make no answer"

# ---- Answers.

json='Content-Type: application/json'
chat='{"messages":[{"role":"user","content":"Hello!"}],"max_tokens":4'
expect '"finish_reason": ?"' "$url/v1/chat/completions" -H "$json" -d "$chat}"
expect '^data: \[DONE\]' -N "$url/v1/chat/completions" -H "$json" -d "$chat,\"stream\":true}"
expect '^Content-Type: text/event-stream' "$url/v1/chat/completions" -H "$json" \
    -d "$chat,\"stream\":true}"
expect '"text"' "$url/v1/completions" -H "$json" -d '{"prompt":"Once","max_tokens":4}'
expect '"text"' "$url/v1/completions" -H "$json; charset=utf-8" -H 'Transfer-Encoding: chunked' \
    -d '{"prompt":"Once","max_tokens":4}'
expect '"text"' "$url/v1/completions" -H "$json" -H 'Expect: 100-continue' \
    -d '{"prompt":"Once","max_tokens":4}'
expect '"text"' --http1.0 "$url/v1/completions" -H "$json" -d '{"prompt":"Once","max_tokens":4}'
expect '"tokens": ?\[' "$url/tokenize" -H "$json" -d '{"content":"Once"}'
expect '"content": ?"Once"' "$url/detokenize" -H "$json" -d '{"tokens":[95,126,115,117]}'
expect '"id": ?"model"' "$url/v1/models"
expect '"status": ?"ok"' "$url/health"
expect '^# TYPE berth_' "$url/metrics"
expect '"weights_bytes"' "$url/memory"
expect '"n_ctx"' "$url/props"
expect '^Content-Security-Policy: .*sha256-' "$url/"
expect '^HTTP/1.1 200' -I "$url/"

# ---- Errors are objects with the right status.

expect_error() { # STATUS ARGUMENTS...
    status=$1
    shift
    expect "^HTTP/1.1 $status" "$@"
    grep -q '"error"' "$scratch/answer" || fail "curl $*: no object of an error"
}
expect_error 400 "$url/v1/chat/completions" -H "$json" -d '{"messages":'
expect_error 400 "$url/v1/chat/completions" -H "$json" -d '[]'
expect_error 404 "$url/v1/no-such-thing"
expect_error 405 "$url/v1/chat/completions"
expect_error 415 "$url/v1/chat/completions" -H 'Content-Type: text/plain' -d "$chat}"
head -c 8388608 /dev/zero | tr '\0' ' ' >"$scratch/large"
expect_error 413 "$url/v1/chat/completions" -H "$json" --data-binary "@$scratch/large"

# ---- Several requests on one connection.

expect '^connections=0' -w '\nconnections=%{num_connects}\n' "$url/health" "$url/v1/models"

kill "$server"
wait "$server" || fail "the server ended with $?"
