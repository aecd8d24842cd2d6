"""Rolling: one range of a stream into as many chunks as its size asks for.

The rule kept here: the chunks of one call tile `covers` exactly. Each begins where the one before ended, so a sequence
that is deleted at the source belongs to one chunk as well, and coverage has no holes where a chunk was cut.
"""

from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa

from nats3_dagster.chunks.schema import CHUNK_BYTES, CHUNK_MESSAGES, as_wire
from nats3_dagster.chunks.write import ChunkWriter
from nats3_dagster.errors import ChunkError
from nats3_dagster.model import ChunkMeta, SeqRange


def roll(
    batches: Iterable[pa.RecordBatch],
    covers: SeqRange,
    make_writer: Callable[[], ChunkWriter],
    *,
    list_deleted: bool,
    max_bytes: int = CHUNK_BYTES,
    max_messages: int = CHUNK_MESSAGES,
) -> Iterator[tuple[pa.Buffer, ChunkMeta]]:
    """Chunks of at most `max_messages` messages and `max_bytes` of payload (or one larger message), lazily.

    The first covers `covers.first` on, the last up to `covers.last`. Yields nothing when there are no messages: the
    caller has a gap to record then. Raises ChunkError as soon as a message lies out of `covers` or of order."""
    writer = make_writer()
    start = covers.first
    last = covers.first - 1
    for given in batches:
        if not given.num_rows:
            continue
        batch = as_wire(given)
        seqs = batch.column("seq").to_numpy()
        if seqs[0] <= last or seqs[-1] > covers.last:
            raise ChunkError(
                f"Messages {seqs[0]}-{seqs[-1]} came where {last + 1}-{covers.last} were asked for",
                "The stream was read twice or out of order; run the capture again",
            )
        done = 0
        while done < batch.num_rows:
            rows = writer.room(batch.slice(done), max_bytes=max_bytes, max_messages=max_messages)
            if rows:
                writer.write(batch.slice(done, rows))
                done += rows
                last = int(seqs[done - 1])
            else:
                yield writer.finish(SeqRange(start, last), list_deleted)
                start = last + 1
                writer = make_writer()
    if writer.messages:
        yield writer.finish(SeqRange(start, covers.last), list_deleted)
