"""Header blocks of replayed messages: insert the replay's headers, recognise them, and restore the archived block.

Invariant: blocks are bytes as on the wire (`NATS/1.0\\r\\nKey: value\\r\\n...\\r\\n`), never a dict: repeated keys,
case, spaces and bytes that are not UTF-8 stay. What we insert stands right after the first line, in one order, so it
can be taken out by position; the first line of a replayed block is always the plain one, or no server and no resumed
replay would find what follows it. Everything is done a batch at a time by Arrow's kernels; for `binary` their RE2
matches bytes. Blocks without a proper first or last line are rare, and are done one at a time.
"""

import base64
import re
from collections.abc import Iterable, Iterator, Sequence
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
# The last ones, for a target that does not take fast-ingest batches: its duplicate window, and the chain
# (`replay_headers`). A message of an atomic batch has the lines of the batch instead of the chain's, which are shorter.
_MSG_ID, _EXPECTED_ID = "Nats-Msg-Id", "Nats-Expected-Last-Msg-Id"
_OURS = (_REPLAY, _STREAM, _INCARNATION, _SEQUENCE, _TIME)
# A renamed header is `Nats3-Original-<name>-Value`. Servers before 2.9.7 find a header by the end of its name
# (nats-server#3645), and proxies may do so: no renamed name ends with one that acts.
_ORIGINAL_PREFIX, _ORIGINAL_SUFFIX = "Nats3-Original-", "-Value"
# What stood in the first line after `NATS/1.0` (`NATS/1.0 503 Busy`). Servers strip it when they store a message (from
# 2.11.15, 2.12.6 and 2.14.0 on).
_STATUS = f"{_ORIGINAL_PREFIX}Status"
# The whole block, base64, where it is no header block at all: servers check its size only.
_BLOCK = f"{_ORIGINAL_PREFIX}Block"
# The most that a header block of a stored message can have, in bytes: servers keep its length in 16 bits.
MAX_BLOCK: Final = 65_535
# The shortest header with a name that is renamed: `Nats-TTL:\r\n`.
_SHORTEST_RENAMED = 11
# Headers that make a server act when it stores a message (docs.nats.io, "JetStream headers"; ADR-43, ADR-49, ADR-50,
# ADR-51; nats-server's source), and those of an earlier replay. The last one keeps renaming reversible.
# Nats-Stream-Source       names the stream and sequence that a sourced message comes from. Servers since 2.15 refuse it
# (10227); with an older one, a target that has sources goes on sourcing from there. Nats-Required-Api-Level  refused
# where the server's level is lower, and removed from every message of a batch. Nats-Trace-...           traced once
# more, and with Nats-Trace-Only not stored. The server also changes the header. Nats-Request-Info        removed when
# the message is stored. Headers that only describe a message are not renamed, because consumers read them:
# Nats-Marker-Reason, Nats-Applied-Limit and KV-Operation (deletions); Nats-Stream, Nats-Subject, Nats-Sequence,
# Nats-Last-Sequence, Nats-Time-Stamp, Nats-Num-Pending, Nats-UpTo-Sequence and Nats-Msg-Size (republished or delivered
# messages); Nats-Counter-Sources and Nats-Response-Type. Nor is `traceparent`: it is the applications' own, and starts
# a trace only in an account with `msg_trace`, whose server then adds Nats-Trace headers to every message that carries
# it. Headers that act for the message itself; a live replay does not change them. The others say how a message was
# published, to which stream and after which message: for another stream they are wrong, or refused.
_ACTING = r"Nats-Rollup|Nats-TTL|Nats-Incr|Nats-Schedule[^:\r\n]*"
_FOREIGN = (
    r"Nats-Expected-[^:\r\n]*|Nats-Batch-[^:\r\n]*|Nats-Msg-Id|Nats-Stream-Source|Nats-Required-Api-Level"
    r"|Nats-Trace-[^:\r\n]*|Nats-Request-Info"
    rf"|{'|'.join(_OURS)}|{_ORIGINAL_PREFIX}[^:\r\n]*"
)
_CONTROL = rf"(?i)(\r\n)({_ACTING}|{_FOREIGN})(:)"
_CONTROL_LIVE = rf"(?i)(\r\n)({_FOREIGN})(:)"
_ORIGINAL = rf"(?i)(\r\n){_ORIGINAL_PREFIX}({_ACTING}|{_FOREIGN}){_ORIGINAL_SUFFIX}(:)"
_FIRST = r"NATS/1\.0\r\n"
# What an atomic batch puts between the first line and the rest (publish/atomic.py); servers store it.
_BATCH = r"(?:Nats-Batch-Id: [^\r\n]*\r\nNats-Batch-Sequence: [^\r\n]*\r\n(?:Nats-Batch-Commit: 1\r\n)?)?"
_INSERTED = (
    rf"^({_FIRST}){_BATCH}"
    + "".join(rf"{name}: [^\r\n]*\r\n" for name in _OURS)
    + (rf"(?:{_MSG_ID}: [^\r\n]*\r\n)?(?:{_EXPECTED_ID}: [^\r\n]*\r\n)?")
)
# A block with a status in its first line, and what follows: the last line at least.
_WITH_STATUS = re.compile(rb"NATS/1\.0([^\r\n]+)\r\n((?:.*\r\n)?\r\n)", re.DOTALL)
# What a stream adds to the messages of a schedule (ADR-51). A replay that is not live renames it.
_MADE_BY_SCHEDULE = b"\r\nNats-Scheduler:"
_MARK = re.compile(rf"{_FIRST}{_BATCH}{_REPLAY}: ([0-9a-f]{{16}})\r\n".encode())
# A sequence in a replay's header; other clients that may publish into a target can write anything there.
_INT64 = r"\d{1,18}|[1-8]\d{18}|9[01]\d{17}"
Text = str | pa.Array


