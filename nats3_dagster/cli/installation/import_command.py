"""`nats3 stream import`: an archive of a backup that `nats stream backup` took."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from nats3_dagster.archive.imports import run as imports
from nats3_dagster.archive.imports.backup import Backup, read_backup
from nats3_dagster.cli.processes import capture_hours, check_spark
from nats3_dagster.cli.reload import reload_dagster
from nats3_dagster.cli.terminal.options import Output
from nats3_dagster.cli.terminal.output import Format, show_one, when
from nats3_dagster.cli.terminal.progress import bar, note
from nats3_dagster.documents.imports import ImportedArchive
from nats3_dagster.model import ArchiveSpec
from nats3_dagster.settings import Settings
from nats3_dagster.steps import Next
from nats3_dagster.workspace import Workspace


def import_(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder with the backup.")],
    archive: Annotated[str, typer.Option("--archive", metavar="NAME", help="Name of the archive.")],
    bucket: Annotated[str, typer.Option("--bucket", metavar="BUCKET", help="Bucket of its chunks.")],
    prefix: Annotated[str, typer.Option("--prefix", metavar="PREFIX", help="Key prefix of its chunks.")] = "",
    copies: Annotated[
        list[str] | None, typer.Option("--copy", metavar="BUCKET", help="Another bucket for a copy. Repeatable.")
    ] = None,
    zstd_level: Annotated[
        int, typer.Option("--zstd-level", metavar="LEVEL", help="Compression, 1 (fast) to 22 (small).")
    ] = 3,
    create_bucket: Annotated[bool, typer.Option("--create-bucket", help="Create buckets that do not exist.")] = False,
    output: Output = Format.table,
) -> None:
    """Make an archive of a backup that `nats stream backup` took, of a server of any release.

    A nats-server of our own restores it first, on this machine. Sequences, times, subjects and headers are those of the
    backup. The archive is paused: a stream of the same name that lives is another one until `nats3 store resume`, and
    is then captured only if it has what is archived. What was cut is run again, and goes on."""
    settings = Settings.load()
    with bar("read the backup", "bytes") as on_count:
        backup = read_backup(folder, on_read=on_count)
    spec = ArchiveSpec(archive, backup.stream, bucket, prefix=prefix, copies=tuple(copies or ()), zstd_level=zstd_level)
    with Workspace(settings) as workspace:
        imports.check(workspace, backup, spec)
    document = _imported(settings, backup, spec, create_bucket=create_bucket)
    show_one(output, document.plain(), _lines(document))
    but = f", but for {document.ended:,} that had ended by their own time to live" if document.ended else ""
    note(f"Each message of the backup is in archive {archive}{but}")
    resume = Next.RESUME_ARCHIVE(archive=archive).command
    note(f"It is paused, and follows no stream. {resume} goes on with {backup.stream} if that has what is archived")
    note(reload_dagster(settings))


def _imported(settings: Settings, backup: Backup, spec: ArchiveSpec, *, create_bucket: bool) -> ImportedArchive:
    """The import, on a server that ends with it."""
    # It imports psutil, which is of an extra.
    from nats3_dagster.dev.own_server import import_server

    check_spark(settings)
    with import_server(settings, spec.name) as server, Workspace(server.settings) as workspace:

        def capture(hours: Sequence[str]) -> None:
            for _ in capture_hours(server.settings, spec.name, hours):
                pass

        def begun() -> None:
            server.keep = True

        with bar(f"restore {backup.stream}", "bytes") as on_count:
            done = imports.run(
                workspace,
                backup,
                spec,
                capture,
                create_bucket=create_bucket,
                on_progress=on_count,
                on_begun=begun,
            )
        server.keep = False
    return ImportedArchive.of(done)


def _lines(document: ImportedArchive) -> dict[str, Any]:
    return {
        "archive": document.archive,
        "stream": document.stream,
        "bucket": document.bucket,
        "prefix": document.prefix or None,
        "messages": document.messages,
        "ended": document.ended or None,
        "sequences": f"{document.first_seq}-{document.last_seq}",
        "first": when(document.first_time),
        "last": when(document.last_time),
        "hours": document.hours,
        "sealed": document.sealed,
        "paused": document.paused,
    }
