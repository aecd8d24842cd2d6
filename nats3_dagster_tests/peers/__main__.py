"""`make peers`: nats3-dagster beside other tools that archive a stream, as commands that a user starts.

Invariant: what is not on the search path is left out and named; nothing is fetched or built. Each tool gets the same
stream, NATS server, Postgres and S3 server; a round measures every tool once, one after the other.

    python -m nats3_dagster_tests.peers [--messages 1000000] [--rounds 3] [--sizes 256,1024] [--only nats3-dagster,...]
"""

import argparse
import json
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress

from nats3_dagster.dev.nats_server import NatsServer, find_nats_server
from nats3_dagster_tests.bench import rows, servers
from nats3_dagster_tests.bench.payloads import payloads
from nats3_dagster_tests.peers.comparison import Published
from nats3_dagster_tests.peers.jet_capture import JetCapture
from nats3_dagster_tests.peers.meter import ServerPids
from nats3_dagster_tests.peers.nats3_dagster_tool import Nats3Dagster, Nats3DagsterRestore
from nats3_dagster_tests.peers.nats3_server import Nats3Server
from nats3_dagster_tests.peers.nats_backup import NatsBackup
from nats3_dagster_tests.peers.place import Place
from nats3_dagster_tests.peers.report import draw_report, one_line, print_report
from nats3_dagster_tests.peers.tool import Tool, first_line
from nats3_dagster_tests.peers.trial import Trial, run_trial

TOOLS: list[Tool] = [
    Nats3Dagster(),
    Nats3DagsterRestore(),
    NatsBackup(),
    JetCapture("jet-capture", "none"),
    JetCapture("jet-capture-gzip", "gzip"),
    Nats3Server("nats3-server", {}),
    Nats3Server("nats3-server-20000", {"max_count": 20_000, "max_bytes": 64 << 20}),
]
BASE = TOOLS[0].name
FOLDER = Path(".nats3")


def main() -> int:
    """Measures, prints and writes; 1 if a message of ours did not come back as it was."""
    arguments = _arguments()
    # Ended from outside, it ends the tool that runs: not only Ctrl-C does.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    tools = [tool for tool in TOOLS if tool.name in arguments.only and _is_here(tool)]
    left_out = {tool.name: tool.program for tool in TOOLS if tool.name in arguments.only and not _is_here(tool)}
    versions = {tool.name: tool.version() for tool in tools}
    versions["nats-server"] = first_line(str(find_nats_server()), "--version")
    for name, version in versions.items():
        print(f"{name}: {version}")
    for name, program in left_out.items():
        print(f"{name} is left out: there is no {program} on the search path")
    facts = {
        "versions": versions,
        "left_out": left_out,
        "processors": os.cpu_count(),
        "load_before": os.getloadavg()[0],
    }
    results: dict[int, list[list[Trial]]] = {}
    with ExitStack() as stack:
        started = stack.enter_context(servers.running(nats=True))
        target = stack.enter_context(NatsServer(started.folder / "target"))
        for size in arguments.sizes:
            results[size] = []
            for trials in _rounds(arguments, tools, size, started, target):
                results[size].append(trials)
                _write(facts, results)  # after each round: a run takes long, and may be stopped
            print_report(results[size], BASE)
    print(f"written: {FOLDER}/peers.json, {FOLDER}/peers.svg")
    ours = [t for rounds in results.values() for one in rounds for t in one if t.tool.startswith(BASE)]
    return int(not all(trial.comparison and trial.comparison.is_equal for trial in ours))


def _write(facts: dict[str, Any], results: dict[int, list[list[Trial]]]) -> None:
    FOLDER.mkdir(exist_ok=True)
    trials = [trial.as_json() for rounds in results.values() for one in rounds for trial in one]
    document = facts | {"load_after": os.getloadavg()[0], "trials": trials}
    (FOLDER / "peers.json").write_text(json.dumps(document, indent=2) + "\n")
    draw_report(FOLDER / "peers.svg", results)


def _is_here(tool: Tool) -> bool:
    return not tool.program or shutil.which(tool.program) is not None


def _rounds(
    arguments: argparse.Namespace, tools: list[Tool], size: int, started: servers.Servers, target: NatsServer
) -> Iterator[list[Trial]]:
    """Yields the rounds of one size."""
    # Fewer of the larger messages, so that each size moves about as many bytes.
    messages = max(1, arguments.messages * min(256, size) // size)
    rows.fill(started.settings, messages, size)
    published = Published((f"{n % rows.SUBJECTS}", data) for n, data in enumerate(payloads(size, messages)))
    assert started.nats
    assert started.nats.process
    assert target.process
    assert started.postgres.process
    stores = [started.postgres.process.pid, *(process.pid for process in started.s3.processes.values())]
    pids = ServerPids([started.nats.process.pid, target.process.pid], stores)
    with Progress(console=Console(stderr=True)) as bar:
        task = bar.add_task(f"{size} B", total=arguments.rounds * len(tools))
        for number in range(arguments.rounds):
            trials: list[Trial] = []
            for tool in tools:
                bar.update(task, description=f"{size} B {tool.name}")
                name = f"t{size}x{number}x{TOOLS.index(tool)}"
                place = Place(
                    folder=started.folder / name,
                    name=name,
                    source_url=started.nats.url,
                    target_url=target.url,
                    postgres=started.postgres,
                    s3=started.s3,
                    pids=pids,
                    messages=messages,
                    limit_s=arguments.limit,
                )
                trials.append(run_trial(tool, place, size, published))
                bar.advance(task)
                bar.console.print(one_line(trials[-1]), highlight=False)
            yield trials


def _arguments() -> argparse.Namespace:
    names = [tool.name for tool in TOOLS]
    parser = argparse.ArgumentParser(prog="make peers")
    parser.add_argument("--messages", type=int, default=1_000_000, help="of 256 B; larger ones are fewer")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sizes", type=lambda text: [int(size) for size in text.split(",")], default=[256, 1024])
    parser.add_argument("--only", type=lambda text: text.split(","), default=names, help=", ".join(names))
    parser.add_argument("--limit", type=float, default=1200, help="seconds that one command may take")
    arguments = parser.parse_args()
    if unknown := set(arguments.only) - set(names):
        parser.error(f"--only does not know {', '.join(sorted(unknown))}: {', '.join(names)}")
    return arguments


if __name__ == "__main__":
    sys.exit(main())
