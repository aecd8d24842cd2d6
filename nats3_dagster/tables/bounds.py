"""The first and the last message of chunks whose absent sequences the catalog does not list: by their footers."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import islice

import pyarrow as pa
import pyarrow.parquet as pq

from nats3_dagster.chunks.footer import DAMAGED, Footer, read_footer
from nats3_dagster.errors import ChunkError
from nats3_dagster.model.archive_table import TableFile
from nats3_dagster.workspace import Workspace

# Footers that are read at the same time, and files that are looked at together.
_READERS = 8
_PAGE = 256
# Bytes from the end of an object that are read first: most footers have less.
_TAIL = 64 << 10


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
