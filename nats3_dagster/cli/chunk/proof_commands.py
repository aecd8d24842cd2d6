"""`nats3 store seal`, `nats3 chunk verify` and `nats3 chunk repair`: what proves that an archive is whole."""

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Annotated

import typer

from nats3_dagster.archive import status
from nats3_dagster.archive.keep import erasure
from nats3_dagster.archive.proof import repair as repairs
from nats3_dagster.archive.proof import seal as sealing
from nats3_dagster.archive.proof import source_check
from nats3_dagster.archive.proof.manifest_repair import repair_manifests
from nats3_dagster.archive.proof.manifests import baseless_manifests, highest_hours, stray_manifests
from nats3_dagster.archive.proof.unlisted import Unlisted, examine
from nats3_dagster.archive.proof.verify import Verified, chunks_to_verify, verify_chunks, verify_seals
from nats3_dagster.archive.stored import folder
from nats3_dagster.cli.terminal.options import ArchiveName, Hours, Output
from nats3_dagster.cli.terminal.output import Format, Size, show_one
from nats3_dagster.cli.terminal.progress import bar, note
from nats3_dagster.cli.wording import WORDS
from nats3_dagster.documents.proofs import BadObject, ComparedSource, RepairedArchive, SealedArchive, VerifiedArchive
from nats3_dagster.errors import ChunkError, Nats3Error, OperatorError
from nats3_dagster.model import Archive, Chunk, SeqRange
from nats3_dagster.settings import Settings
from nats3_dagster.steps import Next, Step
from nats3_dagster.tables.follow import followed
from nats3_dagster.workspace import Workspace

# Unlisted objects that are named.
_NAMED = 20


def seal(name: ArchiveName, output: Output = Format.table) -> None:
    """Seal the hours that have ended and are complete: a manifest beside their chunks proves it.

    The archive's sensor does the same without being asked."""
    with Workspace(Settings.load()) as workspace:
        archive = workspace.catalog.archives.get(name)
        first, ended = sealing.ended_hours(workspace, archive)
        sealable = sealing.sealable(workspace, archive, first)
        if sealable.problem:
            raise sealable.problem
        if sealable.clocks:
            note(sealable.clocks)
        sealed, failed = 0, None
        try:
            with bar(f"seal {name}", "hours") as on_progress:
                for sealed, _ in enumerate(sealing.seal_complete(workspace, archive, sealable.hours), 1):
                    on_progress(sealed, len(sealable.hours))
        except Nats3Error as error:
            failed = error
        view = SealedArchive.of(name, sealed, status.seals(workspace, archive), ended).plain()
    show_one(output, view, view | {"manifest_bytes": Size(view["manifest_bytes"])})
    if failed:  # the other hours stay sealed, and were shown
        raise failed


def verify(
    name: ArchiveName,
    hour: Hours = None,
    source: Annotated[
        bool, typer.Option("--source", help="Compare chunks and gaps with what the stream still has of them.")
    ] = False,
    correct: Annotated[
        bool, typer.Option("--repair", help="Put messages that the stream has and the archive misses into the archive.")
    ] = False,
    output: Output = Format.table,
) -> None:
    """Fetch every chunk and manifest, and compare them with the catalog: hash, range, counts, messages. Exit status 1
    if one is bad."""
    if correct and not source:
        repair = Next.REPAIR(archive=name).command
        raise OperatorError("--repair goes with --source", f"To repair bad objects: {repair}")
    with Workspace(Settings.load()) as workspace:
        archive = workspace.catalog.archives.get(name)
        folder.learn(workspace, archive)
        chunks, bad_chunks = _verify(workspace, archive, hour)
        seals = status.seals(workspace, archive, hour)
        bad_seals = [(seal, error) for seal, error in verify_seals(workspace, seals) if error]
        unlisted = [] if hour else list(examine(workspace, archive))
        strays = stray_manifests(workspace, archive, hour)
        with followed(workspace, archive.name) if correct else nullcontext():
            from_stream = _compare_source(workspace, archive, hour, correct=correct) if source else None
    for seal, error in bad_seals:
        note(f"Bad manifest of {seal.hour}: {error.text_in(WORDS)}")
    _note_unlisted(name, unlisted)
    for stray in strays:
        note(f"Manifest {stray.number} of {stray.hour} has no seal in the catalog: {stray.key}")
    bad_objects = [BadObject.of_chunk(one.chunk, one.error, WORDS) for one in bad_chunks if one.error]
    bad_objects += [BadObject.of_seal(seal, error, WORDS) for seal, error in bad_seals]
    view = VerifiedArchive.of(name, chunks, seals, bad_objects, unlisted, strays, from_stream).plain()
    lines = {f"source {key}": count for key, count in (view["source"] or {}).items()}
    shown = view | {
        "stored_bytes": Size(view["stored_bytes"]),
        "bad": len(view["bad"]),
        "unlisted": len(unlisted),
        "stray_manifests": len(strays),
    }
    show_one(output, view, {key: value for key, value in shown.items() if key != "source"} | lines)
    if bad := len(bad_chunks) + len(bad_seals):
        erased = next((one.error.hint for one in bad_chunks if one.error and _is_of_erasure(one.error)), None)
        raise ChunkError(
            f"{bad} of {len(chunks) + len(seals)} objects of archive {name} are not what was written",
            erased
            or f"Restore those objects from a copy of the bucket, or capture them again while the stream has them: "
            f"{Next.REPAIR(archive=name).command}",
        )
    if hours := highest_hours(strays):
        raise _unknown_manifests(
            name,
            hours,
            "Sealing was killed or runs now, or the catalog is an older copy. Once no capture runs, seal them with a "
            f"higher number: {Next.REPAIR(archive=name).command}",
        )
    if from_stream:
        _check_source(archive, from_stream)


