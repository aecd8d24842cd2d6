"""What the checks of several tables do."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn

from nats3_dagster.dev.process import HOST
from nats3_dagster.hours import format_time, parse_time
from nats3_dagster_tests.acceptance.migrating.side import Side
from nats3_dagster_tests.support.load_jobs import Loads
from nats3_dagster_tests.support.waiting import eventually
from nats3_dagster_tests.support.wire import Wire

# A check for each row of a table.
Checks = dict[str, Callable[[Side], Any]]


def one(path: str, job: dict[str, Any]) -> str:
    return f"{path}?job_id={job['id']}"


def peers_durable(wire: Wire, stream: str, name: str, subject: str) -> None:
    """As nats-s3-connector makes it: its batch is all that may be outstanding."""
    config = {
        "durable_name": name,
        "ack_policy": "explicit",
        "filter_subject": subject,
        "max_ack_pending": 1000,
        "deliver_policy": "all",
        "replay_policy": "instant",
    }
    wire.api(f"CONSUMER.DURABLE.CREATE.{stream}.{name}", stream_name=stream, config=config)


def has(make: str, wanted: dict[str, Any], **given: Any) -> Callable[[Side], None]:
    """A job of that kind, made with `given`, that answers with `wanted`."""

    def check(side: Side) -> None:
        job = getattr(side, make)(**given)
        assert job.items() >= wanted.items(), job

    return check


def equal(got: Any, wanted: Any) -> None:
    assert got == wanted, got


def stored(side: Side, seq: int) -> str:
    """The store time of a message of EV, with nine digits as we write it: the server leaves out zeros at the end."""
    return format_time(parse_time(next(m.time for m in side.wire.messages("EV") if m.seq == seq)))


def no_bucket(side: Side) -> None:
    body = {"name": side.name, "stream": "jobs", "bucket": f"none-{side.bucket}"}
    assert "does not exist" in side.refused("/store/job", "bucket", **body)
    assert side.answer("POST", "/store/job", 201, json=body | {"create_bucket": True})["bucket"] == body["bucket"]


def pause_store(side: Side) -> None:
    assert side.answer("POST", one("/store/job/pause", side.store()), 200)["status"] == "Paused"


def pause_load(side: Side) -> None:
    assert side.answer("POST", one("/load/job/pause", side.load()), 200)["status"] == "Paused"


def slow_load(side: Side) -> dict[str, Any]:
    """One that takes five seconds."""
    job = side.load(rate=2)
    side.loads.gate.set()
    side.loads.until(side.client, job["id"], "Running")
    return job


def ids(jobs: list[dict[str, Any]]) -> list[str]:
    return [job["id"] for job in jobs]


@contextmanager
def listening(loads: Loads, port: int) -> Iterator[str]:
    """A server behind a socket; its URL."""
    server = uvicorn.Server(uvicorn.Config(loads.app(), host=HOST, port=port, log_level="warning"))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        eventually(lambda: server.started or not thread.is_alive(), "the server")
        assert server.started, f"port {port} is in use"
        yield f"http://{HOST}:{port}"
    finally:
        server.should_exit = True
        thread.join(30)
