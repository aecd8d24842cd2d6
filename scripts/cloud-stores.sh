#!/bin/sh
# Install what stands for the clouds in tests: Azurite, by npm, and fake-gcs-server, built with Go. Idempotent: what is
# there is left alone; one whose toolchain is missing is left out by name. Nothing of the system changes.
#
#   scripts/cloud-stores.sh FOLDER [azurite] [fake-gcs-server]
#
# Azurite takes seconds. A first build of fake-gcs-server takes minutes, so CI does without (docs/decisions.md, 163).
set -eu
cd "$(dirname "$0")/.."
. scripts/say.sh

AZURITE=3.37.0
FAKE_GCS_SERVER=v1.56.1

mkdir -p "$1"
folder=$(cd "$1" && pwd)
shift
[ $# -gt 0 ] || set -- azurite fake-gcs-server
status=0

azurite() {
    [ -x "$folder/node_modules/.bin/azurite-blob" ] && return 0
    have npm || { say "No npm: Azurite is left out"; return 1; }
    say "Installing Azurite $AZURITE"
    npm install --prefix "$folder" --no-audit --no-fund --no-save --ignore-scripts "azurite@$AZURITE" \
        </dev/null >"$folder/azurite.log" 2>&1 || { tail -n 3 "$folder/azurite.log" >&2; return 1; }
}

fake_gcs_server() {
    [ -x "$folder/fake-gcs-server" ] && return 0
    have go || { say "No Go: fake-gcs-server is left out"; return 1; }
    say "Building fake-gcs-server $FAKE_GCS_SERVER: minutes"
    GOBIN=$folder GOFLAGS=-buildvcs=false go install "github.com/fsouza/fake-gcs-server@$FAKE_GCS_SERVER" \
        </dev/null >"$folder/fake-gcs-server.log" 2>&1 || { tail -n 3 "$folder/fake-gcs-server.log" >&2; return 1; }
}

for name in "$@"; do
    case $name in
        azurite) azurite || status=1 ;;
        fake-gcs-server) fake_gcs_server || status=1 ;;
        *) fail "Unknown: $name" ;;
    esac
done
exit $status
