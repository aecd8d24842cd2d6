"""`make soak`: streams at full speed, archived as in production, with everything that is made of archives at the same
time, while processes are killed; at its end code of its own judges every promise.

    python -m nats3_dagster_tests.soak [--minutes 30] [--rate 20000] [--kill-every 120] [--seed 1]

Exit status 1 and a line for each broken promise. The page is `.nats3/soak/<time>/page.md`.
"""

import argparse
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path

import psycopg

from nats3_dagster.dev.process import wait_for
from nats3_dagster_tests.soak.growth import judged_stretch
from nats3_dagster_tests.soak.kills import Killer
from nats3_dagster_tests.soak.page import Result, growing, write_page
from nats3_dagster_tests.soak.processes import Processes
from nats3_dagster_tests.soak.reads import Reader
from nats3_dagster_tests.soak.samples import Sampler, curves, read_samples
from nats3_dagster_tests.soak.setup import (
    ARCHIVES,
    TARGET,
    CommandFailed,
    command,
    follow,
    make_archives,
    make_streams,
    stream_state,
)
from nats3_dagster_tests.soak.streams import streams
from nats3_dagster_tests.soak.truth import read_truth
from nats3_dagster_tests.soak.verdict import judge_all, work_done

# How often the replay that follows is resumed and what ended is started again, in seconds.
_LOOK_S = 5.0
_COVERED = """
select coalesce(max(c.frontier), 0) from nats3.coverage c join nats3.archive a on a.id = c.archive_id where a.name = %s
"""


def main() -> int:
    arguments = _arguments()
    # So that what was started is ended.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(130))
    folder = Path(".nats3", "soak", time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())).absolute()
    truth = folder / "truth"
    truth.mkdir(parents=True)
    print(f"soak of {arguments.minutes:g} minutes at {arguments.rate:,.0f} messages a second in {folder}", flush=True)
    _say_hours(arguments.minutes)
    broken: list[str] = []
    processes = Processes(folder)
    with ExitStack() as last:
        last.callback(processes.stop)
        processes.start_servers()
        first = make_streams(processes.stack.nats.url, truth, streams(arguments.rate))
        make_archives()
        processes.start_dagster()
        # The replay follows an archive that has something.
        _wait(lambda: _covered(processes, "small") > 0, 300, "the first capture")
        processes.replay_id = follow(processes.stack.endpoints.postgres_url)
        sampler = last.enter_context(Sampler(processes, folder / "samples.jsonl"))
        publisher = _start_publisher(processes, truth, arguments.rate, first)
        last.callback(publisher.kill)
        killer = Killer(processes, arguments.kill_every, arguments.seed, lambda: sampler.now_s)
        reader = Reader(
            processes.stack.endpoints.postgres_url, truth, lambda: sampler.now_s, lambda at: killer.was_near(at)
        )
        began, began_at = time.monotonic(), time.time() - sampler.now_s
        with reader, killer:
            while time.monotonic() - began < arguments.minutes * 60 and publisher.poll() is None:
                time.sleep(_LOOK_S)
                _revive(processes, killer)
        length_s = time.monotonic() - began
        if publisher.poll() is not None:
            broken.append(f"the publisher ended by itself with status {publisher.returncode}")
        publisher.send_signal(signal.SIGTERM)
        publisher.wait(60)
        broken += [*reader.broken, *killer.failed]
        sent = sum(read_truth(truth, stream.name).acked.size for stream in streams(arguments.rate)) - first
        print(f"{length_s:6.0f} s: published, {sent / length_s:,.0f} a second; what is left is captured", flush=True)
        broken += _finish(processes, arguments.patience, killer)
        print(f"{sampler.now_s:6.0f} s: judge", flush=True)
        done = work_done(processes.stack.endpoints)
        broken += judge_all(processes.stack.endpoints, truth, streams(arguments.rate))
    found = curves(read_samples(folder / "samples.jsonl"))
    stretch = judged_stretch(began_at, length_s)
    broken += growing(found, stretch)
    figures = {
        "minutes": f"{length_s / 60:.1f}",
        "messages a second, asked": f"{arguments.rate:,.0f}",
        "messages a second, reached": f"{sent / length_s:,.0f}",
        "messages acknowledged": f"{sent:,}",
        "kills": str(len(killer.kills)),
        "reads, compared": str(reader.reads),
        "reads that failed near a kill": str(reader.failed_near_kills),
        "processors": str(os.cpu_count()),
        **done,
    }
    page = write_page(folder, found, Result(figures, killer.kills, broken, stretch))
    for line in broken:
        print(f"BROKEN: {line}")
    print(f"{len(broken)} broken promises; {page}")
    return 1 if broken else 0


