"""`python -m nats3_dagster_tests.faults N=500 SEED=1 ONLY=kill JOBS=4`: play faults, print the table. Is `make faults`.

ONLY chooses faults by how their names begin: `ONLY='kill erase|erasure'` has two beginnings. Each failing seed prints
what was found and the command that plays it again. Exit status 1 if one failed. With JOBS the seeds are shared by that
number of processes, each with servers of its own.
"""

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from nats3_dagster.dev.nats_server import find_nats_server, version_of
from nats3_dagster_tests.faults.play import chosen, play
from nats3_dagster_tests.faults.registry import Fault
from nats3_dagster_tests.faults.table import Row, command, load, markdown, save
from nats3_dagster_tests.faults.topology import Topology

_OPTIONS = {"N", "SEED", "ONLY", "TABLE", "ROWS", "LOG", "JOBS", "JOB"}


def main(arguments: list[str]) -> int:
    given = dict(argument.split("=", 1) for argument in arguments)
    if unknown := given.keys() - _OPTIONS:
        sys.exit(f"There is no {', '.join(unknown)}: N, SEED, ONLY, JOBS, TABLE and ROWS (files), LOG=1")
    version = version_of(find_nats_server())
    faults = chosen(version, given.get("ONLY", ""))
    if not faults:
        sys.exit(f"No fault of nats-server {'.'.join(map(str, version))} begins with {given['ONLY']!r}")
    count, seed = int(given.get("N") or len(faults)), int(given.get("SEED") or random.randrange(10**6))
    jobs = int(given.get("JOBS") or 1)
    rows: dict[str, Row] = {fault.name: Row(breaks=fault.breaks) for fault in faults}
    began = time.monotonic()
    if jobs > 1 and "JOB" not in given:
        print(f"nats-server {'.'.join(map(str, version))}, {count} faults from SEED={seed}", flush=True)
        _share({**given, "N": str(count), "SEED": str(seed)}, jobs, rows)
    else:
        # A single seed is played as it was: its number alone decides everything.
        numbers = range(int(given.get("JOB") or 0), count, jobs)
        _play([(faults[number % len(faults)], seed + number) for number in numbers], rows, bool(given.get("LOG")))
    played = {name: row for name, row in rows.items() if row.tried}
    if given.get("ROWS"):
        save(played, Path(given["ROWS"]))
    failed = sum(row.tried - row.survived for row in played.values())
    if "JOB" not in given:
        table = markdown(played)
        tried = sum(row.tried for row in played.values())
        print(f"\n{table}\n\n{tried} faults, {failed} failed, {time.monotonic() - began:.0f} s")
        if given.get("TABLE"):
            Path(given["TABLE"]).write_text(table + "\n")
        # Of a process that was killed nothing is known.
        return int(failed > 0 or tried < count)
    return int(failed > 0)


def _play(seeds: list[tuple[Fault, int]], rows: dict[str, Row], log: bool) -> None:
    # Ctrl-C ends the run, and the table shows what was played.
    with suppress(KeyboardInterrupt), Topology() as servers:
        for fault, seed in seeds:
            played = play(servers, fault, seed)
            rows[fault.name].add(played.findings, played.seconds)
            if played.findings or log:
                print(f"\n{fault.name}, seed {seed}, {played.seconds:.1f} s")
                print("\n".join(f"  {line}" for line in played.log))
                for finding in played.findings:
                    print(f"  {finding.kind} {finding.count}: {finding.text}")
                print(f"  {command(fault.name, seed)}", flush=True)


def _share(given: dict[str, str], jobs: int, rows: dict[str, Row]) -> None:
    """Play the seeds in processes: each takes every `jobs`-th one."""
    with tempfile.TemporaryDirectory(prefix="nats3-faults-rows-") as folder:
        files = [Path(folder, str(job)) for job in range(jobs)]
        options = [f"{name}={value}" for name, value in given.items() if name not in ("TABLE", "ROWS")]
        command_line = [sys.executable, "-m", "nats3_dagster_tests.faults", *options]
        processes = [subprocess.Popen([*command_line, f"JOB={job}", f"ROWS={files[job]}"]) for job in range(jobs)]
        for process in processes:
            while process.poll() is None:  # Ctrl-C reaches them as well: each ends with what it has
                with suppress(KeyboardInterrupt):
                    process.wait()
        for file in files:
            if file.exists():
                for name, row in load(file).items():
                    rows[name].merge(row)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background process ignores it
    os.environ.setdefault("DAGSTER_DISABLE_TELEMETRY", "yes")
    sys.exit(main(sys.argv[1:]))
