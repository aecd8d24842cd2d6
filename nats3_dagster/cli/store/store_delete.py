"""`nats3 store delete` and `sweep`: archives, and objects of chunks that were deleted."""

from typing import Annotated

import typer

from nats3_dagster.archive.lifecycle import jobs, remove
from nats3_dagster.archive.lifecycle.jobs import as_id
from nats3_dagster.archive.stored import removal
from nats3_dagster.cli.reload import reload_dagster
from nats3_dagster.cli.remote import Server, server
from nats3_dagster.cli.store import store_views as views
from nats3_dagster.cli.terminal.confirm import Yes, confirm
from nats3_dagster.cli.terminal.options import ArchiveOrNone, JobId, Output, one_of, parse_duration
from nats3_dagster.cli.terminal.output import Format, Size, counted, show_one
from nats3_dagster.cli.terminal.progress import bar, note
from nats3_dagster.cli.terminal.prompts import Interactive, pick
from nats3_dagster.cli.wording import WORDS
from nats3_dagster.documents.archives import DeletedArchive, SweptObjects
from nats3_dagster.settings import Settings
from nats3_dagster.tables.follow import followed
from nats3_dagster.workspace import Workspace


def delete(
    context: typer.Context,
    name: ArchiveOrNone = None,
    job_id: JobId = None,
    interactive: Interactive = False,
    yes: Yes = False,
    purge: Annotated[bool, typer.Option("--purge", help="Delete the chunk objects as well.")] = False,
    keep_consumer: Annotated[
        bool, typer.Option("--keep-consumer", help="Keep the durable consumer, or the buffer, that the archive made.")
    ] = False,
    output: Output = Format.table,
) -> None:
    """Delete an archive from the catalog. Its objects stay unless --purge is given, which may be given later as well,
    and again after it failed. The consumer that it made is deleted, and the stream no longer keeps messages for it; its
    buffer is deleted too."""
    settings = Settings.load()
    with server(settings) as api:
        if api:
            if interactive and name is None and job_id is None:
                name = pick("Archive to delete:", [one["archive"] for one in api.archives()])
            _delete_at(api, one_of(name, job_id, context, "ARCHIVE"), purge, keep_consumer, yes, output)
            return
    with Workspace(settings) as workspace:
        if interactive and name is None and job_id is None:
            name = pick("Archive to delete:", [archive.name for archive in workspace.catalog.archives.all()])
        name = jobs.name_to_delete(workspace, one_of(name, job_id, context, "ARCHIVE"))
        planned = remove.to_delete(workspace, name, purge=purge)
        if planned.holdings:
            spec = planned.holdings.archive.spec
            chunks = counted(sum(c.chunks for c in planned.holdings.coverages), "chunk")
            messages = counted(sum(c.messages for c in planned.holdings.coverages), "message")
            objects = ", and deletes their objects for good" if purge else "; their objects stay"
            consumer = views.consumer_to_delete(name, spec.stream, spec.durable, keep_consumer)
            buffer = views.buffer_to_delete(name, spec.buffer_s, keep_consumer)
            confirm(f"This deletes archive {name} with {chunks} ({messages}){objects}{consumer}{buffer}", yes)
        else:
            left = counted(planned.left, "object")
            confirm(f"Archive {name} was deleted before. This deletes {left} of it for good", yes)
        with followed(workspace, name):
            if purge:
                with bar("Deleting objects", "objects") as on_progress:
                    deleted = remove.delete(
                        workspace, name, purge=True, keep_consumer=keep_consumer, on_progress=on_progress
                    )
            else:
                deleted = remove.delete(workspace, name, keep_consumer=keep_consumer)
    archive = planned.holdings.archive if planned.holdings else None
    _show(DeletedArchive.of(name, archive, deleted), output)
    if not purge and deleted.chunks:
        note("The objects are still in the store: the metadata of each chunk says what it holds")
    if deleted.objects:
        note("A bucket with versions keeps what was deleted as earlier versions, until its own rules remove them")
    note(reload_dagster(workspace.settings))


def sweep(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the objects to remove, and remove nothing.")] = False,
    orphans: Annotated[
        bool,
        typer.Option(
            "--orphans",
            help="Also remove objects in the folders of archives that no row names and no archive needs, and uploads "
            "that did not end. It reads each of them.",
        ),
    ] = False,
    older_than: Annotated[
        int,
        typer.Option(
            "--older-than", metavar="DURATION", parser=parse_duration, help="Of these orphans, only those put before."
        ),
    ] = "7d",  # pyright: ignore[reportArgumentType]
    output: Output = Format.table,
) -> None:
    """Remove objects of deleted chunks once the grace period is over (delete_grace), and rows of the catalog that
    nothing has needed for long (history_keep). Dagster's sweep_sensor does it by itself."""
    with Workspace(Settings.load()) as workspace:
        # It imports pyarrow, 0.2 s.
        from nats3_dagster.archive.keep.erasure import carry_out_each

        problem = None if dry_run else carry_out_each(workspace)[1]
        swept = removal.sweepable(workspace) if dry_run else removal.sweep(workspace)
        rows = 0 if dry_run else removal.clean(workspace)
        found: removal.SweptOrphans | None = None
        if orphans:
            # It imports pyarrow, 0.2 s.
            from nats3_dagster.archive.recovery.orphan_sweep import sweep_each

            found = sweep_each(workspace, older_than, dry_run=dry_run)
    document = SweptObjects.of(swept, workspace.settings.delete_grace, rows, found, WORDS, dry_run=dry_run)
    lines: dict[str, object] = {"objects removed": swept.objects, "stored": Size(swept.bytes), "rows forgotten": rows}
    for one in document.orphans or ():
        note(f"{one.archive}: {one.key}: {f'stays: {one.kept}' if one.kept else 'removed'}")
    for one in document.unseen:
        note(f"{one.archive}: {one.part} could not be looked at: {one.problem}")
    if document.orphans is not None:
        lines["orphans removed"] = sum(one.kept is None for one in document.orphans)
    show_one(output, document.plain(), lines)
    if dry_run:
        note("A dry run: nothing was removed")
    if problem:
        raise problem
    if found and any(one.part == removal.FOLDER for one in found.unseen):
        raise typer.Exit(1)


def _delete_at(api: Server, name: str, purge: bool, keep_consumer: bool, yes: bool, output: Format) -> None:
    # An id may be that of an archive that was deleted before, whose objects go now.
    known = None if purge and as_id(name) else api.archive(name)
    objects = ", and deletes its objects for good" if purge else "; its objects stay"
    consumer = ""
    if known:
        consumer = views.consumer_to_delete(known["archive"], known["stream"], known["consumer"], keep_consumer)
        consumer += views.buffer_to_delete(known["archive"], known["buffer_s"], keep_consumer)
    confirm(f"This deletes archive {known['archive'] if known else name}{objects}{consumer}", yes)
    gone = api.delete_archive(known["id"] if known else name, purge=purge, keep_consumer=keep_consumer)
    _show(gone, output)


def _show(gone: DeletedArchive, output: Format) -> None:
    lines: dict[str, object] = {"deleted": gone.archive, "chunks": gone.chunks, "objects deleted": gone.objects_deleted}
    made = {"consumer deleted": gone.consumer_deleted, "buffer deleted": gone.buffer_deleted}
    show_one(output, gone.plain(), lines | {name: one for name, one in made.items() if one})
