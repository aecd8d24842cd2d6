"""Scanning: where the frames of one subscription stand in what a socket delivered. Pure, no I/O.

Invariant: the end of a frame follows from its own control line and from nothing else, because a payload may hold
anything, frames included. Protocol: docs.nats.io, "Client Protocol" (MSG, HMSG).
"""

import sys
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from nats3_dagster.errors import SourceError
from nats3_dagster.model.numbers import Int64s

# Longer than any control line; only INFO of a large cluster comes near.
_MAX_LINE = 1 << 20
# Below this the arrays' fixed cost is more than a loop over the frames.
_FEW_BYTES = 8 << 10
# The arrays look at every byte, a loop only at control lines: for frames of at least this size it costs less (1 KiB:
# 1.2 and 1.0 microseconds a frame; 4 KiB: 2.4 and 0.9; 64 KiB: 35 and 1.5). The first few frames tell.
_LARGE_FRAME, _SAMPLE = 900, 8
_CRLF = b"\r\n"
_MAX_DIGITS = 9


class FrameError(SourceError):
    """The data from NATS is not its protocol, or of an unknown kind."""


@dataclass(frozen=True, slots=True)
class Frames:
    """Consecutive whole frames in a buffer. All positions are bytes from the buffer's start."""

    buffer: bytes
    starts: Int64s  # where each frame starts
    marks: Int64s  # where the marker stands in its control line
    eols: Int64s  # where the CRLF of its control line stands
    end: int  # where the last frame ends

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def start(self) -> int:
        return int(self.starts[0]) if len(self.starts) else self.end

    @property
    def size(self) -> int:
        return self.end - self.start


def scan(buffer: bytes, at: int, marker: bytes) -> Frames:
    """The frames from `at` on, up to the first that is not whole or whose control line does not hold `marker`.

    `marker` is the control line's begin (`MSG <inbox>.`), or what follows its subject (` <sid> <reply subject>`)."""
    if len(buffer) - at < _FEW_BYTES:
        return _scan_each(buffer, at, marker)
    first = _scan_each(buffer, at, marker, _SAMPLE)
    if len(first) < _SAMPLE:
        return first
    rest = _scan_each if first.size >= _SAMPLE * _LARGE_FRAME else _scan_all
    return _together(first, rest(buffer, first.end, marker))


def frame_end(buffer: bytes, at: int) -> int:
    """Returns the end of the frame or line at `at`; beyond the buffer when more is to come. Raises FrameError."""
    eol = buffer.find(_CRLF, at)
    if eol < 0:
        if len(buffer) - at > _MAX_LINE:
            raise FrameError("NATS sent a line without an end")
        return len(buffer) + 1
    if not buffer.startswith((b"MSG ", b"HMSG "), at):
        return eol + 2
    size = buffer[buffer.rfind(b" ", at, eol) + 1 : eol]
    if not size.isdigit() or len(size) > 18:
        raise FrameError("NATS sent a message without its size")
    return eol + 4 + int(size)


def numbers_at(buffer: bytes, at: Int64s) -> Int64s:
    """The decimal number that stands at each position and ends with a space; -1 where there is none."""
    raw = np.frombuffer(buffer, np.uint8)
    numbers, reading = np.zeros(len(at), np.int64), np.ones(len(at), np.bool_)
    good = np.zeros(len(at), np.bool_)
    for place in range(_MAX_DIGITS + 7):
        letters = raw[np.minimum(at + place, len(raw) - 1)].astype(np.int64)
        digit = (letters >= ord("0")) & (letters <= ord("9"))
        if place:
            good |= reading & (letters == ord(" "))
        reading &= digit
        if not reading.any():
            break
        numbers = np.where(reading, numbers * 10 + letters - ord("0"), numbers)
    return np.where(good, numbers, -1)


def _scan_each(buffer: bytes, at: int, marker: bytes, most: int = sys.maxsize) -> Frames:
    """Scans one frame after the other, 0.9 microseconds each; `most` of them."""
    starts: list[int] = []
    marks: list[int] = []
    eols: list[int] = []
    find, rfind, size = buffer.find, buffer.rfind, len(buffer)
    try:
        while len(starts) < most and (eol := find(_CRLF, at)) >= 0 and (mark := find(marker, at, eol)) >= 0:
            end = eol + 4 + int(buffer[rfind(b" ", mark, eol) + 1 : eol])
            if not eol < end <= size:
                break
            starts.append(at)
            marks.append(mark)
            eols.append(eol)
            at = end
    except ValueError:
        raise FrameError("NATS sent a message without its size") from None
    return Frames(buffer, np.array(starts, np.int64), np.array(marks, np.int64), np.array(eols, np.int64), at)


