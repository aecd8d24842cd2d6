#!/bin/sh
# Compile requirements.lock again: every dependency of every extra, pinned and hashed, for all platforms and Pythons, and
# without a line that says where it was taken from. Two parts of it follow, with the same pins. Pins that still fit stay; UPGRADE=1 takes the newest of all.
set -eu
cd "$(dirname "$0")/.."
. scripts/say.sh

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
.venv/bin/python -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check uv

# uv does not read pip's configuration: hand on where it takes packages from.
pip_says() { "$work/venv/bin/pip" config get "$1" 2>/dev/null | tr '\n' ' ' || true; }
for pair in index-url=UV_DEFAULT_INDEX extra-index-url=UV_INDEX find-links=UV_FIND_LINKS cert=SSL_CERT_FILE; do
    for level in global user site :env:; do
        value=$(pip_says "$level.${pair%%=*}" | sed 's/ *$//')
        if [ "$value" ]; then export "${pair#*=}=$value"; fi
    done
done
# As pip does: the best version of all its indexes.
export UV_INDEX_STRATEGY=unsafe-best-match
# compile OUTPUT OPTION...
compile() {
    "$work/venv/bin/uv" pip compile pyproject.toml --universal --generate-hashes --no-strip-extras \
        --no-emit-index-url --no-emit-find-links --no-header --quiet -o "$@"
    if grep -nE 'https?://' "$1"; then fail "$1 names a host"; fi
}
compile requirements.lock --all-extras ${UPGRADE:+--upgrade}
# What a user of a checkout has: the same pins, without what only tests and tools need.
rm -f requirements.user.lock
compile requirements.user.lock --extra checkout --extra connect --extra embedded --extra exports --extra iceberg --extra query \
    --constraint requirements.lock
# What the image has: the same pins, without what only development and the embedded stack need.
rm -f deploy/requirements.lock
compile deploy/requirements.lock --extra kubernetes --extra connect --extra exports --extra google --extra azure --extra iceberg --extra query --extra websocket \
    --constraint requirements.lock