def _start_publisher(processes: Processes, truth: Path, rate: float, first: int) -> subprocess.Popen[bytes]:
    words = [sys.executable, "-m", "nats3_dagster_tests.soak.publisher", "--url", processes.stack.nats.url]
    words += ["--folder", str(truth), "--rate", str(rate), "--first", str(first)]
    with (processes.folder / "publisher.log").open("wb") as log:
        return subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log)


def _revive(processes: Processes, killer: Killer) -> None:
    """Start again what ended by itself, as a supervisor would, and resume the replay that follows."""
    for role in processes.revive():
        if not killer.was_near(killer.now()):
            killer.failed.append(f"{role} ended by itself")
    if processes.replay_id and not processes.follows:
        with suppress(CommandFailed):
            command("load", "resume", processes.replay_id, "--detach")


def _finish(processes: Processes, patience_s: float, killer: Killer) -> list[str]:
    """Wait until everything is captured and replayed, and have the last work done; what did not come to its end."""
    broken: list[str] = []
    last = {name: stream_state(processes.stack.nats.url, stream)["last_seq"] for name, stream in ARCHIVES.items()}

    def is_captured() -> bool:
        _revive(processes, killer)
        return all(_covered(processes, name) >= last[name] for name in ARCHIVES)

    if not wait_for(is_captured, patience_s, every_s=_LOOK_S):
        behind = {name: last[name] - _covered(processes, name) for name in ARCHIVES}
        broken.append(f"stuck: not captured {patience_s:.0f} s after the last message: {behind}")

    def is_replayed() -> bool:
        _revive(processes, killer)
        return _pending(processes) == 0

    if not wait_for(is_replayed, patience_s, every_s=_LOOK_S):
        broken.append(f"stuck: the replay that follows has {_pending(processes)} messages left")
    processes.stop_dagster()
    for words in (
        ("load", "pause", processes.replay_id or ""),
        ("store", "seal", "events"),
        ("export", "run", "events", "files"),
        ("store", "copy", "events"),
        ("table", "sync", "events"),
    ):
        try:
            command(*words, timeout_s=600)
        except (CommandFailed, subprocess.TimeoutExpired) as error:
            broken.append(str(error))
    return broken


def _covered(processes: Processes, archive: str) -> int:
    with suppress(psycopg.Error), psycopg.connect(processes.stack.endpoints.postgres_url, connect_timeout=5) as asked:
        row = asked.execute(_COVERED, (archive,)).fetchone()
        return int(row[0]) if row else 0
    return 0


def _pending(processes: Processes) -> int:
    """Messages of the followed archive that its target has not."""
    with psycopg.connect(processes.stack.endpoints.postgres_url, connect_timeout=5) as asked:
        row = asked.execute(
            "select coalesce(sum(c.messages), 0) from nats3.chunk c join nats3.archive a on a.id = c.archive_id "
            "where a.name = 'small' and c.deleted_at is null"
        ).fetchone()
    return (int(row[0]) if row else 0) - stream_state(processes.stack.nats.url, TARGET)["messages"]


def _wait(condition: Callable[[], bool], patience_s: float, what: str) -> None:
    if not wait_for(condition, patience_s, every_s=1):
        raise AssertionError(f"not within {patience_s:.0f} s: {what}")


def _say_hours(minutes: float) -> None:
    """Whether an hour ends in the run: only then are live hours sealed, compacted and exported."""
    left = 60 - time.gmtime().tm_min
    if left >= minutes:
        print(
            f"no hour ends within these {minutes:g} minutes (the next in {left}): only hours of the past are sealed, "
            "exported, compacted and expired",
            flush=True,
        )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make soak")
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--rate", type=float, default=20_000, help="messages a second, of all streams")
    parser.add_argument("--kill-every", type=float, default=120, help="seconds between two kills")
    parser.add_argument("--seed", type=int, default=1, help="of the kills")
    parser.add_argument("--patience", type=float, default=600, help="seconds to wait for the last messages")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
