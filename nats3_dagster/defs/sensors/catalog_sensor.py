"""The catalog sensor, and `nats3 dev resync`, which does the same once where no daemon runs."""

import os
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from dagster import (
    AssetKey,
    DagsterInstance,
    DefaultSensorStatus,
    SensorDefinition,
    SensorEvaluationContext,
    SensorResult,
    sensor,
)

from nats3_dagster.defs.instance.instance import dagster_home
from nats3_dagster.defs.jobs.failures import CannotTick, tick_failures
from nats3_dagster.defs.keys import PROJECT, Naming
from nats3_dagster.defs.sensors.cursor import ArchiveCursor, read, write
from nats3_dagster.defs.sensors.loaded_archives import LoadedArchives
from nats3_dagster.defs.sensors.reconcile import reconcile
from nats3_dagster.defs.sensors.tick import Reconciled
from nats3_dagster.errors import Nats3Error
from nats3_dagster.settings import Settings
from nats3_dagster.tables.follow import PAUSE_S, follow
from nats3_dagster.tables.observe import AGE_S
from nats3_dagster.workspace import Workspace

INTERVAL_S = 20
# How long a tick waits for Iceberg catalogs: Dagster ends one after a minute.
TABLES_S = 25.0
# Called with (hours reported, hours found so far that are to be reported).
OnReport = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Resynced:
    """The events that were reported for one archive."""

    archive: str
    # Hours of each asset that were reported.
    chunks: int
    sealed: int
    replay: int
    # Of all its exports together.
    exports: int
    # Its assets that were wiped first, because Dagster had hours that the catalog has not.
    wiped: tuple[str, ...]


def catalog_sensor(
    naming: Naming = PROJECT, chosen: Collection[str] | None = None, loaded: LoadedArchives | None = None
) -> SensorDefinition:
    """`catalog_sensor`: one for all archives, or the `chosen` ones; on unless switched off in the UI. `loaded`: the
    archives that have definitions, each with its id, where they are all of the catalog: when the catalog has others,
    the sensor has them loaded."""

    @sensor(
        name=naming.name("catalog_sensor"),
        minimum_interval_seconds=INTERVAL_S,
        default_status=DefaultSensorStatus.RUNNING,
        description="Keeps Dagster equal to the catalog after changes by a run, a command or another program, and has "
        "archives loaded that were created or deleted meanwhile. It starts no runs.",
    )
    def evaluate(context: SensorEvaluationContext) -> SensorResult:
        with tick_failures(naming), Workspace(settings := Settings.load()) as workspace:
            found = reconcile(context.instance, workspace, read(context.cursor), naming, chosen)
            reloading = loaded.reload_if_changed(settings, found.archives) if loaded else ""
            # A run syncs the table of its archive by itself; this is for what it left undone, and for what no run did.
            not_synced = follow(workspace, chosen, patience_s=TABLES_S, pause_s=PAUSE_S, observe_s=AGE_S)
        if found.problems and not found.events:
            raise CannotTick(found.problems[0], naming)
        summary = "; ".join(filter(None, (reloading, _summary(found, naming, not_synced))))
        return SensorResult(asset_events=found.events, cursor=write(found.heard), skip_reason=summary)

    return evaluate


def resync(settings: Settings, on_progress: OnReport = lambda done, total: None) -> list[Resynced]:
    """Reconcile until nothing is left to report, in the instance that DAGSTER_HOME names, or in the one under .nats3;
    what was done, by archive. Deleted archives that Dagster still had are among them. Raises CannotLoad or
    Nats3Error."""
    os.environ.setdefault("DAGSTER_HOME", str(dagster_home()))
    with DagsterInstance.get() as instance, Workspace(settings) as workspace:
        reported: Counter[AssetKey] = Counter()
        wiped: list[AssetKey] = []
        heard: dict[int, ArchiveCursor] = {}
        shown: set[tuple[AssetKey, str | None]] = set()
        while True:
            found = reconcile(instance, workspace, heard, PROJECT)
            if found.problems:
                raise found.problems[0]
            if not found.wiped and {(e.asset_key, e.partition) for e in found.events} <= shown:
                break  # nothing is left, or another process causes the rest
            shown |= {(e.asset_key, e.partition) for e in found.events}
            heard, done = found.heard, reported.total()
            for n, event in enumerate(found.events, 1):
                instance.report_runless_asset_event(event)
                on_progress(done + n, done + len(found.events))
            reported.update(event.asset_key for event in found.events)
            wiped += found.wiped
        names = {version.name for version in workspace.catalog.archives.versions()}
    names |= {key.path[0] for key in wiped if key.path[0] != PROJECT.stream_key("").path[0]}
    return [_resynced(name, reported, wiped) for name in sorted(names)]


def _resynced(name: str, reported: Counter[AssetKey], wiped: list[AssetKey]) -> Resynced:
    counts = {asset: reported[AssetKey([name, asset])] for asset in ("chunks", "sealed", "replay")}
    tables = reported[PROJECT.table_key(name)]
    counts["exports"] = sum(n for key, n in reported.items() if key.path[0] == name) - sum(counts.values()) - tables
    return Resynced(name, **counts, wiped=tuple(sorted({key.path[1] for key in wiped if key.path[0] == name})))


def _summary(found: Reconciled, naming: Naming, not_synced: Mapping[str, Nats3Error]) -> str:
    """Returns the summary of a tick."""
    counts = Counter(event.asset_key.to_user_string() for event in found.events)
    tables = {event.asset_key.to_user_string() for event in found.events if event.partition is None}
    done = [
        key if key in tables else f"{count:,} hours of {key}" if count > 1 else f"an hour of {key}"
        for key, count in counts.items()
    ]
    said = [f"Reported {', '.join(done)}"] if done else []
    if found.wiped:
        said.append(f"Wiped what the catalog does not have: {', '.join(k.to_user_string() for k in found.wiped)}")
    said += [f"Not compared: {problem.text_in(naming.words)}" for problem in found.problems]
    said += [f"The table of {name} is not synced: {error.text_in(naming.words)}" for name, error in not_synced.items()]
    return "; ".join(said) or "Dagster has what the catalog has"
