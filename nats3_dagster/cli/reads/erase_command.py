"""`nats3 message erase`: messages that must go leave an archive for good."""

from typing import Annotated

import typer

from nats3_dagster.archive.keep import erasure
from nats3_dagster.cli.reads.selecting import FromTime, Sequences, Subjects, ToTime, selection_of
from nats3_dagster.cli.terminal.confirm import Yes, confirm
from nats3_dagster.cli.terminal.options import ArchiveName, Hours, Output
from nats3_dagster.cli.terminal.output import Format, counted, show_one
from nats3_dagster.cli.terminal.progress import note
from nats3_dagster.documents.erasing import ErasedMessages, ProvenErasures
from nats3_dagster.errors import OperatorError, StoreError
from nats3_dagster.query.matching import Conditions, matching, parse_header
from nats3_dagster.settings import Settings
from nats3_dagster.steps import Next
from nats3_dagster.tables.follow import followed
from nats3_dagster.workspace import Workspace


def erase(
    name: ArchiveName,
    reason: Annotated[
        str | None, typer.Option("--reason", metavar="TEXT", help="Why these messages must go; for the audit.")
    ] = None,
    subjects: Subjects = None,
    sequences: Sequences = None,
    headers: Annotated[
        list[str] | None,
        typer.Option("--header", metavar="NAME=VALUE", help="Only with this header. May be given several times."),
    ] = None,
    where: Annotated[
        str,
        typer.Option("--where", metavar="SQL", help="Only messages for which this is true, as WHERE of nats3 query."),
    ] = "",
    hour: Hours = None,
    from_time: FromTime = None,
    to_time: ToTime = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Count what would go, and change nothing.")] = False,
    prove: Annotated[
        bool,
        typer.Option(
            "--prove",
            help="Erase nothing: search every object, version and copy for a message of any erasure of the archive.",
        ),
    ] = False,
    yes: Yes = False,
    output: Output = Format.table,
) -> None:
    """Erase messages from an archive for good: those that meet all conditions.

    It is decided for all of them or none, and written down beside the chunks. Then their chunks are written without
    them, and every object that has them is removed at once, with its versions and its copies. An erasure is finished
    when a search has found them nowhere. No replay, capture, repair or rebuild brings them back. Who did it, when and
    why is kept, and not what. Messages of a hold stay. The stream is not changed."""
    with Workspace(Settings.load()) as workspace:
        archive = workspace.catalog.archives.get(name)
        if prove:
            _show_proof(erasure.prove(workspace, archive), output)
            return
        if not dry_run and not (reason or "").strip():
            raise OperatorError("An erasure has a reason", "Say why these messages must go", field="reason")
        selection = selection_of(hour, from_time, to_time, sequences, subjects)
        conditions = Conditions(selection, tuple(map(parse_header, headers or ())), where)
        # What an earlier erasure left undone comes first: the chunks that are asked then are as they should be.
        before = 0 if dry_run else erasure.carry_out(workspace, archive).finished
        wanted = matching(workspace, archive, conditions)
        done = erasure.plan(workspace, archive, wanted)
        if not dry_run:
            confirm(f"{counted(done.messages, 'message')} of archive {archive.name} will be erased for good", yes)
            with followed(workspace, archive.name):
                done = erasure.erase(workspace, archive, wanted, reason=reason or "", chosen_by=conditions.kinds)
        document = ErasedMessages.of(
            workspace, archive, wanted, done, reason or "", conditions.kinds, dry_run=dry_run, finished_before=before
        )
    lines = {
        "archive": document.archive,
        "messages": document.messages,
        "chunks": document.chunks,
        "hours": len(document.hours),
        "objects removed": document.objects_removed,
        "objects left": len(document.objects_left) or None,
    }
    show_one(output, document.plain(), lines)
    if before:
        note(f"{counted(before, 'earlier erasure')} had not been finished, and {'is' if before == 1 else 'are'} now")
    if dry_run:
        note("A dry run: nothing was erased")
    if len(document.lives) > 1:
        by_life = ", ".join(f"{life.messages:,} of {life.created}" for life in document.lives)
        note(f"They are of several lives of stream {archive.spec.stream}, by the time of its creation: {by_life}")
    for export in document.exports:
        again = Next.RUN_EXPORT(archive=name, export=export).command
        note(f"Export {export} has files of these hours, and writes them again: {again}")
    for other in document.other_archives:
        note(f"Archive {other} of the same stream may have them too, and keeps them")
    if document.in_stream is not False:
        note(f"Stream {archive.spec.stream} may still have them: nats stream rmm, or nats stream purge --subject")
    if done.problem:
        note("The erasure is decided, and not finished: this command, nats3 store sweep and the sensors go on with it")
        raise done.problem


def _show_proof(proof: erasure.Proof, output: Format) -> None:
    """Raises StoreError if an erased message was found."""
    document = ProvenErasures.of(proof)
    lines = {
        "archive": document.archive,
        "erasures": document.erasures,
        "messages": document.messages,
        "buckets": ", ".join(document.buckets),
        "found": len(document.found),
    }
    show_one(output, document.plain(), lines)
    for trace in proof.traces:
        note(f"{trace}")
    if proof.traces:
        raise StoreError(
            f"{counted(len(proof.traces), 'object')} of archive {proof.archive} may have erased messages",
            proof.step,
        )
