"""Publish acknowledgements: what a stream answers to a message. Pure, no I/O.

The rule kept here: good answers are counted in bulk, anything else is read one by one, and an answer that we do not
understand is never counted as good.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from nats3_dagster.jetstream.scan import FrameError, Frames

# Found in no plain acknowledgement: {"stream":"S","seq":7} or {"stream":"S","domain":"D","seq":7}.
_REMARKABLE = (b'"error"', b'"duplicate"', b'"type"', b'"batch"', b"\r\nNATS/1.0")


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer: `token` is the reply subject after our inbox. `status` is that of a status line (503: nobody
    listens), `body` the JSON of any other."""

    token: str
    status: str
    body: Mapping[str, Any]

    @property
    def error(self) -> Mapping[str, Any]:
        """Why the message was refused: code, err_code and description; empty when it was not."""
        return self.body.get("error") or {}

    @property
    def number(self) -> int:
        """Of the message it is for: the token, or in a batch its third last part."""
        parts = self.token.split(".")
        text = parts[0] if len(parts) == 1 else parts[-3]
        if not text.isdigit():
            raise FrameError(f"NATS answered to an unknown reply subject: {self.token}")
        return int(text)


def plain_numbers(frames: Frames, marker: bytes) -> list[int] | None:
    """The numbers of the messages that were acknowledged, when nothing else came. Raises FrameError."""
    buffer, skip = frames.buffer, len(marker)
    start, end = frames.start, frames.end
    if any(buffer.find(word, start, end) >= 0 for word in _REMARKABLE):
        return None
    find = buffer.find
    try:
        numbers = [int(buffer[mark + skip : find(b" ", mark + skip)]) for mark in frames.marks.tolist()]
    except ValueError:
        raise FrameError("NATS answered to an unknown reply subject") from None
    good = buffer.count(b'\r\n{"stream":', start, end)
    return numbers if good == len(numbers) else None


def answers(frames: Frames, marker: bytes) -> Iterator[Answer]:
    """Each answer. Raises FrameError."""
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
        try:
            body = json.loads(content)
        except ValueError:
            body = None
        if not isinstance(body, dict):
            raise FrameError(f"NATS answered a message with {content[:100]!r}")
        yield Answer(token, "", cast("dict[str, Any]", body))
