"""An installation as an earlier commit left it: `data/earlier/`, which each later release migrates.

How it was made: in a checkout of commit 05051766 (schema 0100), with this file copied into it,
`python -m nats3_dagster_tests.support.earlier FOLDER` started the embedded servers, worked with an archive by commands
and a job of Dagster as a user does, stopped, and wrote what was there. It is not made again: a migration is tried on
what another release wrote. Names of the machine that made it are replaced.

Of four past hours of stream EVENTS three were captured by Dagster and one by a command, and sealed. Messages 21 and 22
were erased, and the first hour is held. A replay into BACK is done; one into PART was interrupted before its first
message, one into HALF in its middle. The open hour has a chunk, and 7 messages that are not captured.
"""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import zipfile
from contextlib import suppress
from pathlib import Path

from nats3_dagster.dev.history import Past, restore_stream
from nats3_dagster.dev.postgres import programs
from nats3_dagster.hours import HOUR_NS, hour_of, hour_start
from nats3_dagster_tests.support.wire import Wire

ROOT = Path(__file__).parents[2]
DATA = ROOT / "nats3_dagster_tests" / "data" / "earlier"
HOURS, EACH = 4, 30
# Messages that came later: captured in the open hour, and not captured.
CAPTURED_LATE, WAITING = 20, 7
ERASED = (21, 22)


def past(start_ns: int) -> list[Past]:
    """The messages of the past hours: the last sequence of each hour is absent."""
    return [
        Past(
            hour * EACH + n + 1,
            start_ns + hour * HOUR_NS + n * 1_000_000_007,
            f"ev.{n % 3}",
            _header(n),
            _data(hour, n),
        )
        for hour in range(HOURS)
        for n in range(EACH - 1)
    ]


def _header(n: int) -> bytes:
    return b"" if n % 2 else b"NATS/1.0\r\nTrace: %d\r\n\r\n" % n


def _data(hour: int, n: int) -> bytes:
    return b'{"hour": %d, "n": %d}' % (hour, n)


def late(first: int, count: int) -> list[tuple[str, bytes, bytes]]:
    """Messages of the open hour, to publish."""
    return [("ev.late", b"", b"late %d" % n) for n in range(first, first + count)]


