"""What a monitoring system scrapes: true right after a start, in every server alike, and whatever is down."""

import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
from fastapi.testclient import TestClient
from prometheus_client.parser import text_string_to_metric_families

from nats3_dagster.api import scrapes
from nats3_dagster.api.app import create_app
from nats3_dagster.archive import status
from nats3_dagster.archive.captures.capture_log import record_outcomes
from nats3_dagster.archive.captures.commit import CaptureResult
from nats3_dagster.archive.captures.open import open_source
from nats3_dagster.archive.lifecycle.remove import delete
from nats3_dagster.archive.proof.seal import seal_hours, sealable
from nats3_dagster.cli.wording import WORDS
from nats3_dagster.dev.process import free_port
from nats3_dagster.documents.holdings import ArchiveDetail
from nats3_dagster.errors import SourceError
from nats3_dagster.hours import HOUR_NS, hour_of
from nats3_dagster.model import Gap, ReplaySpec, SeqRange
from nats3_dagster.replay.overview import overview
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.conftest import NatsFactory, freeze
from nats3_dagster_tests.support.commands import Command
from nats3_dagster_tests.support.metrics import Scraped, scraped
from nats3_dagster_tests.support.replays import archived, replayed
from nats3_dagster_tests.support.waiting import eventually
from nats3_dagster_tests.support.wire import Wire

MESSAGES = 300


@contextmanager
def server(settings: Settings, **changes: Any) -> Iterator[TestClient]:
    with TestClient(create_app(settings.model_copy(update=changes))) as client:
        yield client


def scrape(settings: Settings, **changes: Any) -> Scraped:
    """By a server that has just started."""
    with server(settings, **changes) as client:
        return scraped(client)


@pytest.fixture
def stream(workspace: Workspace, wire: Wire, bucket: str) -> Wire:
    """An archive `a` of stream EV, whose 300 messages are captured, and 20 more that are not."""
    wire.create_stream("EV", "ev.>", max_msgs=1000)
    wire.publish([("ev.a", b"", b"x" * 100)] * MESSAGES)
    archived(workspace, wire, "EV", bucket)
    wire.publish([("ev.a", b"", b"x" * 100)] * 20)
    return wire


def test_every_number_is_that_of_the_archive(
    settings: Settings, workspace: Workspace, stream: Wire, bucket: str
) -> None:
    stream.create_stream("BACK", "back.>")
    replayed(workspace, ReplaySpec("a", "back.>"))
    archive = workspace.catalog.archives.get("a")
    hours = sealable(workspace, archive, hour_of(time.time_ns() - 3 * HOUR_NS)).hours  # before the first message
    assert hours
    manifests = [seal.stored_bytes for seal in seal_hours(workspace, archive, hours)]
    with server(settings) as client:
        seen, text = scraped(client), client.get("/metrics").text
    if promtool := shutil.which("promtool"):  # of Prometheus, where it is installed
        linted = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, text=True, check=False)
        assert (linted.returncode, linted.stdout, linted.stderr) == (0, "", "")
    view = ArchiveDetail.of_overview(overview(workspace, "a"), WORDS).plain()
    a = {"archive": "a"}
    assert seen("nats3_archive_lag_messages", **a) == view["lag"] == 20
    assert seen("nats3_archive_lag_seconds", **a) == pytest.approx(view["oldest_uncaptured_s"], abs=10)
    assert seen("nats3_archive_time_to_loss_ratio", **a) == view["time_to_loss"]["used"] == 0.02
    assert seen("nats3_archive_loss_level", **a) == 0
    assert seen("nats3_archive_gone_messages", **a) == view["time_to_loss"]["gone"] == 0
    assert seen.by("state", "nats3_archive_source_state", **a) == {view["source"]: 1} == {"ok": 1}
    assert seen("nats3_archive_source_up", **a) == 1
    assert seen("nats3_archive_paused", **a) == 0
    for name in ("messages", "stored_bytes", "chunks"):
        assert seen(f"nats3_archive_{name}", **a) == view[name] > 0
    assert seen("nats3_archive_bytes", **a) == view["payload_bytes"]
    assert seen("nats3_archive_captured_messages_total", **a) == MESSAGES
    assert seen("nats3_replay_published_messages_total", **a) == MESSAGES
    assert seen.by("state", "nats3_replay_state", **a) == {"succeeded": 1}
    assert seen.by("state", "nats3_replay_attempts_total", **a) == {"succeeded": 1}
    assert seen("nats3_archive_chunk_bytes_bucket", le="65536.0", **a) == view["chunks"]
    assert seen("nats3_archive_chunk_bytes_sum", **a) == view["stored_bytes"]
    assert sum(seen.by("state", "nats3_archive_partitions", **a).values()) == view["hours"]
    # The peer's.
    assert seen("nats3_jobs_total", job_type="load", status="completed") == 1
    assert seen("nats3_jobs_total", job_type="load", status="failed") == 0
    assert seen("nats3_jobs_current", job_type="store") == 1
    assert seen("nats3_jobs_current", job_type="load") == 0
    directions = {"in": MESSAGES, "out": MESSAGES}
    assert seen.by("direction", "nats3_nats_messages_total") == directions
    assert seen.by("direction", "nats3_nats_bytes_total") == dict.fromkeys(directions, view["payload_bytes"])
    objects = {"in": view["chunks"], "out": view["chunks"] + len(manifests)}
    assert seen.by("direction", "nats3_s3_objects_total") == objects
    stored = {"in": view["stored_bytes"], "out": view["stored_bytes"] + sum(manifests)}
    assert seen.by("direction", "nats3_s3_bytes_total") == stored


