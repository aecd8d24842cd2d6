"""The Python face: messages of an archive for programs.

from nats3_dagster import Archive

with Archive.open("logs") as archive:
    for message in archive.read(subjects=["logs.>"], from_time="-2h"):
        print(message.seq, message.subject, message.data)
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from importlib import import_module
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa

from nats3_dagster.archive.proof.seal import require_sealed
from nats3_dagster.archive.read import answers
from nats3_dagster.archive.read.cursor import Cursor
from nats3_dagster.archive.read.frame import MAX_BYTES, frame
from nats3_dagster.archive.read.references import Reference
from nats3_dagster.archive.selected.removed import Removed
from nats3_dagster.errors import EngineError, OperatorError
from nats3_dagster.hours import parse_time
from nats3_dagster.model import Message, Selection
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

# RFC 3339, `-2h`, nanoseconds since 1970, a datetime, or a date; UTC where there is no time zone.
Time = str | int | datetime | date


class Read:
    """The messages of a selection, in the order of the stream: `for message in read`, or `read.batches()`.

    Both go on after what counts as read. Raises LostMessages where messages were lost, unless it goes over gaps."""

    def __init__(self, workspace: Workspace, cursor: Cursor, *, follow: bool) -> None:
        self._workspace, self._cursor, self._follow = workspace, cursor, follow
        # The message that was given last, where messages are given and not batches.
        self._last: Message | None = None

    def __iter__(self) -> Iterator[Message]:
        """Each message counts as read, for `token`, when the next one is asked for, or with `done`."""
        for batch in self.batches():
            for message in answers.messages_of(self._cursor, batch):
                if self._last is not None:
                    self.done()
                self._last = message
                yield message

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Arrow batches of the columns seq, time_ns, subject, subject_bytes, headers and data, none of them empty. A
        batch counts as read when the next one is asked for, or with `done`."""
        self._last = None
        for batch in self._cursor.batches(follow=self._follow):
            yield batch
            self._last = None

    def to_arrow(self, columns: Iterable[str] | None = None, *, max_bytes: int = MAX_BYTES) -> pa.Table:
        """The rest of the selection as one table, which counts as read then; without rows where there are no messages.

        `columns`: some of seq, time, time_ns, subject, subject_bytes, hour, headers, data and stream_created_ns; all
        without it. `max_bytes`: raises OperatorError if the table would have more. Raises LostMessages if messages were
        lost, or the selection has ended and a capture has yet to bring some of it, unless it goes over gaps. The open
        hour ends with what is archived."""
        if self._follow:
            raise OperatorError("A read that follows has no end", "Read it batch by batch, or without follow")
        self._last = None
        return frame(self._cursor, columns, max_bytes)

    def to_polars(self, columns: Iterable[str] | None = None, *, max_bytes: int = MAX_BYTES) -> "pl.DataFrame":
        """Returns the data of `to_arrow` as a data frame of Polars. Raises EngineError if Polars is not installed."""
        polars = _package("polars")
        return polars.from_arrow(self.to_arrow(columns, max_bytes=max_bytes))

    def to_pandas(self, columns: Iterable[str] | None = None, *, max_bytes: int = MAX_BYTES) -> "pd.DataFrame":
        """Returns the data of `to_arrow` as a data frame of pandas. Raises EngineError if pandas is not installed."""
        _package("pandas")
        return self.to_arrow(columns, max_bytes=max_bytes).to_pandas()

    def done(self) -> None:
        """Count what was given last as read, before `token`: the message, or with `batches` the batch."""
        if self._last is None:
            self._cursor.advance()
        else:
            self._cursor.advance((self._last.seq, self._last.time_ns))

    def removed(self) -> tuple[Removed, ...]:
        """The messages of the selection that were removed from the archive on purpose, by the replay that published
        them: they are not given, and are no loss."""
        return self._cursor.removed()

    def token(self) -> str:
        """Returns the position as text: `Archive.resume` goes on after it. It holds no secret."""
        return self._cursor.token()


