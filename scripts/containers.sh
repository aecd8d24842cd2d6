#!/bin/sh
# Make sure that containers run here, and write down how into FOLDER/env: for `make containers`. Idempotent.
#
#   scripts/containers.sh FOLDER
#
# Docker is used where an engine with Compose answers, else Podman, which is installed by apt where that works without a
# password. Exit status 4: containers cannot run here at all, and the last line says why.
set -eu
cd "$(dirname "$0")/.."
. scripts/say.sh

mkdir -p "$1"
folder=$(cd "$1" && pwd)
base=docker.io/library/debian:bookworm-slim
cannot() {
    say "Containers cannot run here: $*"
    exit 4
}

if have docker && docker info >/dev/null 2>&1 && docker compose version >/dev/null 2>&1; then
    engine=docker compose="docker compose"
else
    have podman || apt_install podman runc netavark aardvark-dns iptables || cannot "there is no Docker engine, and no Podman"
    have podman-compose || apt_install podman-compose || cannot "there is no podman-compose"
    engine=podman compose=podman-compose
fi

# configure RUNTIME LIMITS: what Podman reads besides its own files; empty words leave it as it is.
export CONTAINERS_CONF="$folder/containers.conf"
configure() {
    {
        echo "[containers]"
        [ -z "$2" ] || echo "default_ulimits = [\"nofile=$(ulimit -Hn):$(ulimit -Hn)\", \"nproc=16384:16384\"]"
        echo "[engine]"
        [ -z "$1" ] || echo "runtime = \"$1\""
        if have netavark || [ -x /usr/lib/podman/netavark ]; then
            echo "[network]"
            echo "network_backend = \"netavark\""
        fi
    } >"$CONTAINERS_CONF"
}
starts() { "$engine" run --rm "$base" true >"$folder/log" 2>&1; }

[ $engine = docker ] || configure "" ""
if ! "$engine" image inspect "$base" >/dev/null 2>&1 && ! timeout 300 "$engine" pull -q "$base" >/dev/null 2>&1; then
    scripts/debian-base.sh $engine || cannot "there is no base image"
fi
# crun refuses on some machines what runc does; where a process may not raise limits, containers need its own.
if ! starts; then
    [ $engine = podman ] || cannot "$(tail -n 1 "$folder/log")"
    have runc || apt_install runc || true
    { configure "" limits && starts; } || { configure runc "" && starts; } || { configure runc limits && starts; } ||
        cannot "$(tail -n 1 "$folder/log")"
fi
{
    echo "NATS3_TEST_ENGINE=$engine"
    echo "NATS3_TEST_COMPOSE='$compose'"
    [ $engine = docker ] || echo "CONTAINERS_CONF='$CONTAINERS_CONF'"
} >"$folder/env"