def test_captures_and_their_failures_are_counted_by_kind(
    settings: Settings, workspace: Workspace, stream: Wire
) -> None:
    archive = workspace.catalog.archives.get("a")

    assert scrape(settings)("nats3_archive_last_success_timestamp_seconds", archive="a") is None
    began, hours = workspace.catalog.now(), ["2026-01-01-00:00", "2026-01-01-01:00"]
    record_outcomes(workspace, archive, began, errors=dict.fromkeys(hours, SourceError("NATS is gone", "")))
    record_outcomes(workspace, archive, began, errors={hours[0]: ZeroDivisionError("password")})
    before = time.time()
    record_outcomes(workspace, archive, began, [CaptureResult("a", hours[0], None, 0)])
    seen = scrape(settings)
    assert seen.by("kind", "nats3_archive_failures_total", archive="a") == {"source": 2, "defect": 1}
    assert seen("nats3_archive_failures_total", archive="a", kind="store") == 0
    assert seen("nats3_archive_captures_total", archive="a") == 1
    assert seen("nats3_archive_last_success_timestamp_seconds", archive="a") == pytest.approx(before, abs=5)
    assert seen("nats3_jobs_total", job_type="store", status="completed") == 1
    assert seen("nats3_jobs_total", job_type="store", status="failed") == 3


def test_losses_by_reason(settings: Settings, workspace: Workspace, stream: Wire) -> None:
    archive = workspace.catalog.archives.get("a")
    stream.api("STREAM.PURGE.EV", seq=311)
    seen = scrape(settings)
    assert seen("nats3_archive_gone_messages", archive="a") == 10
    assert seen("nats3_archive_loss_level", archive="a") == 2
    incarnation = open_source(workspace, archive).state.incarnation
    workspace.catalog.chunks.commit(archive, [], [Gap(incarnation, (SeqRange(301, 310),), "expired")])
    seen = scrape(settings)
    assert seen("nats3_archive_gone_messages", archive="a") == 0
    assert seen.by("reason", "nats3_archive_lost_messages_total", archive="a") == {"expired": 10}
    assert seen.by("reason", "nats3_archive_missing_messages", archive="a") == {"expired": 10}
    assert status.holdings(workspace, "a").losses == {"expired": 10}


def test_servers_agree_and_counters_never_go_down(
    settings: Settings, workspace: Workspace, stream: Wire, bucket: str
) -> None:
    stream.create_stream("BACK", "back.>")
    replay = replayed(workspace, ReplaySpec("a", "back.>"))

    def with_nats() -> Scraped | None:
        """A scrape in which NATS answered in time: beside much other work it may not."""
        seen = scrape(settings)
        return seen if seen("nats3_up", dependency="nats") and seen("nats3_archive_source_up", archive="a") else None

    first, second = (eventually(with_nats, "NATS answers a scrape in time") for _ in range(2))
    assert first.steady == second.steady
    archive = workspace.catalog.archives.get("a")
    chunks = workspace.catalog.chunks.select(archive)
    workspace.catalog.replays.delete(replay.id)
    workspace.catalog.chunks.retire(archive, [chunk.id for chunk in chunks], recapture=True)
    retired = scrape(settings)
    assert retired("nats3_archive_messages", archive="a") == 0
    assert retired.counters == first.counters
    delete(workspace, "a", purge=True)
    deleted = scrape(settings)
    of_all = {key: value for key, value in first.counters.items() if "archive" not in dict(key[1])}
    assert deleted.counters == of_all
    archived(workspace, stream, "EV", bucket)
    again = scrape(settings)
    assert again("nats3_archive_captured_messages_total", archive="a") == 2 * MESSAGES + 20
    assert all(again.counters[key] >= value for key, value in first.counters.items())


