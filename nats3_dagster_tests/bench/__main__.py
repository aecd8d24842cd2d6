"""`make bench`: every row beside its limit and beside the plain client, in one run, medians of several rounds.

Invariant: a round measures every row once, one after the other, so that a slow minute of a shared machine hits all of
them; ratios are taken within a round.

    python -m nats3_dagster_tests.bench [--messages 1000000] [--rounds 5] [--sizes 256,1024] [--only capture,replay]
"""

import argparse
import json
import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.progress import Progress

from nats3_dagster.objects import create_bucket
from nats3_dagster.pipeline.session import session
from nats3_dagster.settings import Settings
from nats3_dagster_tests.bench import rows, servers, spark_rows
from nats3_dagster_tests.bench.rows import Case
from nats3_dagster_tests.bench.tables import new_table, print_table
from nats3_dagster_tests.support.servers.cluster import three_servers

# A row, and the limit that it is compared with. Those of `_r3` use streams of three copies in a cluster of three
# servers; `_window` publishes into a stream that takes no batches, `_atomic` into one that takes atomic batches only.
ROWS = {
    "delivery_limit": "delivery_limit",
    "work_limit": "delivery_limit",
    "natspy_fetch": "delivery_limit",
    "reader": "delivery_limit",
    "capture": "delivery_limit",
    "take": "delivery_limit",
    "take_alone": "delivery_limit",
    "ingest_limit": "ingest_limit",
    "natspy_publish": "ingest_limit",
    "publisher": "ingest_limit",
    "replay": "ingest_limit",
    "replay_window": "ingest_limit",
    "delivery_limit_r3": "delivery_limit_r3",
    "capture_r3": "delivery_limit_r3",
    "ingest_limit_r3": "ingest_limit_r3",
    "replay_r3": "ingest_limit_r3",
    "replay_window_r3": "ingest_limit_r3",
    "replay_atomic_r3": "ingest_limit_r3",
}
# The plain client is 10 times slower, a cluster on one machine 4 times: a part of the messages is enough for a rate.
NATSPY_PART, CLUSTER_PART = 10, 4
CLUSTER = "_r3"
# The setting of the stream that a row publishes into, where it is not that of fast-ingest batches.
SINKS = {"_window": "", "_atomic": "allow_atomic"}


def main() -> None:
    arguments = _arguments()
    with ExitStack() as stack:
        started = stack.enter_context(servers.running(nats=True))
        folder, settings, nats = started.folder, started.settings, started.nats
        assert nats
        create_bucket(settings.store, servers.BUCKET)
        results: list[dict[str, Any]] = []
        for size in arguments.sizes:
            results += _measure(settings, [n for n in arguments.only if CLUSTER not in n], arguments, size)
            print_results(results)  # after each size: a bench takes minutes, and may be stopped
        if in_cluster := [n for n in arguments.only if CLUSTER in n]:
            nats.stop()  # three servers have two cores less to share
            cluster = stack.enter_context(three_servers(folder / "cluster"))
            os.environ["NATS3_NATS_URL"] = cluster[0].url
            settings = Settings.load()
            for size in arguments.sizes:
                results += _measure(settings, in_cluster, arguments, size, 3)
                print_results(results)
    out = Path(".nats3", "bench.json")
    out.parent.mkdir(exist_ok=True)
    out.write_text(json.dumps(results, indent=2) + "\n")
    print(f"written: {out}")


def _measure(
    settings: Settings, names: list[str], arguments: argparse.Namespace, size: int, replicas: int = 1
) -> list[dict[str, Any]]:
    """All rounds of one size: a result for each row."""
    # Fewer of the larger messages, so that each size moves about as many bytes.
    messages = arguments.messages * min(256, size) // size // (CLUSTER_PART if replicas > 1 else 1)
    messages = max(messages, rows.BATCH) // rows.BATCH * rows.BATCH
    rates: dict[str, list[float]] = {name: [] for name in names}
    peaks: dict[str, float] = {}
    with Progress(console=Console(stderr=True)) as bar, session() as spark:
        task = bar.add_task(f"{size} B", total=arguments.rounds * len(rates))
        spark_rows.peak_mb(spark)  # starts the workers and their imports, and resets their peaks
        case = rows.fill(settings, messages, size, replicas)
        for _ in range(arguments.rounds):
            for name in names:
                bar.update(task, description=f"{size} B {name}")
                path = name.removesuffix(CLUSTER)
                if ROWS[name].startswith("ingest_limit"):
                    rows.empty_sink(case, next((s for kind, s in SINKS.items() if kind in name), "allow_batched"))
                if path in rows.ROWS:
                    seconds, count, peak = _in_process(path, case)
                else:
                    seconds, count = (
                        getattr(spark_rows, path.removesuffix("_window").removesuffix("_atomic"))(spark, case),
                        case.messages,
                    )
                    peak = spark_rows.peak_mb(spark)
                rates[name].append(count / seconds)
                peaks[name] = max(peaks.get(name, 0), peak)
                bar.advance(task)
    return [_result(name, size, rates, peaks) for name in names]


def _in_process(name: str, case: Case) -> tuple[float, int, float]:
    """Run a row in a process of its own, so that its memory is its own: seconds, messages, peak MB."""
    count = case.messages // NATSPY_PART if name.startswith("natspy") else case.messages
    command = [sys.executable, "-m", "nats3_dagster_tests.bench.one", name]
    command += [str(number) for number in (count, case.size, int(case.batched), case.replicas)]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, timeout=300).stdout
    seconds, peak = json.loads(output)
    return seconds, count, peak


def _result(name: str, size: int, rates: dict[str, list[float]], peaks: dict[str, float]) -> dict[str, Any]:
    """One line of the table."""
    plain = {"delivery_limit": "natspy_fetch", "ingest_limit": "natspy_publish"}.get(ROWS[name], "")

    def ratio(to: str) -> float | None:
        pairs = list(zip(rates[name], rates.get(to, []), strict=False))
        return round(median(a / b for a, b in pairs), 3) if pairs else None

    rate = median(rates[name])
    return {
        "name": name,
        "size": size,
        "msgs_per_s": round(rate),
        "mb_per_s": round(rate * size / 1e6, 1),
        "of_limit": ratio(ROWS[name]),
        "of_work": ratio("work_limit") if name == "capture" else None,
        "of_natspy": ratio(plain),
        "peak_mb": round(peaks[name]),
    }


def print_results(results: list[dict[str, Any]]) -> None:
    table = new_table(
        "medians; ratios within a round",
        "path",
        "size",
        "msg/s",
        "MB/s",
        "of limit",
        "of work",
        "of nats-py",
        "peak MB",
    )
    for row in results:
        values = [row["name"], f"{row['size']} B", f"{row['msgs_per_s']:,}"]
        values += [row["mb_per_s"], row["of_limit"], row["of_work"], row["of_natspy"]]
        table.add_row(*("-" if v is None else str(v) for v in values), f"{row['peak_mb']:,}")
    print_table(table)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench")
    parser.add_argument("--messages", type=int, default=1_000_000, help="of 256 B; larger ones are fewer")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sizes", type=lambda text: [int(s) for s in text.split(",")], default=[256, 1024])
    parser.add_argument("--only", type=lambda text: [n for n in ROWS if n in text.split(",")], default=list(ROWS))
    return parser.parse_args()


if __name__ == "__main__":
    main()
