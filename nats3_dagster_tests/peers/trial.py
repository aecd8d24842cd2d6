"""One trial: a tool archives the stream and brings it back, and what came back is compared."""

import shutil
from dataclasses import asdict, dataclass
from typing import Any

from nats3_dagster_tests.peers.comparison import Comparison, Published
from nats3_dagster_tests.peers.meter import PeerError, Usage
from nats3_dagster_tests.peers.place import STREAM, Place
from nats3_dagster_tests.peers.tool import Tool
from nats3_dagster_tests.support.wire import Wire


@dataclass(frozen=True, slots=True)
class Trial:
    """The figures of one tool in one round. What it did not get to is None."""

    tool: str
    # Payload of a message in bytes.
    size: int
    messages: int
    archive: Usage | None = None
    replay: Usage | None = None
    stored_bytes: int | None = None
    comparison: Comparison | None = None
    # The reason why the rest is missing; empty if nothing is.
    failed: str = ""

    @property
    def archived_per_s(self) -> float | None:
        return self.messages / self.archive.seconds if self.archive else None

    @property
    def replayed_per_s(self) -> float | None:
        """Distinct published messages that came back, a second: one that is lost or comes twice is not replayed."""
        if not self.replay or not self.comparison:
            return None
        return (self.messages - self.comparison.lost) / self.replay.seconds

    def as_json(self) -> dict[str, Any]:
        return asdict(self) | {"archived_per_s": self.archived_per_s, "replayed_per_s": self.replayed_per_s}


def run_trial(tool: Tool, place: Place, size: int, published: Published) -> Trial:
    """Runs one tool. A failure of it is a figure too: the other tools go on."""
    archive = replay = comparison = stored = None
    failed = ""
    place.folder.mkdir()
    try:
        tool.prepare(place)
        archive = tool.archive(place)
        stored = tool.stored_bytes(place)
        if tool.can_replay:
            replay = tool.replay(place)
        returned, prefix = tool.returned(place)
        comparison = published.compare(returned, prefix)
    except PeerError as error:
        failed = str(error)
    finally:
        _clear(place)
    return Trial(tool.name, size, place.messages, archive, replay, stored, comparison, failed)


def _clear(place: Place) -> None:
    """Removes what the trial has made: files, objects, streams, consumers of the stream."""
    shutil.rmtree(place.folder)
    place.clear()
    with Wire(place.target_url) as wire:
        wire.try_api(f"STREAM.DELETE.{STREAM}")
    with Wire(place.source_url) as wire:
        wire.try_api(f"STREAM.DELETE.{place.back}")
        for name in wire.api(f"CONSUMER.NAMES.{STREAM}")["consumers"] or ():
            wire.try_api(f"CONSUMER.DELETE.{STREAM}.{name}")
