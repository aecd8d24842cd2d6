"""`nats3 account restore`: the streams of an account made again from their archives."""

from typing import Annotated, Any

import typer

from nats3_dagster.archive.account_restore.plan import plan
from nats3_dagster.archive.account_restore.run import run
from nats3_dagster.archive.account_restore.spec import AccountRestoreSpec
from nats3_dagster.cli.account.streams_options import Exclude, Match, RuleName
from nats3_dagster.cli.reads.selecting import OverGaps, ToTime
from nats3_dagster.cli.terminal.options import Output
from nats3_dagster.cli.terminal.output import Columns, Format, Prose, Size, counted, show, show_one, when
from nats3_dagster.cli.terminal.progress import bar, note
from nats3_dagster.cli.wording import WORDS
from nats3_dagster.documents.account_restores import AccountRestore
from nats3_dagster.hours import parse_time
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace

_ACTIONS = {
    "restore": "restored",
    "make": "made from others",
    "done": "there already",
    "compare": "there, to compare",
    "left_out": "left out",
    "refused": "cannot be restored",
}
_ENDS = _ACTIONS | {"compare": "there, compared"}
_PLAN: Columns = {
    "STREAM": lambda s: s["stream"],
    "STATE": lambda s: _ACTIONS[s["action"]],
    "MESSAGES": lambda s: s["messages"],
    "SIZE": lambda s: Size(s["payload_bytes"]),
    "CONSUMERS": lambda s: len(s["consumers"]),
    "ARCHIVED UP TO": lambda s: when(s["archived_up_to"]),
    "NOTE": lambda s: _note(s),
}
_DONE: Columns = {
    "STREAM": lambda s: s["stream"],
    "STATE": lambda s: "failed" if s["state"] == "failed" else _ENDS[s["action"]],
    "MESSAGES": lambda s: s["messages"],
    "COMPARED": lambda s: s["compared"],
    "CONSUMERS": lambda s: len(s["consumers"]),
    "SECONDS": lambda s: s["seconds"],
    "NOTE": lambda s: _note(s),
}


def restore(
    name: RuleName,
    to_time: ToTime = None,
    match: Match = None,
    exclude: Exclude = None,
    into: Annotated[
        str | None,
        typer.Option("--into", metavar="CONTEXT", help="NATS context of the account to restore into. Default: here."),
    ] = None,
    replicas: Annotated[
        int | None, typer.Option("--replicas", metavar="COUNT", help="Number of replicas. Default: as they had.")
    ] = None,
    limits: Annotated[
        bool, typer.Option("--limits", help="Give streams the limits that they had, though they may remove messages.")
    ] = False,
    over_gaps: OverGaps = False,
    consumers: Annotated[bool, typer.Option("--consumers/--no-consumers", help="Bring back their durables.")] = True,
    at_once: Annotated[int, typer.Option("--at-once", metavar="COUNT", help="Streams that are restored at once.")] = 2,
    verify: Annotated[
        bool, typer.Option("--verify/--no-verify", help="Compare every message with the archive afterwards.")
    ] = True,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be restored, and make nothing.")] = False,
    output: Output = Format.table,
) -> None:
    """Make the streams of an account again from their archives, as they were at a time, with consumers.

    Each stream comes back as it was at the time, by its own messages. Nothing begins where one of them cannot be
    restored. A restore that was stopped is run again: it makes what is left. Streams that are there already are
    compared, and never changed."""
    spec = AccountRestoreSpec(
        name,
        None if to_time is None else parse_time(to_time),
        match=tuple(match or ("*",)),
        exclude=tuple(exclude or ()),
        replicas=replicas,
        limits=limits,
        over_gaps=over_gaps,
        consumers=consumers,
        at_once=at_once,
    )
    settings = Settings.load()
    with Workspace(settings.in_context(into) if into else settings) as workspace:
        planned, done = plan(workspace, spec), None
        view = AccountRestore.of(planned, None, WORDS).plain()
        if dry_run or planned.refusal:
            _show(output, view, _PLAN)
        if planned.refusal:
            raise planned.refusal
        if not dry_run:
            with bar(f"restore {name}") as on_count:
                done = run(workspace, planned, verify=verify, on_progress=lambda sent: on_count(sent, view["messages"]))
            view = AccountRestore.of(planned, done, WORDS).plain()
            _show(output, view, _DONE)
    if dry_run:
        note("A dry run: no stream was made")
        return
    failed = [one for one in view["streams"] if one["error"]]
    for one in failed:
        note(f"Stream {one['stream']}: {one['error']}")
    if failed:
        note("Run it again for what is left: streams that are whole stay as they are")
        raise typer.Exit(1)
    compared = sum(one["compared"] or 0 for one in view["streams"] if one["archive"])
    if verify and compared:
        note(f"{counted(compared, 'message')} were compared, and are as their archives have them")
    if there := sum(one["action"] == "done" for one in view["streams"]):
        note(f"{counted(there, 'stream')} were there from an earlier run, and were not compared again")


def _show(output: Format, view: dict[str, Any], columns: Columns) -> None:
    lines = {
        "rule": view["rule"],
        "into": view["server"],
        "as of": when(view["to_time"]),
        "messages": view["messages"],
        "size": Size(view["payload_bytes"]),
    }
    show_one(output, view, lines)
    if output is Format.table:
        show(output, view["streams"], columns)


def _note(view: dict[str, Any]) -> Prose | None:
    texts = [*view["notes"], *filter(None, (view["why"], view["next"]))]
    return Prose(". ".join(texts)) if texts else None
