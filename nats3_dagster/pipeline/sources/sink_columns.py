"""Columns of a write to a stream: batches of Spark as messages, and the rows that cannot be published.

Invariant: a row is a message with an id, or a refusal with its reason. Pure, no I/O.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark.sql.types import ArrayType, BinaryType, DataType, MapType, StringType, StructType

from nats3_dagster.errors import OperatorError
from nats3_dagster.jetstream.publish.encode import MAX_SUBJECT_BYTES, Publication, publishable, subject_at
from nats3_dagster.jetstream.publish.sink import Refusal
from nats3_dagster.pipeline.sources.header_maps import FIRST_LINE, block_of
from nats3_dagster.settings.names import nearest

_TEXT = (StringType(), BinaryType())
# The types that each column may have; the first one is what the others stand for.
COLUMNS: Mapping[str, tuple[DataType, ...]] = {
    "subject": _TEXT,
    "data": _TEXT,
    "headers": (MapType(StringType(), StringType()), MapType(StringType(), ArrayType(StringType())), BinaryType()),
    "msg_id": (StringType(),),
}
_REQUIRED = ("subject", "data")
_ID, _EXPECTED_STREAM = "Nats-Msg-Id", "Nats-Expected-Stream"
# Servers keep the length of a header block in 16 bits.
_MAX_BLOCK = 65_535
_OURS = rf"(?i)\r\n(?:{_ID}|{_EXPECTED_STREAM})\s*:"


@dataclass(frozen=True, slots=True)
class Messages:
    """The messages of a batch, and its refused rows."""

    publication: Publication
    # Rows that cannot be published.
    refused: int
    # Some of them.
    refusals: tuple[Refusal, ...]


def check_columns(source: str, schema: StructType) -> None:
    """Raises OperatorError unless rows of this schema can be written."""
    for column in schema.fields:
        types = COLUMNS.get(column.name)
        if types is None:
            near = nearest(column.name, COLUMNS)
            hint = f"Did you mean {near}?" if near else f"Select {', '.join(COLUMNS)}; headers and msg_id are optional"
            raise OperatorError(f"{source} does not write a column {column.name}", hint)
        shown = [type_.simpleString() for type_ in types]
        if column.dataType.simpleString() not in shown:
            raise OperatorError(
                f"The column {column.name} is {column.dataType.simpleString()}; {source} writes {' or '.join(shown)}",
                f"Cast it: col({column.name!r}).cast({shown[0]!r})" if len(shown) < 3 else "Change its type",
            )
    for name in _REQUIRED:
        if name not in schema.names:
            raise OperatorError(f"{source} needs a column {name}, and there is none", f"Select one as {name}")


class SinkColumns:
    """Makes messages of batches, in the order of one partition. Each partition needs one of its own."""

    def __init__(self, prefix: str, *, max_payload: int, expected_stream: str | None, refusals: int) -> None:
        """`prefix`: of the ids of rows without a msg_id, which no other partition and no other write has.
        `max_payload`: bytes of headers and data. `refusals`: how many a batch keeps."""
        self._prefix, self._max_payload, self._stream, self._kept = prefix, max_payload, expected_stream, refusals
        self._row = 0
        self._known: dict[bytes, str] = {}  # subjects that were checked: why each cannot be published to, or empty

    def messages(self, batch: pa.RecordBatch) -> Messages:
        """The messages of a batch, whose columns are some of COLUMNS."""
        reasons: NDArray[Any] = np.full(batch.num_rows, "", object)
        subjects = _binary(batch.column("subject"))
        data = _binary(batch.column("data"))
        self._check_subjects(subjects, reasons)
        _note(reasons, pc.is_null(data), "data is null")
        headers = self._headers(batch, reasons)
        ids = self._ids(batch, subjects, headers, data, reasons)
        blocks = self._blocks(headers, ids)
        _note(reasons, pc.greater(pc.binary_length(blocks), _MAX_BLOCK), f"its headers exceed {_MAX_BLOCK} bytes")
        sizes = pc.add(pc.binary_length(blocks), pc.fill_null(pc.binary_length(data), 0))
        _note(reasons, pc.greater(sizes, self._max_payload), f"it exceeds max_payload, {self._max_payload} bytes")
        self._row += batch.num_rows
        good = reasons == ""
        if good.all():
            return Messages(Publication.of(subjects, blocks, data), 0, ())
        bad = np.flatnonzero(~good)
        refusals = tuple(
            Refusal(subject_at(subjects, at) if subjects[at].is_valid else "", str(reasons[at]))
            for at in bad[: self._kept].tolist()
        )
        mask = pa.array(good.astype(bool))
        kept = Publication.of(subjects.filter(mask), blocks.filter(mask), data.filter(mask))
        return Messages(kept, len(bad), refusals)

    def _check_subjects(self, subjects: pa.Array, reasons: NDArray[Any]) -> None:
        encoded = subjects.dictionary_encode(null_encoding="encode")
        whys = np.array([self._why(subject) for subject in encoded.dictionary.to_pylist()], object)
        if len(whys):
            reasons[:] = whys[encoded.indices.to_numpy()]
        if len(self._known) > 100_000:
            self._known.clear()

    def _why(self, subject: bytes | None) -> str:
        if subject is None:
            return "subject is null"
        if subject not in self._known:
            why = ""
            if not publishable(subject):
                why = "no subject can be empty, have an empty token or hold white space"
            elif {b"*", b">"} & {*subject.split(b".")}:
                why = "a subject with wildcards takes no messages"
            elif len(subject) > MAX_SUBJECT_BYTES:
                why = f"a subject has {MAX_SUBJECT_BYTES} bytes at most"
            self._known[subject] = why
        return self._known[subject]

    def _headers(self, batch: pa.RecordBatch, reasons: NDArray[Any]) -> pa.Array:
        """The header blocks of the rows themselves, null for none."""
        if "headers" not in batch.schema.names:
            return pa.nulls(batch.num_rows, pa.binary())
        column = batch.column("headers")
        if pa.types.is_map(column.type):
            blocks: list[bytes | None] = []
            for at, values in enumerate(column.to_pylist()):
                try:
                    blocks.append(block_of(values or ()))
                except ValueError as error:
                    blocks.append(None)
                    reasons[at] = reasons[at] or str(error)
            column = pa.array(blocks, pa.binary())
        else:
            column = _binary(column)
            proper = pc.and_(pc.starts_with(column, FIRST_LINE), pc.ends_with(column, b"\r\n\r\n"))
            _note(reasons, pc.invert(proper), "headers is not a header block (NATS/1.0 ...)")
        named = "the headers Nats-Msg-Id and Nats-Expected-Stream are made from msg_id and stream"
        _note(reasons, pc.match_substring_regex(column, _OURS), named)
        return column

    def _ids(
        self, batch: pa.RecordBatch, subjects: pa.Array, headers: pa.Array, data: pa.Array, reasons: NDArray[Any]
    ) -> pa.Array:
        if "msg_id" in batch.schema.names:
            ids = _binary(batch.column("msg_id"))
            _note(reasons, pc.is_null(ids), "msg_id is null")
            _note(reasons, pc.match_substring_regex(ids, r"^\s|\s$|[\r\n\x00]|^$"), "msg_id is no value of a header")
            return pc.fill_null(ids, b"")
        columns = (column.to_pylist() for column in (subjects, headers, data))
        return pa.array(
            [
                f"{self._prefix}:{row}:{_digest(values)}".encode()
                for row, values in enumerate(zip(*columns, strict=True), self._row)
            ],
            pa.binary(),
        )

    def _blocks(self, headers: pa.Array, ids: pa.Array) -> pa.Array:
        """Returns the blocks with the sink's headers right after the first line."""
        first = FIRST_LINE + (f"{_EXPECTED_STREAM}: {self._stream}\r\n".encode() if self._stream else b"")
        rest = pc.fill_null(pc.binary_replace_slice(headers, 0, len(FIRST_LINE), b""), b"\r\n")
        pieces = (first + f"{_ID}: ".encode(), ids, b"\r\n", rest)
        return pc.binary_join_element_wise(
            *(pa.scalar(p, pa.binary()) if isinstance(p, bytes) else p for p in pieces), pa.scalar(b"", pa.binary())
        )


def _digest(values: Sequence[bytes | None]) -> str:
    """Returns a digest of a row in 16 characters: other rows in the place of these, in a task that is tried again, must
    not be taken for them."""
    digest = hashlib.blake2b(digest_size=8)
    for value in values:
        digest.update(b"-" if value is None else b"%d:%b" % (len(value), value))
    return digest.hexdigest()


def _binary(column: pa.Array) -> pa.Array:
    """A text or binary column as binary."""
    return column if column.type == pa.binary() else pc.cast(column, pa.binary())


def _note(reasons: NDArray[Any], are: pa.Array, reason: str) -> None:
    """Give this reason to rows that have none yet."""
    mask = pc.fill_null(are, False).to_numpy(zero_copy_only=False)
    if mask.any():
        reasons[mask & (reasons == "")] = reason
