"""Seal: put a manifest beside the chunks of each hour that has ended and is complete, and keep that in the catalog.

The rule kept here: an hour is complete when no sequence between the last hour before it and the first one behind is
missing, for then no message of it can be. The stream is asked only where its newest closed hour ends.
"""

import hashlib
from collections.abc import Iterable, Iterator

from nats3_dagster.archive.source import source_state
from nats3_dagster.catalog import Catalog
from nats3_dagster.chunks.footer import DAMAGED
from nats3_dagster.chunks.manifest import Manifest, ManifestChunk, ManifestGap, ManifestPart, decode_manifest
from nats3_dagster.errors import ChunkError, Nats3Error, ObjectMissing, OperatorError
from nats3_dagster.hours import HOUR_NS, SECOND_NS, hour_bounds, hour_of
from nats3_dagster.jetstream.link import Link
from nats3_dagster.jetstream.streams import first_seq_at
from nats3_dagster.model import Archive, Gap, HourWindow, Incarnation, Seal, clipped
from nats3_dagster.objects import Bucket, StoreOptions
from nats3_dagster.steps import Next

# The server's clock says which hour a message belongs to, and ours when the hour has ended: they may differ so much. A
# message that comes later still is captured, and the hour sealed once more.
CLOCKS_S = 30


def newest_closed(now_ns: int) -> str:
    """The last hour that has ended by every clock."""
    return hour_of(now_ns - CLOCKS_S * SECOND_NS - HOUR_NS)


def last_sequence(catalog: Catalog, link: Link, archive: Archive, hour: str) -> tuple[Incarnation, int]:
    """The last sequence of the stream that was stored before the hour ended: so far an archive must be complete. Raises
    Nats3Error when the stream is gone or another one."""
    state = source_state(catalog, link, archive)
    return state.incarnation, first_seq_at(link, state.name, hour_bounds(hour)[1]) - 1


def seal_hours(
    catalog: Catalog, store: StoreOptions, archive: Archive, hours: Iterable[str], run_id: str | None = None
) -> Iterator[Seal]:
    """Seal each of the hours, which the caller knows to be complete (`Catalog.unsealed_hours`).

    Raises ChunkError when an hour does not add up, Conflict when it changes meanwhile, StoreError."""
    bucket = Bucket(store, archive.spec.bucket)
    for hour in hours:
        begun = catalog.now()
        revision, count, number, windows = catalog.seals.next(archive, hour)
        manifest = _manifest(catalog, archive, hour, number, windows)
        data, key = manifest.encode()
        sha256 = hashlib.sha256(data).hexdigest()
        bucket.put_new(key, data, sha256)
        seal = Seal(
            hour, number, revision, count, manifest.messages, manifest.gap_size, archive.spec.bucket, key, sha256,
            len(data), run_id,
        )  # fmt: skip
        catalog.seals.add(archive, seal, begun=begun)
        yield seal


def verify_seals(store: StoreOptions, seals: Iterable[Seal]) -> Iterator[tuple[Seal, Nats3Error | None]]:
    """Each of the seals, with what is wrong with its manifest in the store. Raises StoreError when that does not
    answer."""
    for seal in seals:
        try:
            data = bytes(Bucket(store, seal.bucket).get(seal.key))
            if (sha256 := hashlib.sha256(data).hexdigest()) != seal.sha256:
                raise ChunkError(f"{seal.key} has SHA-256 {sha256} and should have {seal.sha256}", DAMAGED)
            decode_manifest(data)
            yield seal, None
        except (ChunkError, ObjectMissing) as error:
            yield seal, error


def check_hours(hours: Iterable[str], complete: Iterable[str], archive: str, closed: str) -> None:
    """Raises OperatorError unless all hours have ended, `closed` being the last that has, and are complete."""
    lacking = sorted(set(hours) - set(complete))
    if not lacking:
        return
    if lacking[0] > closed:
        raise OperatorError(f"Hour {lacking[0]} has not ended", f"Seal it {CLOCKS_S} s after its end; the sensor does")
    raise OperatorError(
        f"Archive {archive} is not complete in {', '.join(lacking[:5])}{' and more' if len(lacking) > 5 else ''}",
        Next.CAPTURE_LACKING(archive=archive),
    )


def _manifest(
    catalog: Catalog, archive: Archive, hour: str, number: int, windows: Iterable[HourWindow]
) -> Manifest:
    spec = archive.spec
    parts: list[ManifestPart] = []
    for window in windows:
        chunks = catalog.chunks.select(archive, hours=[hour], incarnation=window.incarnation)
        gaps = catalog.gaps.select(archive, incarnation=window.incarnation, within=window.seqs)
        parts.append(
            ManifestPart(
                window.incarnation.created_ns, window.seqs.first, window.seqs.last,
                tuple(
                    ManifestChunk(
                        m.key, m.sha256, m.stored_bytes, m.covers.first, m.covers.last, m.messages, m.payload_bytes,
                        m.first_ns, m.last_ns,
                    ) for m in (c.meta for c in chunks)
                ),
                tuple(_gaps_within(gaps, window)),
            )
        )  # fmt: skip
    return Manifest(spec.name, spec.stream, spec.bucket, spec.prefix, hour, number, tuple(parts))


def _gaps_within(gaps: Iterable[Gap], window: HourWindow) -> list[ManifestGap]:
    inside = [ManifestGap(*r, gap.reason) for gap in gaps for r in clipped(gap.ranges, window.seqs)]
    return sorted(inside, key=lambda gap: gap.first_seq)
