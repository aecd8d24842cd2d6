"""The embedded S3 server's memory of accounts and buckets."""

import pytest

from nats3_dagster.dev.s3 import cache as swift_cache
from nats3_dagster.dev.s3.cache import InfoCache


def test_it_keeps_what_is_there_until_its_time_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    cache, now = InfoCache(), [5.0]
    monkeypatch.setattr(swift_cache, "monotonic", lambda: now[0])
    info = {"status": 204, "meta": {"a": "b"}}
    cache.set("container/a/b", info, time=60)
    cache.get("container/a/b")["meta"].clear()  # Swift changes what it gets
    assert cache.get("container/a/b") == info
    now[0] += 60
    assert cache.get("container/a/b") is None


def test_what_is_not_there_or_was_changed_is_asked_again() -> None:
    cache = InfoCache()
    cache.set("container/a/b", {"status": 404}, time=6)
    assert cache.get("container/a/b") is None
    cache.set("container/a/b", {"status": 204}, time=60)
    cache.delete("container/a/b", server_key=None)
    cache.delete("container/a/c")
    assert cache.get("container/a/b", raise_on_error=True) is None


def test_it_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(swift_cache, "_MOST", 3)
    cache = InfoCache()
    for n in range(10):
        cache.set(str(n), n, time=60)
    assert [n for n in range(10) if cache.get(str(n)) is not None] == [9]
