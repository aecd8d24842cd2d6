"""Points: one message by its sequence or time, in as few requests as possible, or the reason why it is not there."""

import random
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from nats3_dagster.archive.read.points import by_sequence, first_at
from nats3_dagster.archive.stored import ranged
from nats3_dagster.errors import ChunkError, NotArchived, ObjectMissing, OperatorError, StoreError, Unknown
from nats3_dagster.model import Chunk, Gap, Incarnation, Reason
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support import catalog as made_catalog
from nats3_dagster_tests.support.catalog import LOGS, ranges, state
from nats3_dagster_tests.support.points import SECOND, T0, Case, Gets, add_chunk, as_read, create, large, message
from nats3_dagster_tests.support.servers.s3_proxy import Handler, S3Proxy

AGAIN = Incarnation("LOGS", LOGS.created_ns + 1)


@pytest.fixture
def proxy(s3_server: Any) -> Iterator[S3Proxy]:
    with S3Proxy(s3_server.endpoint) as proxy:
        yield proxy


@pytest.fixture
def case(
    s3_server: Any, proxy: S3Proxy, bucket: str, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Case]:
    """An empty archive, whose store is asked through a proxy that counts."""
    monkeypatch.setenv("NATS3_POSTGRES_URL", postgres_url)
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", proxy.endpoint)
    monkeypatch.setenv("AWS_REGION", s3_server.region)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", s3_server.access_key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", s3_server.secret_key)
    with Workspace(Settings.load()) as workspace:
        yield Case(workspace, create(workspace, bucket), Gets(proxy))


# What it costs


def test_a_message_comes_as_it_was_stored(case: Case) -> None:
    workspace, archive, _ = case
    rows = [
        message(1),
        message(2, headers=b"NATS/1.0\r\nA: 1\r\n\r\n", data=b""),
        message(3, data=b"\x00\xff" * 500),
        message(4, subject="logs.é.日本".encode()),
        message(5, subject=b"logs.\xff\xfe"),
    ]
    add_chunk(workspace, archive, rows)
    for row in rows[:4]:
        assert by_sequence(workspace, archive, row["seq"]) == as_read(row)
    odd = by_sequence(workspace, archive, 5)
    assert (odd.subject_bytes, odd.headers, odd.data) == (b"logs.\xff\xfe", None, b"5")


def test_a_cold_get_takes_two_requests_and_a_warm_one_takes_one(case: Case) -> None:
    workspace, archive, gets = case
    rows = large(1, 300)
    chunk = add_chunk(workspace, archive, rows, group_rows=100)
    assert chunk.meta.stored_bytes > 3 * ranged.TAIL_BYTES
    gets.count()
    assert by_sequence(workspace, archive, 7) == as_read(rows[6])
    assert gets.requests[0] == f"GET bytes={chunk.meta.stored_bytes - ranged.TAIL_BYTES}-{chunk.meta.stored_bytes - 1}"
    assert gets.count() == 2
    for seq in (8, 150, 300):
        assert by_sequence(workspace, archive, seq) == as_read(rows[seq - 1])
        assert gets.count() == 1


def test_a_small_object_is_fetched_at_once(case: Case) -> None:
    workspace, archive, gets = case
    add_chunk(workspace, archive, [message(1), message(2)])
    gets.count()
    assert by_sequence(workspace, archive, 2) == as_read(message(2))
    assert gets.count() == 1


def test_a_footer_that_is_longer_than_expected_takes_one_request_more(case: Case) -> None:
    workspace, archive, gets = case
    rows = large(1, 200)
    add_chunk(workspace, archive, rows, config={"name": "LOGS", "description": "long" * ranged.TAIL_BYTES})
    gets.count()
    assert by_sequence(workspace, archive, 7) == as_read(rows[6])
    assert gets.count() == 3
    assert by_sequence(workspace, archive, 8) == as_read(rows[7])
    assert gets.count() == 1


def test_the_tail_has_the_footer_of_the_most_row_groups(case: Case) -> None:
    """63 row groups, long subjects and a large configuration: what is read of the end must still be enough."""
    workspace, archive, gets = case
    rows = [message(seq, subject=b"s.%d." % seq + b"t" * 200, data=b"x" * 5000) for seq in range(1, 64)]
    config = {"name": "LOGS", "subjects": [f"logs.{n}.>" for n in range(200)], "metadata": {"note": "x" * 4000}}
    chunk = add_chunk(workspace, archive, rows, group_rows=1, config=config)
    assert chunk.meta.stored_bytes > ranged.TAIL_BYTES
    gets.count()
    assert by_sequence(workspace, archive, 1).data == b"x" * 5000
    assert gets.count() == 2


