"""`nats3 stream restore`: a stream made again from its archive."""

from pathlib import Path
from typing import Annotated, Any

import typer

from nats3_dagster.archive.restore.folder import check_folder, write_folder
from nats3_dagster.archive.restore.plan import RestoreSpec, plan
from nats3_dagster.archive.restore.run import restore as restore_stream
from nats3_dagster.cli.installation.stream_commands import Storage
from nats3_dagster.cli.reads.selecting import (
    FromTime,
    OverGaps,
    Sequences,
    Subjects,
    ToTime,
    note_removed,
    selection_of,
)
from nats3_dagster.cli.terminal.options import ArchiveName, Output
from nats3_dagster.cli.terminal.output import Format, Size, show_one, text_of, when
from nats3_dagster.cli.terminal.progress import bar, note
from nats3_dagster.documents.restores import RestoredConsumer, RestoredStream
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace


def restore(
    archive: ArchiveName,
    name: Annotated[
        str | None,
        typer.Option("--name", metavar="STREAM", help="Name of the new stream. Default: that of the old one."),
    ] = None,
    from_time: FromTime = None,
    to_time: ToTime = None,
    sequences: Sequences = None,
    subject: Subjects = None,
    replicas: Annotated[
        int | None, typer.Option("--replicas", metavar="COUNT", help="Number of replicas. Default: as it had.")
    ] = None,
    storage: Annotated[
        Storage | None, typer.Option("--storage", help="Storage of the messages. Default: as it had.")
    ] = None,
    limits: Annotated[
        bool,
        typer.Option("--limits", help="Give it the limits that the old one had, though they may remove messages."),
    ] = False,
    over_gaps: OverGaps = False,
    consumers: Annotated[
        list[str] | None,
        typer.Option(
            "--consumers",
            metavar="NAME",
            help="Bring back this durable at the position it had; 'all' for each. Repeatable.",
        ),
    ] = None,
    incarnation: Annotated[
        str | None,
        typer.Option(
            "--incarnation",
            metavar="TOKEN",
            help="The incarnation of the stream, as in keys of chunks, where the archive has several.",
        ),
    ] = None,
    verify: Annotated[
        bool, typer.Option("--verify/--no-verify", help="Compare every message with the archive afterwards.")
    ] = True,
    into_file: Annotated[
        Path | None,
        typer.Option(
            "--into-file",
            metavar="DIR",
            help="Make no stream: write a backup into this folder, for `nats stream restore`. It may not exist yet, or "
            "must be empty.",
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be restored, and make nothing.")] = False,
    output: Output = Format.table,
) -> None:
    """Make a stream again from its archive, with the sequences, times, subjects and headers that it had.

    It is a new stream: one of its name may not exist. Deleted messages stay holes, and the next message gets the next
    sequence of the old stream. Limits are lifted, because messages of long ago would go at once; mirrors and sources
    are left out, because they would bring their messages twice. The server must be 2.15 or later. What was interrupted
    leaves no stream."""
    spec = RestoreSpec(
        archive,
        name,
        selection_of(None, from_time, to_time, sequences, subject),
        replicas=replicas,
        storage=storage.value if storage else None,
        limits=limits,
        over_gaps=over_gaps,
        consumers=tuple(consumers or ()),
        incarnation=incarnation,
        as_backup=into_file is not None,
    )
    if into_file:
        check_folder(into_file)
    with Workspace(Settings.load()) as workspace:
        planned, done = plan(workspace, spec), None
        document = RestoredStream.of(planned, None)
        if into_file and not dry_run:
            with bar(f"write {into_file}") as on_count:
                written = write_folder(
                    workspace, planned, into_file, on_progress=lambda sent: on_count(sent, planned.messages)
                )
            document = RestoredStream.written(planned, written)
        elif not dry_run:
            with bar(f"restore {planned.stream}") as on_count:
                done = restore_stream(
                    workspace, planned, verify=verify, on_progress=lambda sent: on_count(sent, planned.messages)
                )
            document = RestoredStream.of(planned, done)
    show_one(output, document.plain(), _lines(document))
    if dry_run:
        note("A dry run: nothing was written" if into_file else "A dry run: no stream was made")
    elif document.folder:
        note(f"No stream was made. A server from 2.15 restores it: nats stream restore {into_file}")
    elif document.proven is not None:
        note(f"Each message of stream {document.stream} is as archive {archive} has it")
    if document.left_out:
        note(f"Not as in the archived stream: {', '.join(document.left_out)}")
    note_removed(planned.removed)


def _lines(document: RestoredStream) -> dict[str, Any]:
    return {
        "stream": document.stream,
        "folder": document.folder,
        "archive": document.archive,
        "of the stream of": when(document.of_life),
        "messages": document.messages,
        "size": Size(document.payload_bytes),
        "sequences": f"{document.first_seq}-{document.last_seq}" if document.last_seq else None,
        "first": when(document.first_time),
        "last": when(document.last_time),
        "compared": document.proven,
        "ended": document.ended or None,
        "consumers": [_consumer(one) for one in document.consumers] or None,
    }


def _consumer(one: RestoredConsumer) -> str:
    """A consumer in one line: where it begins, and what its application gets once more."""
    again = f"{one.again:,} messages come again" if one.exact else f"up to {one.again:,} messages come again: not exact"
    left_out = f", without {', '.join(one.left_out)}" if one.left_out else ""
    return f"{one.name}: after {one.delivered_seq}, as of {text_of(when(one.kept_at))}, {again}{left_out}"
