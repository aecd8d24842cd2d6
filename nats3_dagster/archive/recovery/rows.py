"""The catalog's rows of an archive that is made again: chunks as they are read, then gaps, then seals.

Invariant: a seal is valid only if the catalog, asked now, writes its manifest with the same bytes. So each sealed hour
proves that nothing of it was forgotten.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

from nats3_dagster.archive.proof.manifests import build_manifest
from nats3_dagster.archive.recovery.live_chunks import LiveChunk
from nats3_dagster.archive.recovery.objects import StoredManifest
from nats3_dagster.archive.recovery.stored_archive import StoredArchive
from nats3_dagster.archive.status import contents
from nats3_dagster.archive.stored.kept_settings import KeptSettings
from nats3_dagster.archive.stored.ranged import open_object
from nats3_dagster.catalog.recovery.rebuilds import NOT_VALID
from nats3_dagster.chunks.consumers import ConsumersDocument, decode_consumers
from nats3_dagster.chunks.manifest import MOST_TEXT
from nats3_dagster.errors import ChunkError, ObjectMissing
from nats3_dagster.model import Archive, Incarnation, PlacedGap, Seal, SeqRange, Witness
from nats3_dagster.model.consumer import KeptConsumers
from nats3_dagster.model.hold import REBUILT
from nats3_dagster.objects import Bucket
from nats3_dagster.workspace import Workspace

# Gaps that are added by one statement.
_GAPS = 10_000
# Small objects that are read at a time.
_AT_ONCE = 8
# The version of an hour that is no longer as it was sealed: a manifest does not say which messages a chunk has.
_UNKNOWN = "0" * 16


class Rows:
    """Writes the rows. Call it in a transaction."""

    def __init__(
        self, workspace: Workspace, bucket: Bucket, archive: Archive, kept: KeptSettings, found: StoredArchive
    ) -> None:
        self._catalog, self._workspace = workspace.catalog, workspace
        self._bucket, self._archive, self._kept, self._stored = bucket, archive, kept, found
        # By `created` time: the incarnation's id, its first sequence, and the configuration that was kept last.
        self._begun: dict[int, tuple[int, int, str]] = {}
        self.chunks = self.messages = 0

    def add_chunks(self, chunks: Sequence[LiveChunk]) -> None:
        """Raises Conflict if chunks overlap."""
        for chunk in chunks:
            self._begin(chunk.meta.incarnation.created_ns, chunk)
        if chunks:
            self._catalog.chunks.commit(self._archive, [chunk.meta for chunk in chunks])
        self.chunks += len(chunks)
        self.messages += sum(chunk.meta.messages for chunk in chunks)

    def add_gaps(self) -> int:
        """Add the gaps of all manifests, but what chunks cover; how many sequences they are."""
        rows: list[tuple[int, PlacedGap]] = []
        for one in self._stored.sorted():
            gaps, faults = one.rest_of_gaps()
            self._stored.contradictions += faults
            rows += [(self._begin(one.created_ns), gap) for gap in ([] if faults else gaps)]
        for created_ns, gap in self._stored.erased_gaps():
            self._stored.incarnation(created_ns, gap.seqs.first)
            rows.append((self._begin(created_ns), gap))
        for at in range(0, len(rows), _GAPS):
            self._catalog.rebuilds.add_gaps(self._archive, rows[at : at + _GAPS])
        return sum(gap.seqs.size for _, gap in rows)

    def finish(self) -> None:
        """Record what the settings say of incarnations, and the newest message of each as its witness."""
        for kept in self._kept.incarnations:
            self._begin(kept.created_ns)
            incarnation = Incarnation(self._kept.spec.stream, kept.created_ns, kept.restored_ns)
            self._catalog.rebuilds.record(self._archive, incarnation, kept.unknown_after)
        for one in self._stored.sorted():
            _, key, stored_bytes = one.newest
            if key:
                reader = open_object(self._bucket, key, stored_bytes, "")
                *_, newest = reader.batches(["seq", "time_ns"], groups={len(reader.footer.row_groups) - 1})
                witness = Witness(newest.column("seq")[-1].as_py(), newest.column("time_ns")[-1].as_py())
                self._catalog.coverage.record_witness(self._archive, reader.meta.incarnation, witness)

    def add_seals(self) -> int:
        """Add a seal for each manifest; how many hours are as they were sealed."""
        for stored in self._stored.former_seals:
            self._catalog.rebuilds.add_seal(self._archive, _seal(stored))
        valid = 0
        for stored in self._stored.seals:
            seal = self._valid(stored)
            valid += seal is not None
            self._catalog.rebuilds.add_seal(self._archive, seal or _seal(stored))
        return valid

    def add_holds(self) -> None:
        """Add the holds that the settings beside the chunks have, and one on the whole archive until a person has
        looked at those settings."""
        bucket = self._bucket.name
        self._catalog.holds.create(self._archive, REBUILT, f"made again from the bucket {bucket}, settings not checked")
        for hold in self._kept.holds:
            if hold.name == REBUILT:
                continue
            self._catalog.holds.create(
                self._archive,
                hold.name,
                hold.reason,
                hours=(hold.first_hour, hold.last_hour),
                seqs=SeqRange(hold.first_seq, hold.last_seq) if hold.first_seq and hold.last_seq else None,
                actor=hold.actor,
            )

    def add_consumers(self, keys: Sequence[str]) -> None:
        """Add the consumers that were kept last in each hour. An object that cannot be read is left out, and named."""
        with ThreadPoolExecutor(_AT_ONCE, "nats3-consumers") as pool:
            for key, read in zip(keys, pool.map(partial(_read_consumers, self._bucket), keys), strict=True):
                if isinstance(read, ChunkError | ObjectMissing):
                    self._stored.refused[key] = read.what
                    continue
                document, kept = read
                incarnation = Incarnation(self._kept.spec.stream, document.created_ns)
                is_own = (document.archive, document.stream) == (self._archive.name, incarnation.stream)
                if not is_own or not self._catalog.consumers.add(self._archive, incarnation, kept, begun=None):
                    self._stored.refused[key] = "its stream is none of the archive"

    def _begin(self, created_ns: int, chunk: LiveChunk | None = None) -> int:
        """The id of the incarnation, which is in the catalog then, from its first sequence on, with the configuration
        that the chunk has."""
        id_, start, config = self._begun.get(created_ns, (0, 0, ""))
        one = self._stored.incarnations.get(created_ns)
        starts = [own.start for own in self._kept.incarnations if own.created_ns == created_ns]
        first: int = min(starts + ([one.start] if one else []))
        newer = chunk.footer.stream_config if chunk else config
        if not id_ or first < start or newer != config:
            incarnation = Incarnation(self._kept.spec.stream, created_ns)
            settings = chunk.footer.config if chunk else {}
            id_ = self._catalog.rebuilds.begin(self._archive, incarnation, settings, first)
            self._begun[created_ns] = id_, first, newer
        return id_

    def _valid(self, stored: StoredManifest) -> Seal | None:
        """The seal, if the catalog says of the hour what the manifest does."""
        manifest = stored.manifest
        row, parts = self._catalog.seals.next(self._archive, manifest.hour)
        try:
            made = build_manifest(self._workspace, self._archive, manifest.hour, manifest.number, parts)
            _, key = made.encode()
        except ChunkError:
            return None
        if key != stored.key:
            return None
        content = contents(self._workspace, self._archive, [manifest.hour])[manifest.hour]
        return replace(_seal(stored), revision=row.revision, chunks=row.chunks, losses=row.losses, content=content)


def _read_consumers(bucket: Bucket, key: str) -> tuple[ConsumersDocument, KeptConsumers] | ChunkError | ObjectMissing:
    """The consumers in an object. Raises StoreError."""
    try:
        data = bytes(bucket.get(key, MOST_TEXT))
        document = decode_consumers(data, key)
    except (ChunkError, ObjectMissing) as error:
        return error
    return document, document.kept(bucket.name, key, data)


def _seal(stored: StoredManifest) -> Seal:
    """A seal after which its hour changed."""
    manifest = stored.manifest
    return Seal(
        hour=manifest.hour,
        number=manifest.number,
        revision=NOT_VALID,
        chunks=sum(len(part.chunks) for part in manifest.parts),
        messages=manifest.messages,
        losses=manifest.losses,
        gaps=manifest.gap_size,
        content=_UNKNOWN,
        bucket=manifest.bucket,
        key=stored.key,
        sha256=stored.sha256,
        stored_bytes=stored.stored_bytes,
    )
