"""Versions of events: what an hour holds, and the version of its upstream hour that it was made from.

Invariant: a version follows from what the catalog has, never from a run: events of runs and of sensors have the same.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from dagster import AssetKey, AssetRecordsFilter, DagsterEventType, DagsterInstance

from nats3_dagster.defs.instance.internals import (
    CODE_VERSION_TAG,
    DATA_VERSION_TAG,
    NULL_EVENT_POINTER,
    get_input_data_version_tag,
    get_input_event_pointer_tag,
)
from nats3_dagster.model import Replay, ReplayHour

# Of the exported files: it goes up when a release writes other files of the same messages. Captures, seals and replays
# have none: to run one again with a newer release changes nothing.
EXPORT_CODE = "1"
# Dagster reads what an event was made of only beside a code version. It compares that with the asset's, if any.
_ANY_CODE = "-"
_PAGE = 500


@dataclass(frozen=True, slots=True)
class Upstream:
    """The hour of another asset that an event was made of."""

    key: AssetKey
    # Its version then; None where the catalog no longer knows.
    version: str | None
    # The storage id of Dagster's newest event of it, if that has the version. None otherwise: then Dagster never shows
    # the later event as stale by its data.
    event: int | None = None

    def tags(self) -> dict[str, str]:
        return {
            get_input_data_version_tag(self.key): self.version or "UNKNOWN",
            get_input_event_pointer_tag(self.key): str(self.event or NULL_EVENT_POINTER),
        }


def version_tags(version: str, upstream: Upstream | None = None, code: str = _ANY_CODE) -> dict[str, str]:
    """Returns the tags of an event with this version."""
    made_of = {CODE_VERSION_TAG: code, **upstream.tags()} if upstream else {}
    return {DATA_VERSION_TAG: version, **made_of}


def upstream_events(instance: DagsterInstance, key: AssetKey, versions: Mapping[str, str]) -> dict[str, Upstream]:
    """Returns the upstream hour of each event, where it has these versions by hour."""
    ids = instance.get_latest_storage_id_by_partition(key, DagsterEventType.ASSET_MATERIALIZATION, {*versions})
    wanted = [event for hour, event in ids.items() if hour in versions]
    same: dict[str, int] = {}
    for at in range(0, len(wanted), _PAGE):
        chosen = AssetRecordsFilter(asset_key=key, storage_ids=wanted[at : at + _PAGE])
        for record in instance.fetch_materializations(chosen, limit=_PAGE).records:
            event = record.asset_materialization
            assert event is not None
            hour = str(event.partition)
            if (event.tags or {}).get(DATA_VERSION_TAG) == versions[hour]:
                same[hour] = record.storage_id
    return {hour: Upstream(key, version, same.get(hour)) for hour, version in versions.items()}


def replay_version(replay: Replay, done: ReplayHour | None, holds: str | None = None) -> str:
    """Returns the version of an hour that was replayed: what was selected of it, how it was changed, and to where it
    went. The same hour that is replayed again in the same way has the same. `holds`: the version of the hour then,
    where the caller knows it: only the run of a replay does."""
    spec = replay.spec
    of_any_hour = {name: value for name, value in asdict(spec.selection).items() if name != "hours"}
    targets = sorted({target.incarnation.stream for target in replay.targets})
    messages = [done.selected, done.expired] if done else [0, 0]
    what = [of_any_hour, spec.write_subject, spec.live, spec.marks, targets, messages, *([holds] if holds else [])]
    return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()[:16]
