"""Publish acknowledgements: what a stream answers to a message. Pure, no I/O.

Invariant: an answer that we do not understand is never counted as good. Plain acknowledgements are counted in bulk,
anything else is read one by one.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from nats3_dagster.errors import Interrupted, TargetError
from nats3_dagster.jetstream.codes import REFUSED_BATCH, ErrCode, message_passes
from nats3_dagster.jetstream.read.scan import FrameError, Frames, numbers_at
from nats3_dagster.steps import Next

# A plain acknowledgement is {"stream":"S","seq":7} or {"stream":"S","domain":"D","seq":7}.
_PLAIN, _REMARKABLE = b'\r\n{"stream":', (b'"error"', b'"duplicate"')


def plain_starts(streams: Iterable[str]) -> tuple[bytes, ...]:
    """Returns the prefixes of plain acknowledgements of these streams; of any stream if there are none."""
    return tuple(_PLAIN + json.dumps(name, ensure_ascii=False).encode() + b"," for name in streams) or (_PLAIN,)


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer to a message."""

    token: str  # the reply subject after our inbox
    status: str  # of a status line (codes.Status), else empty
    body: Mapping[str, Any]  # the JSON; empty for a status line, and for an answer without content

    @property
    def error(self) -> Mapping[str, Any]:
        """The reason why the message was refused: code, err_code and description. Empty if it was not refused."""
        return self.body.get("error") or {}

    @property
    def number(self) -> int:
        """The number of the message: the token itself, or in a batch its third last part. Raises FrameError."""
        parts = self.token.split(".")
        text = parts[0] if len(parts) == 1 else parts[-3]
        if not text.isdigit():
            raise FrameError(f"NATS answered to an unknown reply subject: {self.token}")
        return int(text)


def plain_numbers(frames: Frames, marker: bytes, starts: Sequence[bytes] = (_PLAIN,)) -> list[int] | None:
    """The numbers of the acknowledged messages, or None if there is any other answer among them: one that begins with
    none of `starts` (plain_starts). Raises FrameError."""
    buffer, start, end = frames.buffer, frames.start, frames.end
    if sum(buffer.count(plain, start, end) for plain in starts) != len(frames):
        return None
    if any(buffer.find(word, start, end) >= 0 for word in _REMARKABLE):
        return None
    numbers = numbers_at(buffer, frames.marks + len(marker)).tolist()
    if -1 in numbers:
        raise FrameError("NATS answered to an unknown reply subject")
    return numbers


def last_stored(frames: Frames) -> tuple[str, int]:
    """Stream and stream sequence of the last one of plain acknowledgements. Raises FrameError."""
    content = frames.buffer[int(frames.eols[-1]) + 2 : frames.end - 2]
    try:
        body = json.loads(content)
        return str(body["stream"]), int(body["seq"])
    except (ValueError, KeyError, TypeError):
        raise FrameError(f"NATS answered a message with {content[:100]!r}") from None


def answers(frames: Frames, marker: bytes, *, may_be_empty: bool = False) -> Iterator[Answer]:
    """The answers one by one. `may_be_empty`: also those without content. Raises FrameError."""
    starts, marks, eols = frames.starts.tolist(), frames.marks.tolist(), frames.eols.tolist()
    for start, mark, eol, end in zip(starts, marks, eols, [*starts[1:], frames.end], strict=True):
        start_of_token = mark + len(marker)
        token = frames.buffer[start_of_token : frames.buffer.find(b" ", start_of_token)].decode(errors="replace")
        content = frames.buffer[eol + 2 : end - 2]
        if frames.buffer[start] == ord("H"):
            words = content.split(b"\r\n", 1)[0].split(b" ")
            if len(words) > 1:
                yield Answer(token, words[1].decode(errors="replace"), {})
                continue
            sizes = frames.buffer[mark:eol].split(b" ")
            content = content[int(sizes[-2]) :]
        if may_be_empty and not content:
            yield Answer(token, "", {})
            continue
        try:
            body = json.loads(content)
        except ValueError:
            body = None
        if not isinstance(body, dict):
            raise FrameError(f"NATS answered a message with {content[:100]!r}")
        yield Answer(token, "", cast("dict[str, Any]", body))


def last_id(answer: Answer) -> str | None:
    """The id of the stream's last message, empty if it has none, where it refused one that expects another; None for
    any other answer."""
    if answer.error.get("err_code") != ErrCode.WRONG_LAST_MSG_ID:
        return None
    return str(answer.error.get("description")).partition(": ")[2]


def refusal(answer: Answer, subject: str) -> TargetError:
    """The error for a message that a stream refused: Interrupted if the stream may take it later."""
    if answer.status:
        return Interrupted(f"NATS answered a message on {subject} with the status {answer.status}")
    err_code = answer.error.get("err_code")
    if err_code == ErrCode.BATCH_UNKNOWN:
        return Interrupted("The stream forgot a batch, as after a change of its leader")
    stream, reason = answer.body.get("stream") or "A stream", answer.error.get("description")
    text = f"{stream} refused a message on {subject}: {reason} ({err_code})"
    if message_passes(answer.error) or err_code == ErrCode.WRONG_LAST_MSG_ID or err_code in REFUSED_BATCH:
        return Interrupted(text)
    return TargetError(text, Next.CHANGE_TARGET())
