"""The judge of a soak finds what is lost, doubled or changed, in Parquet that pyarrow wrote; and its rule of growth."""

import hashlib
import io
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nats3_dagster_tests.soak.growth import judge, judged_stretch
from nats3_dagster_tests.soak.judge import Archived, Chunk, Limits, judge_archive, read_archive, read_chunk
from nats3_dagster_tests.soak.judge_outputs import judge_target
from nats3_dagster_tests.soak.truth import ACKED, UNKNOWN, Truth, hash_of

Row = tuple[int, bytes, bytes]
SENT: list[Row] = [(seq, b"ev.%d" % (seq % 3), b"message %d" % seq) for seq in range(1, 31)]
# Sent, and never acknowledged.
UNSURE: Row = (31, b"ev.0", b"perhaps")
LIMITS = Limits(first_seq=1)


def digest(row: Row) -> int:
    return int.from_bytes(hash_of(row[1], row[2]), "little")


def truth() -> Truth:
    acked = [(row[0], digest(row), row[0] % 3) for row in SENT]
    return Truth(np.array(acked, ACKED), np.array([(digest(UNSURE), 0)], UNKNOWN))


def parquet(rows: Sequence[Row]) -> bytes:
    columns = {
        "seq": pa.array([row[0] for row in rows], pa.int64()),
        "subject": pa.array([row[1].decode() for row in rows]),
        "data": pa.array([row[2] for row in rows], pa.binary()),
    }
    out = io.BytesIO()
    pq.write_table(pa.table(columns), out, compression="zstd")
    return out.getvalue()


def archived(objects: Sequence[Sequence[Row]], gaps: Sequence[tuple[int, int, str]] = ()) -> Archived:
    """An archive with an object for each of these, read as the judge reads it."""
    stored = {f"{n}.parquet": parquet(rows) for n, rows in enumerate(objects)}
    chunks = [
        Chunk(rows[0][0], rows[-1][0], len(rows), hashlib.sha256(data).hexdigest(), "b", key, None, "", [])
        for rows, (key, data) in zip(objects, stored.items(), strict=True)
    ]
    return read_archive("a", chunks, gaps, lambda _, key: stored[key])


def test_a_whole_archive_is_not_broken() -> None:
    assert judge_archive("a", archived([SENT[:10], SENT[10:]]), truth(), LIMITS) == []
    with_unsure = archived([SENT[:10], [*SENT[10:], UNSURE]])
    assert judge_archive("a", with_unsure, truth(), LIMITS) == []


@pytest.mark.parametrize(
    ("objects", "says"),
    [
        ([SENT[:10], SENT[11:]], "1 acknowledged messages lost: 11"),
        ([SENT[:-2]], "2 acknowledged messages not captured: "),
        ([SENT[:11], SENT[10:]], "1 sequences are in several chunks: 11"),
        ([SENT[:10], [(11, b"ev.2", b"message 11!"), *SENT[11:]]], "1 messages changed: 11"),
        ([SENT[:10], [(11, b"ev.1", b"message 11"), *SENT[11:]]], "1 messages changed: 11"),
        ([SENT[:10], [*SENT[10:], (31, b"ev.0", b"nobody's")]], "1 messages that nobody sent: 31"),
        ([SENT, [UNSURE, (32, *UNSURE[1:])]], "1 messages are there under two sequences"),
        ([SENT[:2][::-1], SENT[2:]], "0.parquet has not 2 ascending sequences"),
    ],
)
def test_the_judge_finds_what_is_lost_doubled_or_changed(objects: list[list[Row]], says: str) -> None:
    assert any(says in line for line in judge_archive("a", archived(objects), truth(), LIMITS))


def test_an_object_that_is_gone_or_has_other_bytes_is_broken() -> None:
    chunk = Chunk(1, 30, 30, "0" * 64, "b", "0.parquet", None, "", [])
    other = read_archive("a", [chunk], [], lambda *_: parquet(SENT))
    assert other.broken == ["a: 0.parquet has other bytes than were committed"]

    def nothing(*_: str) -> bytes:
        raise LookupError

    gone = read_archive("a", [chunk], [], nothing)
    assert any("30 messages lost" in line for line in gone.broken)