def test_several_threads_read_at_once(case: Case) -> None:
    workspace, archive, _ = case
    rows = large(1, 400, size=700)
    for first in range(0, 400, 100):
        add_chunk(workspace, archive, rows[first : first + 100], group_rows=30)
    seqs = random.Random(1).choices(range(1, 401), k=60)
    with ThreadPoolExecutor(6) as pool:
        read = list(pool.map(lambda seq: by_sequence(workspace, archive, seq), seqs))
    assert read == [as_read(rows[seq - 1]) for seq in seqs]


# What is not there


@pytest.mark.parametrize("seq", [0, -1, 2**63 - 1, 2**63, 10**30])
def test_what_cannot_be_a_sequence_is_refused(case: Case, seq: int) -> None:
    with pytest.raises(OperatorError, match=f"{seq} is not a sequence. Sequences are from 1 to 92233720") as error:
        by_sequence(case.workspace, case.archive, seq)
    assert error.value.exit_status == 2


def refused(case: Case, seq: int, incarnation: Incarnation | None = None) -> str:
    """The answer to a sequence that is not there, without a request to the store."""
    with pytest.raises(NotArchived) as error:
        by_sequence(case.workspace, case.archive, seq, incarnation)
    assert case.gets.count() == 0
    assert error.value.exit_status == 1
    assert isinstance(error.value, Unknown)  # 404
    return str(error.value)


def test_an_archive_without_messages(case: Case) -> None:
    assert "Sequence 1 is not in archive logs: it has none yet. Capture archive logs" in refused(case, 1)


def test_what_is_not_there_is_answered_by_the_catalog(case: Case) -> None:
    """No object is in the store at all."""
    chunks = case.workspace.catalog.chunks
    deleted = ranges((12, 12), (15, 17))
    chunks.commit(case.archive, [made_catalog.chunk(11, 20, 6, deleted=deleted), made_catalog.chunk(41, 50)])
    assert refused(case, 5) == (
        "Sequence 5 is not in archive logs: no capture has taken the sequences 1-10 yet. "
        "Capture what is missing in archive logs"
    )
    assert "no capture has taken the sequences 21-40 yet" in refused(case, 30)
    assert refused(case, 51) == "Sequence 51 is not in archive logs: its last one is 50. See archive logs"
    assert "its last one is 50" in refused(case, 2**63 - 2)
    assert refused(case, 12) == (
        "Sequence 12 is not in archive logs: it was deleted from the stream before it was captured. "
        "Ask for the next message after it"
    )
    assert "deleted from the stream before it was captured (so are the sequences 15-17)" in refused(case, 16)


UNDELIVERED = (
    "the archive's consumer did not deliver it to the archive: it was made again after the message, or delivered it to "
    "another client"
)


@pytest.mark.parametrize(
    ("reason", "why"),
    [
        ("deleted", "it was deleted from the stream before it was captured"),
        ("expired", "a limit of the stream, or a purge, had removed it before it was captured"),
        ("superseded", "newer messages of its subject had replaced it before it was captured"),
        ("ttl", "its time to live had ended before it was captured"),
        ("superseded_or_ttl", "it had been replaced, or its time to live had ended, before it was captured"),
        ("damaged", "the server had lost it with a damaged block"),
        ("undelivered", UNDELIVERED),
        ("missing", "it was gone with its stream before it was captured"),
        ("unselected", "the archive does not take its subject"),
    ],
)
def test_a_gap_says_why(case: Case, reason: Reason, why: str) -> None:
    case.workspace.catalog.chunks.commit(case.archive, [], [Gap(LOGS, ranges((1, 9), (20, 29)), reason)])
    assert refused(case, 25) == (
        f"Sequence 25 is not in archive logs: {why} (so are the sequences 20-29). Ask for the next message after it"
    )


def test_a_retired_chunk(case: Case) -> None:
    chunk = add_chunk(case.workspace, case.archive, [message(1), message(2)])
    case.workspace.catalog.chunks.retire(case.archive, [chunk.id])
    case.gets.count()
    assert "Sequence 2 is not in archive logs: it was taken out of the archive" in refused(case, 2)


