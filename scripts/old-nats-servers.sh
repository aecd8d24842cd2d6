#!/bin/sh
# Build older nats-servers for the tests that compare with one, from the Go module proxy: FOLDER/VERSION/nats-server.
# Idempotent: what is there and runs is left alone. Needs Go; nothing of the system changes.
#
#   scripts/old-nats-servers.sh FOLDER VERSION...
set -eu
cd "$(dirname "$0")/.."
. scripts/say.sh

mkdir -p "$1"
folder=$(cd "$1" && pwd)
shift
for version in "$@"; do
    server=$folder/$version/nats-server
    if [ -x "$server" ] && "$server" --version >/dev/null 2>&1; then continue; fi
    have go || fail "No Go here to build nats-server $version with"
    say "Building nats-server $version"
    # Two processes of tests may build the same one: each moves a whole program into its place.
    work=$(mktemp -d "$folder/build-XXXXXX")
    (
        cd "$work"
        GOBIN=$work GOFLAGS=-buildvcs=false go install "github.com/nats-io/nats-server/v2@v$version" </dev/null >"$work/log" 2>&1
    ) || { tail -n 3 "$work/log" >&2; rm -rf "$work"; fail "nats-server $version was not built"; }
    mkdir -p "$folder/$version"
    mv "$work/nats-server" "$server"
    rm -rf "$work"
    say "$("$server" --version) in $folder/$version"
done
