"""Rows of replays as psycopg fills them, by the names of their columns, and a replay's spec as JSON."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, NoReturn
from uuid import UUID

from nats3_dagster.catalog.rows import ChunkRow, record
from nats3_dagster.errors import Unknown
from nats3_dagster.model import (
    DonePart,
    Incarnation,
    Pace,
    Replay,
    ReplaySpec,
    ReplayState,
    ReplayTarget,
    Selection,
    SeqRange,
)
from nats3_dagster.steps import Next


@dataclass(slots=True, kw_only=True)
class DoneRow:
    """Chunks that a replay has done: units as in DonePart."""

    stream: str
    created_ns: int
    positions: SeqRange
    seqs: SeqRange
    messages: int
    last_seq: int

    def part(self) -> DonePart:
        life = Incarnation(self.stream, self.created_ns)
        return DonePart(life, self.positions, self.seqs, self.messages, self.last_seq)


@dataclass(slots=True, kw_only=True)
class EndRow:
    """The last chunk of a replay."""

    stream: str
    created_ns: int
    seqs: SeqRange


@dataclass(slots=True, kw_only=True)
class PlaceRow:
    """A chunk in the plan of a replay."""

    chunk_id: int
    # From 1.
    position: int


@dataclass(slots=True, kw_only=True)
class RetiredRow:
    """The first of the chunks that a replay still needs and that were retired."""

    key: str
    # How many there are.
    chunks: int


@dataclass(slots=True, kw_only=True)
class MergedRow(ChunkRow):
    """The chunk that has the messages of one that a compaction retired."""

    # The id of the retired one.
    part_id: int


@dataclass(slots=True, kw_only=True)
class WholeRow:
    """The chunks of an hour that a replay published whole."""

    hour: str
    # Their ids.
    chunks: list[int]


@dataclass(slots=True, kw_only=True)
class ReplayRow:
    """A replay with its targets and runs: units as in Replay."""

    id: str
    spec: dict[str, Any]
    state: ReplayState
    attempt: int
    error: str | None
    # Each with stream, created_ns and since_seq.
    targets: list[dict[str, Any]]
    chunks: int
    chunks_done: int
    selected: int
    published: int
    found: int
    duplicates: int
    expired: int
    progress_published: int
    progress_found: int
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    updated_at: datetime
    job_id: UUID
    job_name: str | None
    launch: int
    lost: bool
    stream: str
    bucket: str
    prefix: str
    durable: str | None
    run_ids: list[str]

    def replay(self) -> Replay:
        targets = (ReplayTarget(Incarnation(t["stream"], t["created_ns"]), t["since_seq"]) for t in self.targets)
        return record(Replay, self, spec=spec_of(self.spec), targets=tuple(targets))


@dataclass(slots=True, kw_only=True)
class AttemptRow:
    """The progress of a replay: its state and the number of its newest attempt, 0 before the first."""

    state: ReplayState
    attempt: int
    launch: int


@dataclass(slots=True, kw_only=True)
class ReplayHourRow:
    """An hour of a replay."""

    # The replay's id.
    replay: str
    hour: str


def spec_json(spec: ReplaySpec) -> str:
    """The spec as nats3.replay keeps it."""
    return json.dumps(asdict(spec))


def spec_of(fields: Mapping[str, Any]) -> ReplaySpec:
    """The spec that `spec_json` wrote."""
    typed: dict[str, Any] = {**fields, "selection": _selection(fields["selection"]), "pace": Pace(**fields["pace"])}
    return ReplaySpec(**typed)


def _selection(fields: Mapping[str, Any]) -> Selection:
    sequences = fields["sequences"]
    typed: dict[str, Any] = {
        **fields,
        "hours": tuple(fields["hours"]),
        "sequences": SeqRange(*sequences) if sequences else None,
        "subjects": tuple(fields["subjects"]),
    }
    return Selection(**typed)


def unknown(replay_id: str) -> NoReturn:
    raise Unknown(f"There is no replay {replay_id}", Next.LIST_REPLAYS())
