"""Rebuild: the catalog's rows of archives, made again from their folders in a bucket.

Invariants: an archive is there with all that its objects prove, or not at all. Its folder has another owner before it
is there, so that no catalog that had it writes to it or removes from it; and its objects were still the same then.
What contradicts itself is named and refused.
"""

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import chain
from uuid import uuid4

from nats3_dagster.archive.recovery.live_chunks import LiveChunks
from nats3_dagster.archive.recovery.objects import HourObjects, Listing
from nats3_dagster.archive.recovery.rows import Rows
from nats3_dagster.archive.recovery.stored_archive import StoredArchive
from nats3_dagster.archive.source.observe import checked_source
from nats3_dagster.archive.stored import folder, kept_settings
from nats3_dagster.archive.stored.erasure_record import read_records
from nats3_dagster.archive.stored.kept_settings import KeptHold, KeptSettings
from nats3_dagster.archive.stored.ranged import open_object
from nats3_dagster.errors import ChunkError, Conflict, Nats3Error, OperatorError
from nats3_dagster.fault_points import fault_point
from nats3_dagster.model import Archive, ArchiveSpec
from nats3_dagster.model.archive_spec import archive_prefix
from nats3_dagster.model.erasure import ErasureRecord, all_sequences
from nats3_dagster.objects import bucket_exists
from nats3_dagster.steps import Next
from nats3_dagster.workspace import Workspace

_ARCHIVE = re.compile(r"(?:.*/)?archive=([A-Za-z0-9_]+)$")
# Contradictions and chunks that an error names.
_NAMED = 5
# What no object of a bucket says.
UNKNOWN = (
    "replays: a replay that had begun is published from its start if it is created again",
    "exports and tables of archives: create them again; files that are there are replaced by the same ones",
    "gaps in hours without a seal: the next capture asks the stream again why messages are absent",
    "chunks that were retired in hours without a seal: they are live again while their objects are there",
    "settings that were changed, pauses and ends of streams since the last capture or seal",
    "captures and failures of the past, who made what, and totals of what was removed",
    "ids: of archives as jobs of the HTTP API, and of chunks",
)
OnHour = Callable[[str], object]


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """An archive that was made again, or would be."""

    archive: str
    # Its settings, as they are in the folder, and the holds there; None where there is none.
    spec: ArchiveSpec | None = None
    holds: tuple[KeptHold, ...] = ()
    # Of the whole archive.
    chunks: int = 0
    messages: int = 0
    # Sequences in gaps.
    gaps: int = 0
    # Hours whose manifest says what the catalog says now; and those that changed since they were sealed.
    sealed: int = 0
    changed: int = 0
    # Objects that are no chunks of the archive now: of retired chunks, and of captures that did not end.
    unlisted: int = 0
    # Those of them that were opened and not taken: key, and why.
    refused: dict[str, str] = field(default_factory=dict[str, str])
    # Chunks that manifests name and that are not there: key, and why. They are left out where that was asked for.
    missing: dict[str, str] = field(default_factory=dict[str, str])
    # Why settings are not those that the archive had; empty where they are.
    settings: str = ""
    # What a comparison with the stream says; empty where it is the archived one.
    stream: str = ""
    # Why erasures may be unknown: a bucket that could not be asked; empty where each was.
    erasures: str = ""
    # Why the archive was not made again.
    error: Nats3Error | None = None
    # Whether the catalog had it already, and its folder.
    is_kept: bool = False


def archives_in(workspace: Workspace, bucket_name: str, prefix: str) -> list[str]:
    """The names of the archives that have a folder there. Raises OperatorError if there is none, StoreError."""
    store = workspace.settings.store
    if not bucket_exists(store, bucket_name):
        raise OperatorError(
            f"The bucket {bucket_name!r} does not exist in {store.of(bucket_name).place}", field="bucket"
        )
    found = [match[1] for path in workspace.bucket(bucket_name).folders(prefix) if (match := _ARCHIVE.match(path))]
    if not found:
        raise OperatorError(
            f"The bucket {bucket_name!r} has no folder of an archive" + (f" under {prefix!r}" if prefix else ""),
            "Give the prefix of the archives; an archive's folder is called archive=NAME",
        )
    return found


