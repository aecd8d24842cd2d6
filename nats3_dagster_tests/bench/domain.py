"""The domain: gets of NATS clients from an archive, how long one takes and how many a core answers.

    python -m nats3_dagster_tests.bench.domain [--reads 300] [--seconds 10] [--clients 32]

Warm: of the row groups that were read lately. Cold: the first read of a row group, by one request to the store. Fails
if a get takes more than WARM_MS or COLD_MS at the median, or a core answers less than PER_CORE warm ones a second.
"""

import argparse
import asyncio
import json
import random
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

import psutil
from nats.aio.client import Client

from nats3_dagster.objects import create_bucket
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.bench import points, servers
from nats3_dagster_tests.bench.api import print_percentiles, share
from nats3_dagster_tests.support.points import create
from nats3_dagster_tests.support.process_use import memory_mb, own_processor_s

WARM_MS, COLD_MS, PER_CORE = 10.0, 25.0, 2000.0
# Half of the objects: decoded, all of them would not fit into what a process keeps.
_LAST = points.OBJECTS * points.MESSAGES // 2
_API = "$JS.archive.API.DIRECT.GET.LOGS"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m nats3_dagster_tests.bench.domain")
    parser.add_argument("--reads", type=int, default=300)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--clients", type=int, default=32)
    arguments = parser.parse_args()
    with ExitStack() as stack:
        started = stack.enter_context(servers.running(nats=True))
        assert started.nats
        create_bucket(started.settings.store, servers.BUCKET)
        with Workspace(started.settings) as workspace:
            points.fill_objects(workspace, create(workspace, servers.BUCKET))
        server = stack.enter_context(_serving())
        sys.exit(asyncio.run(_measure(started.nats.url, psutil.Process(server.pid), arguments)))


@contextmanager
def _serving() -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "nats3_dagster.cli", "serve", "--nats", "--no-http"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr
        print(server.stderr.readline(), end="")
        try:
            yield server
        finally:
            server.terminate()


async def _measure(url: str, server: psutil.Process, arguments: argparse.Namespace) -> str | None:
    clients = [Client() for _ in range(arguments.clients)]
    for client in clients:
        await client.connect(url)
    noise = random.Random(1)
    await _get(clients[0], {"seq": 1})
    # Eight groups an object: one get of each.
    group = points.MESSAGES // 8
    cold = [await _get(clients[0], {"seq": seq}) for seq in range(1 + group // 2, _LAST, group)]
    seqs = [noise.randint(1, _LAST) for _ in range(arguments.reads)]
    took = {
        "by sequence, cold": cold,
        "by sequence, warm": [await _get(clients[0], {"seq": seq}) for seq in seqs],
        "last of a subject, cold": [await _get(clients[0], _last(n)) for n in range(points.SUBJECTS)],
        "last of a subject, warm": [await _get(clients[0], _last(seq)) for seq in seqs],
    }
    print_percentiles(f"gets of {_LAST:,} messages", took)
    slow = [
        f"{name}: {share(times, 0.5):.1f} ms, and {most:.0f} are allowed"
        for name, times in took.items()
        if share(times, 0.5) > (most := COLD_MS if "cold" in name else WARM_MS)
    ]
    for name, body in (("by sequence", None), ("last of a subject", _last)):
        count, core_s = await _for_a_while(clients, server, arguments.seconds, body)
        rate = count / core_s
        print(
            f"{name}: {count / arguments.seconds:,.0f} gets a second of {len(clients)} clients, {rate:,.0f} for each "
            f"second of a core; {memory_mb(server):.0f} MB"
        )
        if body is None and rate < PER_CORE:
            slow.append(f"{rate:,.0f} gets a second of a core, and {PER_CORE:,.0f} are wanted")
    for client in clients:
        await client.close()
    return "; ".join(slow) or None


def _last(number: int) -> dict[str, object]:
    return {"last_by_subj": f"logs.{number % points.SUBJECTS}"}


async def _get(client: Client, body: dict[str, object]) -> float:
    """Milliseconds of one get."""
    began = time.perf_counter()
    message = await client.request(_API, json.dumps(body).encode(), timeout=10)
    assert message.headers
    assert "Nats-Sequence" in message.headers, message.headers
    return (time.perf_counter() - began) * 1e3


async def _for_a_while(
    clients: Sequence[Client], server: psutil.Process, seconds: float, body: object
) -> tuple[int, float]:
    """Gets of all clients, each the next when it has its answer: how many, and the server's processor seconds."""
    until, before = time.monotonic() + seconds, own_processor_s(server)

    async def one(client: Client, noise: random.Random) -> int:
        count = 0
        while time.monotonic() < until:
            seq = noise.randint(1, _LAST)
            await _get(client, _last(seq) if body else {"seq": seq})
            count += 1
        return count

    counts = await asyncio.gather(*(one(client, random.Random(n)) for n, client in enumerate(clients)))
    return sum(counts), own_processor_s(server) - before


if __name__ == "__main__":
    main()