def test_both_formats(settings: Settings, workspace: Workspace, stream: Wire, nats3: Command) -> None:
    with server(settings) as client:
        seen = scraped(client)
        for accept in ("", "*/*", "text/plain;version=0.0.4", "application/openmetrics-text;version=x.y"):
            answer = client.get("/api/v1/metrics", headers={"accept": accept})
            assert (answer.status_code, answer.headers["content-type"].split(";")[0]) == (200, "text/plain")
            plain = list(text_string_to_metric_families(answer.text))
            names = {sample.name for family in plain for sample in family.samples}
            assert names == {name for name, _ in seen.samples}
    assert {f.name for f in text_string_to_metric_families(nats3.ok("metrics").out)} == {f.name for f in plain}
    for family in seen.families.values():
        assert family.documentation.endswith(".")
        assert family.name.startswith("nats3_")
        for unit in ("seconds", "bytes", "ratio"):
            assert (family.unit == unit) == family.name.endswith(f"_{unit}")


def test_nats_that_is_down_leaves_the_lag_out(settings: Settings, workspace: Workspace, stream: Wire) -> None:
    seen = scrape(settings, nats_url=f"nats://127.0.0.1:{free_port()}")
    assert seen.by("dependency", "nats3_up") == {"postgres": 1, "store": 1}
    assert seen("nats3_up", dependency="nats") == 0
    assert seen("nats3_archive_source_up", archive="a") == 0
    assert seen.by("state", "nats3_archive_source_state") == {"unreachable": 1}
    for name in ("lag_messages", "lag_seconds", "gone_messages", "time_to_loss_ratio", "loss_level"):
        assert seen(f"nats3_archive_{name}", archive="a") is None
    assert seen("nats3_archive_messages", archive="a") == MESSAGES


def test_nats_that_hangs_is_not_waited_for(
    settings: Settings, workspace: Workspace, stream: Wire, nats_factory: NatsFactory
) -> None:
    frozen = nats_factory()
    freeze(frozen)
    began = time.monotonic()
    seen = scrape(settings, nats_url=frozen.url)
    assert time.monotonic() - began < 5
    assert seen.by("state", "nats3_archive_source_state") == {"unreachable": 1}


@pytest.mark.s3
def test_postgres_or_a_store_that_is_down(settings: Settings, workspace: Workspace, stream: Wire) -> None:
    nobody = free_port()
    seen = scrape(settings, s3_endpoint=f"http://127.0.0.1:{nobody}")
    assert seen.by("dependency", "nats3_up") == {"nats": 1, "postgres": 1}
    password = type(settings.postgres_url)(f"postgresql://u:hunter2@127.0.0.1:{nobody}/x")  # type: ignore[call-arg]
    seen = scrape(settings, postgres_url=password)
    assert seen.by("dependency", "nats3_up") == {"nats": 1, "store": 1}
    assert seen("nats3_up", dependency="postgres") == 0
    assert not [name for name in seen.families if name.startswith(("nats3_archive", "nats3_jobs", "nats3_nats"))]


def test_a_postgres_that_never_answers(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scrapes, "DEADLINE_S", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = type(settings.postgres_url)(f"postgresql://u@127.0.0.1:{silent.getsockname()[1]}/x")  # type: ignore[call-arg]
        with server(settings, postgres_url=url) as client:
            for _ in range(3):
                began = time.monotonic()
                seen = scraped(client)
                assert time.monotonic() - began < 8  # who connects waits for 10 s
                assert seen.by("dependency", "nats3_up") == {}
                assert seen("nats3_up", dependency="postgres") == 0
            assert sum(thread.name == "scrape" for thread in threading.enumerate()) == 1


def test_scrapes_that_come_together_share_one_measurement(
    settings: Settings, workspace: Workspace, stream: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured = 0
    measure = scrapes.measure

    def counted(workspace: Workspace) -> Any:
        nonlocal measured
        measured += 1
        return measure(workspace)

    monkeypatch.setattr(scrapes, "measure", counted)
    monkeypatch.setattr(scrapes, "FRESH_S", 60.0)
    with server(settings) as client, ThreadPoolExecutor(8) as pool:
        every = list(pool.map(lambda _: scraped(client), range(8)))
    assert measured == 1
    assert all(seen.steady == every[0].steady for seen in every)
