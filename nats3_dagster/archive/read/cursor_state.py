"""The saved state of a cursor: its position of a cursor in the selection, as text for another process.

Invariant: a text that was cut or changed is refused; it is never another position.
"""

import base64
import binascii
import json
import zlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Self

import pyarrow as pa

from nats3_dagster.archive.selected.next_chunks import Position
from nats3_dagster.errors import OperatorError
from nats3_dagster.model import Archive, Chunk, Incarnation, Selection, SeqRange, Witness
from nats3_dagster.model.messages import selected

_FORMAT = 1
_CHECK_BYTES = 4


@dataclass(slots=True)
class CursorState:
    """The saved state of a cursor, and the batch that its caller has."""

    # The archive by its name, and by the id that one of the same name which is made later does not have.
    archive: str
    job_id: str
    selection: Selection
    # Whether it passes what was lost.
    over_gaps: bool
    # All of the selection up to it was read; None before the first batch.
    position: Position | None = None
    # The newest message that was read: a server that forgot it gives its sequence to another one.
    witness: Witness | None = None
    # What becomes of these when the last batch counts as read.
    _pending: tuple[Position, Witness | None] | None = None

    @classmethod
    def begin(cls, archive: Archive, selection: Selection, *, over_gaps: bool) -> Self:
        """Returns the state before the first message of the selection."""
        return cls(archive.name, str(archive.job_id), selection, over_gaps)

    @classmethod
    def parse(cls, token: str) -> Self:
        """Returns the state that was saved as `token`. Raises OperatorError if it is none, is damaged, or has another
        format."""
        try:
            saved = _loads(token)
            given = dict(saved.get("selection", {}))
            for name in ("hours", "subjects"):
                given[name] = tuple(given.get(name, ()))
            if "sequences" in given:
                given["sequences"] = SeqRange(*given["sequences"])
            position, witness = saved.get("position"), saved.get("witness")
            return cls(
                str(saved["archive"]),
                str(saved["id"]),
                Selection(**given),
                bool(saved.get("over_gaps")),
                (Incarnation(position[0], position[1]), int(position[2])) if position else None,
                Witness(*map(int, witness)) if witness else None,
            )
        except (binascii.Error, ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
            what = f"{token[:40]!r} is not a cursor, or one that was cut or changed"
            hint = "Give the whole text that was saved, or begin a new cursor"
            raise OperatorError(what, hint, field="cursor") from error

    def token(self) -> str:
        """The progress as text, safe in URLs: a checksum and JSON, in base64. It holds no secret."""
        selection = asdict(self.selection)
        value = {
            "format": _FORMAT,
            "archive": self.archive,
            "id": self.job_id,
            "over_gaps": self.over_gaps,
            "selection": {k: v for k, v in selection.items() if v},
            "position": self.position and [self.position[0].stream, self.position[0].created_ns, self.position[1]],
            "witness": self.witness and [self.witness.seq, self.witness.time_ns],
        }
        return _dumps({key: item for key, item in value.items() if item})

    @property
    def incarnation(self) -> Incarnation:
        """Returns the incarnation of the last batch."""
        at = self._pending[0] if self._pending else self.position
        assert at is not None
        return at[0]

    @property
    def is_at_end(self) -> bool:
        """True if the last sequence of the selection was read, if it has one."""
        sequences = self.selection.sequences
        return sequences is not None and self.position is not None and self.position[1] >= sequences.last

    def done_of(self, life: Incarnation) -> int | None:
        """The last sequence of this incarnation up to which all was read; None if the position is in no or another
        one."""
        return self.position[1] if self.position and self.position[0] == life else None

    def has_ahead(self, chunk: Chunk) -> bool:
        """True if the chunk has sequences after the position."""
        return self.is_ahead(chunk.meta.incarnation, chunk.meta.covers)

    def is_ahead(self, incarnation: Incarnation, seqs: SeqRange) -> bool:
        """True if the last of these sequences lies after the position."""
        if self.position is None:
            return True
        life, seq = self.position
        return seqs.last > seq if incarnation == life else incarnation.created_ns > life.created_ns

    def hand_over(self, batch: pa.RecordBatch, life: Incarnation, last: int) -> Iterator[pa.RecordBatch]:
        """The messages of the batch of selected subjects, if any; then all up to `last` counts as read."""
        batch = selected(batch, self.selection.subjects, shown=True)
        if batch.num_rows:
            witness = Witness(batch.column("seq")[-1].as_py(), batch.column("time_ns")[-1].as_py())
            self._pending = (life, last), witness
            yield batch
            self.advance()
        self.move(life, last)

    def advance(self, upto: tuple[int, int] | None = None) -> None:
        """Count the last batch as read now; `upto`: only up to this message of it, by its sequence and store time in
        nanoseconds."""
        if self._pending and upto:
            self.position, self.witness = (self._pending[0][0], upto[0]), Witness(*upto)
        elif self._pending:
            self.position, self.witness = self._pending
            self._pending = None

    def forget(self) -> None:
        """Give up the last batch: what of it does not count as read is read again."""
        self._pending = None

    def move(self, life: Incarnation, seq: int) -> None:
        """All of the incarnation up to this sequence was read."""
        if self.position and self.position[0] != life:
            self.witness = None
        self.position = life, seq


def _dumps(value: dict[str, Any]) -> str:
    text = json.dumps(value, separators=(",", ":")).encode()
    check = zlib.crc32(text).to_bytes(_CHECK_BYTES, "big")
    return base64.urlsafe_b64encode(check + text).decode().rstrip("=")


def _loads(token: str) -> dict[str, Any]:
    """Raises ValueError, or OperatorError for another format."""
    data = base64.b64decode(token + "=" * (-len(token) % 4), b"-_", validate=True)
    check, text = data[:_CHECK_BYTES], data[_CHECK_BYTES:]
    if zlib.crc32(text).to_bytes(_CHECK_BYTES, "big") != check:
        raise ValueError("The checksum does not match")
    saved = json.loads(text)
    if saved["format"] != _FORMAT:
        raise OperatorError(
            f"The cursor has format {saved['format']}, and this release reads {_FORMAT}", "Begin a new cursor"
        )
    return saved
