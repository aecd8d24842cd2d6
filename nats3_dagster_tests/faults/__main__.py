"""`python -m nats3_dagster_tests.faults N=500 SEED=1 ONLY=kill`: play faults, print the table. Behind `make faults`.

Each failing seed prints what was found and the command that plays it again. Exit status 1 if one failed.
"""

import os
import random
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

from nats3_dagster.dev.nats_server import find_nats_server, version_of
from nats3_dagster_tests.faults.play import chosen, play
from nats3_dagster_tests.faults.table import Row, command, markdown
from nats3_dagster_tests.faults.topology import Topology


def main(arguments: list[str]) -> int:
    given = dict(argument.split("=", 1) for argument in arguments)
    if unknown := given.keys() - {"N", "SEED", "ONLY", "TABLE", "LOG"}:
        sys.exit(f"There is no {', '.join(unknown)}: N, SEED, ONLY, TABLE (a file), LOG=1")
    version = version_of(find_nats_server())
    faults = chosen(version, given.get("ONLY", ""))
    if not faults:
        sys.exit(f"No fault of nats-server {'.'.join(map(str, version))} begins with {given['ONLY']!r}")
    count, seed = int(given.get("N") or len(faults)), int(given.get("SEED") or random.randrange(10**6))
    print(f"nats-server {'.'.join(map(str, version))}, {count} faults from SEED={seed}", flush=True)
    rows: dict[str, Row] = {fault.name: Row(breaks=fault.breaks) for fault in faults}
    failed = 0
    began = time.monotonic()
    # Ctrl-C ends the run, and the table shows what was played.
    with suppress(KeyboardInterrupt), Topology() as servers:
        for number in range(count):
            # A single seed is played as it was: its number alone decides everything.
            played = play(servers, faults[number % len(faults)], seed + number)
            rows[played.fault.name].add(played.findings, played.seconds)
            if played.findings or given.get("LOG"):
                failed += bool(played.findings)
                print(f"\n{played.fault.name}, seed {played.seed}, {played.seconds:.1f} s")
                print("\n".join(f"  {line}" for line in played.log))
                for finding in played.findings:
                    print(f"  {finding.kind} {finding.count}: {finding.text}")
                print(f"  {command(played.fault.name, played.seed)}", flush=True)
    table = markdown({name: row for name, row in rows.items() if row.tried})
    tried = sum(row.tried for row in rows.values())
    print(f"\n{table}\n\n{tried} faults, {failed} failed, {time.monotonic() - began:.0f} s")
    if given.get("TABLE"):
        Path(given["TABLE"]).write_text(table + "\n")
    return int(failed > 0)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background process ignores it
    os.environ.setdefault("DAGSTER_DISABLE_TELEMETRY", "yes")
    sys.exit(main(sys.argv[1:]))