def repair(
    name: ArchiveName,
    hour: Hours = None,
    accept_loss: Annotated[
        bool,
        typer.Option("--accept-loss", help="Give up messages of bad chunks that the stream no longer has."),
    ] = False,
    output: Output = Format.table,
) -> None:
    """Verify chunks and manifests. Put chunks that are missing or damaged back from the archive's copies; read again
    from the stream what no copy has; and write such manifests again from the catalog. Exit status 1 if the stream no
    longer has some of it: such a chunk is left as it is, unless --accept-loss is given."""
    with Workspace(Settings.load()) as workspace:
        archive = workspace.catalog.archives.get(name)
        # What was erased must not be read again from the stream.
        if problem := erasure.carry_out(workspace, archive).problem:
            note(problem.text_in(WORDS))
        # Manifests first: they need no stream.
        manifests = [seal.hour for seal in repair_manifests(workspace, archive, hour)]
        strays = stray_manifests(workspace, archive, hour)
        unknown, baseless = highest_hours(strays), baseless_manifests(workspace, archive, strays)
        for manifest_hour in manifests:
            note(f"The manifest of {manifest_hour} was written again")
        chunks, bad = _verify(workspace, archive, hour)
        planned = repairs.plan_repair(workspace, archive, bad, every=None if hour else len(chunks))
        stream, repaired = archive.spec.stream, list[repairs.Repaired]()
        with followed(workspace, archive.name), bar(f"repair {name}", "chunks") as on_progress:
            for one in repairs.repair_all(workspace, archive, planned, accept_loss=accept_loss):
                repaired.append(one)
                on_progress(len(repaired), len(planned.bad))
                if one.conflict:
                    note(one.conflict.text_in(WORDS))
                elif one.lost:
                    note(
                        f"Chunk {one.chunk.id} had {one.chunk.meta.messages:,} messages, and stream {stream} still "
                        f"has {one.messages:,} of them, together with objects that no chunk lists"
                    )
    done = [one for one in repaired if one.done]
    refused = [one for one in repaired if not one.done and not one.conflict]
    result = RepairedArchive.of(name, chunks, bad, done, manifests)
    view = result.plain()
    show_one(output, view, view)
    if planned.as_written:
        raise ChunkError(
            f"{len(planned.as_written)} chunks of archive {name} cannot be read, and are what was written",
            "They were not changed; the lines above say what is wrong, and so does "
            f"{Next.VERIFY(archive=name).command}",
        )
    if refused:
        raise ChunkError(
            f"{len(refused)} bad chunks of archive {name} were left as they are: the stream no longer has "
            f"{sum(one.lost for one in refused):,} of their messages",
            "Restore their objects from a copy of the bucket; or give those messages up for good: "
            f"{Next.REPAIR(archive=name).command} --accept-loss",
        )
    if conflicts := [one.conflict for one in repaired if one.conflict]:
        raise conflicts[0]
    if unknown:
        raise _unknown_manifests(
            name,
            unknown,
            "They are not complete, so they were not sealed: capture them"
            + (
                f". If there is nothing to capture, and no newer catalog, delete the object {baseless[0].key}: nothing "
                "can be taken from it"
                if baseless
                else f", or take what a newer catalog captured: {Next.ADOPT(archive=name).command}"
            ),
        )
    if result.lost:
        raise ChunkError(
            f"{result.lost:,} messages of the bad chunks are lost: stream {stream} no longer has them",
            f"The rest was repaired. See {Next.GET_ARCHIVE(archive=name).command}",
        )


