"""The HTTP API under load: one server, many clients that read, a catalog of 100,000 chunks.

    python -m nats3_dagster_tests.bench.api [--clients 50] [--seconds 30] [--every 0.25]

A client asks on a connection of its own, waits for the answer, and asks the next; `--every`: at most once in so many
seconds, 0: at once. Fails if an answer is not 200.
"""

import argparse
import asyncio
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

import psycopg

from nats3_dagster.archive.lifecycle.create import create
from nats3_dagster.model import ArchiveSpec, ReplaySpec
from nats3_dagster.objects import create_bucket
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.bench import servers
from nats3_dagster_tests.bench.tables import new_table, print_table
from nats3_dagster_tests.support.catalog import ids
from nats3_dagster_tests.support.wire import Wire

ARCHIVES, CHUNKS, REPLAYS = 10, 10_000, 20
_FILL = """
insert into nats3.chunk (archive_id, incarnation_id, hour, seqs, messages, first_ns, last_ns, payload_bytes,
                         largest_bytes, stored_bytes, sha256, minutes, bucket, key)
select archive_id, incarnation_id, to_char(timestamp '2026-01-01' + i / 100 * interval '1 hour', 'YYYY-MM-DD-HH24:00'),
       int8range(i * 1000 + 1, (i + 1) * 1000, '[]'), 1000, 1767225600000000000 + i * 36000000000,
       1767225600000000000 + (i + 1) * 36000000000 - 1, 256000, 300, 90000, encode(sha256(int8send(i)), 'hex'),
       array_fill(16, array[59]) || 56, 'bench', format('archive=%%s/%%s.parquet', archive_id, lpad(i::text, 66, '0'))
from nats3.coverage, generate_series(0, %(chunks)s - 1) i"""


class Answers:
    """What clients got, by what they asked for."""

    def __init__(self) -> None:
        # Seconds of each answer.
        self.seconds: dict[str, list[float]] = {}
        self.errors: list[str] = []

    @property
    def all(self) -> list[float]:
        return [one for many in self.seconds.values() for one in many]


def print_percentiles(title: str, took_ms: dict[str, list[float]]) -> None:
    """Prints the median and the slowest hundredth of each kind of read."""
    reads = max(map(len, took_ms.values()))
    table = new_table(f"{title}, {reads} reads each, ms", "read", "p50", "p99")
    for name, took in took_ms.items():
        table.add_row(name, f"{share(took, 0.5):.1f}", f"{share(took, 0.99):.1f}")
    print_table(table)


def share(values: list[float], part: float) -> float:
    """The value that `part` of them do not exceed."""
    return sorted(values)[min(len(values) - 1, int(part * len(values)))]


async def ask(
    host: str, port: int, paths: Mapping[str, list[str]], clients: int, for_s: float, every_s: float
) -> Answers:
    """Have many clients ask for paths, by their names; each name as often as the others."""
    answers = Answers()
    until = time.perf_counter() + for_s
    await asyncio.gather(*(_client(host, port, paths, n, until, every_s, answers) for n in range(clients)))
    return answers


async def _client(
    host: str, port: int, paths: Mapping[str, list[str]], number: int, until: float, every_s: float, answers: Answers
) -> None:
    chosen = random.Random(number)
    names = list(paths)
    await asyncio.sleep(chosen.random() * every_s)
    reader, writer = await asyncio.open_connection(host, port)
    try:
        while (began := time.perf_counter()) < until:
            name = chosen.choice(names)
            path = chosen.choice(paths[name])
            writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
            body = await reader.readexactly(int(head.partition("content-length: ")[2].partition("\r\n")[0]))
            took = time.perf_counter() - began
            answers.seconds.setdefault(name, []).append(took)
            if " 200 " not in head.partition("\r\n")[0]:
                answers.errors.append(f"{path}: {head.partition(chr(13))[0]} {body[:300]!r}")
            await asyncio.sleep(max(0.0, every_s - took))
    except (OSError, asyncio.IncompleteReadError) as error:
        answers.errors.append(f"client {number}: {error!r}")
    finally:
        writer.close()


