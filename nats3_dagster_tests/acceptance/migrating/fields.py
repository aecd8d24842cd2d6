"""Rows of the fields of jobs."""

import re
import time
import uuid
from collections.abc import Callable
from typing import Any

from nats3_dagster_tests.acceptance.migrating.shared import (
    Checks,
    equal,
    has,
    no_bucket,
    one,
    peers_durable,
    stored,
)
from nats3_dagster_tests.acceptance.migrating.side import Side
from nats3_dagster_tests.support.load_jobs import MESSAGES


def _uuid(make: str) -> Callable[[Side], object]:
    return lambda side: uuid.UUID(getattr(side, make)()["id"])


def _times(make: str) -> Callable[[Side], None]:
    def check(side: Side) -> None:
        job = getattr(side, make)()
        for field in ("created", "updated"):
            assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", job[field]), job[field]

    return check


def _name(side: Side) -> None:
    job = side.store(name="its-name.1")
    assert (job["name"], job["archive"]) == ("its-name.1", "its_name_1")


def _consumer(side: Side) -> None:
    body = {"name": side.name, "stream": "jobs", "subject": "subject.1", "bucket": side.bucket, "consumer": "not-there"}
    assert "has no consumer not-there" in side.refused("/store/job", "consumer", **body)
    peers_durable(side.wire, "jobs", "theirs", "subject.1")
    job = side.store(consumer="theirs", batch={"max_count": 1000})
    assert (job["consumer"], job["mode"]) == ("theirs", "consumer")


def _codecs(side: Side) -> None:
    for codec in ("json", "binary", "Binary", "bin", "Json", "JSON"):
        assert side.store(encoding={"codec": codec})["encoding"] == {"codec": "binary"}


def _subject(side: Side) -> None:
    assert side.store()["subject"] == "subject.1"
    assert side.store(subject=None)["subject"] == ">"
    assert side.store(subject=None, subjects=["subject.1", "subject.2"])["subjects"] == ["subject.1", "subject.2"]


STORE_FIELDS: Checks = {
    "id": _uuid("store"),
    "name": _name,
    "status": has("store", {"status": "Created"}),
    "stream": has("store", {"stream": "jobs"}),
    "consumer": _consumer,
    "subject": _subject,
    "bucket": no_bucket,
    "prefix": has("store", {"prefix": "team/a"}, prefix="team/a"),
    "batch.max_bytes": has(
        "store", {"batch": {"max_bytes": 5, "max_count": 7}, "max_bytes": 5}, batch={"max_bytes": 5, "max_count": 7}
    ),
    "batch.max_count": has(
        "store", {"batch": {"max_bytes": 5, "max_count": 7}, "max_messages": 7}, batch={"max_bytes": 5, "max_count": 7}
    ),
    "encoding.codec": _codecs,
    "created, updated": _times("store"),
}


def _key(side: Side) -> None:
    key = str(uuid.uuid4())
    body = side.loads.body | {"write_subject": "back.key"}
    for status in (201, 200):
        assert side.answer("POST", "/load/job", status, json=body, headers={"Idempotency-Key": key})["id"] == key


def _chosen(field: str, value: str, **spec: Any) -> Callable[[Side], None]:
    """The field chooses between two archives of one stream in one bucket; the second is deleted in the end."""

    def check(side: Side) -> None:
        made = side.store(stream="EV", subject=None, **spec)
        try:
            assert "2 archives" in side.answer("POST", "/load/job", 422, json=side.loads.body)["error"]
            # It is the one without a message.
            empty = side.answer("POST", "/load/job", 422, json=side.loads.body | {field: value})
            assert empty["error"].startswith(f"Archive {made['archive']} holds nothing")
        finally:
            side.answer("DELETE", one("/store/job", made), 200)

    return check


def _prefix(side: Side) -> None:
    _chosen("prefix", "other", prefix="other")(side)


def _read_consumer(side: Side) -> None:
    peers_durable(side.wire, "EV", "theirs", "ev.a")
    _chosen("read_consumer", "theirs", consumer="theirs", batch={"max_count": 1000})(side)


def _read_subject(side: Side) -> None:
    """It selects messages; and of two archives the one of this subject, which has no message yet."""
    body = {"read_subject": "ev.a", "write_subject": "back.a"}
    assert side.plan(**body)["messages"] == MESSAGES
    made = side.store(stream="EV", subject="ev.a")
    empty = side.answer("POST", "/load/job", 422, json=side.loads.body | body)
    assert empty["error"].startswith(f"Archive {made['archive']} holds nothing")
    side.answer("DELETE", one("/store/job", made), 200)


def _write_stream(side: Side) -> None:
    assert side.plan(write_stream="BACK")["targets"] == ["BACK"]
    answer = side.answer("POST", "/load/job", 422, json=side.loads.body | {"write_stream": "jobs", "dry_run": True})
    assert "BACK" in answer["error"]


def _selects(messages: int, **given: Any) -> Callable[[Side], None]:
    return lambda side: equal(side.plan(**given)["messages"], messages)


def _loads(messages: int, field: str) -> Callable[[Side], None]:
    """A load job with the store time of the fourth message in this field publishes so many."""

    def check(side: Side) -> None:
        job = side.load(**{field: stored(side, 4)})
        assert job[field] == stored(side, 4)
        side.loads.gate.set()
        assert side.loads.until(side.client, job["id"], "Success")["published"] == messages

    return check


def _start(side: Side) -> None:
    assert side.plan(start=4)["messages"] == MESSAGES - 3
    # The peer's Unix seconds select nothing, and that is refused.
    answer = side.answer("POST", "/load/job", 422, json=side.loads.body | {"start": int(time.time()) - 3600})
    assert answer["error"]


def _delete_chunks(side: Side) -> None:
    assert side.plan(delete_chunks=True)["deletes_chunks"] == side.plan()["chunks"] > 0
    assert side.plan()["deletes_chunks"] == 0
    assert side.load(delete_chunks=True)["delete_chunks"] is True


LOAD_FIELDS: Checks = {
    "id": lambda side: (_uuid("load")(side), _key(side)),
    "name": has("load", {"name": "its-name"}, name="its-name"),
    "status": has("load", {"status": "Created"}),
    "bucket": lambda side: equal(side.load()["bucket"], side.bucket),
    "prefix": _prefix,
    "read_stream": has("load", {"read_stream": "EV"}),
    "read_consumer": _read_consumer,
    "read_subject": _read_subject,
    "write_subject": has("load", {"write_subject": "back.x.>"}, write_subject="back.x.>"),
    "write_stream": _write_stream,
    "poll_interval": has("load", {"poll_interval": {"secs": 5, "nanos": 0}}, poll_interval={"secs": 5, "nanos": 0}),
    "delete_chunks": _delete_chunks,
    "from_time": _loads(7, "from_time"),
    "to_time": _loads(3, "to_time"),
    "start": _start,
    "end": _selects(4, end=4),
    "created, updated": _times("load"),
}
