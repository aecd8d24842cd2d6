"""Checks that an object and its stream have the same history.

A stream that was restored from an older copy has the `created` time of the one that was captured, and may have given
the sequences of captured messages to others. Only what the stream still has can tell. Two histories are the same up to
one message, and differ from there on: so the last message that the stream has of an object's sequences proves most.
"""

import base64
from bisect import bisect_right
from collections.abc import Container, Mapping, Sequence

from nats3_dagster.chunks import ChunkReader
from nats3_dagster.errors import UnknownStream
from nats3_dagster.hours import format_time, parse_time
from nats3_dagster.jetstream.link import Link
from nats3_dagster.jetstream.read.contents import last_json, next_json
from nats3_dagster.jetstream.streams import stream_state
from nats3_dagster.model import Incarnation, SeqRange
from nats3_dagster.model.messages import exact_subjects, subject_names
from nats3_dagster.subjects import readable

# Messages of an object that the stream is asked for: both ends, and between them.
SAMPLES = 8


def disagreement(link: Link, reader: ChunkReader, incarnation: Incarnation) -> str:
    """Returns the reason, a text, why the object is of another history than its stream; empty if the stream has the
    same messages, or has none of them any more. `incarnation`: of the object, as the catalog has it. The stream's
    leader answers. Raises SourceError."""
    try:
        state = stream_state(link, incarnation.stream)
    except UnknownStream:
        return ""
    if state.incarnation.created_ns != incarnation.server_created_ns:
        return ""
    seqs = [seq for batch in reader.batches(["seq"]) for seq in batch.column("seq").to_pylist()]
    if seqs[-1] > state.last_seq:
        return f"stream {state.name} ends at sequence {state.last_seq}"
    if seqs[-1] < state.first_seq:
        return ""
    held = frozenset(seqs)
    subjects, was_erased = reader.footer.subjects, reader.footer.absent_reason == "erased"
    for at in sorted({round(n * (len(seqs) - 1) / (SAMPLES - 1)) for n in range(SAMPLES)}):
        message = link.call(next_json, incarnation.stream, seqs[at], ">")
        if message is None or int(message["seq"]) > seqs[-1]:
            break
        # Where the object has none, its filter may have left the message out, or it was erased.
        may_lack = bool(subjects) or was_erased
        if (int(message["seq"]) in held or not may_lack) and (other := _other(reader, held, state.name, message)):
            return other
    else:
        return ""  # the stream has the last message of the object
    for subject in subjects or (">",):
        message = _last(link, incarnation.stream, seqs, subject, is_whole=not was_erased)
        if message and (other := _other(reader, held, state.name, message)):
            return other
    return ""


def _last(link: Link, stream: str, held: Sequence[int], subject: str, *, is_whole: bool) -> Mapping[str, str] | None:
    """The stream's last message with the subject, from the first to the last of the sequences that an object has; None
    if it has none. Unless the object `is_whole` others were erased from it, not from the stream: then the last one of
    those that it has."""
    count = len(held)
    while count and (message := link.call(last_json, stream, SeqRange(held[0], held[count - 1]), subject)):
        count = bisect_right(held, int(message["seq"]))
        if is_whole or held[count - 1] == int(message["seq"]):
            return message
    return None


def _other(reader: ChunkReader, held: Container[int], stream: str, message: Mapping[str, str]) -> str:
    """Returns the difference between the stream's message and what the object has at its sequence; empty if there is
    none."""
    seq = int(message["seq"])
    if seq not in held:
        return f"stream {stream} has a message at sequence {seq}, and the object has none"
    if not is_same(reader, seq, message):
        return f"stream {stream} has another message at sequence {seq}, of {format_time(parse_time(message['time']))}"
    return ""


def is_same(reader: ChunkReader, seq: int, message: Mapping[str, str]) -> bool:
    """True if the object has this message, of the server's JSON, at the sequence."""
    row = next(iter(reader.batches(seqs=SeqRange(seq, seq))), None)
    if row is None or not row.num_rows:
        return False
    row = row.slice(0, 1)
    (subject,) = subject_names(exact_subjects(row))
    # JSON has U+FFFD for each byte of a subject that is not UTF-8.
    is_same_subject = "\ufffd" in message["subject"] or readable(subject) == message["subject"]
    return is_same_subject and (
        row.column("time_ns")[0].as_py(),
        row.column("headers")[0].as_py() or b"",
        row.column("data")[0].as_py(),
    ) == (
        parse_time(message["time"]),
        base64.b64decode(message.get("hdrs") or ""),
        base64.b64decode(message.get("data") or ""),
    )