def fill(settings: Settings, url: str, chunks: int = CHUNKS) -> None:
    """Archives of so many chunks each, with messages that wait, and replays."""
    create_bucket(settings.store, "bench")
    with Workspace(settings) as workspace, Wire(url) as wire:
        for n in range(ARCHIVES):
            wire.create_stream(f"S{n}", f"s{n}.>", first_seq=1)
            create(workspace, ArchiveSpec(f"a{n}", f"S{n}", "bench"))
        with psycopg.connect(settings.postgres or "", autocommit=True) as connection:
            connection.execute(_FILL, {"chunks": chunks})
            connection.execute("update nats3.coverage set start_seq = 1")
            connection.execute("analyze")
        for n in range(ARCHIVES):
            wire.api(f"STREAM.PURGE.S{n}", seq=chunks * 1000 + 1)
            wire.publish([(f"s{n}.x", b"", b"x" * 100)] * 20)
        archive = workspace.catalog.archives.get("a0")
        some = workspace.catalog.chunks.select(archive, limit=50)
        for n in range(REPLAYS):
            workspace.catalog.replays.begin(f"{n:016x}", archive, ReplaySpec("a0", f"r{n}.>"), (), ids(some))


def paths_of(settings: Settings) -> dict[str, list[str]]:
    """What clients read, by the names of the rows."""
    with Workspace(settings) as workspace:
        stores = [one.archive.job_id for one in workspace.catalog.archives.totals()]
        loads = [replay.job_id for replay in workspace.catalog.replays.select()]
    return {
        "GET /store/jobs": ["/store/jobs"],
        "GET /store/job": [f"/store/job?job_id={one}" for one in stores],
        "GET /chunks": [f"/chunks?job_id={one}&limit=100" for one in stores],
        "GET /chunks from the middle": [f"/chunks?job_id={one}&limit=100&cursor=1-5000000" for one in stores[:1]],
        "GET /load/jobs": ["/load/jobs"],
        "GET /load/job/progress": [f"/load/job/progress?job_id={one}" for one in loads],
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m nats3_dagster_tests.bench.api")
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--every", type=float, default=0.25)
    arguments = parser.parse_args()
    with ExitStack() as stack:
        started = stack.enter_context(servers.running(nats=True))
        settings = started.settings
        assert started.nats
        fill(settings, started.nats.url)
        command = [sys.executable, "-m", "nats3_dagster.cli", "serve", "--port", "0"]
        server = stack.enter_context(subprocess.Popen(command, stderr=subprocess.PIPE, text=True))
        stack.callback(server.terminate)
        assert server.stderr
        host, port = server.stderr.readline().split()[4].rstrip(";").removeprefix("http://").split(":")
        paths = paths_of(settings)
        asyncio.run(ask(host, int(port), paths, 8, 2, 0))  # connections, imports
        before = _cpu_s(server.pid)
        answers = asyncio.run(_with_scrapes(host, int(port), paths, arguments))
        cpu_s = _cpu_s(server.pid) - before
    print_results(answers, arguments, cpu_s)
    sys.exit(bool(answers.errors))


async def _with_scrapes(host: str, port: int, paths: Mapping[str, list[str]], arguments: argparse.Namespace) -> Answers:
    """The reads, and Prometheus beside them, every 5 s."""
    scrapes = {"GET /metrics": ["/metrics"]}
    reads, beside = await asyncio.gather(
        ask(host, port, paths, arguments.clients, arguments.seconds, arguments.every),
        ask(host, port, scrapes, 1, arguments.seconds, 5),
    )
    reads.seconds |= beside.seconds
    reads.errors += beside.errors
    return reads


def _cpu_s(pid: int) -> float:
    """Seconds that a process has worked: what a machine with other work on it does not change."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def print_results(answers: Answers, arguments: argparse.Namespace, cpu_s: float) -> None:
    rate = len(answers.all) / arguments.seconds
    load = ", ".join(f"{one:.1f}" for one in os.getloadavg())
    cpu = f"{cpu_s / len(answers.all) * 1000:.1f} ms CPU of the server each"
    errors = f"{len(answers.errors)} errors; load {load}"
    table = new_table(
        f"{arguments.clients} clients, {rate:,.0f} answers/s, {cpu}, {errors}",
        "read",
        "answers",
        "p50 ms",
        "p99 ms",
        "max ms",
    )
    rows = {**answers.seconds, "all": answers.all}
    for name, seconds in rows.items():
        values = [f"{one * 1000:.1f}" for one in (share(seconds, 0.5), share(seconds, 0.99), max(seconds))]
        table.add_row(name, f"{len(seconds):,}", *values)
    print_table(table)
    for line in answers.errors[:10]:
        print(line)
    out = Path(".nats3", "bench-api.json")
    out.parent.mkdir(exist_ok=True)
    out.write_text(json.dumps({n: [share(s, 0.5), share(s, 0.99), max(s)] for n, s in rows.items()}, indent=2) + "\n")


if __name__ == "__main__":
    main()
