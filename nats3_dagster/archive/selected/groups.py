"""Groups: row groups of many chunks, read ahead: only those that are wanted, and of these only the wanted columns.

Invariant: the messages come in the order of the chunks, each once. Unreadable data is an error, and no message after it
is returned.
"""

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import NamedTuple, TypeVar

import pyarrow as pa

from nats3_dagster.archive.stored.ranged import RangedChunk, open_parts
from nats3_dagster.chunks.columns import ROW_GROUP_BYTES
from nats3_dagster.errors import ChunkError, Conflict, ObjectMissing
from nats3_dagster.model import Chunk, SeqRange
from nats3_dagster.workspace import Workspace

# Requests at a time: a row group's part is small, and its request is mostly waiting.
_THREADS = 8
# Chunks whose footers are fetched before they are needed.
_FOOTERS = 8
# Before compression: what is under way or not yet taken, and what one request fetches of adjacent row groups. A single
# row group may have more: one large message.
_AHEAD_BYTES, _REQUEST_BYTES = 32 << 20, 8 << 20
# Less than a request is worth: what lies between two row groups' parts is fetched with them, and left.
_GAP_BYTES = 64 << 10

Item = TypeVar("Item")
Done = TypeVar("Done")


class _Part(NamedTuple):
    """Row groups of a chunk whose wanted columns lie together."""

    parts: RangedChunk
    groups: tuple[int, ...]
    # Where they begin in the object, and how many bytes they have there; None where the footer says all.
    span: tuple[int, int] | None


def read_groups(
    workspace: Workspace,
    chunks: Iterable[Chunk],
    columns: Sequence[str],
    wanted: Callable[[RangedChunk], Sequence[int]],
    *,
    seqs: SeqRange | None = None,
    times: tuple[int, int] | None = None,
    count: Callable[[int], object] | None = None,
) -> Generator[tuple[Chunk, pa.RecordBatch]]:
    """The messages of the chunks, a batch for each row group that has any. `wanted` names the row groups of a chunk
    that are read, by index, ascending; `columns`, `seqs` and `times` as `ChunkReader.batches` has them. `count` is
    called with the bytes of each request, from several threads. Raises StoreError, ObjectMissing or ChunkError, and
    Conflict for a chunk that was taken out of the archive and whose object is gone."""

    def opened(chunk: Chunk) -> RangedChunk:
        with _errors(workspace, chunk):
            return open_parts(workspace, chunk, count)

    def read(part: _Part) -> list[pa.RecordBatch]:
        with _errors(workspace, part.parts.chunk):
            reader = part.parts.reader() if part.span is None else part.parts.reader_of(*part.span)
            return list(reader.batches(columns, seqs=seqs, times=times, groups=part.groups))

    def parts() -> Iterator[_Part]:
        for _, one in _ahead(pool, opened, chunks, lambda _: 1, _FOOTERS):
            yield from _parts(one, wanted(one), columns)

    pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="groups")
    try:
        for part, batches in _ahead(pool, read, parts(), _bytes, _AHEAD_BYTES):
            for batch in batches:
                yield part.parts.chunk, batch
    finally:
        # A caller that stops early does not wait for what it will not use.
        pool.shutdown(cancel_futures=True)


@contextmanager
def _errors(workspace: Workspace, chunk: Chunk) -> Generator[None]:
    """Names the chunk in what is wrong with it. Raises Conflict for the missing object of a chunk that is not in the
    archive any more."""
    try:
        yield
    except ObjectMissing as error:
        if workspace.catalog.points.chunk(chunk.id) is not None:
            raise
        raise Conflict(
            f"{chunk.meta.key} was taken out of the archive and removed before it was read",
            "Run it again: it then reads what the archive has now",
        ) from error
    except ChunkError as error:
        raise ChunkError(f"{chunk.meta.key}: {error.what.removeprefix(chunk.meta.key).lstrip()}", error.hint) from error


def _parts(one: RangedChunk, groups: Sequence[int], columns: Sequence[str]) -> Iterator[_Part]:
    """The row groups as they are requested: adjacent ones together, up to a limit."""
    reader, footer = one.reader(), one.parsed.footer
    most = max(1, _REQUEST_BYTES // _group_bytes(one))
    run: list[int] = []
    start = end = 0
    for group in groups:
        is_known = list(columns) == ["seq"] and footer.row_groups[group].is_dense
        first, length = (0, 0) if is_known else reader.span(group, ["seq", *columns])
        if run and (is_known or first - end > _GAP_BYTES or len(run) == most):
            yield _Part(one, tuple(run), (start, end - start))
            run = []
        if is_known:
            yield _Part(one, (group,), None)
            continue
        if not run:
            start = first
        run.append(group)
        end = first + length
    if run:
        yield _Part(one, tuple(run), (start, end - start))


def _group_bytes(one: RangedChunk) -> int:
    """The most that a row group of the chunk has, about, before compression."""
    return max(ROW_GROUP_BYTES, one.chunk.meta.largest_bytes)


def _bytes(part: _Part) -> int:
    return len(part.groups) * _group_bytes(part.parts)


def _ahead(
    pool: ThreadPoolExecutor,
    work: Callable[[Item], Done],
    items: Iterable[Item],
    cost: Callable[[Item], int],
    most: int,
) -> Generator[tuple[Item, Done]]:
    """Each item with what `work` makes of it, in order. Items whose costs are at most `most` together are worked on, or
    wait to be taken; one at least."""
    waiting: deque[tuple[Item, Future[Done]]] = deque()
    under_way = 0
    for item in items:
        while waiting and under_way + cost(item) > most:
            yield waiting[0][0], waiting[0][1].result()
            under_way -= cost(waiting.popleft()[0])
        under_way += cost(item)
        waiting.append((item, pool.submit(work, item)))
    while waiting:
        item, future = waiting.popleft()
        yield item, future.result()
