"""`nats3 store`: archives. Create, look at, capture now, pause, delete.

The rule kept here: everything about a new archive is checked before anything of it is written.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from nats3_dagster.cli import store_views as views
from nats3_dagster.cli.captures import capture_hours
from nats3_dagster.cli.options import ArchiveName, Hours, Output, parse_duration, parse_size
from nats3_dagster.cli.progress import bar
from nats3_dagster.cli.terminal import Format, note, show, show_one
from nats3_dagster.errors import Conflict, Nats3Error, OperatorError
from nats3_dagster.model import ArchiveSpec

if TYPE_CHECKING:
    from nats3_dagster.settings import Settings

app = typer.Typer(no_args_is_help=True, help="Archives: what is captured, from which stream, into which bucket.")


@app.command()
def create(
    name: Annotated[str, typer.Option("--name", help="Name of the archive: letters, digits and _.")],
    stream: Annotated[str, typer.Option("--stream", help="The JetStream stream to archive.")],
    bucket: Annotated[str, typer.Option("--bucket", help="The bucket that takes the chunks.")],
    subject: Annotated[
        list[str] | None, typer.Option("--subject", help="Archive only these subjects (NATS filter). May be repeated.")
    ] = None,
    prefix: Annotated[str, typer.Option("--prefix", help="Key prefix of the chunks, like team/logs.")] = "",
    max_messages: Annotated[
        int, typer.Option("--max-messages", help="A capture is due at this many uncaptured messages.")
    ] = ArchiveSpec.__dataclass_fields__["max_messages"].default,
    max_bytes: Annotated[
        int, typer.Option("--max-bytes", parser=parse_size, metavar="SIZE", help="... or at this many bytes of them.")
    ] = "64MiB",  # type: ignore[assignment]  typer parses the default as it parses a value
    max_age: Annotated[
        int,
        typer.Option(
            "--max-age", parser=parse_duration, metavar="DURATION", help="... or when the oldest is this old."
        ),
    ] = "60s",  # type: ignore[assignment]
    zstd_level: Annotated[int, typer.Option("--zstd-level", help="Compression, 1 (fast) to 22 (small).")] = 3,
    create_bucket: Annotated[bool, typer.Option("--create-bucket", help="Make the bucket when there is none.")] = False,
    consumer: Annotated[
        str | None,
        typer.Option("--consumer", metavar="DURABLE", help="Read through this durable consumer (not built yet)."),
    ] = None,
    output: Output = Format.table,
) -> None:
    """Create an archive. Nothing is captured yet: see `nats3 store run`."""
    if consumer is not None:
        raise OperatorError(
            "Archives that read through a durable consumer (--consumer) are not built yet",
            "Leave --consumer out; source such a stream into one with limits retention, and archive that",
        )
    spec = ArchiveSpec(
        name=name, stream=stream, bucket=bucket, prefix=prefix, subjects=tuple(subject or ()),
        max_messages=max_messages, max_bytes=max_bytes, max_age_s=max_age, zstd_level=zstd_level,
    )  # fmt: skip
    from nats3_dagster import objects as store
    from nats3_dagster.archive.source import check_source
    from nats3_dagster.catalog import Catalog
    from nats3_dagster.cli.reload import reload_dagster
    from nats3_dagster.jetstream.link import Link
    from nats3_dagster.settings import Settings

    settings = Settings.load()
    with Catalog.connect(settings.postgres) as catalog, Link(settings.nats) as link:
        if catalog.archives.find(name):
            raise Conflict(
                f"There is an archive {name} already", f"Choose another name, or see it: nats3 store get {name}"
            )
        state = check_source(link, spec)
        if not store.bucket_exists(settings.store, bucket):
            if not create_bucket:
                raise OperatorError(
                    f"The bucket {bucket!r} does not exist in {settings.store.place}",
                    "Create it, or give --create-bucket",
                )
            store.create_bucket(settings.store, bucket)
        archive = catalog.archives.create(spec, state)
    view = views.archive(archive)
    show_one(output, view, views.archive_lines(view))
    note(f"Created. Capture what the stream holds now: nats3 store run {name}")
    note(reload_dagster(settings))


@app.command("list")
def list_(output: Output = Format.table) -> None:
    """All archives, with what they hold."""
    from nats3_dagster.catalog import Catalog
    from nats3_dagster.settings import Settings

    with Catalog.connect(Settings.load().postgres) as catalog:
        show(output, [views.totals(t) for t in catalog.archives.totals()], views.LIST)


@app.command()
def get(name: ArchiveName, output: Output = Format.table) -> None:
    """One archive: settings, coverage, gaps."""
    from nats3_dagster.catalog import Catalog
    from nats3_dagster.settings import Settings

    with Catalog.connect(Settings.load().postgres) as catalog:
        archive = catalog.archives.get(name)
        view = views.archive(archive) | views.holdings(catalog.coverage.all(archive), catalog.gaps.select(archive))
        view["hours"] = catalog.hours.count(archive)
    show_one(output, view, views.archive_lines(view))


@app.command()
def run(
    name: ArchiveName,
    hour: Hours = None,
    every: Annotated[bool, typer.Option("--all", help="Every hour that lacks something (the default).")] = False,
    adopt: Annotated[
        bool, typer.Option("--adopt", help="The stream was deleted and made again: archive the new one as well.")
    ] = False,
    output: Output = Format.table,
) -> None:
    """Capture now. Running it again adds nothing that is there already."""
    if hour and every:
        raise OperatorError(
            "--hour and --all exclude each other", "Give one of them, or neither for all that is lacking"
        )
    from nats3_dagster.settings import Settings

    settings = Settings.load()
    hours = _hours(settings, name, hour or (), adopt)
    if not hours:
        note(f"Archive {name} is complete: it has everything that the stream holds")
        show(output, [], views.RUN)
        return
    results: list[dict[str, object]] = []
    try:
        capture_hours(settings, name, hours, results, adopt=adopt)
    except (Nats3Error, KeyboardInterrupt):
        if results:  # what was captured is safe, and is told
            show(output, results, views.RUN)
        raise
    show(output, results, views.RUN)


@app.command()
def pause(name: ArchiveName, output: Output = Format.table) -> None:
    """Stop continuous capture. `nats3 store run` still works."""
    _set_paused(name, True, output)


@app.command()
def resume(name: ArchiveName, output: Output = Format.table) -> None:
    """Go on with continuous capture."""
    _set_paused(name, False, output)


@app.command()
def delete(
    name: ArchiveName,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    purge: Annotated[bool, typer.Option("--purge", help="Delete the chunk objects as well.")] = False,
    output: Output = Format.table,
) -> None:
    """Delete an archive from the catalog. Its objects stay unless --purge is given."""
    from nats3_dagster.archive.remove import remove_dead
    from nats3_dagster.catalog import Catalog
    from nats3_dagster.cli.reload import reload_dagster
    from nats3_dagster.settings import Settings

    settings = Settings.load()
    with Catalog.connect(settings.postgres) as catalog:
        held = next((t for t in catalog.archives.totals() if t.archive.name == name), None) or catalog.archives.get(
            name
        )
        chunks = getattr(held, "chunks", 0)
        if not yes:
            _confirm(f"Delete archive {name} with {chunks:,} chunks{', and their objects for good' if purge else ''}?")
        retired = catalog.archives.delete(name)
        removed = 0
        if purge:
            with bar("Deleting objects", "objects") as told:
                removed = remove_dead(catalog, settings.store, name, told)
    view = {"name": name, "deleted": True, "chunks": retired, "objects_deleted": removed}
    show_one(output, view, {"deleted": name, "chunks": retired, "objects deleted": removed})
    if not purge and retired:
        note("The objects are still in the store: each chunk says in its own metadata what it holds")
    note(reload_dagster(settings))


def _set_paused(name: str, paused: bool, output: Format) -> None:
    from nats3_dagster.catalog import Catalog
    from nats3_dagster.settings import Settings

    with Catalog.connect(Settings.load().postgres) as catalog:
        view = views.archive((catalog.archives.pause if paused else catalog.archives.resume)(name))
    show_one(output, view, views.archive_lines(view))


def _confirm(question: str) -> None:
    import sys

    if not sys.stdin.isatty():
        raise OperatorError(f"Nobody is here to answer: {question}", "Say --yes")
    if not typer.confirm(question, err=True):
        raise OperatorError("Nothing was deleted", "Answer y to delete")


def _hours(settings: "Settings", name: str, asked: Sequence[str], adopt: bool) -> list[str]:
    """The hours to capture, checked before Spark is started, which takes 5 s."""
    from nats3_dagster.archive.source import source_state
    from nats3_dagster.archive.windows import hours_to_capture
    from nats3_dagster.catalog import Catalog
    from nats3_dagster.hours import hour_of, hour_start
    from nats3_dagster.jetstream.link import Link
    from nats3_dagster.objects import bucket_exists

    for hour in asked:
        hour_start(hour)
    with Catalog.connect(settings.postgres) as catalog, Link(settings.nats) as link:
        archive = catalog.archives.get(name)
        state = source_state(catalog, link, archive, adopt)
        if not bucket_exists(settings.store, archive.spec.bucket):
            raise OperatorError(
                f"The bucket {archive.spec.bucket!r} of archive {name} does not exist in {settings.store.place}",
                "Create it again: chunks that it held are lost, see nats3 chunk verify",
            )
        if not asked:
            return hours_to_capture(catalog, link, archive, state)
        empty = state.last_seq < state.first_seq
        first, last = (hour_of(state.first_ns), hour_of(state.last_ns)) if not empty else ("", "")
        for hour in asked:
            if (empty or not first <= hour <= last) and not catalog.hours.select(archive, first=hour, last=hour):
                holds = f"It holds {first} to {last}" if not empty else "It is empty"
                raise OperatorError(f"Stream {state.name} has nothing of the hour {hour}, nor has the archive", holds)
        return sorted(set(asked))
