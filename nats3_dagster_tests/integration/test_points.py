"""Points: one message by its sequence or time, in as few requests as possible, or the reason why it is not there."""

from collections.abc import Iterator
from typing import Any

import pytest

from nats3_dagster.archive.read import ranged
from nats3_dagster.archive.read.points import by_sequence
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.points_case import Case, Gets, add_chunk, as_read, create, message
from nats3_dagster_tests.s3_proxy import S3Proxy


@pytest.fixture
def case(s3_server: Any, bucket: str, postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Case]:
    """An empty archive, whose store is asked through a proxy that counts."""
    with S3Proxy(s3_server.endpoint) as proxy:
        monkeypatch.setenv("NATS3_POSTGRES_URL", postgres_url)
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", proxy.endpoint)
        monkeypatch.setenv("AWS_REGION", s3_server.region)
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", s3_server.access_key)
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", s3_server.secret_key)
        with Workspace(Settings.load()) as workspace:
            yield Case(workspace, create(workspace, bucket), Gets(proxy))


def large(first: int, last: int, size: int = 2000) -> list[dict[str, Any]]:
    """Messages that do not compress, so that the object is longer than what is read of its end."""
    import random

    noise = random.Random(first)
    return [message(seq, data=noise.randbytes(size)) for seq in range(first, last + 1)]


def test_a_message_comes_as_it_was_stored(case: Case) -> None:
    workspace, archive, _ = case
    rows = [
        message(1), message(2, headers=b"NATS/1.0\r\nA: 1\r\n\r\n", data=b""), message(3, data=b"\x00\xff" * 500),
        message(4, subject="logs.é.日本".encode()), message(5, subject=b"logs.\xff\xfe"),
    ]  # fmt: skip
    add_chunk(workspace, archive, rows)
    for row in rows[:4]:
        assert by_sequence(workspace, archive, row["seq"]) == as_read(row)
    odd = by_sequence(workspace, archive, 5)
    assert (odd.subject_bytes, odd.data) == (b"logs.\xff\xfe", b"5")
    assert odd.headers is None


def test_a_cold_get_takes_two_requests_and_a_warm_one_takes_one(case: Case) -> None:
    workspace, archive, gets = case
    rows = large(1, 300)
    chunk = add_chunk(workspace, archive, rows, group_rows=100)
    assert chunk.meta.stored_bytes > 3 * ranged.TAIL_BYTES
    gets.count()
    assert by_sequence(workspace, archive, 7) == as_read(rows[6])
    assert gets.count() == 2
    assert by_sequence(workspace, archive, 8) == as_read(rows[7])
    assert gets.count() == 1
    assert by_sequence(workspace, archive, 150) == as_read(rows[149])
    assert gets.count() == 1
