"""Orphans: chunks in the store that the catalog does not list. A capture was killed or came too late, or the catalog is
older than the bucket.

Invariant: an orphan proves itself to the last message, and the stream has nothing against it, before a message of it is
used. What was retired and is not removed since, or is being removed, is none. What an archive had when it was deleted
is one only for a command that asks for it: a person ended that archive. One object is in memory at a time.
"""

import logging
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from nats3_dagster.archive.source.agreement import disagreement
from nats3_dagster.chunks import ChunkReader, open_chunk
from nats3_dagster.chunks.naming import hour_folder, may_be_chunk, parse_key
from nats3_dagster.errors import ChunkError, ObjectMissing
from nats3_dagster.hours import HOUR_NS, hour_of, hour_start
from nats3_dagster.model import Archive, ChunkMeta, Incarnation, SeqRange, clipped
from nats3_dagster.model.archive_spec import archive_prefix
from nats3_dagster.model.numbers import Int64s
from nats3_dagster.workspace import Workspace

log = logging.getLogger(__name__)
# Up to this number of hours each is listed by itself, and up to this number of days each day; above it, all of the
# archive is.
_HOURS, _DAYS = 6, 30


class Orphan(NamedTuple):
    """An object that may be used."""

    reader: ChunkReader
    # With nothing left out: every message was read.
    meta: ChunkMeta