class Archive:
    """An archive, by its name. All methods raise errors of `nats3_dagster.errors`: NotArchived, with the reason, where
    there is no such message. Only one thread at a time may use it."""

    def __init__(self, workspace: Workspace, name: str) -> None:
        """Use `open`."""
        self._workspace, self.name = workspace, name

    @classmethod
    def open(cls, name: str, settings: Settings | None = None) -> Self:
        """Opens the archive with the settings of the environment and of nats3.toml, unless others are given. Raises
        Unknown if there is no such archive."""
        workspace = Workspace(settings or Settings.load())
        try:
            return cls(workspace, workspace.catalog.archives.get(name).name)
        except BaseException:
            workspace.close()
            raise

    def close(self) -> None:
        self._workspace.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def require_sealed(self, hours: Collection[str]) -> None:
        """Raises OperatorError unless each of the hours is sealed, and is as it was then. Hours before the archive's
        first one have nothing to seal."""
        require_sealed(self._workspace, self._workspace.catalog.archives.get(self.name), hours)

    def read(
        self,
        *,
        subjects: Iterable[str] | None = None,
        hours: Iterable[str] | None = None,
        from_time: Time | None = None,
        to_time: Time | None = None,
        sequences: tuple[int, int] | str | None = None,
        over_gaps: bool = False,
        follow: bool = False,
    ) -> Read:
        """The messages of a selection; all conditions narrow it together. `subjects`: NATS filters, one must match.
        `hours`: keys `2026-11-21-07:00`, UTC. `sequences`: both ends included. `follow`: go on into the live stream."""
        span = sequences if sequences is None or isinstance(sequences, str) else f"{sequences[0]}-{sequences[1]}"
        selection = replace(
            Selection.parse(subjects=_listed(subjects), hours=_listed(hours), sequences=span),
            from_ns=None if from_time is None else _ns(from_time),
            to_ns=None if to_time is None else _ns(to_time),
        )
        cursor = answers.cursor(self._workspace, self.name, selection, over_gaps=over_gaps)
        return Read(self._workspace, cursor, follow=follow)

    def resume(self, token: str, *, follow: bool = False) -> Read:
        """Continues after the last message that was read when the token was made. Raises OperatorError if it is of
        another archive."""
        return Read(self._workspace, answers.resumed(self._workspace, self.name, token), follow=follow)

    def get(self, seq: int, *, incarnation: str | None = None) -> Message:
        """The message of this stream sequence; of the newest incarnation unless another token is given."""
        return answers.get(self._workspace, self.name, seq=seq, incarnation=incarnation)

    def first(self, at: Time) -> Message:
        """The first message that was stored at this time or later."""
        return answers.get(self._workspace, self.name, at_ns=_ns(at))

    def next(self, subject: str, after: int = 0, *, incarnation: str | None = None) -> Message:
        """Returns the first message of a subject, or of a filter, after a sequence."""
        return answers.next_of(self._workspace, self.name, subject, after, incarnation=incarnation)

    def last(self, subject: str, at: Time | None = None) -> Message:
        """The last message of a subject, or of a filter; also as of a time."""
        return answers.last_of(self._workspace, self.name, subject, at_ns=None if at is None else _ns(at))

    def last_values(self, subject: str = ">", at: Time | None = None) -> Iterator[Message]:
        """The last message of each subject that the filter takes, the newest first: a snapshot of key and value."""
        at_ns = None if at is None else _ns(at)
        return answers.last_values(self._workspace, self.name, subject, at_ns=at_ns)

    def reference(self, seq: int, expires_s: int = 3600, *, incarnation: str | None = None) -> Reference:
        """Returns a URL of the message's object, and how to read it from there without nats3."""
        return answers.reference(self._workspace, self.name, seq, expires_s, incarnation=incarnation)


def _package(name: str) -> Any:
    """A package of the user's own. Raises EngineError if it is not installed."""
    try:
        return import_module(name)
    except ImportError:
        raise EngineError(f"This frame needs {name}, which is not installed", f"pip install {name}") from None


def _ns(time: Time) -> int:
    """Nanoseconds since 1970. A datetime without a zone is UTC, as a text without one is; a date is when it begins.
    Raises OperatorError."""
    if isinstance(time, str):
        return parse_time(time)
    if isinstance(time, int) and not isinstance(time, bool):
        return time
    if not isinstance(time, date):
        raise OperatorError(
            f"A {type(time).__name__} is not a time", "Give a datetime, a date, a text, or nanoseconds since 1970"
        )
    if not isinstance(time, datetime):
        return parse_time(time.isoformat())
    moment = time if time.tzinfo else time.replace(tzinfo=UTC)
    whole = int(moment.replace(microsecond=0).timestamp())
    return whole * 1_000_000_000 + moment.microsecond * 1000


def _listed(texts: Iterable[str] | None) -> Sequence[str] | None:
    """A single text is one, and not its letters."""
    if texts is None:
        return None
    return [texts] if isinstance(texts, str) else list(texts)
