"""Header blocks of replayed messages: insert ours, rename those that would act on the target, and the way back.

The rule kept here: blocks are bytes as on the wire (`NATS/1.0\\r\\nKey: value\\r\\n...\\r\\n`), never a dict: repeated
keys, case, spaces and bytes that are no UTF-8 stay. What we insert stands right after the first line, so it can be
taken out by position. Everything is done a batch at a time by Arrow's kernels; for `binary` their RE2 matches bytes.
"""

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

FIRST_LINE = b"NATS/1.0\r\n"
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
    r"|Nats3-Replay|Nats3-Stream|Nats3-Incarnation|Nats3-Sequence|Nats3-Time|Nats3-Original-[^:\r\n]*"
)
_CONTROL = rf"(?i)(\r\n)({_RENAMED})(:)"
_ORIGINAL = rf"(?i)(\r\n)Nats3-Original-({_RENAMED})(:)"
_INSERTED = (
    r"^(NATS/1\.0[^\r\n]*\r\n)Nats3-Replay: [^\r\n]*\r\n"
    r"(?:Nats3-(?:Stream|Incarnation|Sequence|Time): [^\r\n]*\r\n)*(?:Nats-Msg-Id: [^\r\n]*\r\n)?"
)
Text = str | pa.Array


def replay_headers(headers: pa.Array, inserts: Sequence[tuple[str, Text]]) -> pa.Array:
    """Header blocks (binary, null for none) with the lines `name: value` in front, and control headers renamed to
    `Nats3-Original-<name>`. A value is one text for all, or an array of as many."""
    acting = pc.fill_null(pc.match_substring_regex(headers, _CONTROL), False)
    if pc.any(acting).as_py():
        renamed = pc.replace_substring_regex(headers.filter(acting), _CONTROL, r"\1Nats3-Original-\2\3")
        headers = pc.replace_with_mask(headers, acting, renamed)
    usual = pc.fill_null(pc.starts_with(headers, FIRST_LINE), True)
    if pc.all(usual).as_py():
        # Not binary_slice: of pyarrow 26 it raises "Negative buffer resize" for some arrays with a filtered buffer.
        rest = pc.binary_replace_slice(headers, 0, len(FIRST_LINE), b"")
        return _joined([FIRST_LINE.decode()], inserts, pc.fill_null(rest, b"\r\n"))
    # A first line with a status (`NATS/1.0 100 Idle`) stays the first line.
    split = pc.extract_regex(pc.fill_null(headers, FIRST_LINE + b"\r\n"), r"(?s)^(?P<first>[^\r\n]*\r\n)(?P<rest>.*)$")
    return _joined([pc.struct_field(split, "first")], inserts, pc.struct_field(split, "rest"))


def original_headers(headers: pa.Array) -> pa.Array:
    """What `replay_headers` was given. A block without any header is not told from none: both come back as null."""
    blocks = pc.replace_substring_regex(headers, _INSERTED, r"\1")
    blocks = pc.replace_substring_regex(blocks, _ORIGINAL, r"\1\2\3")
    return pc.if_else(pc.equal(blocks, FIRST_LINE + b"\r\n"), pa.scalar(None, pa.binary()), blocks)


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
