"""Served streams: the streams of the domain, the archive of each, and what was read of it lately."""

import threading
import time
from bisect import bisect_right
from collections import Counter, OrderedDict
from dataclasses import dataclass, field

from nats3_dagster.archive.served.row_groups import RowGroups
from nats3_dagster.archive.served.versions import Together
from nats3_dagster.catalog.archives.archives import ServedVersion
from nats3_dagster.model import Archive, Chunk, Coverage, Incarnation, Message
from nats3_dagster.workspace import Workspace

# How long the names of streams are kept: those of a thousand archives take milliseconds, and a new one has no message
# yet.
_NAMES_S = 1.0
# Last messages that are kept of a stream, and the bytes of one that is.
_LAST, _LAST_BYTES = 10_000, 4096


class Known:
    """Answers about a stream while its archive has one version. Any thread may use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._firsts: list[int] = []
        self._chunks: list[Chunk] = []
        self._last: OrderedDict[str, Message | None] = OrderedDict()

    def chunk_at(self, seq: int) -> Chunk | None:
        """A live chunk that covers the sequence, if it was met."""
        with self._lock:
            at = bisect_right(self._firsts, seq) - 1
            return self._chunks[at] if at >= 0 and seq <= self._chunks[at].meta.covers.last else None

    def add(self, chunk: Chunk) -> None:
        with self._lock:
            at = bisect_right(self._firsts, chunk.meta.covers.first)
            if not at or self._chunks[at - 1].id != chunk.id:
                self._firsts.insert(at, chunk.meta.covers.first)
                self._chunks.insert(at, chunk)

    def last_of(self, subject: str) -> tuple[Message | None] | None:
        """The last archived message of a filter, or None in its place where there is none; None if it is not known."""
        with self._lock:
            return (self._last[subject],) if subject in self._last else None

    def add_last(self, subject: str, message: Message | None) -> None:
        if message and len(message.data) + len(message.headers or b"") > _LAST_BYTES:
            return
        with self._lock:
            self._last[subject] = message
            if len(self._last) > _LAST:
                self._last.popitem(last=False)


@dataclass(frozen=True, slots=True)
class ServedStream:
    """An archive's newest incarnation as a stream, as the catalog had it when it was asked."""

    # As clients name it.
    name: str
    archive: Archive
    coverage: Coverage
    known: Known = field(default_factory=Known, compare=False, repr=False)
    groups: RowGroups = field(default_factory=RowGroups, compare=False, repr=False)

    @property
    def incarnation(self) -> Incarnation:
        return self.coverage.incarnation


class ServedStreams:
    """The served streams of a workspace. Any thread may ask."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace, self._lock = workspace, threading.Lock()
        self._names: dict[str, str] = {}
        self._named_at = float("-inf")
        self._versions = Together(workspace.catalog.archives.served_version)
        self._found: dict[str, tuple[ServedVersion, ServedStream]] = {}
        self._groups = RowGroups()

    def names(self) -> dict[str, str]:
        """The archive of each served stream, by name: that of its stream, or the archive's own where several archives
        have one stream. Raises CatalogError."""
        with self._lock:
            if time.monotonic() - self._named_at > _NAMES_S:
                archives = self._workspace.catalog.archives.all()
                self._names = named({archive.name: archive.spec.stream for archive in archives})
                self._named_at = time.monotonic()
            return self._names

    def find(self, name: str) -> ServedStream | None:
        """The stream of this name; None where there is none, or nothing was captured yet. Raises CatalogError."""
        archive = self.names().get(name)
        version = self._versions.now(archive) if archive else None
        if archive is None or version is None:
            return None
        kept = self._found.get(name)
        if kept and kept[0] == version:
            return kept[1]
        with self._workspace.catalog.together():
            row = self._workspace.catalog.archives.find(archive)
            coverages = self._workspace.catalog.coverage.all(row) if row else ()
        if row is None or not coverages:
            return None
        served = ServedStream(name, row, coverages[-1], groups=self._groups)
        # What is read now may be newer than the version: then the next request reads it again.
        self._found[name] = version, served
        return served


def named(streams: dict[str, str]) -> dict[str, str]:
    """The archive of each served stream. `streams`: the stream of each archive."""
    chosen = dict(streams)
    while True:
        often = Counter(chosen.values())
        # An archive's own name may be that of another archive's stream: archives have different names.
        shared = [name for name, stream in chosen.items() if often[stream] > 1 and stream != name]
        if not shared:
            return {stream: name for name, stream in sorted(chosen.items())}
        chosen |= {name: name for name in shared}
