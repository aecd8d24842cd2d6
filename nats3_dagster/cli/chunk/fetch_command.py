"""`nats3 chunk fetch`: the Parquet object of a chunk, for any program that reads Parquet."""

import re
import shlex
import shutil
import sys
from pathlib import Path
from typing import Annotated

import typer

from nats3_dagster.archive import status
from nats3_dagster.archive.read.download import download
from nats3_dagster.archive.read.download import fetch as fetch_bytes
from nats3_dagster.cli.terminal.options import ArchiveName, ChunkName, Output
from nats3_dagster.cli.terminal.output import Format, Size, show_one
from nats3_dagster.cli.terminal.progress import note, step
from nats3_dagster.documents.chunks import FetchedChunk
from nats3_dagster.errors import OperatorError
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace


def fetch(
    name: ArchiveName,
    chunk: ChunkName,
    to: Annotated[
        str | None,
        typer.Option(
            "--to", metavar="FILE", help="A file or folder (default: here, under the object's name), or - for stdout."
        ),
    ] = None,
    output: Output = Format.table,
) -> None:
    """Fetch the Parquet object of a chunk, proven by size, hash and identity. No file is overwritten."""
    if to == "-" and sys.stdout.isatty():
        raise OperatorError("The object is binary, and stdout is a terminal", "Redirect it, or give a file with --to")
    with Workspace(Settings.load()) as workspace:
        found = status.chunk(workspace, name, chunk).chunk
        with step(f"Fetching {Size(found.meta.stored_bytes).human_readable(separator=' ')}"):
            if to == "-":
                sys.stdout.buffer.write(fetch_bytes(workspace, found))
                return
            file = download(workspace, found, None if to is None else Path(to))
    fetched = FetchedChunk.of(found, str(file.absolute()))
    lines = {
        "file": fetched.file,
        "chunk": str(fetched.id),
        "messages": fetched.messages,
        "size": Size(fetched.stored_bytes),
        "sha256": fetched.sha256,
    }
    show_one(output, fetched.plain(), lines)
    note(f"To read it: {_reading(file)}")


def _reading(file: Path) -> str:
    """A line for a shell, of a program that is here."""
    if shutil.which("duckdb"):
        name = str(file).replace("'", "''")
        return _line("duckdb", "-c", f"select seq, time, subject, data from '{name}' limit 10")  # noqa: S608
    read = f"import pyarrow.parquet as p; print(p.read_table({str(file)!r}).slice(0, 10).to_pylist())"
    return _line(_python(), "-c", read)


def _python() -> str:
    """This Python as the shell finds it."""
    name = Path(sys.executable).name
    return name if shutil.which(name) == sys.executable else sys.executable


def _line(*words: str) -> str:
    return " ".join(
        f'"{word}"' if re.fullmatch(r"[\w./, ()';=:-]+", word) and " " in word else shlex.quote(word) for word in words
    )