class Orphans:
    """The orphans of an archive: what the bucket has of it and the catalog does not list. A folder of the bucket is
    listed once, when it is first needed: one `Orphans` serves all questions of a job."""

    def __init__(
        self, workspace: Workspace, archive: Archive, own: Iterable[str] = (), *, with_deleted: bool = False
    ) -> None:
        """`own`: keys of objects that are about to be committed. `with_deleted`: also what deleted archives of this
        folder had at their end."""
        self.workspace, self.archive, self._own = workspace, archive, frozenset(own)
        self._with_deleted = with_deleted
        # The keys of each folder that was listed, and their sequences by incarnation. There may be a question
        # for each chunk of a job, and thousands of keys.
        self._listed: dict[str, list[str]] = {}
        self._ranges: dict[tuple[str, Incarnation], tuple[list[str], Int64s]] = {}
        # All chunks of the archive by their names, once they were listed; and what else may be one.
        self._all: dict[str, int] | None = None
        self._foreign: dict[str, int] = {}
        # The one that was opened last.
        self._opened: Orphan | None = None
        # The keys of objects that are not used, and why not.
        self.refused: dict[str, str] = {}

    def overlapping(self, incarnation: Incarnation, ranges: Sequence[SeqRange]) -> Iterator[Orphan]:
        """Yields the orphans that hold sequences of the ranges, the longest first. Raises StoreError, SourceError."""
        for key in self.keys(incarnation, ranges):
            if orphan := self.open(key, incarnation):
                yield orphan

    def keys(self, incarnation: Incarnation, ranges: Sequence[SeqRange]) -> list[str]:
        """The keys of those that may hold sequences of the ranges, the longest first; none is opened. Raises
        StoreError."""
        keys: dict[str, SeqRange] = {}
        # Compared first: there may be many ranges, and a day has many objects.
        for key, seqs in self._within(incarnation, SeqRange(ranges[0].first, ranges[-1].last)):
            if key not in self._own and clipped(ranges, seqs):
                keys[key] = seqs
        return sorted(self._unknown(keys), key=lambda key: (-keys[key].size, key))

    def open(self, key: str, incarnation: Incarnation) -> Orphan | None:
        """The object, proven; None where it is not used."""
        if key in self.refused:
            return None
        if self._opened and self._opened.meta.key == key:
            return self._opened
        self._opened = None
        try:
            reader = open_chunk(self.workspace.bucket(self.archive.spec.bucket).get(key))
            meta = reader.verify()
            if (meta.key, meta.archive, meta.incarnation) == (key, self.archive.name, incarnation):
                reason = disagreement(self.workspace.link, reader, incarnation)
            else:
                reason = "it is not the object of its key"
            if not reason:
                self._opened = Orphan(reader, meta)
                return self._opened
            reason = f"{meta.messages:,} messages of the sequences {meta.covers}: {reason}"
        except (ChunkError, ObjectMissing) as error:
            reason = error.what
        self.refused[key] = reason
        log.warning("%s: the object %s is not adopted: %s", self.archive.name, key, reason)
        return None

    def all(self) -> dict[str, int]:
        """Key and size of each, also of captures that are under way. The bucket is listed once, the catalog each
        time."""
        listed = self._list_all()
        return {key: listed[key] for key in self._unknown(listed)}

    def foreign(self) -> dict[str, int]:
        """Key and size of each object that may be a chunk, and has not the name of one: another program put it
        there."""
        self._list_all()
        return self._foreign

    @staticmethod
    def covers(key: str, incarnation: Incarnation) -> SeqRange | None:
        """The sequences that a chunk of this incarnation covers by its key; None for other objects."""
        name = parse_key(key)
        return name.covers if name and name.token == incarnation.token else None

    def _list_all(self) -> dict[str, int]:
        """Key and size of all that has the name of a chunk. The bucket is listed once."""
        if self._all is None:
            spec = self.archive.spec
            listed = dict(self.workspace.bucket(spec.bucket).list(archive_prefix(spec.prefix, spec.name)))
            self._all = {key: size for key, size in listed.items() if parse_key(key)}
            self._foreign = {
                key: size for key, size in listed.items() if key not in self._all and may_be_chunk(key, size)
            }
            self._ranges.clear()
        return self._all

    def _unknown(self, keys: Collection[str]) -> list[str]:
        removals = self.workspace.catalog.removals
        known = removals.known(self.archive.spec.bucket, list(keys), with_deleted=not self._with_deleted)
        return [key for key in keys if key not in known]

    def _within(self, incarnation: Incarnation, within: SeqRange) -> Iterator[tuple[str, SeqRange]]:
        """The keys of chunks with sequences of `within`, whether the catalog knows them or not."""
        spec = self.archive.spec
        folders = self._folders(incarnation, within) if self._all is None else [archive_prefix(spec.prefix, spec.name)]
        for folder in folders:
            keys, ends = self._covered(folder, incarnation)
            for at in np.flatnonzero((ends[:, 0] <= within.last) & (ends[:, 1] >= within.first)):
                yield keys[at], SeqRange(int(ends[at, 0]), int(ends[at, 1]))

    def _covered(self, folder: str, incarnation: Incarnation) -> tuple[list[str], Int64s]:
        """The keys of the folder's chunks of this incarnation, and the first and last sequence of each by its key."""
        if (folder, incarnation) not in self._ranges:
            covers = {key: seqs for key in self._objects(folder) if (seqs := self.covers(key, incarnation))}
            ends = np.array([tuple(seqs) for seqs in covers.values()], np.int64).reshape(-1, 2)
            self._ranges[folder, incarnation] = list(covers), ends
        return self._ranges[folder, incarnation]

    def _objects(self, folder: str) -> Iterable[str]:
        if self._all is not None:
            return self._all
        if folder not in self._listed:
            self._listed[folder] = [key for key, _ in self.workspace.bucket(self.archive.spec.bucket).list(folder)]
        return self._listed[folder]

    def _folders(self, incarnation: Incarnation, within: SeqRange) -> Iterator[str]:
        """Yields the folders in which chunks of these sequences may lie: in the hours between those before them and
        after them."""
        spec = self.archive.spec
        first, last = self.workspace.catalog.hours.around(self.archive, incarnation, within)
        end_ns = hour_start(last) if last else time.time_ns() + HOUR_NS  # clocks differ
        hours = range(hour_start(first) // HOUR_NS, end_ns // HOUR_NS + 1) if first else range(0)
        if 0 < len(hours) <= _HOURS:
            yield from (hour_folder(spec.prefix, spec.name, hour_of(hour * HOUR_NS)) for hour in hours)
        elif 0 < len(hours) <= 24 * _DAYS:
            for day in range(hours[0] // 24, hours[-1] // 24 + 1):
                yield hour_folder(spec.prefix, spec.name, hour_of(day * 24 * HOUR_NS)).rpartition("/")[0]
        else:
            yield archive_prefix(spec.prefix, spec.name)
