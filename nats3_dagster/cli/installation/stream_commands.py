"""`nats3 stream`: the streams that there are to archive, for those who have no `nats` command at hand."""

from enum import StrEnum
from typing import Annotated, Any

import typer

from nats3_dagster.archive.source import streams
from nats3_dagster.cli.loading import LazyGroup
from nats3_dagster.cli.terminal import completing
from nats3_dagster.cli.terminal.options import Output, parse_duration, parse_size
from nats3_dagster.cli.terminal.output import Columns, Format, Prose, Size, counted, show, show_one, when
from nats3_dagster.cli.terminal.progress import note
from nats3_dagster.cli.terminal.watch import Watch, watched
from nats3_dagster.cli.wording import WORDS
from nats3_dagster.documents.streams import Stream, SubjectCount
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace

app = typer.Typer(cls=LazyGroup, no_args_is_help=True, add_completion=False)
StreamName = Annotated[
    str, typer.Argument(metavar="STREAM", help="Name of the stream.", autocompletion=completing.streams)
]


class Storage(StrEnum):
    """The place where a stream is stored."""

    file = "file"
    memory = "memory"


class Retention(StrEnum):
    """The purpose that a stream keeps its messages for."""

    limits = "limits"
    interest = "interest"
    workqueue = "workqueue"


class Discard(StrEnum):
    """The message that is discarded when a stream is full."""

    old = "old"
    new = "new"


_LIST: Columns = {
    "STREAM": lambda s: s["name"],
    "ARCHIVES": lambda s: "?" if s["archives"] is None else s["archives"] or "none",
    "MESSAGES": lambda s: s["messages"],
    "SIZE": lambda s: Size(s["bytes"]),
    "RETENTION": lambda s: s["retention"],
    "ARCHIVED BY": lambda s: f"--mode {s['archive_mode']}" if s["archive_mode"] else "cannot be archived",
    "LAST MESSAGE": lambda s: when(s["last_time"]),
    "SUBJECTS": lambda s: s["subjects"],
    "REPLICAS": lambda s: s["replicas"],
    "STORAGE": lambda s: s["storage"],
}
_SUBJECTS: Columns = {"SUBJECT": lambda s: s["subject"], "MESSAGES": lambda s: s["messages"]}


@app.command("list")
def list_(watch: Watch = None, output: Output = Format.table) -> None:
    """All streams of the account, and which archives have them."""
    settings = Settings.load()

    def look() -> list[dict[str, Any]]:
        with Workspace(settings) as workspace:
            return [Stream.of(report, WORDS).plain() for report in streams.report(workspace)]

    watched(watch, output, look, lambda views: _show_list(output, views))


def _show_list(output: Format, views: list[dict[str, Any]]) -> None:
    show(output, views, _LIST)
    bare = [view["name"] for view in views if view["archives"] == []]
    if any(view["archives"] is None for view in views):
        note("The catalog cannot be asked which of them are archived: see nats3 doctor")
    elif bare:
        note(f"No archive has {', '.join(bare)}. To archive one: nats3 store create")


@app.command()
def info(name: StreamName, watch: Watch = None, output: Output = Format.table) -> None:
    """One stream: limits, storage, what it has, and whether and how it can be archived."""
    settings = Settings.load()

    def look() -> dict[str, Any]:
        with Workspace(settings) as workspace:
            return Stream.of(streams.find(workspace, name), WORDS).plain()

    watched(watch, output, look, lambda view: show_one(output, view, _lines(view)))


@app.command()
def subjects(
    name: StreamName,
    subject: Annotated[
        str, typer.Option("--subject", metavar="FILTER", help="Only these subjects (NATS filter).")
    ] = ">",
    limit: Annotated[
        int, typer.Option("--limit", min=1, metavar="COUNT", help="At most this many, largest first.")
    ] = 100,
    output: Output = Format.table,
) -> None:
    """Show the number of messages of each subject of a stream."""
    with Workspace(Settings.load()) as workspace:
        counts = streams.subjects(workspace, name, subject)
    items = [SubjectCount(subject=subject, messages=count) for subject, count in list(counts.items())[:limit]]
    show(output, [item.plain() for item in items], _SUBJECTS)
    if len(counts) > limit:
        note(f"{counted(len(counts) - limit, 'subject')} more. To see them: --limit {len(counts)}")


