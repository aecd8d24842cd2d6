"""`nats3 store set`: other thresholds, another level of compression, other subjects of what comes."""

from typing import Annotated, Any

import typer

from nats3_dagster.archive.change import change
from nats3_dagster.cli.reload import reload_dagster
from nats3_dagster.cli.store.store_views import changed_text
from nats3_dagster.cli.terminal.options import ArchiveName, Output, parse_duration, parse_size
from nats3_dagster.cli.terminal.output import Format, show_one
from nats3_dagster.cli.terminal.progress import note
from nats3_dagster.errors import OperatorError
from nats3_dagster.settings import Settings
from nats3_dagster.views import archives as documents
from nats3_dagster.workspace import Workspace


def _fixed(name: str, metavar: str) -> Any:
    """An option for what no archive may change: whoever tries it is told why, and what to do."""
    return typer.Option(name, metavar=metavar, hidden=True)


def set_(
    name: ArchiveName,
    max_messages: Annotated[
        int | None,
        typer.Option("--max-messages", metavar="COUNT", help="A capture is due at this many uncaptured messages."),
    ] = None,
    max_bytes: Annotated[
        int | None,
        typer.Option("--max-bytes", parser=parse_size, metavar="SIZE", help="... or at this many bytes of them."),
    ] = None,
    max_age: Annotated[
        int | None,
        typer.Option(
            "--max-age", parser=parse_duration, metavar="DURATION", help="... or when the oldest is this old."
        ),
    ] = None,
    zstd_level: Annotated[
        int | None, typer.Option("--zstd-level", metavar="LEVEL", help="Compression, 1 (fast) to 22 (small).")
    ] = None,
    subject: Annotated[
        list[str] | None,
        typer.Option(
            "--subject", metavar="FILTER", help="Archive only these subjects of what comes from now on; '>' for all. "
            "May be repeated.",
        ),
    ] = None,
    stream: Annotated[str | None, _fixed("--stream", "STREAM")] = None,
    bucket: Annotated[str | None, _fixed("--bucket", "BUCKET")] = None,
    prefix: Annotated[str | None, _fixed("--prefix", "PREFIX")] = None,
    mode: Annotated[str | None, _fixed("--mode", "MODE")] = None,
    consumer: Annotated[str | None, _fixed("--consumer", "NAME")] = None,
    new_name: Annotated[str | None, _fixed("--name", "NAME")] = None,
    output: Output = Format.table,
) -> None:
    """Change settings of an archive, for what comes. Sensors follow at their next tick, captures with their next hour;
    what is captured stays as it is."""
    given = {
        "max_messages": max_messages, "max_bytes": max_bytes, "max_age_s": max_age, "zstd_level": zstd_level,
        "subjects": tuple(subject) if subject else None, "stream": stream, "bucket": bucket, "prefix": prefix,
        "mode": mode, "durable": consumer, "name": new_name,
    }  # fmt: skip
    wanted = {field: value for field, value in given.items() if value is not None}
    if not wanted:
        raise OperatorError("There is nothing to change", "Give a setting with its new value, like --max-age 60s")
    with Workspace(Settings.load()) as workspace:
        done = change(workspace, name, wanted)
    changes = [documents.difference(one) for one in done.differences]
    lines = {one["field"]: changed_text(one) for one in changes}
    show_one(output, documents.archive(done.after) | {"changes": changes}, {"archive": name, **lines})
    if not changes:
        note(f"Nothing was changed: archive {name} has this already")
        return
    if any(one.field == "subjects" for one in done.differences):
        note(f"The new subjects count from sequence {done.after.former_filters[-1].last_seq + 1:,} of the stream on")
    note("Changed. Sensors follow at their next tick, captures with their next hour")
    note(reload_dagster(workspace.settings))
