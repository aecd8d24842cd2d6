"""Orphans: chunks in the store that the catalog does not list. A capture was killed or came too late, or the catalog is
older than the bucket.

Invariant: an orphan proves itself to the last message, and the stream has nothing against it, before a message of it is
used. What was retired and is not removed since, or is being removed, is none. One object is in memory at a time.
"""

import logging
import re
import time
from collections.abc import Iterable, Iterator, Sequence

from nats3_dagster.archive.proof.agreement import disagreement
from nats3_dagster.chunks import ChunkReader, open_chunk
from nats3_dagster.chunks.naming import hour_folder
from nats3_dagster.errors import ChunkError, ObjectMissing
from nats3_dagster.hours import HOUR_NS, hour_of, hour_start
from nats3_dagster.model import Archive, Incarnation, SeqRange, clipped
from nats3_dagster.model.archive_spec import archive_prefix
from nats3_dagster.workspace import Workspace

log = logging.getLogger(__name__)
_NAME = re.compile(r"/([0-9TZ]+)-(\d{20})-(\d{20})-[0-9a-f]{12}\.parquet$")
# Up to this number of hours each is listed by itself, and up to this number of days each day; above it, all of the
# archive is.
_HOURS, _DAYS = 6, 30


class Orphans:
    """The orphans of an archive. A folder of the bucket is listed once, when it is first needed."""

    def __init__(self, workspace: Workspace, archive: Archive, own: Iterable[str] = ()) -> None:
        """`own`: keys of objects that are about to be committed."""
        self._workspace, self._archive, self._own = workspace, archive, frozenset(own)
        self._listed: dict[str, list[tuple[str, int]]] = {}
        # The keys of objects that are not used, and why not.
        self.refused: dict[str, str] = {}

    def overlapping(self, incarnation: Incarnation, ranges: Sequence[SeqRange]) -> Iterator[ChunkReader]:
        """Those that hold sequences of the ranges, the longest first. Raises StoreError, SourceError."""
        # Compared first: there may be many ranges, and a day has many objects.
        within = [SeqRange(ranges[0].first, ranges[-1].last)]
        keys: dict[str, SeqRange] = {}
        for folder in self._folders(incarnation, within[0]):
            for key, _ in self._objects(folder):
                seqs = self.covers(key, incarnation)
                if seqs and key not in self._own and clipped(within, seqs) and clipped(ranges, seqs):
                    keys[key] = seqs
        if not keys:
            return
        known = self._workspace.catalog.removals.known(self._archive.spec.bucket, list(keys))
        for key in sorted(keys.keys() - known, key=lambda key: (-keys[key].size, key)):
            if reader := self.open(key, incarnation):
                yield reader

    def open(self, key: str, incarnation: Incarnation) -> ChunkReader | None:
        """The object, proven; None where it is not used."""
        if key in self.refused:
            return None
        try:
            reader = open_chunk(self._workspace.bucket(self._archive.spec.bucket).get(key))
            meta = reader.verify()
            if (meta.key, meta.archive, meta.incarnation) == (key, self._archive.name, incarnation):
                reason = disagreement(self._workspace.link, reader, incarnation)
            else:
                reason = "it is not the object of its key"
            if not reason:
                return reader
            reason = f"{meta.messages:,} messages of the sequences {meta.covers}: {reason}"
        except (ChunkError, ObjectMissing) as error:
            reason = error.what
        self.refused[key] = reason
        log.warning("%s: the object %s is not adopted: %s", self._archive.name, key, reason)
        return None

    @staticmethod
    def covers(key: str, incarnation: Incarnation) -> SeqRange | None:
        """The sequences that a chunk of this incarnation covers by its key; None for other objects."""
        match = _NAME.search(key)
        return SeqRange(int(match[2]), int(match[3])) if match and match[1] == incarnation.token else None

    def _objects(self, folder: str) -> list[tuple[str, int]]:
        if folder not in self._listed:
            self._listed[folder] = list(self._workspace.bucket(self._archive.spec.bucket).list(folder))
        return self._listed[folder]

    def _folders(self, incarnation: Incarnation, within: SeqRange) -> Iterator[str]:
        """Where chunks of these sequences may lie: in the hours between those before them and after them."""
        spec = self._archive.spec
        first, last = self._workspace.catalog.hours.around(self._archive, incarnation, within)
        end_ns = hour_start(last) if last else time.time_ns() + HOUR_NS  # clocks differ
        hours = range(hour_start(first) // HOUR_NS, end_ns // HOUR_NS + 1) if first else range(0)
        if 0 < len(hours) <= _HOURS:
            yield from (hour_folder(spec.prefix, spec.name, hour_of(hour * HOUR_NS)) for hour in hours)
        elif 0 < len(hours) <= 24 * _DAYS:
            for day in range(hours[0] // 24, hours[-1] // 24 + 1):
                yield hour_folder(spec.prefix, spec.name, hour_of(day * 24 * HOUR_NS)).rpartition("/")[0]
        else:
            yield archive_prefix(spec.prefix, spec.name)


def list_orphans(workspace: Workspace, archive: Archive) -> Iterator[tuple[str, int]]:
    """Key and size of the chunks in the archive's bucket that the catalog does not know, also those of captures that
    are under way."""
    spec = archive.spec
    listed = workspace.bucket(spec.bucket).list(archive_prefix(spec.prefix, spec.name))
    sized = {key: size for key, size in listed if _NAME.search(key)}
    known = workspace.catalog.removals.known(spec.bucket, list(sized))
    yield from ((key, size) for key, size in sized.items() if key not in known)
