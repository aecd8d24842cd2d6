"""A host whose clock is off: no hour counts as ended before it has."""

import time

import pytest

from nats3_dagster.archive.health import catalog_health
from nats3_dagster.archive.proof.seal import seal_asked, sealable
from nats3_dagster.archive.source.backlog import backlog
from nats3_dagster.archive.source.clocks import ask_clocks, stream_now_ns
from nats3_dagster.archive.source.observe import source_state
from nats3_dagster.errors import OperatorError
from nats3_dagster.hours import HOUR_NS, hour_of
from nats3_dagster_tests.support.dagster.stories import archive, hold, past
from nats3_dagster_tests.support.wire import Wire

pytestmark = [pytest.mark.nats, pytest.mark.needs_nats("2.15"), pytest.mark.steady_hour(60)]
_true_ns = time.time_ns


def step_clock(monkeypatch, hours):
    """From now on this machine's clock is off by these hours."""
    monkeypatch.setattr(time, "time_ns", lambda: _true_ns() + int(hours * HOUR_NS))


@pytest.mark.parametrize("ahead", [0.5, 2, 30])
def test_a_host_ahead_seals_no_running_hour(settings, bucket, workspace, monkeypatch, ahead):
    hours = past(settings, 3)
    archive(settings, bucket)
    hold(settings, bucket, hours)
    logs = workspace.catalog.archives.get("events")
    step_clock(monkeypatch, ahead)
    found = sealable(workspace, logs, hours[0])
    assert found.hours == tuple(hours)
    assert "The clocks differ: this machine" in found.clocks
    (finding,) = catalog_health.check_clocks(workspace)
    assert (finding.status, finding.area) == ("warn", "clocks")
    assert all(name in finding.what for name in ("The clocks differ: this machine", ", Postgres ", ", NATS "))
    running = hour_of(_true_ns())
    with pytest.raises(OperatorError, match=f"Hour {running} has not ended. The clocks differ"):
        list(seal_asked(workspace, "events", [running]))
    assert workspace.catalog.seals.select(logs) == ()


def test_a_host_behind_seals_later(settings, bucket, workspace, monkeypatch):
    hours = past(settings, 3)
    archive(settings, bucket)
    hold(settings, bucket, hours)
    step_clock(monkeypatch, -2)
    assert sealable(workspace, workspace.catalog.archives.get("events"), hours[0]).hours == (hours[0],)


def test_clocks_that_agree_say_nothing(settings, bucket, workspace):
    hours = past(settings, 1)
    archive(settings, bucket)
    hold(settings, bucket, hours)
    clocks = ask_clocks(workspace, source_state(workspace, workspace.catalog.archives.get("events")))
    assert clocks.nats_ns is not None
    assert clocks.difference == ""
    assert list(catalog_health.check_clocks(workspace)) == []


@pytest.mark.parametrize("off", [-2, 2])
def test_captures_take_the_open_hour_from_the_streams_server(settings, bucket, workspace, monkeypatch, off):
    past(settings, 1)
    archive(settings, bucket)
    hold(settings, bucket, [hour_of(_true_ns() - HOUR_NS)])
    with Wire(settings.nats_url) as wire:
        wire.publish([("ev.a", b"", b"now")])
    step_clock(monkeypatch, off)
    logs = workspace.catalog.archives.get("events")
    state = source_state(workspace, logs)
    waiting = backlog(workspace, logs, state, stream_now_ns(state))
    assert (waiting.open, waiting.ended, waiting.ahead) == (hour_of(_true_ns()), (), 0)
