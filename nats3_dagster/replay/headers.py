"""Header blocks of replayed messages: insert ours, recognise them, and give back what was archived.

Invariant: blocks are bytes as on the wire (`NATS/1.0\\r\\nKey: value\\r\\n...\\r\\n`), never a dict: repeated keys,
case, spaces and bytes that are not UTF-8 stay. What we insert stands right after the first line, in one order, so it
can be taken out by position. Everything is done a batch at a time by Arrow's kernels; for `binary` their RE2 matches
bytes.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from nats3_dagster.model import Incarnation

FIRST_LINE: Final = b"NATS/1.0\r\n"
# What a replay inserts, in this order.
_REPLAY, _STREAM, _INCARNATION = "Nats3-Replay", "Nats3-Stream", "Nats3-Incarnation"
_SEQUENCE, _TIME = "Nats3-Sequence", "Nats3-Time"
# The last ones, for a target that does not take batches: its duplicate window, and the chain (`replay_headers`).
_MSG_ID, _EXPECTED_ID = "Nats-Msg-Id", "Nats-Expected-Last-Msg-Id"
_OURS = (_REPLAY, _STREAM, _INCARNATION, _SEQUENCE, _TIME)
_ORIGINAL_PREFIX = "Nats3-Original-"
# Renamed headers that `header_room` allows for. Scheduled messages have the most in use: five, an id and a TTL.
_RENAMED_AT_MOST = 8
# Headers that make a server act when it stores a message (docs.nats.io, "JetStream headers"; ADR-43, ADR-49, ADR-50,
# ADR-51; nats-server's source), and those of an earlier replay. The last one keeps renaming reversible.
#   Nats-Stream-Source       names the stream and sequence that a sourced message comes from. Servers since 2.15 refuse
#                            it (10227); with an older one, a target that has sources goes on sourcing from there.
#   Nats-Required-Api-Level  refused where the server's level is lower, and removed from every message of a batch.
#   Nats-Trace-...           traced once more, and with Nats-Trace-Only not stored. The server also changes the header.
#   Nats-Request-Info        removed when the message is stored.
# Headers that only describe a message are not renamed, because consumers read them: Nats-Marker-Reason,
# Nats-Applied-Limit and KV-Operation (deletions); Nats-Stream, Nats-Subject, Nats-Sequence, Nats-Last-Sequence,
# Nats-Time-Stamp, Nats-Num-Pending, Nats-UpTo-Sequence and Nats-Msg-Size (republished or delivered messages);
# Nats-Counter-Sources and Nats-Response-Type. Nor is `traceparent`: it is the applications' own, and starts a trace
# only in an account with `msg_trace`, whose server then adds Nats-Trace headers to every message that carries it.
_RENAMED = (
    r"Nats-Expected-[^:\r\n]*|Nats-Rollup|Nats-TTL|Nats-Schedule[^:\r\n]*|Nats-Batch-[^:\r\n]*|Nats-Incr|Nats-Msg-Id"
    r"|Nats-Stream-Source|Nats-Required-Api-Level|Nats-Trace-[^:\r\n]*|Nats-Request-Info"
    rf"|{'|'.join(_OURS)}|{_ORIGINAL_PREFIX}[^:\r\n]*"
)
_CONTROL = rf"(?i)(\r\n)({_RENAMED})(:)"
_ORIGINAL = rf"(?i)(\r\n){_ORIGINAL_PREFIX}({_RENAMED})(:)"
# A first line may have a status: `NATS/1.0 100 Idle`.
_FIRST = r"NATS/1\.0[^\r\n]*\r\n"
_INSERTED = rf"^({_FIRST})" + "".join(rf"{name}: [^\r\n]*\r\n" for name in _OURS) + (
    rf"(?:{_MSG_ID}: [^\r\n]*\r\n)?(?:{_EXPECTED_ID}: [^\r\n]*\r\n)?"
)
# A sequence of ours; others that may publish into a target can write anything there.
_INT64 = r"\d{1,18}|[1-8]\d{18}|9[01]\d{17}"
Text = str | pa.Array


def header_room(stream: str) -> int:
    """Bytes that a replay of this stream adds to a message at most, _RENAMED_AT_MOST renamed headers among them."""
    token, seq = "20261121T075644123456789Z", str(2**64 - 1)
    values = {
        _REPLAY: "0" * 16, _STREAM: stream, _INCARNATION: token, _SEQUENCE: seq,
        _TIME: "2026-11-21T07:56:44.123456789Z", _MSG_ID: f"{'0' * 16}:{token}:{seq}",
        _EXPECTED_ID: f"{'0' * 16}:{token}:{seq}",
    }  # fmt: skip
    lines = "".join(f"{name}: {value}\r\n" for name, value in values.items())
    # A message without headers also gets a first and a last line.
    return len(FIRST_LINE) + len(lines.encode()) + len("\r\n") + _RENAMED_AT_MOST * len(_ORIGINAL_PREFIX)


def message_id(replay_id: str, incarnation: Incarnation, seq: int) -> str:
    """The `Nats-Msg-Id` of a replayed message."""
    return f"{replay_id}:{incarnation.token}:{seq}"


def replay_headers(
    headers: pa.Array, replay_id: str, incarnation: Incarnation, seqs: pa.Array, times_ns: pa.Array, *, with_ids: bool,
    after: str | None = None,
) -> pa.Array:  # fmt: skip
    """Header blocks (binary, null for none) of archived messages as they are replayed: what says where a message comes
    from in front, and headers that would act on the target renamed to `Nats3-Original-<name>`. `seqs` and `times_ns`
    are the messages' own (int64). `with_ids` adds an id for the target's duplicate window.

    `after` makes the messages a chain: each expects that the target's last message is the one before it, the first one
    the message with the id `after` (empty: it expects nothing). So what the target stores is a beginning of the chain:
    one message that it refuses or loses lets it refuse all that follow."""
    numbers = seqs.cast(pa.string())
    inserts: list[tuple[str, Text]] = [
        (_REPLAY, replay_id), (_STREAM, incarnation.stream), (_INCARNATION, incarnation.token), (_SEQUENCE, numbers),
        (_TIME, _rfc3339(times_ns)),
    ]  # fmt: skip
    if with_ids:
        ids = pc.binary_join_element_wise(f"{replay_id}:{incarnation.token}", numbers, ":")
        inserts.append((_MSG_ID, ids if after is None else _chained(ids, after)))
    return _inserted(_renamed(headers), inserts)


def replayed_sequences(headers: pa.Array, replay_id: str) -> Iterator[tuple[str, NDArray[np.int64]]]:
    """The messages that this replay published, by their header blocks: sequences by incarnation token."""
    fields = pc.extract_regex(
        headers.drop_null(),
        rf"^{_FIRST}{_REPLAY}: {replay_id}\r\n{_STREAM}: [^\r]*\r\n"
        rf"{_INCARNATION}: (?P<token>[0-9A-Za-z.:-]+)\r\n{_SEQUENCE}: (?P<seq>{_INT64})\r\n",
    ).drop_null()
    if not len(fields):
        return
    tokens = pc.struct_field(fields, "token").cast(pa.string())
    seqs = pc.struct_field(fields, "seq").cast(pa.string()).cast(pa.int64()).to_numpy(zero_copy_only=False)
    for token in pc.unique(tokens).to_pylist():
        yield token, seqs[pc.equal(tokens, token).to_numpy(zero_copy_only=False)]


def original_headers(headers: pa.Array) -> pa.Array:
    """What `replay_headers` was given. A block without any header cannot be distinguished from none: both come back as
    null."""
    blocks = pc.replace_substring_regex(headers, _INSERTED, r"\1")
    blocks = pc.replace_substring_regex(blocks, _ORIGINAL, r"\1\2\3")
    return pc.if_else(pc.equal(blocks, FIRST_LINE + b"\r\n"), pa.scalar(None, pa.binary()), blocks)


def _chained(ids: pa.Array, after: str) -> pa.Array:
    """Each id, and under it the line that expects the one before."""
    before = pa.concat_arrays([pa.array([after]), ids[:-1]])
    line = pa.scalar(f"\r\n{_EXPECTED_ID}: ")
    expected = pc.if_else(pc.equal(before, ""), "", pc.binary_join_element_wise(line, before, ""))
    return pc.binary_join_element_wise(ids, expected, "")


def _renamed(headers: pa.Array) -> pa.Array:
    acting = pc.fill_null(pc.match_substring_regex(headers, _CONTROL), False)
    if not pc.any(acting).as_py():
        return headers
    renamed = pc.replace_substring_regex(headers.filter(acting), _CONTROL, rf"\1{_ORIGINAL_PREFIX}\2\3")
    return pc.replace_with_mask(headers, acting, renamed)


def _inserted(headers: pa.Array, inserts: Sequence[tuple[str, Text]]) -> pa.Array:
    """The blocks with the lines `name: value` after the first. A value is one text for all, or an array of as many."""
    usual = pc.fill_null(pc.starts_with(headers, FIRST_LINE), True)
    if pc.all(usual).as_py():
        # Not binary_slice: of pyarrow 26 it raises "Negative buffer resize" for some arrays with a filtered buffer.
        rest = pc.binary_replace_slice(headers, 0, len(FIRST_LINE), b"")
        return _joined([FIRST_LINE.decode()], inserts, pc.fill_null(rest, b"\r\n"))
    # A first line with a status (`NATS/1.0 100 Idle`) stays the first line.
    split = pc.extract_regex(pc.fill_null(headers, FIRST_LINE + b"\r\n"), r"(?s)^(?P<first>[^\r\n]*\r\n)(?P<rest>.*)$")
    return _joined([pc.struct_field(split, "first")], inserts, pc.struct_field(split, "rest"))


def _joined(first: list[Text], inserts: Sequence[tuple[str, Text]], rest: pa.Array) -> pa.Array:
    """All pieces of each block in one pass; literal text between two arrays is one piece."""
    pieces: list[Text] = list(first)
    for name, value in inserts:
        for piece in (f"{name}: ", value, "\r\n"):
            if isinstance(piece, str) and isinstance(pieces[-1], str):
                pieces[-1] += piece
            else:
                pieces.append(piece)
    pieces.append(rest)
    binary = [pa.scalar(p.encode(), pa.binary()) if isinstance(p, str) else p.cast(pa.binary()) for p in pieces]
    return pc.binary_join_element_wise(*binary, pa.scalar(b"", pa.binary()))


def _rfc3339(times_ns: pa.Array) -> pa.Array:
    """`2026-11-21T07:56:44.123456789Z` for each, as hours.format_time writes it."""
    text = times_ns.cast(pa.timestamp("ns")).cast(pa.string())
    return pc.binary_join_element_wise(pc.binary_replace_slice(text, 10, 11, "T"), "", "Z")
