"""Reconcile: Dagster's state of each archive becomes that of the catalog, after a change of either by any program.

Invariants: Dagster is asked before the catalog, so an event that is missing in the catalog was there before and is
gone. Nothing is wiped unless a second read of the catalog confirms the first: a seal or an archive may come between the
two. And an archive counts as heard only when nothing was left to report: a tick that died, an event that was lost, and
an older event of a run after a newer one are found by the next tick.
"""

import random
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from dagster import AssetKey, DagsterInstance

from nats3_dagster.archive.source.clocks import ask_clocks
from nats3_dagster.defs.assets.tables import live_tables, table_events, table_keys
from nats3_dagster.defs.keys import Naming
from nats3_dagster.defs.sensors.cursor import ArchiveCursor
from nats3_dagster.defs.sensors.dagster_partitions import Exports, gone_exports, newest_events
from nats3_dagster.defs.sensors.tick import Reconciled, Tick
from nats3_dagster.errors import Nats3Error
from nats3_dagster.fault_points import fault_point
from nats3_dagster.hours import hour_of
from nats3_dagster.model import ArchiveVersion
from nats3_dagster.workspace import Workspace


def reconcile(
    instance: DagsterInstance,
    workspace: Workspace,
    heard: Mapping[int, ArchiveCursor],
    naming: Naming,
    chosen: Collection[str] | None = None,
) -> Reconciled:
    """Compares each archive that changed since `heard`, wipes Dagster's surplus events, and yields the missing ones,
    tick.EVENTS at most: call again with the new `heard` for the rest. With `chosen` only the archives of these names
    are compared, and one that was heard and is not chosen any more is wiped. Raises CatalogError."""
    kept = _read(workspace, naming, heard, chosen)
    versions, exports = kept.versions, kept.exports
    current = {key for v in versions for key in (*naming.keys_of(v.name), *exports.keys(v))}
    newest = newest_events(instance, {*kept.former, *current})
    fault_point("tick.events_read")
    wiped = [key for key in kept.former if key in newest]
    if wiped:
        # An archive or an export may have been made again since the first read, and its runs have reported by now.
        still = {*_read(workspace, naming, heard, chosen).former}
        wiped = [key for key in wiped if key in still]
    found = Reconciled({v.name: v.id for v in versions}, wiped=wiped)
    instance.wipe_assets(wiped)
    hour = hour_of(ask_clocks(workspace).earliest_ns)
    now = {v.id: _now(v, hour, newest, naming, exports) for v in versions}
    changed = [number for number in now if now[number] != heard.get(number)]
    moved = workspace.catalog.archives.of(changed) if changed else ()
    tick = Tick(instance, workspace, naming, moved, found, exports, newest)
    found.heard = {number: heard[number] for number in now if number in heard}
    # In any order: none waits for ever after one that always changes.
    for archive in random.sample(moved, len(moved)):
        try:
            after = tick.compare(archive, heard.get(archive.id), now[archive.id])
        except Nats3Error as error:
            live = workspace.catalog.archives.find(archive.name)
            # One that is deleted while it is compared is wiped by the next call.
            if live is not None and live.id == archive.id:
                found.problems.append(error)
            continue
        if after is not None:
            found.heard[archive.id] = after
    if not tick.is_full:
        found.events += table_events(instance, workspace, naming, chosen, time.time())
    return found


def _now(
    version: ArchiveVersion, hour: str, newest: Mapping[AssetKey, int], naming: Naming, exports: Exports
) -> ArchiveCursor:
    """Returns the position of the archive when Dagster has all of it; `hour` is the open one."""
    chunks, sealed, replay = (newest.get(key, 0) for key in naming.keys_of(version.name))
    export_event = max((newest.get(key, 0) for key in exports.keys(version)), default=0)
    return ArchiveCursor(
        version.revision, version.seals, version.replays, version.exports, hour, chunks, sealed, replay, export_event
    )


@dataclass(frozen=True, slots=True)
class _Kept:
    """The catalog's present and former entries at one time."""

    # The archives that are compared.
    versions: Sequence[ArchiveVersion]
    # Of all archives.
    exports: Exports
    # Assets of archives and exports that were deleted or are not chosen any more, and of streams without an archive.
    former: Sequence[AssetKey]


def _read(
    workspace: Workspace, naming: Naming, heard: Mapping[int, ArchiveCursor], chosen: Collection[str] | None
) -> _Kept:
    """Read what was deleted before what there is: what is made again in between does not count as deleted."""
    names, streams = workspace.catalog.archives.deleted_names()
    exports_gone = gone_exports(workspace, naming)
    fault_point("tick.former_read")
    every = workspace.catalog.archives.versions()
    fault_point("tick.versions_read")
    exports = Exports.read(workspace, naming)
    versions = [v for v in every if chosen is None or v.name in chosen]
    # Another code location may have the others under the same prefix: what was never heard here is not wiped here.
    left_out = [v for v in every if v not in versions and v.id in heard] if chosen is not None else []
    live = {key for v in every for key in (*naming.keys_of(v.name), *exports.keys(v))}
    live |= {naming.stream_key(v.stream) for v in every} | table_keys(naming, live_tables(workspace))
    keys = [*(key for name in sorted(names) for key in naming.keys_of(name)), *map(naming.stream_key, sorted(streams))]
    # Nothing says which archives had a table.
    keys += [naming.table_key(name) for name in sorted({*names, *(v.name for v in versions)})]
    former = [key for key in (*keys, *exports_gone) if key not in live]
    former += [
        key
        for archive in left_out
        for key in (*naming.keys_of(archive.name), naming.table_key(archive.name), *exports.keys(archive))
    ]
    return _Kept(versions, exports, former)
