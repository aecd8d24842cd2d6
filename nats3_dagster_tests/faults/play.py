"""Playing: one seed of one fault, from clean servers to its findings."""

import time
import traceback
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from nats3_dagster_tests.faults.judge import Finding
from nats3_dagster_tests.faults.registry import FAULTS, Fault
from nats3_dagster_tests.faults.topology import Topology
from nats3_dagster_tests.faults.trial import Trial

__all__ = ["FAULTS", "Played", "chosen", "play"]
# Imported for what they register.
for _path in sorted(Path(__file__).parent.glob("*_faults.py")):
    import_module(f"nats3_dagster_tests.faults.{_path.stem}")


@dataclass(frozen=True, slots=True)
class Played:
    """What became of a seed."""

    fault: Fault
    seed: int
    # Empty when it survived.
    findings: list[Finding]
    # How each process ended.
    log: list[str]
    seconds: float


def chosen(version: tuple[int, ...], only: str = "", *, short: bool = False) -> list[Fault]:
    """The faults that this server can be broken by, whose names begin as `only` says: | divides several beginnings."""
    return [
        fault
        for fault in FAULTS.values()
        if fault.name.startswith(tuple(only.split("|"))) and version >= fault.since and (fault.short or not short)
    ]


def play(servers: Topology, fault: Fault, seed: int) -> Played:
    began = time.monotonic()
    with Trial(servers, seed, store=fault.store, cluster=fault.cluster) as trial:
        try:
            fault.play(trial)
        except Exception as error:
            trial.log.append(traceback.format_exc())
            trial.findings.append(Finding("stuck", 1, f"{type(error).__name__}: {error}"))
        if trial.findings or any("Hung" in line for line in trial.log):
            trial.log.append(servers.log())
    return Played(fault, seed, trial.findings, trial.log, time.monotonic() - began)
