"""The judge of exports: the files at a destination, compared with what the stream acknowledged.

Invariant: it shares no code with what is tested. It reads files by gzip, json, csv and pyarrow, and the hours of
sequences by SQL.
"""

import base64
import csv
import gzip
import io
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import psycopg
import pyarrow.parquet as pq

from nats3_dagster_tests.faults.judge import Finding
from nats3_dagster_tests.faults.workload import Key, parse_ns
from nats3_dagster_tests.support.wire import Message

# The path of the exports that it judges.
PATH = "{key}/{date}T{hour}+{minute}/{first}-{last}.{ext}"
_HOURS = """
select i.created_ns, lower(c.seqs), upper(c.seqs) - 1, c.hour
from nats3.chunk c join nats3.incarnation i on i.id = c.incarnation_id join nats3.archive a on a.id = c.archive_id
where a.name = %s and a.deleted_at is null
"""
_HOUR_NS, _MINUTE_NS = 3600 * 10**9, 60 * 10**9


def read_hours(connection: "psycopg.Connection[Any]", archive: str) -> dict[Key, str]:
    """The hour of each sequence that the archive has, or had, a chunk of."""
    return {
        (created, seq): hour
        for created, first, last, hour in connection.execute(_HOURS, (archive,))
        for seq in range(first, last + 1)
    }


def judge_files(
    files: Mapping[str, bytes],
    expected: Mapping[Key, Message],
    hours: Mapping[Key, str],
    *,
    key: str | None,
    minutes: int = 60,
    clean: bool = True,
) -> list[Finding]:
    """Each expected message is in exactly one file, of its own hour, interval and key; and nothing else is there.

    `files` by their paths below the destination, which are as PATH. `clean`: nothing is left on its way."""
    findings: list[Finding] = []
    seqs = {seq: (created, seq) for created, seq in expected}
    there, misplaced, altered, strangers = Counter[Key](), list[str](), list[str](), list[str]()
    folders: dict[bytes, str] = {}
    for path, data in files.items():
        if path.startswith("_exports/"):
            if clean and "/staging/" in path:
                findings.append(Finding("doubled", 1, f"{path} is left on its way"))
            continue
        folder, when, _ = path.split("/")
        for seq, payload in _rows(path, data):
            if seq not in seqs:
                strangers.append(f"{seq} in {path}")
                continue
            message = expected[seqs[seq]]
            there[seqs[seq]] += 1
            if payload != message.data:
                altered.append(f"{seq} in {path}")
            if when != _interval(message, hours.get(seqs[seq], ""), minutes):
                misplaced.append(f"{seq} in {path}")
            token = b"all" if key is None else message.subject.encode(errors="surrogateescape").split(b".")[1]
            if folders.setdefault(token, folder) != folder or (token.isalnum() and token != folder.encode()):
                misplaced.append(f"{seq} of {token!r} in {path}")
    if len(set(folders.values())) < len(folders):
        findings.append(Finding("doubled", 1, f"exports: keys share a folder: {folders}"))
    lost = [str(seq) for _, seq in expected if not there[seqs[seq]]]
    for kind, cases, text in (
        ("lost", lost, "in no file"),
        ("lost", altered, "altered"),
        ("lost", misplaced, "in a file of another"),
        ("doubled", strangers, "that do not belong there"),
        ("doubled", [str(seq) for (_, seq), count in there.items() if count > 1], "in several files"),
    ):
        if cases:
            findings.append(Finding(kind, len(cases), f"exports: {text}: {', '.join(cases[:4])}"))  # type: ignore[arg-type]
    return findings


def _interval(message: Message, hour: str, minutes: int) -> str:
    """The hour and the interval of a message, as PATH has them: before its hour the first, after it the last."""
    offset = parse_ns(message.time) - parse_ns(f"{hour[:10]}T{hour[11:13]}:00:00Z") if hour else 0
    minute = min(max(offset // _MINUTE_NS, 0), 59) // minutes * minutes
    return f"{hour[:10]}T{hour[11:13]}+{minute:02d}"


def _rows(path: str, data: bytes) -> Iterator[tuple[int, bytes]]:
    """The sequence and payload of each row."""
    if path.endswith(".parquet"):
        table = pq.read_table(io.BytesIO(data)).to_pydict()
        yield from zip(table["seq"], table["data"], strict=True)
        return
    text = gzip.decompress(data).decode()
    rows = csv.DictReader(io.StringIO(text, newline="")) if ".csv" in path else map(json.loads, text.splitlines())
    for row in rows:
        yield int(row["seq"]), base64.b64decode(row["data"])
