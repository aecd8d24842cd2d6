"""`nats3 message`: single messages of an archive."""

from typing import Annotated, Any

import typer

from nats3_dagster.archive.read import answers
from nats3_dagster.cli.loading import LazyGroup
from nats3_dagster.cli.reads import message_output as output_of
from nats3_dagster.cli.reads.message_output import MessageFormat, Text
from nats3_dagster.cli.remote import server
from nats3_dagster.cli.terminal.options import ArchiveName, Output, UsageFault, parse_duration, parse_time_text
from nats3_dagster.cli.terminal.output import Format, Size, show_one
from nats3_dagster.documents.base import time_of
from nats3_dagster.documents.messages import MessageReference
from nats3_dagster.errors import OperatorError
from nats3_dagster.hours import parse_time
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace

app = typer.Typer(cls=LazyGroup, no_args_is_help=True, add_completion=False)
Incarnation = Annotated[
    str | None,
    typer.Option(
        "--incarnation",
        metavar="TOKEN",
        help="The incarnation of the stream, as in keys of chunks (default: the newest).",
    ),
]
Subject = Annotated[str, typer.Option("--subject", metavar="FILTER", help="A subject, or a NATS filter.")]
Seq = Annotated[int | None, typer.Option("--seq", metavar="SEQUENCE", help="The sequence in the stream.")]
_HOUR_S = 3600
AsOf = Annotated[
    str | None,
    typer.Option("--at", metavar="TIME", parser=parse_time_text, help="As of this time: 2026-11-21T07:00:00Z or -2h."),
]


@app.command()
def get(
    context: typer.Context,
    name: ArchiveName,
    seq: Seq = None,
    at: Annotated[
        str | None,
        typer.Option(
            "--at", metavar="TIME", parser=parse_time_text, help="Or the first message stored at this time or later."
        ),
    ] = None,
    incarnation: Incarnation = None,
    text: Text = False,
    output: output_of.Output = MessageFormat.table,
) -> None:
    """One message, by its sequence or its time. Exit status 1 and the reason if the archive does not have it."""
    if (seq is None) == (at is None):
        raise UsageFault("Give one of --seq and --at", context)
    at_ns, settings = _time(at), Settings.load()
    with server(settings) as api:
        if api:
            output_of.write(output, api.message(name, "", seq=seq, at=time_of(at_ns), incarnation=incarnation), text)
            return
    with Workspace(settings) as workspace:
        output_of.write(output, answers.get(workspace, name, seq=seq, at_ns=at_ns, incarnation=incarnation), text)


@app.command("next")
def next_(
    name: ArchiveName,
    subject: Subject,
    after: Annotated[
        int, typer.Option("--after", min=0, metavar="SEQUENCE", help="After this sequence; 0 for the first one.")
    ] = 0,
    incarnation: Incarnation = None,
    text: Text = False,
    output: output_of.Output = MessageFormat.table,
) -> None:
    """The next message of a subject, or of a filter, after a sequence."""
    settings = Settings.load()
    with server(settings) as api:
        if api:
            found = api.message(name, "/next", subject=subject, after=after, incarnation=incarnation)
            output_of.write(output, found, text)
            return
    with Workspace(settings) as workspace:
        output_of.write(output, answers.next_of(workspace, name, subject, after, incarnation=incarnation), text)


@app.command()
def last(
    name: ArchiveName,
    subject: Subject,
    at: AsOf = None,
    every: Annotated[
        bool, typer.Option("--all", help="The last message of each subject that matches: a key-value snapshot.")
    ] = False,
    text: Text = False,
    output: output_of.Output = MessageFormat.table,
) -> None:
    """The last message of a subject, also as of a time; with --all of each subject of a filter."""
    at_ns, settings = _time(at), Settings.load()
    with server(settings) as api:
        if api:
            if every:
                raise OperatorError("A server gives one message", "Run it where the server runs, or leave out --all")
            output_of.write(output, api.message(name, "/last", subject=subject, at=time_of(at_ns)), text)
            return
    with Workspace(settings) as workspace:
        if not every:
            output_of.write(output, answers.last_of(workspace, name, subject, at_ns=at_ns), text)
            return
        for message in answers.last_values(workspace, name, subject, at_ns=at_ns):
            output_of.write(output, message, text, many=True)


@app.command()
def ref(
    context: typer.Context,
    name: ArchiveName,
    seq: Seq = None,
    expires: Annotated[
        int | None,
        typer.Option(
            "--expires",
            metavar="DURATION",
            parser=parse_duration,
            help="Validity of the URL, at most 7d.  [default: 1h]",
        ),
    ] = None,
    incarnation: Incarnation = None,
    output: Output = Format.table,
) -> None:
    """A reference to one message: a URL of its object, and how to read it from there without nats3.

    Anyone with the URL can read the whole object until it expires."""
    if seq is None:
        raise UsageFault("Missing option '--seq'", context)
    expires, settings = _HOUR_S if expires is None else expires, Settings.load()
    with server(settings) as api:
        if api:
            view = api.reference(name, seq=seq, expires=expires, incarnation=incarnation)
            show_one(output, view, _lines(view))
            return
    with Workspace(settings) as workspace:
        view = MessageReference.of(answers.reference(workspace, name, seq, expires, incarnation=incarnation)).plain()
    show_one(output, view, _lines(view))


def _lines(view: dict[str, Any]) -> dict[str, object]:
    first, last = view["range"]
    return {
        "message": str(view["seq"]),
        "url": view["url"],
        "expires": view["expires_at"],
        "object": f"{view['bucket']}/{view['key']}",
        "size": Size(view["size"]),
        "bytes": f"{first}-{last}",
        "footer": f"{view['footer_range'][0]}-{view['footer_range'][1]}",
        "row group": str(view["row_group"]),
        "row": str(view["row"]),
        "how": view["how"],
        "note": view["note"] or None,
        "program": "python in -o json prints the message",
    }


def _time(text: str | None) -> int | None:
    return None if text is None else parse_time(text)