def rebuild(
    workspace: Workspace,
    bucket_name: str,
    prefix: str = "",
    names: Sequence[str] = (),
    *,
    whole: bool = False,
    accept_loss: bool = False,
    dry_run: bool = False,
    on_hour: OnHour = lambda hour: None,
) -> Iterator[Rebuilt]:
    """Make archives again that have a folder in the bucket: all, or those named. One that fails does not stop the
    others. `whole`: read each object to its last byte. `accept_loss`: leave out chunks that manifests name and that
    cannot be had; their sequences are then captured again, or recorded as lost. `on_hour` is called for each hour.

    Raises OperatorError, before anything is done, for a name without a folder."""
    there = archives_in(workspace, bucket_name, prefix)
    if unknown := sorted(set(names) - set(there)):
        raise OperatorError(
            f"The bucket {bucket_name!r} has no folder of archive {', '.join(unknown)}",
            f"It has {', '.join(there[:5])}",
        )
    for name in names or there:
        try:
            one = _Rebuild(workspace, bucket_name, prefix, name, whole=whole, on_hour=on_hour)
            yield one.run(accept_loss=accept_loss, dry_run=dry_run)
        except Nats3Error as error:
            yield Rebuilt(name, error=error)


class _Undo(Exception):
    """Ends a transaction whose rows are not wanted."""


