"""`nats3 chunk compact`: the small chunks of sealed hours become few."""

from typing import Annotated

import typer

from nats3_dagster.archive.keep.compaction import Compacted, due_hours, plan, sealed_hours
from nats3_dagster.cli.processes import compact_hours
from nats3_dagster.cli.terminal.options import ArchiveName, Hours, Output
from nats3_dagster.cli.terminal.output import Format, Size, show_one
from nats3_dagster.cli.terminal.progress import bar, note
from nats3_dagster.documents.compactions import CompactedArchive
from nats3_dagster.errors import Nats3Error, OperatorError
from nats3_dagster.hours import hour_start
from nats3_dagster.model import Archive
from nats3_dagster.settings import Settings
from nats3_dagster.tables.follow import followed
from nats3_dagster.workspace import Workspace


def compact(
    name: ArchiveName,
    hour: Hours = None,
    due: Annotated[
        bool, typer.Option("--due", help="Only the hours that the archive's setting compact_after lets compact now.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be merged, and merge nothing.")] = False,
    output: Output = Format.table,
) -> None:
    """Merge the small chunks of an archive's sealed hours, or of some: the same messages in fewer objects.

    The new objects are read again and compared with the old ones, row by row, before the catalog has them. The old
    objects go with `nats3 store sweep`, once the grace period is over. From 200 hours on Spark merges several at a
    time."""
    with Workspace(Settings.load()) as workspace:
        archive = workspace.catalog.archives.get(name)
        hours = _hours(workspace, archive, hour, due=due)
        if dry_run:
            document, failed = CompactedArchive.of_plans(name, [plan(workspace, archive, one) for one in hours]), None
        else:
            done: list[Compacted] = []
            failed = None
            try:
                with followed(workspace, archive.name), bar(f"compact {name}", "hours") as on_progress:
                    for one in compact_hours(workspace, archive, hours):
                        done.append(one)
                        on_progress(len(done), len(hours))
            except Nats3Error as error:
                failed = error
            document = CompactedArchive.of(name, done, len(hours))
    for one in document.hours:
        note(f"{one.hour}: {one.chunks_before:,} chunks, {one.chunks_after:,} {'would be' if dry_run else 'are'} left")
    lines: dict[str, object] = {
        "archive": name,
        "hours looked at": document.looked_at,
        "hours with small chunks": len(document.hours),
        "chunks before": document.chunks_before,
        "chunks after": document.chunks_after,
        "merged": Size(sum(one.merged_bytes for one in document.hours)),
    }
    if not dry_run:
        lines["written"] = Size(sum(one.new_bytes or 0 for one in document.hours))
    show_one(output, document.plain(), lines)
    if dry_run:
        note("A dry run: nothing was merged")
    if failed:  # the other hours are compacted, and were shown
        raise failed


def _hours(workspace: Workspace, archive: Archive, named: list[str] | None, *, due: bool) -> tuple[str, ...]:
    if named and due:
        raise OperatorError("--hour and --due exclude each other", "Give one of them")
    for one in named or ():
        hour_start(one)
    if named:
        return tuple(sorted(set(named)))
    return due_hours(workspace, archive) if due else sealed_hours(workspace, archive)
