"""What `make scale` measures: a capture and a replay by spark-submit, and whether what came out is exactly right.

Invariant: the judge is that of the soak, which reads Parquet by pyarrow, the catalog by SQL and the target by raw
requests.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import numpy as np
import psutil
import psycopg

from nats3_dagster.dev.process import HOST
from nats3_dagster_tests.bench.payloads import payloads
from nats3_dagster_tests.bench.servers import Servers
from nats3_dagster_tests.scale.cluster import Cluster
from nats3_dagster_tests.scale.shares import Shares
from nats3_dagster_tests.soak.judge import Archived, Limits, judge_archive, read_archive, read_catalog
from nats3_dagster_tests.soak.judge_outputs import judge_target, read_target
from nats3_dagster_tests.soak.truth import ACKED, UNKNOWN, Truth, hash_of
from nats3_dagster_tests.support.process_use import tree_of
from nats3_dagster_tests.support.s3_client import plain_client
from nats3_dagster_tests.support.wire import Wire

ROOT = Path(__file__).parents[2]
STREAM, SIZE = "SCALE", 256
# Messages that are made and sent at a time.
_PART = 8192
# How often the executors are looked at, in seconds.
_LOOK_S = 0.25


@dataclass(frozen=True, slots=True)
class Run:
    """One capture or replay."""

    # Of all messages, in seconds: the capture's own time, or from the first message in the target to the last one.
    seconds: float
    # The whole command, Spark's start included.
    command_s: float
    # The processors that each part had on average over the command.
    processors: dict[str, float]
    # The most executors at a time.
    executors: int
    # How often the command was started: again where an executor was killed, and the replay was resumed.
    starts: int = 1


def fill(url: str, messages: int) -> Truth:
    """A stream of so many messages, and the truth of it."""
    rows: list[tuple[int, int, int]] = []
    with Wire(url) as wire:
        wire.create_stream(STREAM, "sc.>")
        for at in range(0, messages, _PART):
            part = payloads(SIZE, min(_PART, messages - at), at)
            sent = [(f"sc.{(at + n) % 64}", data) for n, data in enumerate(part)]
            wire.publish([(subject, b"", data) for subject, data in sent])
            rows += [
                (at + n + 1, int.from_bytes(hash_of(subject.encode(), data), "little"), 0)
                for n, (subject, data) in enumerate(sent)
            ]
    return Truth(np.array(rows, ACKED), np.empty(0, UNKNOWN))


def hours(url: str) -> list[str]:
    """The hours of the stream's messages: two where an hour ended meanwhile."""
    with Wire(url) as wire:
        state = wire.state(STREAM)
    return sorted({f"{state[end][:10]}-{state[end][11:13]}:00" for end in ("first_ts", "last_ts")})


def capture(servers: Servers, cluster: Cluster, archive: str, of: Sequence[str], conf: Sequence[str]) -> Run:
    """The stream into an archive."""
    command = ["capture.py", archive, *(word for hour in of for word in ("--hour", hour))]
    said, run = _submit(servers, cluster, command, conf)
    seconds = sum(json.loads(line)["seconds"] for line in said if line.startswith("{"))
    return Run(seconds, run.command_s, run.processors, run.executors)


def replay(servers: Servers, cluster: Cluster, archive: str, target: str, conf: Sequence[str], kill: int = 0) -> Run:
    """The archive into a stream of its own, in any order. `kill`: the number of its messages from which on an executor
    is killed, once."""
    assert servers.nats
    subject = f"{target.lower()}.>"
    words = ["republish.py", archive, "--read-subject", "sc.>", "--write-subject", subject, "--order", "none"]
    said, run = _submit(servers, cluster, [*words, "--create-stream", target], conf, (target, kill) if kill else None)
    starts = 1
    if kill:
        replay_id = next(json.loads(line)["replay"] for line in said if '"replay"' in line)
        while '"published"' not in said[-1]:
            starts += 1
            assert starts < 5, said[-5:]
            said, _ = _submit(servers, cluster, ["republish.py", "--resume", replay_id], conf)
    with Wire(servers.nats.url) as wire:
        state = wire.state(target)
    ends = [datetime.fromisoformat(state[end]).timestamp() for end in ("first_ts", "last_ts")]
    return Run(ends[1] - ends[0], run.command_s, run.processors, run.executors, starts)


