"""The judge of what is made of an archive: the target of the replay that follows, exports, the table and the copy.

Invariant: no code of the product. Streams are read by raw requests, files by pyarrow, the table's metadata by
pyiceberg.
"""

import hashlib
import io
import json
import re
import socket
import time
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import psycopg
import pyarrow.parquet as pq
from pyiceberg.table import StaticTable

from nats3_dagster_tests.faults.judge_tables import judge_table, listed, live
from nats3_dagster_tests.soak.judge import Archived, Fetch
from nats3_dagster_tests.soak.truth import hash_of, hashes_of

# Messages asked for at a time from the target.
_ASKED = 8192
_SEQUENCE = re.compile(rb"\r\nNats3-Sequence: (\d+)\r\n")
# The address of the table's metadata file.
_METADATA = "select metadata_location from nats3.iceberg_tables where catalog_name = 'nats3' and table_name = %s"
_SEALED = """
select distinct s.hour from nats3.seal s join nats3.archive a on a.id = s.archive_id
where a.name = %s and a.deleted_at is null and s.superseded_at is null
"""


def judge_target(stored: Iterable[tuple[int, bytes]], archived: Archived, *, ordered: bool = True) -> list[str]:
    """A target has each message of the archive once, unchanged and, if `ordered`, in order. `stored`: the sequence that
    each message of the target says it had, and its hash."""
    # Not as objects: a soak has tens of millions of them.
    numbers, digests = array("q"), bytearray()
    for seq, digest in stored:
        numbers.append(seq)
        digests += digest
    seqs, hashes = np.array(numbers, "<i8"), np.frombuffer(digests, "<u8")
    broken: list[str] = []
    if ordered and (late := int((np.diff(seqs) < 0).sum())) > 0:
        broken.append(f"target: {late} messages are behind later ones")
    if (twice := int(seqs.size - np.unique(seqs).size)) > 0:
        broken.append(f"target: {twice} messages are there again")
    order = np.argsort(archived.seqs)
    should, of_archive = archived.seqs[order], archived.hashes[order]
    if (missing := np.setdiff1d(should, seqs)).size:
        broken.append(f"target: {missing.size} messages are not there: {missing[:4].tolist()}")
    if (strange := np.setdiff1d(seqs, should)).size:
        broken.append(f"target: {strange.size} messages that the archive has not: {strange[:4].tolist()}")
    elif seqs.size:
        changed = seqs[of_archive[np.searchsorted(should, seqs)] != hashes]
        if changed.size:
            broken.append(f"target: {changed.size} messages changed: {changed[:4].tolist()}")
    return broken


def judge_export(
    connection: "psycopg.Connection[Any]", name: str, archived: Archived, files: Iterable[bytes]
) -> list[str]:
    """Each message of a sealed hour is in one row of one file, unchanged, and no other one is."""
    sealed = {hour for (hour,) in connection.execute(_SEALED, (name,))}
    spans = sorted((chunk.first, chunk.last) for chunk in archived.chunks if chunk.hour in sealed)
    seqs, hashes = list[np.ndarray](), list[np.ndarray]()
    for data in files:
        for batch in pq.ParquetFile(io.BytesIO(data)).iter_batches(columns=["seq", "subject", "data"]):
            seqs.append(batch.column("seq").to_numpy())
            subjects = (subject.encode() for subject in batch.column("subject").to_pylist())
            hashes.append(hashes_of(zip(subjects, batch.column("data").to_pylist(), strict=True)))
    there = np.concatenate([np.empty(0, "<i8"), *seqs])
    order = np.argsort(archived.seqs)
    should, of_archive = archived.seqs[order], archived.hashes[order]
    keep = np.zeros(should.size, bool)
    for first, last in spans:
        keep[np.searchsorted(should, first) : np.searchsorted(should, last, side="right")] = True
    should, of_archive = should[keep], of_archive[keep]
    broken: list[str] = []
    if (twice := int(there.size - np.unique(there).size)) > 0:
        broken.append(f"export: {twice} messages are there again")
    if (missing := np.setdiff1d(should, there)).size:
        broken.append(f"export: {missing.size} messages of sealed hours are in no file: {missing[:4].tolist()}")
    if (strange := np.setdiff1d(there, should)).size:
        broken.append(f"export: {strange.size} messages of no sealed hour: {strange[:4].tolist()}")
    elif there.size:
        changed = there[of_archive[np.searchsorted(should, there)] != np.concatenate(hashes)]
        if changed.size:
            broken.append(f"export: {changed.size} messages changed: {changed[:4].tolist()}")
    return broken


