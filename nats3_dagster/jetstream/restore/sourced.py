"""Sources of a restored stream: how far it had got with each of them, so that the server goes on from there.

A server takes that from the header `Nats-Stream-Source` of the newest message of a source. From 2.15 the header has
the identity of the source, a hash of when it was created. A restored source was created again: the server then takes
it for another stream, and begins with its first message, or with the start that the source is configured with
(nats-server 2.15.1, stream.go: trySetupSourceConsumer; seen: every message came twice). So a restored stream has such a
start: the sequence after its newest message.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from nats3_dagster.errors import SourceError
from nats3_dagster.jetstream.link import Link
from nats3_dagster.jetstream.streams import find_stream
from nats3_dagster.model import StreamState

_ALL: Final = ">"
# Between the filters, and the destinations, of a source with several transforms.
_JOINED: Final = "\f"


class SourcedPositions:
    """Collects the newest sequence of each source of a stream, as its messages say it."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        """`config`: of the stream. Sources of other accounts, and those through a durable, keep their own place."""
        self._config = config
        self._patterns = [_pattern(one) for one in _own_sources(config)]
        self._last = dict[str, int]()

    def add(self, batch: pa.RecordBatch) -> None:
        """Look at a batch of MESSAGES, in ascending order."""
        for pattern in self._patterns:
            found = pc.match_substring_regex(batch.column("headers"), pattern).fill_null(False)
            if at := pc.indices_nonzero(found):
                header = batch.column("headers")[at[-1].as_py()].as_py()
                self._last[pattern] = int(re.search(pattern.encode(), header)[1])  # type: ignore[index]

    def positions(self) -> dict[str, int]:
        """Returns the newest sequence of each source that a message was of, by the name of the source."""
        return {
            one["name"]: self._last[_pattern(one)] for one in _own_sources(self._config) if _pattern(one) in self._last
        }

    def config(self) -> dict[str, Any]:
        """Returns the configuration whose sources begin after what the stream has of them."""
        sources = [self._continued(one) for one in self._config.get("sources") or ()]
        return {**self._config, "sources": sources} if sources else dict(self._config)

    def _continued(self, source: Mapping[str, Any]) -> dict[str, Any]:
        last = self._last.get(_pattern(source)) if _is_own(source) else None
        if last is None:
            return dict(source)
        return {**{key: value for key, value in source.items() if key != "opt_start_time"}, "opt_start_seq": last + 1}


def taken_again(states: Iterable[StreamState], origin: str, last_seq: int) -> str | None:
    """Returns the name of one of these streams that would take messages of the origin again if it were made again up to
    this sequence; None where there is none. One that begins after it, as a restored one does, takes none."""
    for state in states:
        for source in _own_sources(state.config):
            if source["name"] == origin and int(source.get("opt_start_seq") or 1) <= last_seq:
                return state.name
    return None


def check_sources(link: Link, stream: str, positions: Mapping[str, int]) -> None:
    """Raises SourceError if a stream has messages of a source that this source does not have: the server goes on after
    them, and would leave out the source's next messages."""
    for name, seq in positions.items():
        state = find_stream(link, name)
        if state and state.last_seq < seq:
            raise SourceError(
                f"Stream {stream} has messages of {name} up to {seq}, and {name} ends with {state.last_seq}: the next "
                f"ones of {name} would be left out of it",
                "Restore both as of an earlier moment",
            )


def _own_sources(config: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [one for one in config.get("sources") or () if _is_own(one)]


def _is_own(source: Mapping[str, Any]) -> bool:
    return not source.get("external") and not source.get("consumer")


def _pattern(source: Mapping[str, Any]) -> str:
    """Returns a regular expression for the header of a message of this source; its group is the sequence there."""
    transforms: list[dict[str, Any]] = source.get("subject_transforms") or []
    filters = _JOINED.join(str(one.get("src") or _ALL) for one in transforms) or source.get("filter_subject") or _ALL
    destinations = _JOINED.join(str(one.get("dest") or _ALL) for one in transforms) or _ALL
    name, filters, destinations = (_escaped(text) for text in (str(source["name"]), filters, destinations))
    return rf"Nats-Stream-Source: {name} (\d+) {filters} {destinations} "


def _escaped(text: str) -> str:
    return re.sub(r"([^\w])", r"\\\1", text, flags=re.ASCII) if text.isascii() else re.escape(text)
