"""References: where a message's bytes are in the store, and a URL that reads them for a while without a login."""

from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from string import Template
from typing import Final

from nats3_dagster.archive.read.points import locate, not_selected, read_live
from nats3_dagster.archive.stored.presence import holder
from nats3_dagster.archive.stored.ranged import open_ranged
from nats3_dagster.errors import OperatorError, StoreError
from nats3_dagster.model import Archive, Chunk, Incarnation, SeqRange
from nats3_dagster.objects import Bucket
from nats3_dagster.workspace import Workspace

# What S3 takes for a signed URL: 7 days.
MAX_EXPIRES_S: Final = 7 * 24 * 3600


@dataclass(frozen=True, slots=True)
class Reference:
    """The way to read one message from the store, without nats3. A client that has `url` may read the whole object
    until it expires."""

    incarnation: Incarnation
    seq: int
    # A presigned GET of the object; of a store that is a folder, the URL of the file.
    url: str = field(repr=False)
    # When the URL ends, UTC; None for a file's URL, which does not end. See `note`.
    expires_at: datetime | None
    # What else must be known of the URL; empty where nothing.
    note: str
    # Of the object.
    bucket: str
    key: str
    size: int  # bytes
    sha256: str  # hex
    # The row group with the message: its index, and the first and last sequence of its messages.
    row_group: int
    first_seq: int
    last_seq: int
    # The message's row in the row group, from 0.
    row: int
    # Byte ranges of the object: where each begins, and how long it is.
    group_start: int
    group_bytes: int
    footer_start: int
    footer_bytes: int
    # How to read the row, in words; and as a Python program that prints it and needs pyarrow only.
    how: str
    python: str = field(repr=False)


def reference(
    workspace: Workspace, archive: Archive, seq: int, expires_s: int, incarnation: Incarnation | None = None
) -> Reference:
    """A reference to the message of this stream sequence, whose URL ends after `expires_s` seconds; of the newest
    incarnation unless another one is given. Costs the footer, if it is not known; and the row group's sequences, if
    some are absent there. Raises OperatorError, and as `points.by_sequence`."""
    if not 1 <= expires_s <= MAX_EXPIRES_S:
        raise OperatorError(
            f"A URL cannot expire after {expires_s} seconds",
            f"Give from 1 second to 7 days, {MAX_EXPIRES_S} seconds",
            field="expires_s",
        )

    def read(chunk: Chunk) -> Reference:
        return _of(workspace, archive, chunk, seq, expires_s)

    return read_live(lambda: locate(workspace, archive, seq, incarnation), read)


def _of(workspace: Workspace, archive: Archive, chunk: Chunk, seq: int, expires_s: int) -> Reference:
    reader, meta = open_ranged(workspace, chunk), chunk.meta
    index = reader.group_of(seq)
    if index is None:
        raise not_selected(archive, seq, chunk)
    group = reader.footer.row_groups[index]
    row = seq - group.first_seq
    if group.rows <= group.last_seq - group.first_seq:
        before = SeqRange(group.first_seq, seq)
        seqs = [s for batch in reader.batches(["seq"], seqs=before) for s in batch.column(0).to_pylist()]
        if seqs[-1] != seq:
            raise not_selected(archive, seq, chunk)
        row = len(seqs) - 1
    bucket = _bucket_of(workspace, chunk)
    signed = bucket.sign(meta.key, expires_s)
    start, length = reader.span(index)
    is_file = workspace.settings.store.of(bucket.name).folder is not None
    values = {
        "url": signed.url,
        "size": meta.stored_bytes,
        "group_start": start,
        "group_end": start + length - 1,
        "footer_start": reader.footer_start,
        "footer_end": meta.stored_bytes - 1,
        "row_group": index,
        "row": row,
        "seq": seq,
    }
    read, program = (_HOW_FILE, _PYTHON_FILE) if is_file else (_HOW, _PYTHON)
    return Reference(
        incarnation=meta.incarnation,
        seq=seq,
        url=signed.url,
        expires_at=signed.expires_at,
        note=_FILE_NOTE if is_file else _TEMPORARY_NOTE if signed.is_temporary else "",
        bucket=bucket.name,
        key=meta.key,
        size=meta.stored_bytes,
        sha256=meta.sha256,
        row_group=index,
        first_seq=group.first_seq,
        last_seq=group.last_seq,
        row=row,
        group_start=start,
        group_bytes=length,
        footer_start=reader.footer_start,
        footer_bytes=meta.stored_bytes - reader.footer_start,
        how=read.substitute(values),
        python=program.substitute(values | {"url": repr(signed.url)}),
    )


def _bucket_of(workspace: Workspace, chunk: Chunk) -> Bucket:
    """The archive's own bucket; or the first copy that has the object, where the own one no longer has it whole. Only
    an archive with copies costs a HEAD."""
    if chunk.copies:
        with suppress(StoreError):
            return holder(workspace, chunk)
    return workspace.bucket(chunk.meta.bucket)


_FILE_NOTE: Final = "The store is a folder: the URL is that of a file on its machine, and does not end"
_TEMPORARY_NOTE: Final = "Temporary credentials signed the URL: it ends with them, if that is earlier"
_HOW_FILE: Final = Template("The file is Parquet: read row $row of row group $row_group, both counted from 0")
_HOW: Final = Template(
    "The object is Parquet. Get the bytes $group_start-$group_end and $footer_start-$footer_end by HTTP Range, put "
    "them at these places of a file of $size bytes, and read row $row of row group $row_group, both counted from 0"
)
_PYTHON_FILE: Final = Template("""\
from urllib.parse import urlsplit
from urllib.request import url2pathname

import pyarrow.parquet as pq

URL = $url

path = url2pathname(urlsplit(URL).path)
group = pq.ParquetFile(path, page_checksum_verification=True).read_row_group($row_group)
message = group.slice($row, 1).to_pylist()[0]
assert message["seq"] == $seq
print(message)
""")
_PYTHON: Final = Template("""\
import tempfile
import urllib.request

import pyarrow.parquet as pq

URL = $url
RANGES = [($group_start, $group_end), ($footer_start, $footer_end)]  # the row group and the footer, ends included

with tempfile.TemporaryFile() as file:  # of $size bytes, empty but for these ranges
    for first, last in RANGES:
        request = urllib.request.Request(URL, headers={"Range": f"bytes={first}-{last}"})
        with urllib.request.urlopen(request) as answer:
            data = answer.read()
        assert len(data) == last - first + 1, "the server did not answer with the range"
        file.seek(first)
        file.write(data)
    group = pq.ParquetFile(file, page_checksum_verification=True).read_row_group($row_group)
message = group.slice($row, 1).to_pylist()[0]
assert message["seq"] == $seq
print(message)
""")
