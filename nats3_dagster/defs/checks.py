"""Checks of `<archive>/chunks`: complete, intact, and in time.

They read the catalog, the store and the stream, never Dagster's own events, and say what they counted also when they
pass.
"""

import random
import time
from collections.abc import Iterator, Sequence
from typing import Any

from dagster import (
    AssetCheckEvaluation,
    AssetCheckExecutionContext,
    AssetCheckResult,
    AssetChecksDefinition,
    AssetCheckSeverity,
    AssetCheckSpec,
    Config,
    MetadataValue,
    ResourceParam,
    multi_asset_check,
)
from pydantic import Field

from nats3_dagster.archive.backlog import uncaptured
from nats3_dagster.catalog import Catalog
from nats3_dagster.defs.failures import step_failures
from nats3_dagster.defs.keys import INTACT, KEEPS_UP, NO_GAPS, chunks_key
from nats3_dagster.defs.loss import Loss, loss
from nats3_dagster.defs.resources import with_store
from nats3_dagster.defs.wording import WORDS
from nats3_dagster.model import Archive, Chunk, SeqRange
from nats3_dagster.settings import Settings

# Of the holes and damages found, so many are listed.
SHOWN = 20


class IntactConfig(Config):
    """How much is read."""

    sample: int = Field(
        default=5, ge=0, description="How many chunks to fetch and verify, chosen at random; 0 verifies every chunk."
    )


def checks(archive: Archive) -> AssetChecksDefinition:
    """The three of an archive, in one definition: a load takes Dagster time for each definition times each job."""
    name = archive.name

    @multi_asset_check(name=f"{name}__checks", can_subset=True, specs=[
        # It blocks by errors alone: a capture must not fail because an earlier hour is not captured yet.
        AssetCheckSpec(NO_GAPS, asset=chunks_key(name), blocking=True, description=(
            "Every sequence up to the newest captured one is in a chunk, or known to be lost with its reason. Warns of "
            "holes that a capture can still fill; fails for those that the stream no longer has, and then nothing is "
            "sealed until a capture has recorded them."
        )),
        AssetCheckSpec(INTACT, asset=chunks_key(name), description=(
            "Objects are in the store and hold, by their hash and to the last message, what was written."
        )),
        AssetCheckSpec(KEEPS_UP, asset=chunks_key(name), description=(
            "Captures come before the stream's limits delete what they have not read: warns at 50% of the way, fails "
            "at 90%. The capture sensor evaluates it too."
        )),
    ])  # fmt: skip
    def run_checks(
        context: AssetCheckExecutionContext,
        config: IntactConfig,
        settings: ResourceParam[Settings],
        s3: ResourceParam[Any],
    ) -> Iterator[AssetCheckResult]:
        chosen = {key.name for key in context.selected_asset_check_keys}
        with step_failures(context):
            reached = with_store(settings, s3)
            with Catalog.connect(reached.postgres) as catalog:
                found = catalog.archives.get(name)
                if NO_GAPS in chosen:
                    yield _no_gaps(catalog, found)
                if INTACT in chosen:
                    yield _intact(reached, name, catalog.chunks.select(found), config.sample)
                if KEEPS_UP in chosen:
                    yield _keeps_up(reached, catalog, found)

    return run_checks


def keeps_up(archive: str, near: Loss) -> AssetCheckEvaluation:
    """What the sensor reports of `capture_keeps_up`."""
    return AssetCheckEvaluation(
        chunks_key(archive), KEEPS_UP, near.level == "ok", _said(near), severity=_severity(near),
        description=near.said,
    )  # fmt: skip


def _no_gaps(catalog: Catalog, archive: Archive) -> AssetCheckResult:
    holes: list[SeqRange] = []
    gone = False
    for covered in catalog.coverage.all(archive):
        if covered.last >= covered.start:
            missing = catalog.coverage.missing(archive, covered.incarnation, SeqRange(covered.start, covered.last))
            seen = catalog.coverage.last_state(covered.incarnation)
            gone = gone or any(seen is None or hole.first < seen.first_seq for hole in missing)
            holes += missing
    gaps = catalog.gaps.select(archive)
    lost = {reason: sum(g.size for g in gaps if g.reason == reason) for reason in ("expired", "missing", "retired")}
    unread = sum(h.size for h in holes)
    return AssetCheckResult(
        asset_key=chunks_key(archive.name), check_name=NO_GAPS, passed=not holes,
        severity=AssetCheckSeverity.ERROR if gone else AssetCheckSeverity.WARN,
        description=f"{unread:,} sequences are in no chunk and no gap" if holes else "Every sequence is accounted for",
        metadata={
            "holes": len(holes), "sequences_in_holes": unread,
            "first_holes": ", ".join(map(str, holes[:SHOWN])) or "none",
            **{f"sequences_{reason}": count for reason, count in lost.items()},
        },
    )  # fmt: skip


def _intact(settings: Settings, archive: str, held: Sequence[Chunk], sample: int) -> AssetCheckResult:
    from nats3_dagster.chunks import open_chunk
    from nats3_dagster.errors import ChunkError, ObjectMissing
    from nats3_dagster.objects import Bucket

    chosen = random.sample(held, min(sample, len(held))) if sample else list(held)
    buckets = {c.meta.bucket: Bucket(settings.store, c.meta.bucket) for c in chosen}
    damaged: list[str] = []
    for chunk in chosen:
        try:
            open_chunk(buckets[chunk.meta.bucket].get(chunk.meta.key), chunk.meta).verify()
        except (ChunkError, ObjectMissing) as error:
            damaged.append(f"- chunk {chunk.id}: {error.text_in(WORDS)}")
    more = [f"- and {len(damaged) - SHOWN} more"] if len(damaged) > SHOWN else []
    return AssetCheckResult(
        asset_key=chunks_key(archive), check_name=INTACT, passed=not damaged,
        description=f"{len(damaged)} of {len(chosen)} chunks verified are damaged" if damaged
        else f"{len(chosen)} of {len(held)} chunks verified",
        metadata={
            "verified": len(chosen), "chunks": len(held), "damaged": len(damaged),
            **({"damages": MetadataValue.md("\n".join([*damaged[:SHOWN], *more]))} if damaged else {}),
        },
    )  # fmt: skip


def _keeps_up(settings: Settings, catalog: Catalog, archive: Archive) -> AssetCheckResult:
    from nats3_dagster.archive.source import source_state
    from nats3_dagster.jetstream.link import Link

    with Link(settings.nats) as link:
        state = source_state(catalog, link, archive)
        near = loss(state, uncaptured(catalog, link, archive, state, time.time_ns()))
    return AssetCheckResult(
        asset_key=chunks_key(archive.name), check_name=KEEPS_UP, passed=near.level == "ok", severity=_severity(near),
        description=near.said, metadata=_said(near),
    )  # fmt: skip


def _said(near: Loss) -> dict[str, Any]:
    return {"used": round(near.used, 3), "limit": near.limit or "none"}


def _severity(near: Loss) -> AssetCheckSeverity:
    return AssetCheckSeverity.ERROR if near.level == "error" else AssetCheckSeverity.WARN
