"""`nats3 message erase`: messages that must go leave an archive for good."""

from typing import Annotated

import typer

from nats3_dagster.archive.keep import erasure
from nats3_dagster.cli.reads.selecting import FromTime, Sequences, Subjects, ToTime, selection_of
from nats3_dagster.cli.terminal.confirm import Yes, confirm
from nats3_dagster.cli.terminal.options import ArchiveName, Hours, Output
from nats3_dagster.cli.terminal.output import Format, counted, show_one
from nats3_dagster.cli.terminal.progress import note
from nats3_dagster.documents.erasing import ErasedMessages
from nats3_dagster.query.matching import Conditions, matching, parse_header
from nats3_dagster.settings import Settings
from nats3_dagster.steps import Next
from nats3_dagster.tables.follow import followed
from nats3_dagster.workspace import Workspace


def erase(
    name: ArchiveName,
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why these messages must go; for the audit.")],
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
    yes: Yes = False,
    output: Output = Format.table,
) -> None:
    """Erase messages from an archive for good: those that meet all conditions.

    Their chunks are written without them, and every object that has them is removed at once, with its versions and its
    copies. Nothing brings them back: no replay, capture, repair or rebuild. Who did it, when and why is kept, and not
    what. Messages of a hold stay. The stream is not changed."""
    with Workspace(Settings.load()) as workspace:
        archive = workspace.catalog.archives.get(name)
        selection = selection_of(hour, from_time, to_time, sequences, subjects)
        conditions = Conditions(selection, tuple(map(parse_header, headers or ())), where)
        wanted = matching(workspace, archive, conditions)
        done = erasure.plan(workspace, archive, wanted)
        if not dry_run:
            confirm(f"{counted(done.messages, 'message')} of archive {archive.name} will be erased for good", yes)
            with followed(workspace, archive.name):
                done = erasure.erase(workspace, archive, wanted, reason=reason, chosen_by=conditions.kinds)
        document = ErasedMessages.of(
            done,
            reason,
            conditions.kinds,
            exports=erasure.exports_of(workspace, archive, done.hours),
            in_stream=erasure.stream_may_have(workspace, archive, wanted),
            dry_run=dry_run,
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
    if dry_run:
        note("A dry run: nothing was erased")
    for export in document.exports:
        again = Next.RUN_EXPORT(archive=name, export=export).command
        note(f"Export {export} has files of these hours, and writes them again: {again}")
    if document.in_stream is not False:
        note(f"Stream {archive.spec.stream} may still have them: nats stream rmm, or nats stream purge --subject")
    if done.problem:
        raise done.problem
