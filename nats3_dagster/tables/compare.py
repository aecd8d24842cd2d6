"""Comparing: every file that a table lists, with the archive's live chunks.

The table's manifests are read one after the other; what is kept of each file is a few numbers. The first and the last
message of a chunk whose absent sequences the catalog does not list are read from its footer.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from nats3_dagster.chunks.footer import DAMAGED, Footer, read_footer
from nats3_dagster.errors import ChunkError
from nats3_dagster.model.archive_table import ArchiveTable, TableFile, TableState
from nats3_dagster.tables import layout
from nats3_dagster.workspace import Workspace

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table
# Footers that are read at the same time, and files that are looked at together.
_READERS = 8
_PAGE = 256
# Bytes from the end of an object that are read first: most footers have less.
_TAIL = 64 << 10


@dataclass(frozen=True, slots=True)
class Fault:
    """A way in which a table is not its archive."""

    path: str  # of a file; of a manifest for deletes that another program wrote
    what: str  # in words
    is_foreign: bool = False  # not to be undone here


@dataclass(frozen=True, slots=True)
class Comparison:
    """A table beside its archive."""

    state: TableState  # what it shall have; all live chunks
    files: int  # that it lists
    rows: int  # of these
    messages: int  # of all live chunks
    faults: tuple[Fault, ...]
    missing: tuple[int, ...]  # ids of chunks that are to be added, by hour
    hours: tuple[str, ...]  # the hour of each of these
    wrong: tuple["DataFile", ...]  # that are to be removed; what is to be added again as well


def compare(workspace: Workspace, known: ArchiveTable, table: "Table") -> Comparison:
    """Every difference. Raises CatalogError, StoreError, and whatever pyiceberg raises."""
    state = workspace.catalog.tables.state(known.archive_id)
    expected, ids, messages = {}, {}, 0
    for file in workspace.catalog.tables.files(state.ids):
        path = layout.path_of(workspace.settings, file)
        # As bytes and numbers only: an archive may have a million chunks.
        expected[path] = layout.facts_of(file)
        ids[path] = file.chunk_id
        messages += file.messages
    faults: list[Fault] = []
    wrong: dict[str, DataFile] = {}
    listed: set[str] = set()
    files = rows = 0
    for entry in _entries(table, faults):
        files, rows, path = files + 1, rows + entry.record_count, entry.file_path
        what = _fault(entry, expected.get(path), is_second=path in listed)
        listed.add(path)
        if what:
            faults.append(Fault(path, what))
            wrong[path] = entry
    missing = [path for path in expected if path not in listed]
    faults += [Fault(path, "a live chunk that the table does not have") for path in missing]
    again = {ids[path] for path in wrong if path in ids}
    add = {ids[path] for path in missing} | again
    chosen = [(chunk, hour) for chunk, hour in zip(state.ids, state.hours, strict=True) if chunk in add]
    return Comparison(
        state,
        files,
        rows,
        messages,
        tuple(faults),
        tuple(chunk for chunk, _ in chosen),
        tuple(hour for _, hour in chosen),
        tuple(wrong.values()),
    )


def _entries(table: "Table", faults: list[Fault]) -> "Iterator[DataFile]":
    """The data files of the current snapshot. Manifests of deletes become faults."""
    from pyiceberg.manifest import ManifestContent

    snapshot = table.current_snapshot()
    for manifest in snapshot.manifests(table.io) if snapshot else ():
        if manifest.content != ManifestContent.DATA:
            faults.append(Fault(manifest.manifest_path, "deletes rows, and another program wrote it", True))
            continue
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True):
            yield entry.data_file


def _fault(entry: "DataFile", expected: tuple[Any, ...] | None, *, is_second: bool) -> str:
    """Returns the fault of a file that the table lists; empty if it is right."""
    if expected is None:
        return "is no live chunk of the archive"
    if is_second:
        return "is there twice"
    listed = zip(layout.FACTS, layout.facts(entry), expected, strict=True)
    # None: the catalog does not know it, and it was taken from the object.
    unlike = [name for name, has, should in listed if should is not None and has != should]
    return f"has another {', '.join(unlike)} than the chunk" if unlike else ""


def chunk_files(workspace: Workspace, ids: Sequence[int]) -> Iterator[TableFile]:
    """These chunks as the table shall list them."""
    return with_bounds(workspace, workspace.catalog.tables.files(ids))


def with_bounds(workspace: Workspace, files: Iterator[TableFile]) -> Iterator[TableFile]:
    """The files in their order, each with `seqs`. Only where the catalog has none a footer is read. Raises StoreError,
    ChunkError for a footer that is not this chunk's."""
    with ThreadPoolExecutor(_READERS) as readers:
        while page := list(islice(files, _PAGE)):
            yield from readers.map(lambda file: file if file.seqs else _bounded(workspace, file), page)


def _bounded(workspace: Workspace, file: TableFile) -> TableFile:
    footer = _footer(workspace, file)
    if footer.messages != file.messages or footer.hour != file.hour:
        raise ChunkError(f"{file.key} is not the chunk that the catalog lists", DAMAGED)
    return replace(file, seqs=(footer.row_groups[0].first_seq, footer.row_groups[-1].last_seq))


def _footer(workspace: Workspace, file: TableFile) -> Footer:
    """The footer, proven by its digest: one ranged read, or two for one that is large."""
    bucket, size = workspace.bucket(file.bucket), file.stored_bytes
    tail = bytes(bucket.get_range(file.key, max(size - _TAIL, 0), min(size, _TAIL)))
    needed = int.from_bytes(tail[-8:-4], "little") + 8
    if len(tail) < needed <= size:
        tail = bytes(bucket.get_range(file.key, size - needed, needed))
    try:
        return read_footer(pq.read_metadata(pa.BufferReader(tail)))
    except (pa.ArrowException, OSError) as error:
        raise ChunkError(f"The footer of {file.key} cannot be read", DAMAGED) from error