@app.command()
def create(
    name: StreamName,
    subject: Annotated[
        list[str],
        typer.Option(
            "--subject", metavar="FILTER", help="The subjects that it captures (NATS filter). May be repeated."
        ),
    ],
    storage: Annotated[Storage, typer.Option("--storage", help="Storage of the messages.")] = Storage.file,
    retention: Annotated[Retention, typer.Option("--retention", help="Retention policy.")] = Retention.limits,
    replicas: Annotated[int, typer.Option("--replicas", metavar="COUNT", help="Number of replicas.")] = 1,
    max_msgs: Annotated[
        int | None, typer.Option("--max-msgs", metavar="COUNT", help="Keep at most this many messages.")
    ] = None,
    max_bytes: Annotated[
        int | None, typer.Option("--max-bytes", parser=parse_size, metavar="SIZE", help="Keep at most this size.")
    ] = None,
    max_age: Annotated[
        int | None,
        typer.Option("--max-age", parser=parse_duration, metavar="DURATION", help="Keep messages for this time."),
    ] = None,
    max_msgs_per_subject: Annotated[
        int | None,
        typer.Option("--max-msgs-per-subject", metavar="COUNT", help="Keep at most this many of each subject."),
    ] = None,
    max_msg_size: Annotated[
        int | None,
        typer.Option("--max-msg-size", parser=parse_size, metavar="SIZE", help="Refuse larger messages."),
    ] = None,
    duplicate_window: Annotated[
        int | None,
        typer.Option(
            "--duplicate-window",
            parser=parse_duration,
            metavar="DURATION",
            help="Detect duplicate message ids for this time.",
        ),
    ] = None,
    discard: Annotated[Discard, typer.Option("--discard", help="Discard policy of a full stream.")] = Discard.old,
    description: Annotated[str, typer.Option("--description", metavar="TEXT", help="Description of the stream.")] = "",
    output: Output = Format.table,
) -> None:
    """Create a stream. One with this very configuration is left as it is."""
    request = streams.StreamRequest(
        name=name,
        subjects=tuple(subject),
        storage=storage.value,
        retention=retention.value,
        replicas=replicas,
        max_msgs=max_msgs,
        max_bytes=max_bytes,
        max_age_s=max_age,
        max_msgs_per_subject=max_msgs_per_subject,
        max_msg_size=max_msg_size,
        duplicate_window_s=duplicate_window,
        discard=discard.value,
        description=description,
    )
    with Workspace(Settings.load()) as workspace:
        view = Stream.of(streams.create(workspace, request), WORDS).plain()
    show_one(output, view, _lines(view))
    if not view["archives"]:
        mode = "" if view["archive_mode"] == "stream" else f" --mode {view['archive_mode']}"
        note(f"To archive it: nats3 store create --stream {name} --name NAME --bucket BUCKET{mode}")


def _lines(view: dict[str, Any]) -> dict[str, object]:
    archives = view["archives"]
    duration = {key: f"{view[key]:,.0f} s" if view[key] else None for key in ("max_age_s", "duplicate_window_s")}
    return {
        "stream": view["name"],
        "subjects": view["subjects"],
        "mirror of": view["mirror"],
        "sources": view["sources"] or None,
        "archives": "not known: the catalog cannot be asked" if archives is None else archives or "none",
        "archived by": f"--mode {view['archive_mode']}" if view["archive_mode"] else "cannot be archived",
        "note": Prose(". ".join(view["archive_notes"])) if view["archive_notes"] else None,
        "messages": view["messages"],
        "size": Size(view["bytes"]),
        "sequences": f"{view['first_seq']}-{view['last_seq']}" if view["last_seq"] else None,
        "first": when(view["first_time"]),
        "last": when(view["last_time"]),
        "retention": view["retention"],
        "limit on messages": view["max_msgs"],
        "limit on size": view["max_bytes"] and Size(view["max_bytes"]),
        "limit on age": duration["max_age_s"],
        "limit per subject": view["max_msgs_per_subject"],
        "limit on a message": view["max_msg_size"] and Size(view["max_msg_size"]),
        "when full": view["discard"],
        "duplicate window": duration["duplicate_window_s"],
        "storage": view["storage"],
        "replicas": view["replicas"],
        "leader": view["leader"],
        "consumers": view["consumers"],
        "created": when(view["created_at"]),
    }
