"""Checks of `<archive>/chunks`: complete, intact, and in time.

They read the catalog, the store and the stream, never Dagster's own events, and say what they counted also when they
pass.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

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

from nats3_dagster.archive.source.lateness import late_after_s
from nats3_dagster.defs.assets.markdown import code
from nats3_dagster.defs.instance.resources import with_store
from nats3_dagster.defs.jobs.failures import step_failures
from nats3_dagster.defs.keys import INTACT, KEEPS_UP, KEPT, NO_GAPS, Naming
from nats3_dagster.defs.wording import STOPPED_CHECKS
from nats3_dagster.errors import Nats3Error
from nats3_dagster.hours import format_time
from nats3_dagster.model import NOT_MISSING, Archive, ArchiveSpec, Incarnation, Reason
from nats3_dagster.model.hold import REBUILT
from nats3_dagster.settings import Settings
from nats3_dagster.steps import Next
from nats3_dagster.workspace import Workspace

if TYPE_CHECKING:
    from nats3_dagster.archive.source.loss import Loss

# The maximum of listed holes, and of listed damaged chunks.
SHOWN = 20


class IntactConfig(Config):
    """The amount of data to read."""

    sample: int = Field(
        default=5, ge=0, description="How many chunks to fetch and verify, chosen at random; 0 verifies every chunk."
    )


def checks(naming: Naming, spec: ArchiveSpec) -> AssetChecksDefinition:
    """The four checks of an archive, in one definition: Dagster takes time for each definition times each job."""
    name = spec.name

    @multi_asset_check(
        name=naming.checks_op(name),
        can_subset=True,
        specs=[
            # It blocks by errors alone: a capture must not fail because an earlier hour is not captured yet.
            AssetCheckSpec(
                NO_GAPS,
                asset=naming.chunks_key(name),
                blocking=True,
                description=(
                    "Every sequence up to the newest captured one is in a chunk, or known to be lost with its "
                    "reason. Warns of holes that a capture can still fill; fails for those that the stream no longer "
                    "has, and then nothing is sealed until a capture has recorded them."
                ),
            ),
            AssetCheckSpec(
                INTACT,
                asset=naming.chunks_key(name),
                description=(
                    "Objects are in the store and hold, by their hash and to the last message, what was written."
                ),
            ),
            AssetCheckSpec(
                KEEPS_UP,
                asset=naming.chunks_key(name),
                description=(
                    "Captures come before the stream's limits delete what they have not read, and in time: warns at "
                    "50% of the way, while the archive is paused and when it is late; fails at 90%, and when it is "
                    "late for a day. The capture sensor evaluates it too."
                ),
            ),
            AssetCheckSpec(
                KEPT,
                asset=naming.chunks_key(name),
                description=(
                    "Nothing is there any more that the archive does not keep, six hours after its time, but for what "
                    "a hold covers: else it warns. It fails where something is gone that a hold covers."
                ),
            ),
        ],
    )
    def run_checks(
        context: AssetCheckExecutionContext,
        config: IntactConfig,
        nats3_settings: ResourceParam[Settings],
        nats3_s3: ResourceParam[Any],
    ) -> Iterator[AssetCheckResult]:
        chosen = {key.name for key in context.selected_asset_check_keys}
        settings = nats3_settings
        with step_failures(context, naming, STOPPED_CHECKS), Workspace(with_store(settings, nats3_s3)) as workspace:
            current = workspace.catalog.archives.get(name)
            if NO_GAPS in chosen:
                yield _no_gaps(naming, workspace, current)
            if INTACT in chosen:
                yield _intact(naming, workspace, current, config.sample)
            if KEEPS_UP in chosen:
                yield _keeps_up(naming, workspace, current)
            if KEPT in chosen:
                yield _kept(naming, workspace, current)

    return run_checks


def keeps_up(naming: Naming, archive: str, loss: "Loss") -> AssetCheckEvaluation:
    """The evaluation of `capture_keeps_up` that the sensor reports."""
    return AssetCheckEvaluation(
        naming.chunks_key(archive),
        KEEPS_UP,
        loss.level == "ok",
        _loss_metadata(loss),
        severity=_severity(loss),
        description=_loss_text(naming, archive, loss),
    )


def captured_checks(naming: Naming, settings: Settings, archive: str) -> Iterator[AssetCheckEvaluation]:
    """The evaluations that a capture reports in its own step: two further steps would write ten events. An error of
    `no_gaps` fails the run, as the check does."""
    with Workspace(settings) as workspace:
        found = workspace.catalog.archives.get(archive)
        for result in (_no_gaps(naming, workspace, found), _keeps_up(naming, workspace, found)):
            yield AssetCheckEvaluation(
                naming.chunks_key(archive),
                str(result.check_name),
                result.passed,
                result.metadata,
                severity=result.severity,
                description=result.description,
                blocking=result.check_name == NO_GAPS,
            )


def paused_out_of_reach(naming: Naming, archive: str, error: Nats3Error) -> AssetCheckEvaluation:
    """The same of a paused archive whose stream cannot be asked."""
    return AssetCheckEvaluation(
        naming.chunks_key(archive),
        KEEPS_UP,
        False,
        severity=AssetCheckSeverity.WARN,
        description="Paused: nothing is captured, and how near that is to loss is unknown. "
        f"{error.text_in(naming.words)}",
    )


def _no_gaps(naming: Naming, workspace: Workspace, archive: Archive) -> AssetCheckResult:
    from nats3_dagster.archive.proof.verify import find_holes

    holes = find_holes(workspace, archive)
    return AssetCheckResult(
        asset_key=naming.chunks_key(archive.name),
        check_name=NO_GAPS,
        passed=not holes.ranges,
        severity=AssetCheckSeverity.ERROR if holes.gone else AssetCheckSeverity.WARN,
        description=f"{holes.sequences:,} sequences are in no chunk and no gap"
        if holes.ranges
        else _accounted(holes.gaps) + _unknown_ends(holes.unknown_ends),
        metadata={
            "holes": len(holes.ranges),
            "sequences_in_holes": holes.sequences,
            "first_holes": ", ".join(map(str, holes.ranges[:SHOWN])) or "none",
            **{f"sequences_{reason}": count for reason, count in holes.losses.items()},
            "sequences_retired": holes.gaps["retired"],
            "sequences_expired_by_policy": holes.gaps["expired_by_policy"],
            "unknown_ends": len(holes.unknown_ends),
        },
    )


def _unknown_ends(ends: Sequence[tuple[Incarnation, int]]) -> str:
    """The removed streams that may have had messages that no process saw."""
    streams = ", ".join(f"{last:,} of the stream of {format_time(stream.created_ns)}" for stream, last in ends)
    return f"; lost in unknown number is what came after sequence {streams}" if streams else ""


def _accounted(gaps: Mapping[Reason, int]) -> str:
    """Returns the statement that no sequence is unaccounted for, and the number of messages that are nevertheless
    missing."""
    missing = [f"{count:,} {reason}" for reason, count in gaps.items() if count and reason not in NOT_MISSING]
    return f"Every sequence is accounted for{': not in the archive are ' if missing else ''}{', '.join(missing)}"


def _intact(naming: Naming, workspace: Workspace, archive: Archive, sample: int) -> AssetCheckResult:
    from nats3_dagster.archive.proof.verify import sample_chunks, verify_chunks

    chunks, total = sample_chunks(workspace, archive, sample)
    damaged: list[str] = []
    count = 0
    for verified in verify_chunks(workspace, chunks):
        count += 1
        if verified.error:
            damaged.append(f"- chunk {verified.chunk.id}: {code(verified.error.text_in(naming.words))}")
    more = [f"- and {len(damaged) - SHOWN} more"] if len(damaged) > SHOWN else []
    return AssetCheckResult(
        asset_key=naming.chunks_key(archive.name),
        check_name=INTACT,
        passed=not damaged,
        description=f"{len(damaged)} of {count} chunks verified are damaged"
        if damaged
        else f"{count} of {total} chunks verified",
        metadata={
            "verified": count,
            "chunks": total,
            "damaged": len(damaged),
            **({"damages": MetadataValue.md("\n".join([*damaged[:SHOWN], *more]))} if damaged else {}),
        },
    )


def _keeps_up(naming: Naming, workspace: Workspace, archive: Archive) -> AssetCheckResult:
    from nats3_dagster.archive.source.loss import outlook
    from nats3_dagster.archive.source.observe import checked_source

    if archive.paused and workspace.catalog.imports.of(archive):
        return AssetCheckResult(
            asset_key=naming.chunks_key(archive.name),
            check_name=KEEPS_UP,
            passed=True,
            description="It is of a backup, and follows no stream",
        )
    loss = outlook(workspace, checked_source(workspace, archive)).loss
    return AssetCheckResult(
        asset_key=naming.chunks_key(archive.name),
        check_name=KEEPS_UP,
        passed=loss.level == "ok",
        severity=_severity(loss),
        description=_loss_text(naming, archive.name, loss),
        metadata=_loss_metadata(loss),
    )


def _kept(naming: Naming, workspace: Workspace, archive: Archive) -> AssetCheckResult:
    from nats3_dagster.archive.keep.retention import promise

    found = promise(workspace, archive)
    unkept, held = found.unkept, found.held
    if found.held_absences:
        text = f"{found.held_absences:,} sequences went although a hold covers them: another hand changed the catalog"
    elif unkept.hours:
        unsealed = f", {unkept.unsealed:,} of them not sealed" if unkept.unsealed else ""
        text = f"{unkept.hours:,} hours should have expired, the oldest is {unkept.oldest}{unsealed}"
    elif found.is_unchecked:
        step = Next.CHECK_REBUILT(archive=archive.name, hold=REBUILT).worded(naming.words)
        text = f"It was made again from its bucket, and nothing leaves it: {step}"
    else:
        text = f"As promised; {found.holds:,} holds" if found.holds else "As promised"
    return AssetCheckResult(
        asset_key=naming.chunks_key(archive.name),
        check_name=KEPT,
        passed=found.is_kept,
        severity=AssetCheckSeverity.ERROR if found.held_absences else AssetCheckSeverity.WARN,
        description=text,
        metadata={
            "unkept_hours": unkept.hours,
            "unkept_unsealed": unkept.unsealed,
            "holds": found.holds,
            "held_chunks": held.chunks,
            "held_absences": found.held_absences,
        },
    )


def _loss_text(naming: Naming, archive: str, loss: "Loss") -> str:
    return f"{loss.text}. {Next.RESUME_ARCHIVE(archive=archive).worded(naming.words)}" if loss.paused else loss.text


def _loss_metadata(loss: "Loss") -> dict[str, Any]:
    """Returns the numbers that the level is made from. With them the event is above 2 KB, so Postgres compresses it."""
    late_s, error_s = (None, None) if loss.max_age_s is None else late_after_s(loss.max_age_s)
    return {
        "used": round(loss.used, 3),
        "limit": loss.limit or "none",
        "sequences_gone": loss.gone,
        "waits_hours": round(loss.waits_s / 3600, 1),
        "warns_after_s": late_s,
        "fails_after_s": error_s,
    }


def _severity(loss: "Loss") -> AssetCheckSeverity:
    return AssetCheckSeverity.ERROR if loss.level == "error" else AssetCheckSeverity.WARN
