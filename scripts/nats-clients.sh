#!/bin/sh
# Install clients of NATS that tests read the archives' domain with: the libraries of JavaScript, by npm, and the command
# `nats`, built with Go. Idempotent; one whose toolchain is missing is left out by name. Nothing of the system changes.
#
#   scripts/nats-clients.sh FOLDER
set -eu
cd "$(dirname "$0")/.."
. scripts/say.sh

JAVASCRIPT="@nats-io/transport-node@3.4.0 @nats-io/jetstream@3.4.0 @nats-io/kv@3.4.0 @nats-io/obj@3.4.0"
NATS=v0.5.1

mkdir -p "$1"
folder=$(cd "$1" && pwd)
status=0

if [ ! -d "$folder/node_modules/@nats-io/obj" ]; then
    if have npm; then
        say "Installing @nats-io libraries"
        # shellcheck disable=SC2086
        npm install --prefix "$folder" --no-audit --no-fund --no-save --ignore-scripts $JAVASCRIPT \
            </dev/null >"$folder/npm.log" 2>&1 || { tail -n 3 "$folder/npm.log" >&2; status=1; }
    else
        say "No npm: the libraries of JavaScript are left out"
        status=1
    fi
fi
if [ ! -x "$folder/nats" ]; then
    if have go; then
        say "Building nats $NATS"
        GOBIN="$folder" go install "github.com/nats-io/natscli/nats@$NATS" >"$folder/go.log" 2>&1 ||
            { tail -n 3 "$folder/go.log" >&2; status=1; }
    else
        say "No Go: the command nats is left out"
        status=1
    fi
fi
exit $status
