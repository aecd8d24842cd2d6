"""The Dagster instance: does it have what captures and replays need, and which lines of dagster.yaml are missing?

Invariant: what is advised changes nothing for other pools and jobs of the instance but runs that were killed.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from nats3_dagster.archive.health.finding import Finding
from nats3_dagster.steps import Next

AREA = "dagster"
CAPTURE_POOL, REPLAY_POOL, EXPORT_POOL = "jetstream", "replay", "export"
# What happens in a pool without a limit.
_POOLS = {
    CAPTURE_POOL: "captures of all archives may run at once, each with a Python process and a JVM",
    REPLAY_POOL: "two replays may publish into one target at once, and their messages interleave there",
    EXPORT_POOL: "exports of all archives may run at once, each with a Python process and a JVM",
}
_MONITORING = """\
# Frees the places of killed runs in pools, and asks the launcher which runs live.
run_monitoring:
  enabled: true
  free_slots_after_run_end_seconds: 60"""
_LAUNCHER = """\
# Dagster's default launcher, which also finds runs of nats3 that were killed together with their code server.
run_launcher:
  module: nats3_dagster.defs.run_launcher
  class: WatchingRunLauncher"""
_RETRIES = """\
# Runs killed runs again. A run that reports a failure would fail again.
run_retries:
  enabled: true
  max_retries: 2
  retry_on_asset_or_op_failure: false"""


@dataclass(frozen=True, slots=True)
class InstanceState:
    """The settings of an instance."""

    # The folder of its dagster.yaml.
    home: str
    # Whether runs wait in a queue. Without one pools of runs limit nothing.
    has_queue: bool = True
    # Runs that a pool takes at once, by its name; and of any other pool, None for no limit.
    pools: Mapping[str, int] = field(default_factory=dict[str, int])
    default_limit: int | None = None
    monitors_runs: bool = False
    # Whether its launcher is another one than Dagster's default, which does not know whether a run lives.
    asks_launcher: bool = False
    # How often a killed run is run again; 0 for never.
    retries: int = 0

    def limit(self, pool: str) -> int | None:
        """Returns the limit of the pool; None if it has no limit."""
        return self.pools.get(pool, self.default_limit)


def check(state: InstanceState) -> Iterator[Finding]:
    """A line for the queue, for run monitoring, for the launcher, for run retries and for each pool."""
    lines = Next.SHOW_INSTANCE_LINES()
    if not state.has_queue:
        what = "Its runs are not queued: limits of pools hold back no run"
        yield Finding("warn", AREA, f"{state.home}: {what}", "Use the QueuedRunCoordinator, which is Dagster's default")
    else:
        yield Finding("ok", AREA, f"The Dagster instance of {state.home}; its runs are queued")
    if state.monitors_runs:
        yield Finding("ok", AREA, "Runs are monitored")
    else:
        what = "Runs are not monitored: one whose process was killed counts as running, and its archive waits for it"
        yield Finding("warn", AREA, what, lines)
    if state.asks_launcher:
        yield Finding("ok", AREA, "Its launcher is not Dagster's default one")
    else:
        what = "A run that is killed together with its code server, as in a power cut, counts as running for good"
        yield Finding("warn", AREA, what, lines)
    if state.retries:
        yield Finding("ok", AREA, f"Killed runs are run again, {state.retries} times at most")
    else:
        what = "Killed runs are not run again: a replay stands still until a person re-executes its run"
        yield Finding("warn", AREA, what, lines)
    for pool, without in _POOLS.items():
        limit = state.limit(pool)
        if limit is None:
            yield Finding("warn", AREA, f"Pool {pool} has no limit: {without}", lines)
        elif pool == REPLAY_POOL and limit > 1:
            yield Finding("warn", AREA, f"Pool {pool} takes {limit} runs at once: {without}", lines)
        else:
            yield Finding("ok", AREA, f"Pool {pool} takes {limit} at once")


def lines(state: InstanceState | None) -> str:
    """The lines of dagster.yaml that the instance is without, and the commands that limit nats3's pools; all of them
    where no instance was looked at."""
    parts: list[str] = []
    if state is None or not state.monitors_runs:
        parts.append(_MONITORING)
    if state is None or not state.asks_launcher:
        parts.append(_LAUNCHER)
    if state is None or not state.retries:
        parts.append(_RETRIES)
    missing = [pool for pool in _POOLS if state is None or state.limit(pool) is None]
    if state is not None and (state.limit(REPLAY_POOL) or 0) > 1:
        missing.append(REPLAY_POOL)
    if missing:
        commands = [f"#   dagster instance concurrency set {pool} 1" for pool in missing]
        head = "# Limits of pools are no lines of this file. Set them once, in a shell with DAGSTER_HOME:"
        parts.append("\n".join([head, *commands]))
    return "\n\n".join(parts) or "# Nothing is missing"