def psql(url: str, file: Path) -> None:
    """Load a dump."""
    words = ["-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", url, "-f", str(file)]
    done = subprocess.run([programs() / "psql", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def definitions(url: str) -> list[str]:
    """The statements that make the catalog's schema, functions with their bodies, sorted."""
    words = [programs() / "pg_dump", "--schema-only", "--schema=nats3", "--no-owner", "--no-privileges", "-d", url]
    text = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    # Of a dump that is loaded Postgres shows the same array of constants in another way.
    text = re.sub(r"\(ARRAY\[([\d, ]+)\]\)::bigint\[\]", r"ARRAY[\1]", re.sub(r"\((\d+)\)::bigint", r"\1", text))
    return sorted(part for part in text.split("\n\n\n") if "restrict" not in part)


def unpack(name: str, folder: Path) -> None:
    """Write the files of an archive of `data/earlier/` into a folder."""
    with zipfile.ZipFile(DATA / name) as archive:
        archive.extractall(folder)


def _pack(folder: Path, file: Path) -> None:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                archive.write(path, path.relative_to(folder))


class _Maker:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        home = folder / "dagster"
        home.mkdir(parents=True)
        (folder / "store" / "archive").mkdir(parents=True)
        shutil.copy("dagster.yaml", home)
        (folder / "nats3.toml").write_text(SETTINGS)
        self.environment = {
            name: value for name, value in os.environ.items() if not name.startswith(("NATS3_", "AWS_", "DAGSTER_"))
        } | {
            "LOGNAME": "operator",
            "DAGSTER_HOME": str(home),
            "NATS3_STORE_URL": f"file://{folder / 'store'}",
            "DAGSTER_DISABLE_TELEMETRY": "yes",
        }

    def run(self, *words: str) -> str:
        program = str(Path(sys.executable).parent / words[0])
        done = subprocess.run(
            [program, *words[1:]], cwd=self.folder, env=self.environment, capture_output=True, text=True
        )
        assert done.returncode == 0, (words, done.stdout, done.stderr)
        return done.stdout

    def interrupted(self, seconds: float, *words: str) -> None:
        program = str(Path(sys.executable).parent / words[0])
        with subprocess.Popen([program, *words[1:]], cwd=self.folder, env=self.environment) as process:
            time.sleep(seconds)
            process.send_signal(signal.SIGINT)

    def interrupted_at(self, stream: str, messages: int, nats_url: str, *words: str) -> None:
        """Interrupt a command once its target has these messages."""
        program = str(Path(sys.executable).parent / words[0])
        with (
            Wire(nats_url) as wire,
            subprocess.Popen([program, *words[1:]], cwd=self.folder, env=self.environment) as process,
        ):
            while process.poll() is None:
                with suppress(Exception):  # there is no such stream yet
                    if wire.state(stream)["messages"] >= messages:
                        process.send_signal(signal.SIGINT)
                        process.wait()
                time.sleep(0.1)

    def make(self, to: Path) -> None:
        self.run("nats3", "dev", "--stack-only")
        stack = json.loads((self.folder / ".nats3" / "stack.json").read_text())
        try:
            self.work(stack["nats_url"])
            dump = [programs() / "pg_dump", "--no-owner", "--no-privileges", "-d", stack["postgres_url"]]
            text = subprocess.run(dump, capture_output=True, text=True, check=True).stdout
            facts = {name: json.loads(self.run("nats3", *words, "-o", "json")) for name, words in FACTS.items()} | {
                "partitions": json.loads(self.run("python", "-c", PARTITIONS))
            }
        finally:
            self.run("nats3", "dev", "stop")
        for machine, neutral in self.names.items():
            text = text.replace(machine, neutral)
        to.mkdir(parents=True)
        (to / "postgres.sql").write_text(text)
        facts_text = json.dumps(facts, indent=1)
        for machine, neutral in self.names.items():
            facts_text = facts_text.replace(machine, neutral)
        (to / "facts.json").write_text(facts_text + "\n")
        (to / "nats3.toml").write_text(SETTINGS)
        _pack(self.folder / "store", to / "store.zip")
        _pack(self.folder / ".nats3" / "nats" / "data", to / "nats.zip")

    @property
    def names(self) -> dict[str, str]:
        return {
            str(self.folder): "/var/lib/nats3",
            sys.prefix: "/opt/nats3",
            str(Path.cwd()): "/opt/nats3",
            f"@{socket.gethostname()}": "@archive-1",
        }

    def work(self, nats_url: str) -> None:
        start = hour_start(hour_of(time.time_ns())) - (HOURS + 1) * HOUR_NS
        hours = [hour_of(start + n * HOUR_NS) for n in range(HOURS)]
        restore_stream(nats_url, "EVENTS", ["ev.>"], past(start))
        create = (
            "store",
            "create",
            "--name",
            "events",
            "--stream",
            "EVENTS",
            "--bucket",
            "archive",
            "--compact-after",
            "7d",
        )
        self.run("nats3", *create, "--tag", "team=core")
        tags = {"dagster/asset_partition_range_start": hours[0], "dagster/asset_partition_range_end": hours[2]}
        job = ("dagster", "job", "execute", "-m", "nats3_dagster.definitions", "-j", "events_capture")
        self.run(*job, "--tags", json.dumps(tags))
        self.run("nats3", "store", "run", "events")
        self.run("nats3", "store", "seal", "events")
        load = ("load", "create", "--archive", "events", "--read-subject", "ev.>")
        self.run("nats3", *load, "--write-subject", "back.>", "--create-stream", "BACK")
        slow = (
            "--write-subject",
            "part.>",
            "--create-stream",
            "PART",
            "--rate",
            "4",
            "--hour",
            hours[0],
            "--hour",
            hours[1],
        )
        self.interrupted(22, "nats3", *load, *slow)
        half = ("--write-subject", "half.>", "--create-stream", "HALF", "--rate", "4", "--hour", hours[2])
        self.interrupted_at("HALF", 12, nats_url, "nats3", *load, *half, "--hour", hours[3])
        self.run("nats3", "message", "erase", "events", "--sequences", "21-22", "--reason", "request 7", "--yes")
        self.run("nats3", "hold", "create", "events", "case-17", "--hour", hours[0], "--reason", "case 17")
        with Wire(nats_url) as wire:
            wire.publish(late(0, CAPTURED_LATE))
            self.run("nats3", "store", "run", "events")
            wire.publish(late(CAPTURED_LATE, WAITING))
        self.run("nats3", "dev", "resync")


SETTINGS = """\
# As an operator of the earlier release wrote it; the addresses come from the environment.
delete_grace = "2h"
history_keep = "200d"
dagster_url = "http://localhost:3000"
"""
FACTS = {
    "archive": ("store", "get", "events"),
    "chunks": ("chunk", "list", "events"),
    "holds": ("hold", "list", "events"),
    "replays": ("load", "list"),
    "history": ("history", "events"),
}
PARTITIONS = """
import json
from dagster import AssetKey, DagsterInstance
with DagsterInstance.get() as instance:
    print(json.dumps({name: sorted(instance.get_materialized_partitions(AssetKey(["events", name])))
                      for name in ("chunks", "sealed", "replay")}))
"""

if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="nats3-") as made:
        _Maker(Path(made)).make(Path(sys.argv[1]))
