#!/bin/sh
# Print what requirements.lock pins for some packages, hashes included: for pip install --require-hashes --no-deps.
#
#   scripts/pinned.sh NAME...
set -eu
cd "$(dirname "$0")/.."
for name in "$@"; do
    awk -v name="$name" '
        /^[^ ]/ { on = index($0, name "==") == 1 || index($0, name "[") == 1; found = found || on }
        on
        END { if (!found) { print "requirements.lock has no " name >"/dev/stderr"; exit 1 } }' requirements.lock
done