def _submit(
    servers: Servers,
    cluster: Cluster,
    words: Sequence[str],
    conf: Sequence[str],
    kill: tuple[str, int] | None = None,
) -> tuple[list[str], Run]:
    """Run an entry point on the cluster; its lines. Raises AssertionError where it fails and nothing was killed."""
    options = [word for one in conf for word in ("--conf", one)]
    command = [str(ROOT / "spark" / "submit.sh"), "--master", cluster.url, *options]
    command += [str(ROOT / "spark" / words[0]), *words[1:]]
    environment = os.environ | {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": HOST, "PYTHONPATH": str(ROOT)}
    log = servers.folder / "submit.log"
    most = 0
    began = time.monotonic()
    with log.open("w") as out:
        process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
    parts = {"driver": [process.pid], **_servers_of(servers)}
    with Shares(lambda: {**{name: _tree(pids) for name, pids in parts.items()}, "workers": cluster.pids()}) as shares:
        while process.poll() is None:
            executors = cluster.executors()
            most = max(most, len(executors))
            if kill and executors and _count(servers, kill[0]) >= kill[1]:
                executors[0].kill()
                kill = None
            time.sleep(_LOOK_S)
    command_s = time.monotonic() - began
    said = [line for line in log.read_text().splitlines() if line.strip()]
    if process.returncode and "--resume" not in words and '"replay"' not in log.read_text():
        raise AssertionError("\n".join(said[-15:]))
    return said, Run(0.0, command_s, shares.processors(), most)


def _count(servers: Servers, stream: str) -> int:
    assert servers.nats
    with Wire(servers.nats.url) as wire:
        answer = wire.try_api(f"STREAM.INFO.{stream}")
    return answer["state"]["messages"] if "state" in answer else 0


def _servers_of(servers: Servers) -> dict[str, list[int]]:
    """Where servers run below this process, each by its words."""
    names = {"nats-server": "nats-server", "swift": "S3 server", "postgres": "Postgres"}
    found: dict[str, list[int]] = {}
    for process in psutil.Process().children(recursive=True):
        words = ""
        with suppress(psutil.Error):  # one that ends
            words = " ".join(process.cmdline())
        for word, name in names.items():
            if word in words and str(servers.folder) in words:
                found.setdefault(name, []).append(process.pid)
    return found


def _tree(pids: Sequence[int]) -> list[int]:
    return list(dict.fromkeys(process.pid for pid in pids for process in tree_of(pid)))


def judge_captured(servers: Servers, archive: str, truth: Truth) -> tuple[Archived, list[str]]:
    """The archive, and a line for each broken promise."""
    settings = servers.settings
    client = plain_client(servers.s3.options)
    with psycopg.connect(settings.postgres) as connection:
        archived = read_archive(
            archive,
            *read_catalog(connection, archive),
            lambda bucket, key: client.get_object(Bucket=bucket, Key=key)["Body"].read(),
        )
    return archived, judge_archive(archive, archived, truth, Limits(first_seq=1))


def judge_replayed(servers: Servers, target: str, archived: Archived) -> list[str]:
    """A line for each message that the target lacks, has twice or has changed."""
    assert servers.nats
    prefix = target.lower().encode() + b"."
    stored = read_target(
        servers.nats.url, target, _count(servers, target), lambda subject: b"sc." + subject.removeprefix(prefix)
    )
    return [f"{target}: {line}" for line in judge_target(stored, archived, ordered=False)]
