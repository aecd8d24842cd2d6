"""The judge of exports sees what a broken product does: files are spoilt on purpose, and it must say so."""

import base64
import gzip
import json

import pytest

from nats3_dagster_tests.faults.judge_exports import judge_files
from nats3_dagster_tests.faults.workload import Key
from nats3_dagster_tests.support.wire import Message

EXPECTED: dict[Key, Message] = {
    (7, seq): Message(seq, f"x.{'ab'[seq % 2]}", b"", b"%d" % seq, f"2026-11-21T07:{seq:02d}:00.5Z")
    for seq in range(1, 11)
}
HOURS = dict.fromkeys(EXPECTED, "2026-11-21-07:00")
A, B = (f"{key}/2026-11-21T07+00/{first}-10.ndjson.gz" for key, first in (("a", 2), ("b", 1)))


def lines(*seqs: int) -> bytes:
    rows = [{"seq": seq, "data": base64.b64encode(b"%d" % seq).decode()} for seq in seqs]
    return gzip.compress(b"".join(json.dumps(row).encode() + b"\n" for row in rows))


FILES = {A: lines(2, 4, 6, 8, 10), B: lines(1, 3, 5, 7, 9), "_exports/owner.json": b"{}"}


def judge(files: dict[str, bytes]) -> dict[str, int]:
    findings = judge_files(files, EXPECTED, HOURS, key="subject:2")
    return {finding.text.split(": ")[1]: finding.count for finding in findings}


def test_files_that_are_right() -> None:
    assert judge(FILES) == {}


@pytest.mark.parametrize(
    ("files", "findings"),
    [
        ({A: lines(2, 4, 6, 8)}, {"in no file": 1}),
        ({A: lines(2, 4, 6, 8, 10, 10)}, {"in several files": 1}),
        ({A: lines(2, 4, 6, 8), B: lines(1, 3, 5, 7, 9, 10)}, {"in a file of another": 1}),
        ({A: lines(2, 4, 6, 8, 10, 11)}, {"that do not belong there": 1}),
        ({A: b"", A.replace("+00", "+15"): FILES[A]}, {"in a file of another": 5}),
    ],
)
def test_files_that_are_not(files: dict[str, bytes], findings: dict[str, int]) -> None:
    assert judge({path: data for path, data in (FILES | files).items() if data}) == findings


def test_an_altered_payload() -> None:
    row = {"seq": 2, "data": base64.b64encode(b"other").decode()}
    data = gzip.compress(json.dumps(row).encode() + b"\n") + lines(4, 6, 8, 10)
    assert judge(FILES | {A: data}) == {"altered": 1}