def _scan_all(buffer: bytes, at: int, marker: bytes) -> Frames:
    """Scans all frames at once, 0.2 microseconds each: every `CRLF MSG` may start one, and does when the previous one
    ends there.

    Where a payload holds such a text, the rest of the buffer is scanned frame by frame."""
    raw = np.frombuffer(buffer, np.uint8)[at:]
    ends_of_lines = np.flatnonzero(raw[:-1] == 13)
    ends_of_lines = ends_of_lines[raw[ends_of_lines + 1] == 10]
    starts = np.concatenate((np.zeros(1, np.int64), _starts(raw, ends_of_lines)))
    at_line = np.searchsorted(ends_of_lines, starts)
    starts = starts[: np.searchsorted(at_line, len(ends_of_lines))]
    if not len(starts):
        return _scan_each(buffer, at, marker)
    eols = ends_of_lines[at_line[: len(starts)]]
    ends = eols + 4 + _sizes(raw, eols)
    marks = _marks(raw, starts, marker)
    good = (marks >= 0) & (marks < eols) & (ends > eols) & (ends <= len(raw))
    good[1:] &= ends[:-1] == starts[1:]
    count = len(good) if good.all() else int(good.argmin())
    if not count:
        return _scan_each(buffer, at, marker)
    end = int(ends[count - 1])
    frames = Frames(buffer, starts[:count] + at, marks[:count] + at, eols[:count] + at, end + at)
    if count < len(good) and starts[count] < end:
        return _together(frames, _scan_each(buffer, frames.end, marker))
    return frames


def _together(one: Frames, other: Frames) -> Frames:
    """Two runs of one buffer, the other following the one."""
    starts, marks, eols = (
        np.concatenate(pair) for pair in ((one.starts, other.starts), (one.marks, other.marks), (one.eols, other.eols))
    )
    return Frames(one.buffer, starts, marks, eols, other.end)


def _starts(raw: NDArray[np.uint8], ends_of_lines: Int64s) -> Int64s:
    """Returns the positions at which `MSG ` or `HMSG ` follows one of these CRLFs."""
    heads = ends_of_lines[ends_of_lines + 7 <= len(raw)] + 2
    first = raw[heads]
    heads = heads[(first == ord("M")) | (first == ord("H"))]
    verbs = heads + (raw[heads] == ord("H"))
    fits = verbs + 4 <= len(raw)
    return heads[fits & _holds(raw, np.where(fits, verbs, 0), b"MSG ")]


def _sizes(raw: NDArray[np.uint8], eols: Int64s) -> Int64s:
    """The number before each of these positions, read backwards; -4 where there is none, so that nothing ends there."""
    sizes = np.zeros(len(eols), np.int64)
    open_ = np.ones(len(eols), np.bool_)
    digits = np.zeros(len(eols), np.int64)
    for place in range(_MAX_DIGITS + 1):
        letters = raw[np.maximum(eols - place - 1, 0)].astype(np.int64) - 48
        is_digit = open_ & (letters >= 0) & (letters <= 9)
        open_ = is_digit
        if not is_digit.any():
            break
        sizes += np.where(is_digit, letters * 10**place, 0)
        digits += is_digit
    sizes[(digits == 0) | (digits > _MAX_DIGITS)] = -4
    return sizes


def _marks(raw: NDArray[np.uint8], starts: Int64s, marker: bytes) -> Int64s:
    """Returns the positions of the marker in the lines that start here; -1 if a line does not have it."""
    if marker.startswith(b"MSG "):
        marks = starts + (raw[starts] == ord("H"))
        there = marks + len(marker) <= len(raw)
        return np.where(there & _holds(raw, np.where(there, marks, 0), marker), marks, -1)
    # The `$` of `$JS.ACK.`, and not a space: in text every sixth byte is one (1 KiB of log lines: 2.5 microseconds a
    # message with spaces, 0.9 with `$`). A subject has no space, so the first marker in a line is the right one.
    rare = marker.index(b"$")
    marks = np.flatnonzero(raw[rare : len(raw) - len(marker) + rare + 1] == ord("$"))
    marks = marks[_holds(raw, marks, marker)]
    first = np.searchsorted(marks, starts)
    return np.append(marks, -1)[np.minimum(first, len(marks))]


def _holds(raw: NDArray[np.uint8], at: Int64s, text: bytes) -> NDArray[np.bool_]:
    """Returns for each of these positions whether the text stands there; the buffer has enough bytes after each."""
    there = np.ones(len(at), np.bool_)
    for offset, size in _words(len(text)):
        # Numbers that begin at every byte, not copied: one look takes `size` bytes of each position.
        numbers = np.ndarray(max(0, len(raw) - size + 1), f"u{size}", raw, strides=(1,))
        there &= numbers[at + offset] == np.frombuffer(text, f"u{size}", 1, offset)[0]
    return there


@cache
def _words(length: int) -> tuple[tuple[int, int], ...]:
    """Offsets and sizes of the fewest numbers of 8, 4, 2 or 1 bytes that cover a text of this length."""
    size = next(size for size in (8, 4, 2, 1) if size <= length)
    return (*((at, size) for at in range(0, length - size, size)), (length - size, size))