@pytest.mark.parametrize(
    ("reason", "limits", "is_true"),
    [
        ("expired", Limits(first_seq=11), True),
        ("expired", Limits(first_seq=10), False),
        ("deleted", Limits(first_seq=11), False),
        ("missing", Limits(first_seq=11), False),
        ("expired_by_policy", Limits(1, expired_before=11), True),
        ("expired_by_policy", Limits(1, expired_before=10), False),
        # Sequence 10 has 6 messages of its subject behind it: 13, 16, 19, 22, 25 and 28.
        ("superseded", Limits(1, per_subject=6), True),
        ("superseded", Limits(1, per_subject=7), False),
        ("superseded", LIMITS, False),
    ],
)
def test_a_gap_is_true_where_its_reason_can_be(reason: str, limits: Limits, is_true: bool) -> None:
    sure = Truth(truth().acked, truth().unknown[:0])
    lines = judge_archive("a", archived([SENT[10:]], [(1, 10, reason)]), sure, limits)
    assert lines == [] if is_true else any("a gap that is not true" in line for line in lines)


def test_a_sequence_in_a_chunk_and_in_a_gap_is_broken() -> None:
    lines = judge_archive("a", archived([SENT], [(30, 30, "expired")]), truth(), Limits(first_seq=31))
    assert any("in a chunk and in a gap: 30" in line for line in lines)


@pytest.mark.parametrize(
    ("stored", "says"),
    [
        (SENT, None),
        (SENT[1:], "1 messages are not there"),
        ([*SENT, SENT[3]], "1 messages are there again"),
        ([SENT[1], SENT[0], *SENT[2:]], "1 messages are behind later ones"),
        ([(1, b"ev.1", b"other"), *SENT[1:]], "1 messages changed"),
        ([*SENT, UNSURE], "that the archive has not"),
    ],
)
def test_the_judge_of_a_target_finds_what_is_lost_doubled_late_or_changed(stored: list[Row], says: str | None) -> None:
    rows = [(row[0], hash_of(row[1], row[2])) for row in stored]
    lines = judge_target(rows, archived([SENT]))
    assert lines == [] if says is None else any(says in line for line in lines)


def test_a_chunk_is_read_by_what_a_message_is() -> None:
    seqs, hashes = read_chunk(parquet(SENT))
    assert seqs.tolist() == [row[0] for row in SENT]
    assert hashes.tolist() == [digest(row) for row in SENT]


def test_a_curve_that_rises_grows_and_one_that_fell_when_it_was_killed_does_not() -> None:
    times = [float(at) for at in range(0, 1200, 5)]
    assert judge("memory", "daemon", [(at, 200 + at) for at in times], (0, 1200)) == "grows"
    assert judge("memory", "daemon", [(at, 200.0) for at in times], (0, 1200)) == "steady"
    killed = [(at, 50.0 if 900 <= at < 930 else 300.0) for at in times]
    assert judge("memory", "daemon", killed, (0, 1200)) == "steady"
    assert judge("memory", "daemon", [(at, 200 + at) for at in times if at < 300], (0, 300)) == "too short"
    assert judge("rows", "nats3.chunk", [(at, at) for at in times], (0, 1200)) == "grows with the data"


@pytest.mark.parametrize(
    ("minute", "minutes", "stretch"),
    [(0, 30, (0, 1800)), (40, 30, (0, 1200)), (50, 30, (600, 1800)), (30, 30, (0, 1800)), (40, 100, (1200, 4800))],
)
def test_the_longest_stretch_in_which_no_hour_ends_is_judged(
    minute: int, minutes: int, stretch: tuple[float, float]
) -> None:
    assert judged_stretch(1_790_000_000 // 3600 * 3600 + minute * 60, minutes * 60) == stretch


def test_what_an_hour_that_ends_brings_is_no_growth() -> None:
    times = [float(at) for at in range(0, 1800, 5)]
    busy = [(at, 200.0 if at < 1290 else 1800.0) for at in times]
    assert judge("memory", "runs", busy, (0, 1290)) == "steady"
    assert judge("memory", "runs", [(at, 200 + at) for at in times], (0, 1290)) == "grows"