def test_before_the_archive_begins(case: Case) -> None:
    archive = case.workspace.catalog.archives.create(made_catalog.spec("late", bucket="archive"), state(first=100))
    with pytest.raises(NotArchived, match="Sequence 99 is not in archive late: the archive begins with 100"):
        by_sequence(case.workspace, archive, 99)


def test_under_a_filter_only_the_object_can_say(case: Case) -> None:
    rows = [message(3), message(7), message(20)]
    add_chunk(case.workspace, case.archive, rows, covers=(1, 30), reason="unselected", group_rows=2)
    assert by_sequence(case.workspace, case.archive, 7) == as_read(rows[1])
    for seq in (1, 5, 10, 30):  # before, within and between the row groups, behind
        with pytest.raises(NotArchived, match=f"Sequence {seq} is not in archive logs: the archive does not take its"):
            by_sequence(case.workspace, case.archive, seq)


def test_of_several_lives_the_newest_is_asked(case: Case) -> None:
    workspace, archive, _ = case
    add_chunk(workspace, archive, [message(1), message(2), message(3)])
    workspace.catalog.coverage.begin(archive, state(AGAIN))
    newer = [message(1, data=b"newer"), message(2, data=b"newer")]
    add_chunk(workspace, archive, newer, incarnation=AGAIN)
    assert by_sequence(workspace, archive, 2) == as_read(newer[1], AGAIN)
    assert by_sequence(workspace, archive, 2, LOGS) == as_read(message(2))
    case.gets.count()
    assert refused(case, 3) == (
        "Sequence 3 is not in archive logs: its last one is 2. "
        "The earlier LOGS, made 2026-11-21T06:59:59.876543211Z, has this sequence: ask for that incarnation"
    )
    assert "earlier" not in refused(case, 4)
    assert "its last one is 3" in refused(case, 4, LOGS)
    with pytest.raises(Unknown, match="has no LOGS of .*. It has 2026") as error:
        by_sequence(workspace, archive, 1, Incarnation("LOGS", 5))
    assert not isinstance(error.value, NotArchived)


# A store that is not as the catalog says


def test_a_missing_object(case: Case, s3_client: Any) -> None:
    chunk = add_chunk(case.workspace, case.archive, [message(1)])
    s3_client.delete_object(Bucket=chunk.meta.bucket, Key=chunk.meta.key)
    with pytest.raises(ObjectMissing, match="It was deleted or moved outside nats3; bring it back"):
        by_sequence(case.workspace, case.archive, 1)


def stored(s3_client: Any, chunk: Chunk) -> bytearray:
    return bytearray(s3_client.get_object(Bucket=chunk.meta.bucket, Key=chunk.meta.key)["Body"].read())


def flip(at: Callable[[int], int]) -> Callable[[bytearray], bytes]:
    def damage(data: bytearray) -> bytes:
        data[at(len(data))] ^= 1
        return bytes(data)

    return damage


DAMAGES = {
    "page": flip(lambda size: 1000),
    "shorter": lambda data: bytes(data[:100]),
    "empty": lambda data: b"",
    "zeros": lambda data: bytes(len(data)),
    "other": lambda data: b"x" * len(data),
    # Of these a read that knows the footer sees nothing.
    "magic": flip(lambda size: size - 1),
    "length": flip(lambda size: size - 5),
    "footer": flip(lambda size: size - 500),
    "short": lambda data: bytes(data[:-9]),
}


@pytest.mark.parametrize(
    ("damage", "is_warm"), [(damage, False) for damage in DAMAGES] + [(damage, True) for damage in [*DAMAGES][:5]]
)
def test_a_damaged_object(case: Case, s3_client: Any, damage: str, is_warm: bool) -> None:
    chunk = add_chunk(case.workspace, case.archive, large(1, 150), group_rows=50)
    if is_warm:
        by_sequence(case.workspace, case.archive, 1)
    broken = DAMAGES[damage](stored(s3_client, chunk))
    s3_client.put_object(Bucket=chunk.meta.bucket, Key=chunk.meta.key, Body=broken)
    with pytest.raises(StoreError, match=chunk.meta.key) as error:
        by_sequence(case.workspace, case.archive, 1)
    assert "bring it back from a copy of the bucket" in str(error.value)


