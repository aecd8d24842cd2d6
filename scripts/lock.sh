#!/bin/sh
# Compile requirements.lock anew: every dependency of every extra, pinned and hashed, for all platforms and Pythons, and
# without a line that says where it was taken from. Pins that still fit stay; UPGRADE=1 takes the newest of all.
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
"$work/venv/bin/uv" pip compile pyproject.toml --all-extras --universal --generate-hashes --no-strip-extras \
    --no-emit-index-url --no-emit-find-links --no-header ${UPGRADE:+--upgrade} --quiet -o requirements.lock
if grep -nE 'https?://' requirements.lock; then fail "requirements.lock names a host"; fi
