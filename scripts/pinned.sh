#!/bin/sh
# Print what a lock pins for some packages, hashes included: for pip install --require-hashes --no-deps.
#
#   scripts/pinned.sh LOCK NAME...
set -eu
cd "$(dirname "$0")/.."
lock=$1
shift
for name in "$@"; do
    awk -v name="$name" -v lock="$lock" '
        /^[^ ]/ { on = index($0, name "==") == 1 || index($0, name "[") == 1; found = found || on }
        on
        END { if (!found) { print lock " has no " name >"/dev/stderr"; exit 1 } }' "$lock"
done