def judge_iceberg(
    connection: "psycopg.Connection[Any]", archive: str, bucket: str, store: Mapping[str, str]
) -> list[str]:
    """The table has each live chunk once, and no other file. `store`: pyiceberg's properties of the store."""
    row = connection.execute(_METADATA, (archive,)).fetchone()
    if not row:
        return ["table: it is not there"]
    table = StaticTable.from_metadata(row[0], {**store})
    return [f"table: {finding.text}" for finding in judge_table(listed(table), live(connection, archive), bucket)]


def judge_copy(archived: Archived, copy: str, fetch: Fetch, keys: Callable[[str], Iterable[str]]) -> list[str]:
    """The copy has the object of each live chunk, and no object of a chunk that is none."""
    broken: list[str] = []
    for chunk in archived.chunks:
        try:
            data = fetch(copy, chunk.key)
        except LookupError:
            broken.append(f"copy: {chunk.key} is not there")
            continue
        if hashlib.sha256(data).hexdigest() != chunk.sha256:
            broken.append(f"copy: {chunk.key} has other bytes")
    ours = {chunk.bucket for chunk in archived.chunks}
    there = {key for key in keys(copy) if key.endswith(".parquet") and not key.startswith("files/")}
    first = {key for bucket in ours for key in keys(bucket)}
    if strange := there - first:
        broken.append(f"copy: {len(strange)} objects that the archive's bucket has not: {min(strange)}")
    return broken


def read_target(url: str, stream: str, messages: int, source: Callable[[bytes], bytes]) -> Iterator[tuple[int, bytes]]:
    """The archived sequence and the hash of each message of the target, in its order. `source`: the archived subject
    of one of the target."""
    at = urlsplit(url)
    connection = socket.create_connection((at.hostname or "127.0.0.1", at.port or 4222), timeout=60)
    with connection, connection.makefile("rb", 1 << 20) as file:
        file.readline()  # INFO
        connection.sendall(b'CONNECT {"verbose":false,"headers":true,"no_responders":true}\r\nSUB _T.> 1\r\n')
        config = {"deliver_policy": "all", "ack_policy": "none", "mem_storage": True, "inactive_threshold": 60 * 10**9}
        body = json.dumps({"stream_name": stream, "config": config}).encode()
        to = f"$JS.API.CONSUMER.CREATE.{stream} _T.api".encode()
        connection.sendall(b"PUB %b %d\r\n%b\r\n" % (to, len(body), body))
        name = json.loads(_next(connection, file)[3])["name"]
        pull = json.dumps({"batch": _ASKED, "expires": 50 * 10**9}).encode()
        ask = b"PUB $JS.API.CONSUMER.MSG.NEXT.%b.%b _T.m %d\r\n%b\r\n" % (
            *(stream.encode(), name.encode()),
            *(len(pull), pull),
        )
        for number in range(messages):
            if number % _ASKED == 0:
                connection.sendall(ask)
            subject, _, headers, data = _next(connection, file)
            match = _SEQUENCE.search(headers)
            if match is None:
                raise AssertionError(f"a message of {stream} does not say its sequence: {headers[:200]!r}")
            yield int(match[1]), hash_of(source(subject), data)


def _next(connection: socket.socket, file: Any) -> tuple[bytes, bytes, bytes, bytes]:
    """Subject, reply subject, headers and payload of the next message."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        words = file.readline().split()
        if not words:
            raise ConnectionError("the server has closed the connection")
        if words[0] == b"PING":
            connection.sendall(b"PONG\r\n")
        elif words[0] in (b"MSG", b"HMSG"):
            size = int(words[-1])
            block = int(words[-2]) if words[0] == b"HMSG" else 0
            body = file.read(size + 2)
            reply = words[3] if len(words) == (6 if block else 5) else b""
            return words[1], reply, body[:block], body[block:size]
    raise TimeoutError("no message within 60 s")