def test_an_object_of_another_archive(case: Case, s3_client: Any, bucket: str) -> None:
    chunk = add_chunk(case.workspace, case.archive, large(1, 150))
    other = add_chunk(case.workspace, create(case.workspace, bucket, name="gols"), large(1, 150))
    assert other.meta.stored_bytes == chunk.meta.stored_bytes
    s3_client.put_object(Bucket=bucket, Key=chunk.meta.key, Body=bytes(stored(s3_client, other)))
    with pytest.raises(ChunkError, match=f"{chunk.meta.key} has archive gols and should have logs"):
        by_sequence(case.workspace, case.archive, 1)


def test_a_chunk_that_is_swept_while_it_is_read(case: Case, proxy: S3Proxy, s3_client: Any) -> None:
    chunk = add_chunk(case.workspace, case.archive, [message(1)])

    def sweep(handler: Handler) -> None:
        case.workspace.catalog.chunks.retire(case.archive, [chunk.id])
        s3_client.delete_object(Bucket=chunk.meta.bucket, Key=chunk.meta.key)
        handler.reply(*handler.forward())

    proxy.break_at(sweep, ("GET",), times=1)
    with pytest.raises(NotArchived, match="it was taken out of the archive"):
        by_sequence(case.workspace, case.archive, 1)


def test_a_chunk_that_is_replaced_while_it_is_read(case: Case, proxy: S3Proxy, s3_client: Any) -> None:
    chunk = add_chunk(case.workspace, case.archive, [message(1), message(2)])

    def replace(handler: Handler) -> None:
        case.workspace.catalog.chunks.retire(case.archive, [chunk.id], recapture=True)
        s3_client.delete_object(Bucket=chunk.meta.bucket, Key=chunk.meta.key)
        add_chunk(case.workspace, case.archive, [message(1), message(2)], config={"name": "LOGS", "new": True})
        handler.reply(*handler.forward())

    proxy.break_at(replace, ("GET",), times=1)
    assert by_sequence(case.workspace, case.archive, 2) == as_read(message(2))


# By time


def test_the_first_message_at_a_time(case: Case) -> None:
    workspace, archive, gets = case
    rows = large(1, 300)
    add_chunk(workspace, archive, rows[:150], group_rows=50)
    add_chunk(workspace, archive, rows[150:], group_rows=50)
    for time_ns, seq in [
        (0, 1),
        (-5, 1),
        (T0 + SECOND, 1),
        (T0 + SECOND + 1, 2),
        (T0 + 60 * SECOND, 60),
        (T0 + 150 * SECOND + 1, 151),
        (T0 + 300 * SECOND, 300),
    ]:
        gets.count()
        assert first_at(workspace, archive, time_ns) == as_read(rows[seq - 1])
        assert gets.count() <= 2
    assert first_at(workspace, archive, T0 + 300 * SECOND + 1) is None
    assert first_at(workspace, archive, 2**63 - 1) is None
    assert gets.count() == 0


def test_clocks_that_step_back(case: Case) -> None:
    """The first in stream order, whatever the times of those behind it."""
    workspace, archive, _ = case
    rows = [message(1), message(2, time_ns=T0 + 500 * SECOND), message(3), message(4), message(5)]
    add_chunk(workspace, archive, rows[:3])
    add_chunk(workspace, archive, rows[3:])
    assert first_at(workspace, archive, T0 + 2 * SECOND) == as_read(rows[1])
    assert first_at(workspace, archive, T0 + 5 * SECOND) == as_read(rows[1])
    assert first_at(workspace, archive, T0 + 500 * SECOND + 1) is None


def test_the_first_message_at_a_time_of_several_lives(case: Case) -> None:
    workspace, archive, _ = case
    assert first_at(workspace, archive, 0) is None
    add_chunk(workspace, archive, [message(1), message(9)], covers=(1, 9))
    workspace.catalog.coverage.begin(archive, state(AGAIN))
    newer = [message(1, time_ns=T0 + 5 * SECOND), message(2, time_ns=T0 + 50 * SECOND)]
    add_chunk(workspace, archive, newer, incarnation=AGAIN)
    assert first_at(workspace, archive, T0 + 5 * SECOND) == as_read(message(9))
    assert first_at(workspace, archive, T0 + 10 * SECOND) == as_read(newer[1], AGAIN)


@pytest.mark.parametrize("time_ns", [2**63, -(2**63), 10**30])
def test_what_cannot_be_a_time_is_refused(case: Case, time_ns: int) -> None:
    with pytest.raises(OperatorError, match="is not a time"):
        first_at(case.workspace, case.archive, time_ns)