class _Rebuild:
    """One archive."""

    def __init__(
        self, workspace: Workspace, bucket_name: str, prefix: str, name: str, *, whole: bool, on_hour: OnHour
    ) -> None:
        self._workspace, self._name, self._prefix = workspace, name, prefix
        self._bucket = workspace.bucket(bucket_name)
        self._folder = archive_prefix(prefix, name)
        self._whole, self._on_hour = whole, on_hour
        # Of each hour what was kept of consumers last.
        self._consumers = list[str]()

    def run(self, *, accept_loss: bool, dry_run: bool) -> Rebuilt:
        """Raises Nats3Error, and then the catalog is as it was."""
        catalog = self._workspace.catalog
        with catalog.locks.creating(self._name, 0):
            if present := catalog.archives.find(self._name):
                return self._present(present)
            kept, why = self._settings()
            made: tuple[Archive, Rebuilt] | None = None
            with suppress(_Undo), catalog.rebuilds.transaction():
                archive, listing, result = self._make(kept, why, accept_loss=accept_loss)
                made = archive, result
                if dry_run:
                    raise _Undo
                self._take_over(archive, listing.digest)
                fault_point("rebuild.before_commit")
            assert made is not None
            archive, result = made
            if dry_run:
                return result
            fault_point("rebuild.committed")
        return replace(result, stream=self._compare(archive))

    def _present(self, archive: Archive) -> Rebuilt:
        """Raises Conflict unless the catalog has the archive in this folder, and owns it."""
        spec = archive.spec
        is_here = (spec.bucket, spec.prefix) == (self._bucket.name, self._prefix)
        if is_here and folder.inspect(self._workspace, archive):
            return Rebuilt(self._name, is_kept=True)
        raise Conflict(
            f"The catalog has an archive {self._name} already, which does not own this folder",
            "Use an empty catalog; or delete that archive first, and do not purge it",
        )

    def _settings(self) -> tuple[KeptSettings, str]:
        """The settings of the folder's owner, as far as they are known; and what is not. Raises StoreError."""
        owner = folder.owner_of(self._bucket, self._folder)
        kept = kept_settings.read(self._bucket, self._folder, owner.id) if owner else None
        if kept:
            name = self._bucket.name
            # Where this is a copy, the archive is without it from now on.
            copies = tuple(other for other in kept.spec.copies if other != name)
            former = {*kept.former_copies, kept.spec.bucket} - {name, *copies}
            spec = replace(kept.spec, bucket=name, prefix=self._prefix, copies=copies)
            return replace(kept, spec=spec, former_copies=tuple(sorted(former))), ""
        stream, subjects = self._peek()
        spec = ArchiveSpec(self._name, stream, self._bucket.name, self._prefix, subjects)
        why = "The folder has no settings of its owner: they are the defaults, and the subjects are those of a chunk"
        return KeptSettings(owner.id if owner else uuid4(), spec, self._name), why

    def _peek(self) -> tuple[str, tuple[str, ...]]:
        """The stream and the subjects of the newest chunk. Raises OperatorError if there is none, StoreError."""
        newest: tuple[str, int] | None = None
        for hour in Listing(self._bucket, self._folder).hours():
            newest = max(((key, size) for key, (size, _) in hour.chunks.items()), default=newest)
        if newest is None:
            raise OperatorError(f"{self._folder} has no chunk and no settings: there is nothing to make an archive of")
        footer = open_object(self._bucket, *newest, "").footer
        return footer.incarnation.stream, footer.subjects

    def _make(self, kept: KeptSettings, why: str, *, accept_loss: bool) -> tuple[Archive, Listing, Rebuilt]:
        """Adds the rows. Raises Nats3Error if the objects contradict each other."""
        archive = self._workspace.catalog.rebuilds.create(
            kept.spec,
            uuid4(),
            job_name=kept.job_name,
            paused=kept.paused,
            created_at=kept.created_at,
            former_filters=kept.former_filters,
            presets=kept.presets,
        )
        records, away = self._records(kept)
        listing, found = Listing(self._bucket, self._folder), StoredArchive(erased=all_sequences(records.values()))
        rows = Rows(self._workspace, self._bucket, archive, kept, found)
        reader = LiveChunks(self._workspace, self._bucket, archive, found, whole=self._whole)
        for chunks in chain(reader.of_manifests(self._shown(listing)), reader.of_no_manifest()):
            rows.add_chunks(chunks)
        gaps = rows.add_gaps()
        found.explain_missing()
        _check(found, accept_loss=accept_loss)
        rows.finish()
        sealed = rows.add_seals()
        rows.add_holds()
        rows.add_consumers(self._consumers)
        # After the chunks: an erasure that was not finished is carried out by the next sweep.
        for digest, record in records.items():
            self._workspace.catalog.erasures.learn(archive, record, digest)
        self._workspace.catalog.erasures.add_former_copies(archive, kept.former_copies)
        fault_point("rebuild.read")
        asked = f"The stream was not asked about the newest objects: {reader.not_asked}" if reader.not_asked else ""
        return (
            archive,
            listing,
            Rebuilt(
                self._name,
                archive.spec,
                kept.holds,
                rows.chunks,
                rows.messages,
                gaps,
                sealed,
                len(found.seals) - sealed,
                len(found.unlisted),
                found.refused,
                found.missing,
                why,
                asked,
                away,
            ),
        )

    def _records(self, kept: KeptSettings) -> tuple[dict[str, ErasureRecord], str]:
        """The records of erasures in this bucket and in the others that the archive had, by their SHA-256; and which
        bucket could not be asked. Raises StoreError for this bucket."""
        records = dict(read_records(self._bucket, self._folder))
        away = ""
        for name in dict.fromkeys((*kept.spec.copies, *kept.former_copies)):
            bucket = self._workspace.bucket(name)
            try:
                owner = folder.owner_of(bucket, self._folder)
                if owner and owner.id == kept.id:
                    records |= dict(read_records(bucket, self._folder))
                elif owner:
                    away = away or f"The bucket {name!r} was not asked for erasures: its folder is another archive's"
            except Nats3Error as error:
                away = away or f"The bucket {name!r} was not asked for erasures: {error.what}"
        ordered = sorted(records.items(), key=lambda item: (item[1].number, item[0]))
        return dict(ordered), away

    def _shown(self, listing: Listing) -> Iterator[HourObjects]:
        for hour in listing.hours():
            self._on_hour(hour.hour)
            self._consumers += hour.consumers.values()
            yield hour

    def _take_over(self, archive: Archive, digest: str) -> None:
        """Make the archive the owner of its folder. Raises Conflict if another process wrote there meanwhile."""
        folder.claim(self._workspace, archive, take_over=True)
        fault_point("rebuild.taken_over")
        again = Listing(self._bucket, self._folder)
        for _ in again.hours():
            pass
        if again.digest != digest:
            raise Conflict(
                f"Objects of {self._folder} changed while they were read: another catalog wrote to it",
                "It does so no longer, because the folder has another owner now: run it again",
            )

    def _compare(self, archive: Archive) -> str:
        """The difference of the archive and its stream; empty where the stream is the archived one."""
        try:
            checked_source(self._workspace, archive)
        except Nats3Error as error:
            return str(error)
        return ""


def _check(found: StoredArchive, *, accept_loss: bool) -> None:
    """Raises ChunkError if objects contradict each other; and if some are missing, unless that is accepted."""
    if found.contradictions:
        raise ChunkError(
            f"Objects contradict each other: {_some(found.contradictions)}",
            "Bring the folder back from a copy of the bucket, or take the wrong object out of it",
        )
    if found.missing and not accept_loss:
        raise ChunkError(
            f"Manifests name {len(found.missing):,} chunks that cannot be had: {_some(found.missing.values())}",
            Next.ACCEPT_MISSING_CHUNKS(),
        )


def _some(texts: Collection[str]) -> str:
    more = f"; and {len(texts) - _NAMED:,} more" if len(texts) > _NAMED else ""
    return "; ".join(list(texts)[:_NAMED]) + more