def _verify(
    workspace: Workspace, archive: Archive, hours: Sequence[str] | None
) -> tuple[tuple[Chunk, ...], list[Verified]]:
    """The chunks of an archive, or of some hours, and the bad ones among them, each with a note when it is found."""
    chunks, bad = status.chunks(workspace, archive.name, hours), list[Verified]()
    with bar(f"verify {archive.name}", "chunks") as on_progress:
        to_verify = chunks_to_verify(workspace, archive, hours)
        for done, verified in enumerate(verify_chunks(workspace, to_verify), 1):
            on_progress(done, len(chunks))
            if verified.error:
                id_, meta = verified.chunk.id, verified.chunk.meta
                note(f"Bad chunk {id_}, {meta.hour}, sequences {meta.covers}: {verified.error.text_in(WORDS)}")
                bad.append(verified)
    return chunks, bad


def _compare_source(
    workspace: Workspace, archive: Archive, hours: Sequence[str] | None, *, correct: bool
) -> ComparedSource:
    """Messages of the stream that were compared, that the archive says are absent, that differ, and that were put into
    the archive; a note for each chunk and gap that is wrong."""
    counts = ComparedSource()
    for compared in source_check.compare(workspace, archive, hours):
        wrong, different = sum(r.size for r in compared.wrong), sum(r.size for r in compared.different)
        where = f"Chunk {compared.chunk.id}" if compared.chunk else f"Gap {compared.seqs}, {compared.reason}"
        if wrong:
            note(f"{where}: the stream has {wrong:,} messages that are absent there: {_some(compared.wrong)}")
        if different:
            note(f"{where}: {different:,} messages are others in the stream: {_some(compared.different)}")
        counts.messages += compared.messages
        counts.wrongly_absent += wrong
        counts.different += different
        counts.repaired += source_check.correct(workspace, archive, compared) if correct else 0
    return counts


def _check_source(archive: Archive, counts: ComparedSource) -> None:
    name, stream = archive.name, archive.spec.stream
    if counts.different:
        raise ChunkError(
            f"{counts.different:,} messages of archive {name} are others in stream {stream}",
            "The server lost messages and gave their sequences to others: create another archive of the stream",
        )
    if rest := counts.wrongly_absent - counts.repaired:
        raise ChunkError(
            f"Stream {stream} has {rest:,} messages that archive {name} says are absent",
            f"Put them into the archive: {Next.VERIFY(archive=name).command} --source --repair",
        )


def _note_unlisted(name: str, unlisted: Sequence[Unlisted]) -> None:
    """Name the objects that no chunk lists, and what the archive could have of them."""
    if not unlisted:
        return
    missing = sum(item.missing for item in unlisted)
    note(
        f"{len(unlisted):,} objects are in the bucket that no chunk lists: captures were killed or are running, the "
        "catalog is older than the bucket, or an archive of this name was deleted without --purge"
    )
    for item in unlisted[:_NAMED]:
        held = f"{item.messages:,} messages; the archive misses {item.missing:,} of them"
        note(f"  {item.key}: {item.reason or held}")
    if missing:
        note(f"The archive misses {missing:,} messages that they hold: {Next.ADOPT(archive=name).command}")


def _is_of_erasure(error: Nats3Error) -> bool:
    """True for an object that an erasure has taken away: it must not come back."""
    return isinstance(error.hint, Step) and error.hint.code is Next.FINISH_ERASURES


def _unknown_manifests(name: str, hours: Sequence[str], hint: str) -> ChunkError:
    return ChunkError(
        f"{len(hours)} hours of archive {name} have a manifest in the bucket that the catalog does not know, with a "
        f"number no lower than that of their seal: {', '.join(hours[:3])}{' ...' if len(hours) > 3 else ''}",
        hint,
    )


def _some(ranges: Sequence[SeqRange]) -> str:
    return ", ".join(map(str, ranges[:5])) + (" ..." if len(ranges) > 5 else "")
