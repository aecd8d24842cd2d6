"""Rows of statuses."""

from nats3_dagster_tests.acceptance.migrating.shared import Checks, one, pause_load, pause_store, slow_load
from nats3_dagster_tests.acceptance.migrating.side import Side
from nats3_dagster_tests.support.load_jobs import MESSAGES


def _created(side: Side) -> None:
    assert side.store()["status"] == side.load()["status"] == "Created"


def _running(side: Side) -> None:
    (events,) = [job for job in side.answer("GET", "/store/jobs", 200) if job["archive"] == "events"]
    assert events["status"] == "Running"
    side.answer("POST", one("/load/job/pause", slow_load(side)), 200)


def _success(side: Side) -> None:
    job = side.load()
    side.loads.gate.set()
    assert side.loads.until(side.client, job["id"], "Success")["published"] == MESSAGES
    assert side.answer("GET", "/store/jobs?status=Success", 200) == []


def _failure(side: Side) -> None:
    side.wire.create_stream("GONE", "gone.>")
    store = side.store(stream="GONE", subject="gone.>")
    load = side.load(write_subject="gone.>")
    side.wire.api("STREAM.DELETE.GONE")
    failed = side.answer("GET", one("/store/job", store), 200)
    assert (failed["status"], bool(failed["error"])) == ("Failure", True)
    side.loads.gate.set()
    assert side.loads.until(side.client, load["id"], "Failure")["error"]


STATUS: Checks = {
    "Created": _created,
    "Running": _running,
    "Paused": lambda side: (pause_store(side), pause_load(side)),
    "Success": _success,
    "Failure": _failure,
}