def header_room(stream: str) -> int:
    """Bytes that the headers of our own add to a message of this stream at most. Renaming adds more: `block_bound`."""
    token, seq = "20261121T075644123456789Z", str(2**64 - 1)
    values = {
        _REPLAY: "0" * 16,
        _STREAM: stream,
        _INCARNATION: token,
        _SEQUENCE: seq,
        _TIME: "2026-11-21T07:56:44.123456789Z",
        _MSG_ID: f"{'0' * 16}:{token}:{seq}",
        _EXPECTED_ID: f"{'0' * 16}:{token}:{seq}",
    }
    lines = "".join(f"{name}: {value}\r\n" for name, value in values.items())
    # A message without headers also gets a first and a last line.
    return len(FIRST_LINE) + len(lines.encode()) + len("\r\n")


def block_bound(size: int, stream: str) -> int:
    """Bytes that the header block of a replayed message has at most, if the archived one has `size`: all of it may be
    headers that are renamed, or no header block at all."""
    renamed = size // _SHORTEST_RENAMED * len(_ORIGINAL_PREFIX + _ORIGINAL_SUFFIX) + len(_STATUS) + len(FIRST_LINE)
    encoded = len(_BLOCK) + len(": \r\n") + -(-size // 3) * 4 - size
    return size + header_room(stream) + max(renamed, encoded)


def message_id(replay_id: str, incarnation: Incarnation, seq: int) -> str:
    """The `Nats-Msg-Id` of a replayed message."""
    return f"{replay_id}:{incarnation.token}:{seq}"


def replay_headers(
    headers: pa.Array,
    replay_id: str,
    incarnation: Incarnation,
    seqs: pa.Array,
    times_ns: pa.Array,
    *,
    with_ids: bool,
    after: str | None = None,
    live: bool = False,
    marks: bool = True,
) -> pa.Array:
    """Header blocks (binary, null for none) of archived messages as they are replayed: what says where a message comes
    from in front, and headers that would act on the target renamed to `Nats3-Original-<name>-Value`. `seqs` and
    `times_ns` are the messages' own (int64). `with_ids` adds an id for the target's duplicate window. `live` keeps the
    headers that act for a message itself; without `marks` nothing is put in front.

    `after` makes the messages a chain: each expects that the target's last message is the one before it, the first one
    the message with the id `after` (empty: it expects nothing). So what the target stores is a beginning of the chain:
    one message that it refuses or loses lets it refuse all that follow."""
    blocks = _whole(headers, _renamed(headers, _CONTROL_LIVE if live else _CONTROL))
    if not marks:
        return blocks
    numbers = seqs.cast(pa.string())
    inserts: list[tuple[str, Text]] = [
        (_REPLAY, replay_id),
        (_STREAM, incarnation.stream),
        (_INCARNATION, incarnation.token),
        (_SEQUENCE, numbers),
        (_TIME, _rfc3339(times_ns)),
    ]
    if with_ids:
        ids = pc.binary_join_element_wise(f"{replay_id}:{incarnation.token}", numbers, ":")
        inserts.append((_MSG_ID, ids if after is None else _chained(ids, after)))
    return _inserted(blocks, inserts)


def replayed_sequences(headers: pa.Array, replay_id: str) -> Iterator[tuple[str, NDArray[np.int64]]]:
    """The messages that this replay published, by their header blocks: sequences by incarnation token."""
    fields = pc.extract_regex(
        headers.drop_null(),
        rf"^{_FIRST}{_BATCH}{_REPLAY}: {replay_id}\r\n{_STREAM}: [^\r]*\r\n"
        rf"{_INCARNATION}: (?P<token>[0-9A-Za-z.:-]+)\r\n{_SEQUENCE}: (?P<seq>{_INT64})\r\n",
    ).drop_null()
    if not len(fields):
        return
    tokens = pc.struct_field(fields, "token").cast(pa.string())
    # Any client that may publish into the target can write such a header: a number beyond 63 bits is not a replay's.
    numbers = pc.struct_field(fields, "seq").cast(pa.string()).cast(pa.uint64()).to_numpy(zero_copy_only=False)
    ours = numbers <= np.iinfo(np.int64).max
    for token in pc.unique(tokens).to_pylist():
        of_token = pc.equal(tokens, token).to_numpy(zero_copy_only=False)
        if len(seqs := numbers[of_token & ours].astype(np.int64)):
            yield token, seqs


def marked_replay(block: bytes) -> str | None:
    """The id of the replay that published the message with this header block; None for any other message."""
    match = _MARK.match(block)
    return match[1].decode() if match else None


def made_by_schedule(block: bytes) -> bool:
    """True if a stream made this message from a message with a schedule, whose header block it took over."""
    return _MADE_BY_SCHEDULE in block


def original_headers(headers: pa.Array) -> pa.Array:
    """Returns the input of `replay_headers`."""
    blocks = pc.replace_substring_regex(headers, _INSERTED, r"\1")
    alone = pc.fill_null(pc.equal(blocks, FIRST_LINE + b"\r\n"), False)
    blocks = pc.if_else(alone, pa.scalar(None, pa.binary()), blocks)
    carried = _matching(blocks, rf"^{_FIRST}(?:{_STATUS}:|{_BLOCK}: [A-Za-z0-9+/=]*\r\n\r\n$)")
    names = pc.replace_substring_regex(blocks, _ORIGINAL, r"\1\2\3")
    if not pc.any(carried).as_py():
        return names
    return pc.replace_with_mask(names, carried, _array(map(_odd, names.filter(carried).to_pylist())))


def _chained(ids: pa.Array, after: str) -> pa.Array:
    """Each id, and under it the line that expects the one before."""
    before = pa.concat_arrays([pa.array([after]), ids[:-1]])
    line = pa.scalar(f"\r\n{_EXPECTED_ID}: ")
    expected = pc.if_else(pc.equal(before, ""), "", pc.binary_join_element_wise(line, before, ""))
    return pc.binary_join_element_wise(ids, expected, "")


def _renamed(headers: pa.Array, control: str) -> pa.Array:
    acting = _matching(headers, control)
    if not pc.any(acting).as_py():
        return headers
    renamed = pc.replace_substring_regex(
        headers.filter(acting), control, rf"\1{_ORIGINAL_PREFIX}\2{_ORIGINAL_SUFFIX}\3"
    )
    return pc.replace_with_mask(headers, acting, renamed)


def _whole(headers: pa.Array, renamed: pa.Array) -> pa.Array:
    """Returns the `renamed` blocks; a block of `headers` that has no proper first or last line, or nothing between the
    two, becomes a header of the replay."""
    # Longer than both, or none of it would be left to tell a block without headers from no block.
    proper = pc.and_(pc.starts_with(headers, FIRST_LINE), pc.ends_with(headers, b"\r\n\r\n"))
    proper = pc.and_(proper, pc.greater(pc.binary_length(headers), len(FIRST_LINE) + len("\r\n")))
    odd = pc.invert(pc.fill_null(proper, True))
    if not pc.any(odd).as_py():
        return renamed
    pairs = zip(headers.filter(odd).to_pylist(), renamed.filter(odd).to_pylist(), strict=True)
    return pc.replace_with_mask(renamed, odd, _array(_proper(*pair) for pair in pairs))


def _proper(block: bytes, renamed: bytes) -> bytes:
    """An odd block as a header block: its status, or all of it, as a header."""
    if status := _WITH_STATUS.fullmatch(renamed):
        return b"%b%b:%b\r\n%b" % (FIRST_LINE, _STATUS.encode(), status[1], status[2])
    return b"%b%b: %b\r\n\r\n" % (FIRST_LINE, _BLOCK.encode(), base64.b64encode(block))


def _odd(block: bytes) -> bytes:
    """Returns the `block` that `_proper` was given, if its names are the original ones."""
    name, _, value = block[len(FIRST_LINE) :].partition(b":")
    if name == _BLOCK.encode():
        return base64.b64decode(value)
    status, _, rest = value.partition(b"\r\n")
    return b"NATS/1.0%b\r\n%b" % (status, rest)


def _array(blocks: Iterable[bytes]) -> pa.Array:
    return pa.array(list(blocks), pa.binary())


def _matching(headers: pa.Array, pattern: str) -> pa.Array:
    return pc.fill_null(pc.match_substring_regex(headers, pattern), False)


def _inserted(headers: pa.Array, inserts: Sequence[tuple[str, Text]]) -> pa.Array:
    """The blocks with the lines `name: value` after the first. A value is one text for all, or an array with one for
    each block."""
    # Not binary_slice: of pyarrow 26 it raises "Negative buffer resize" for some arrays with a filtered buffer.
    rest = pc.binary_replace_slice(headers, 0, len(FIRST_LINE), b"")
    return _joined([FIRST_LINE.decode()], inserts, pc.fill_null(rest, b"\r\n"))


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
