"""The judge: what is in the store, the catalog and the target, compared with what the stream acknowledged.

Invariant: it shares no code with what is tested. It reads Parquet by pyarrow, the catalog by SQL, objects by boto3 or
as files, and streams by raw requests.
"""

import base64
import hashlib
import io
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any, Literal

import psycopg
import pyarrow.parquet as pq
import zstandard

from nats3_dagster_tests.faults.workload import Key, Truth, parse_ns
from nats3_dagster_tests.support.wire import Message

# `stuck`: it did not complete though the fault was over. `unclear`: it ended in an error that nobody foresaw.
Kind = Literal["lost", "doubled", "reordered", "silent", "stuck", "unclear"]
# Bytes of the object of a bucket and key; raises LookupError for none.
Fetch = Callable[[str, str], bytes]
# The live chunks of an archive, in the order of the stream.
CHUNKS = """
select i.created_ns, lower(c.seqs), upper(c.seqs) - 1, c.messages, c.sha256, c.bucket, c.key,
       c.absent_reason
from nats3.chunk c join nats3.incarnation i on i.id = c.incarnation_id join nats3.archive a on a.id = c.archive_id
where a.name = %s and a.deleted_at is null and c.deleted_at is null order by 1, 2
"""
# Its gaps.
_GAPS = """
select i.created_ns, lower(g.seqs), upper(g.seqs) - 1, g.reason
from nats3.gap g join nats3.incarnation i on i.id = g.incarnation_id join nats3.archive a on a.id = g.archive_id
where a.name = %s and a.deleted_at is null order by 1, 2
"""
# Hours with live chunks or a seal, their chunks' keys, and the object of the newest seal: null where there is none.
_SEALS = """
with own as (select id from nats3.archive where name = %s and deleted_at is null),
chunks as (select hour, array_agg(key order by key) as keys from nats3.chunk
           where archive_id in (select id from own) and deleted_at is null group by hour),
seals as (select distinct on (hour) hour, bucket, key from nats3.seal
          where archive_id in (select id from own) order by hour, number desc)
select hour, coalesce(chunks.keys, '{}'), seals.bucket, seals.key from chunks full join seals using (hour) order by hour
"""
_OURS = re.compile(
    rb"^NATS/1\.0\r\n(?:Nats-Batch-(?:Id|Sequence|Commit): [^\r]*\r\n)*"
    rb"Nats3-Replay: (?P<replay>[0-9a-f]+)\r\n(?:Nats3-Stream: [^\r]*\r\n)"
    rb"Nats3-Incarnation: (?P<token>[^\r]*)\r\nNats3-Sequence: (?P<seq>\d+)\r\n"
    rb"(?:(?:Nats3-Time|Nats-(?:Expected-Last-)?Msg-Id): [^\r]*\r\n)*"
)
_RENAMED = re.compile(rb"\nNats3-Original-([^:\r\n]*)-Value:")
# What follows in a message whose header block was none.
_BLOCK = re.compile(rb"Nats3-Original-Block: ([A-Za-z0-9+/=]*)\r\n\r\n")


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is not as it was promised."""

    kind: Kind
    # Messages; cases for the last three.
    count: int
    text: str


@dataclass(frozen=True, slots=True)
class Archived:
    """What the store and the catalog have."""

    # (subject, header block, payload, store time) of each message, of all live chunks that have it. Bytes of a subject
    # that are not UTF-8 are lone surrogates.
    messages: dict[Key, list[tuple[str, bytes, bytes, int]]]
    # Reason of each sequence that is in a gap, or absent inside a chunk.
    reasons: dict[Key, list[str]]
    findings: list[Finding]


def read_archive(connection: "psycopg.Connection[Any]", name: str, fetch: Fetch) -> Archived:
    """All that the archive has. An object that is not what the catalog says is a finding."""
    messages: dict[Key, list[tuple[str, bytes, bytes, int]]] = {}
    reasons: dict[Key, list[str]] = {}
    findings: list[Finding] = []
    for created, first, last, reason in connection.execute(_GAPS, (name,)):
        for seq in range(first, last + 1):
            reasons.setdefault((created, seq), []).append(reason)
    for created, first, last, count, sha256, bucket, key, reason in connection.execute(CHUNKS, (name,)):
        try:
            data = fetch(bucket, key)
        except LookupError:
            findings.append(Finding("lost", count, f"{key} is not in the store"))
            continue
        if hashlib.sha256(data).hexdigest() != sha256:
            findings.append(Finding("lost", count, f"{key} has other bytes than were committed"))
            continue
        table = pq.read_table(io.BytesIO(data)).to_pydict()
        seqs: list[int] = table["seq"]
        if len(seqs) != count or any(not first <= seq <= last for seq in seqs) or sorted(set(seqs)) != seqs:
            findings.append(Finding("reordered", 1, f"{key} does not hold {count} ascending sequences of its range"))
        for seq, text, exact, headers, payload, time_ns in zip(
            seqs,
            table["subject"],
            table["subject_bytes"],
            table["headers"],
            table["data"],
            table["time_ns"],
            strict=True,
        ):
            subject = text if exact is None else exact.decode(errors="surrogateescape")
            messages.setdefault((created, seq), []).append((subject, headers or b"", payload, time_ns))
        for seq in {*range(first, last + 1)}.difference(seqs):
            reasons.setdefault((created, seq), []).append(reason)
    return Archived(messages, reasons, findings)


def judge_archive(archived: Archived, truth: Truth) -> list[Finding]:
    """Conservation and integrity: each acknowledged message is in exactly one live chunk, or in a gap whose reason is
    no lie."""
    findings = list(archived.findings)
    lost: list[str] = []
    doubled = 0
    for key, message in truth.messages.items():
        copies, reasons = archived.messages.get(key, []), archived.reasons.get(key, [])
        doubled += len(copies) > 1 or bool(copies and reasons) or len(reasons) > 1
        if copies:
            as_sent = (message.subject, message.headers, message.data, parse_ns(message.time))
            lost += [f"{key[1]} altered" for copy in copies if copy != as_sent]
        elif not reasons:
            lost.append(f"{key[1]} nowhere")
        elif key not in truth.taken or not truth.taken[key].isdisjoint(reasons):
            lost.append(f"{key[1]} is called {reasons[0]}")
    if lost:
        findings.append(Finding("lost", len(lost), f"archive: {', '.join(lost[:4])}"))
    if doubled:
        findings.append(Finding("doubled", doubled, "archive: sequences in two chunks, or in a chunk and a gap"))
    if strangers := archived.messages.keys() - truth.messages.keys():
        findings.append(Finding("doubled", len(strangers), "archive: messages that the stream never had"))
    return findings


def judge_seals(connection: "psycopg.Connection[Any]", name: str, fetch: Fetch) -> list[Finding]:
    """Once all hours can be sealed: each has a manifest, and the newest one has the live chunks and no other."""
    findings: list[Finding] = []
    for hour, keys, bucket, manifest in connection.execute(_SEALS, (name,)):
        try:
            parts = json.loads(zstandard.decompress(fetch(bucket, manifest)))["parts"] if manifest else None
        except LookupError:
            parts = None
        if parts is None:
            findings.append(Finding("lost", 1, f"hour {hour} has no manifest"))
        elif (sealed := sorted(chunk["key"] for part in parts for chunk in part["chunks"])) != keys:
            findings.append(Finding("lost", 1, f"the manifest of {hour} has {sealed} and not {keys}"))
    return findings


def judge_target(
    stored: Iterable[Message],
    replay_id: str,
    expected: Sequence[tuple[Key, Message]],
    *,
    ordered: bool = True,
    subject: Callable[[str], str] = str,
) -> list[Finding]:
    """A replay loses, doubles, alters and reorders nothing. `subject` maps an archived subject to the target's."""
    positions = {key: at for at, (key, _) in enumerate(expected)}
    tokens = {_token(key[0]): key[0] for key, _ in expected}
    there: list[int] = []
    altered = strangers = 0
    for message in stored:
        match = _OURS.match(message.headers)
        if match is None or match["replay"].decode() != replay_id:
            continue
        at = positions.get((tokens.get(match["token"].decode(), 0), int(match["seq"])))
        if at is None:
            strangers += 1
            continue
        there.append(at)
        original = expected[at][1]
        if block := _BLOCK.fullmatch(message.headers, match.end()):
            headers = base64.b64decode(block[1])
        else:
            headers = _RENAMED.sub(rb"\n\1:", b"NATS/1.0\r\n" + message.headers[match.end() :])
            headers = b"" if headers == b"NATS/1.0\r\n\r\n" else headers
        altered += (message.subject, headers, message.data) != (
            subject(original.subject),
            original.headers,
            original.data,
        )
    counts = Counter(there)
    findings: list[Finding] = []
    if missing := sorted(set(range(len(expected))).difference(counts)):
        names = ", ".join(str(expected[at][0][1]) for at in missing[:4])
        findings.append(Finding("lost", len(missing), f"target: {names} not there, of {len(expected)}"))
    if altered:
        findings.append(Finding("lost", altered, "target: messages with other bytes"))
    if twice := sum(count - 1 for count in counts.values()):
        findings.append(Finding("doubled", twice, "target: messages that are there again"))
    if strangers:
        findings.append(Finding("doubled", strangers, "target: messages that were not selected"))
    if ordered and (late := sum(a > b for a, b in pairwise(there))):
        findings.append(Finding("reordered", late, "target: messages behind later ones"))
    return findings


def _token(created_ns: int) -> str:
    """A stream's time as headers have it: `20261121T075644123456789Z`."""
    seconds, fraction = divmod(created_ns, 10**9)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y%m%dT%H%M%S}{fraction:09d}Z"
