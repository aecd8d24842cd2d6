"""`nats3 store expire` and `nats3 history`: what an archive does not keep any longer, and what happened to it."""

from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from nats3_dagster.archive.keep import retention
from nats3_dagster.archive.read.history import LINES, MOST_LINES, archives_of
from nats3_dagster.archive.read.history import history as use_case
from nats3_dagster.cli.store.store_views import change_lines
from nats3_dagster.cli.terminal.options import ArchiveName, Output, parse_time_text
from nats3_dagster.cli.terminal.output import Columns, Format, Prose, Size, show, show_one, text_of, when
from nats3_dagster.cli.terminal.progress import note
from nats3_dagster.cli.wording import WORDS
from nats3_dagster.documents.keeping import ExpiredHours, HistoryEntry
from nats3_dagster.hours import SECOND_NS, parse_time
from nats3_dagster.model import ArchiveSpec
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace


def expire(
    name: ArchiveName,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would expire, and remove nothing.")] = False,
    output: Output = Format.table,
) -> None:
    """Remove the hours that an archive does not keep any longer, by its settings keep and keep_bytes.

    Whole hours go that have ended and are sealed. What a hold covers stays. Objects are removed once the grace period
    is over (delete_grace): nats3 store sweep. Dagster's expiry_sensor and sweep_sensor do it by themselves."""
    with Workspace(Settings.load()) as workspace:
        found = retention.expire(workspace, name, dry_run=dry_run)
    document = ExpiredHours.of(found, WORDS, dry_run=dry_run)
    lines = {
        "archive": document.archive,
        "hours": document.hours,
        "first": document.first,
        "last": document.last,
        "chunks": document.chunks,
        "messages": document.messages,
        "stored": Size(document.bytes),
        "held chunks": document.held_chunks or None,
    }
    show_one(output, document.plain(), lines)
    if dry_run:
        note("A dry run: nothing was removed")
    if found.problem:
        note("Expired, and not sealed again; the objects stay until that is done")
        raise found.problem


def history(
    name: ArchiveName,
    limit: Annotated[
        int, typer.Option("--limit", metavar="COUNT", min=1, max=MOST_LINES, help="The newest lines.")
    ] = LINES,
    since: Annotated[
        str | None,
        typer.Option("--since", metavar="TIME", parser=parse_time_text, help="Nothing earlier, as -2h or a date."),
    ] = None,
    deleted: Annotated[bool, typer.Option("--deleted", help="Of deleted archives that had this name.")] = False,
    output: Output = Format.table,
) -> None:
    """List what happened to an archive, the newest first, with who did it and the next step of a failure.

    It has captures, seals, replays, removals, expiries, holds, erasures, repairs, adoptions and changes of settings.
    Where there is no archive of this name any more, those of deleted ones."""
    begin = None if since is None else datetime.fromtimestamp(parse_time(since) / SECOND_NS, UTC)
    with Workspace(Settings.load()) as workspace:
        archives = archives_of(workspace, name, deleted=deleted)
        entries = [HistoryEntry.of(one, WORDS).plain() for one in use_case(workspace, archives, limit, begin)]
    show(output, entries, _HISTORY)


_HISTORY: Columns = {
    "TIME": lambda e: when(e["time"]),
    "WHAT": lambda e: f"{e['what']} {e['hour']}" if e["hour"] else e["what"],
    "DETAIL": lambda e: Prose(_detail(e)),
    "BY": lambda e: " ".join(filter(None, (e["who"], e["run_id"] and f"run {e['run_id']}"))) or None,
}


def _detail(entry: dict[str, Any]) -> str:
    if entry["error"]:
        return ". ".join(filter(None, (entry["error"], entry["next"])))
    if entry["what"] == "changed":
        changes = [{"field": name, "old": old, "new": new} for name, (old, new) in entry["detail"].items()]
        return ", ".join(f"{name} {text}" for name, text in change_lines(ArchiveSpec, changes).items())
    return ", ".join(f"{name} {text_of(value)}" for name, value in entry["detail"].items() if value is not None)
