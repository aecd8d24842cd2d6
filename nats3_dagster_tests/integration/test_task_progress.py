"""Progress of tasks: what a driver says while they run, and what it knows afterwards."""

import threading
import time
from collections.abc import Callable

import pytest

from nats3_dagster.dev.nats_server import NatsServer
from nats3_dagster.errors import CatalogError
from nats3_dagster.jetstream import task_progress
from nats3_dagster.jetstream.link import Link
from nats3_dagster.jetstream.task_progress import Counts, Tally, new_subject, reporting
from nats3_dagster.model import Progress
from nats3_dagster_tests.conftest import freeze


def wait_for(done: Callable[[], object]) -> None:
    until = time.monotonic() + 20
    while not done():
        assert time.monotonic() < until
        time.sleep(0.01)


def test_the_counts_of_all_tasks_add_up_and_the_last_ones_arrive(link: Link, nats: NatsServer) -> None:
    seen: list[Progress] = []
    saved: list[Counts] = []
    subject = new_subject()
    first, second = Counts(), Counts()
    with Tally(link, subject, 1000, seen.append, saved.append) as tally:
        # Before the first message.
        assert seen == [Progress(0, 1000)]
        with (
            Link(nats.options) as one,
            Link(nats.options) as other,
            reporting(one, subject, 0, lambda: first),
            reporting(other, subject, 1, lambda: second),
        ):
            first, second = Counts(10, 1), Counts(100)
            wait_for(lambda: seen[-1] == Progress(111, 1000))
            # A task that lost its connection finds what it had published.
            first = Counts(4, 7)
            wait_for(lambda: tally.counts == Counts(104, 7))
            first, second = Counts(12, 9), Counts(300)
    assert tally.counts == Counts(312, 9)
    assert saved == [Counts(312, 9)]


def test_the_counts_are_kept_while_the_tasks_run_and_nothing_that_fails_there_stops_them(
    link: Link, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_progress, "SAVE_S", 0.0)
    saved: list[Counts] = []
    subject = new_subject()
    counts = Counts()

    def save(counts: Counts) -> None:
        saved.append(counts)
        if counts.published == 1:
            raise CatalogError("Postgres is away")

    with Tally(link, subject, 10, save=save), reporting(link, subject, 0, lambda: counts):
        counts = Counts(1)
        wait_for(lambda: saved.count(Counts(1)) > 1)
        counts = Counts(2)
        wait_for(lambda: Counts(2) in saved)
    assert saved.count(Counts(2)) == 1


def test_a_server_that_stands_still_is_said_until_it_goes_on(
    own_nats: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_progress, "QUIET_S", 0.5)
    seen: list[Progress] = []
    subject = new_subject()
    counts = Counts()
    with Link(own_nats.options) as link, Link(own_nats.options) as task:
        with Tally(link, subject, 100, seen.append), reporting(task, subject, 0, lambda: counts):
            counts = Counts(40)
            wait_for(lambda: seen[-1].quiet_s)
            assert (seen[-1].done, seen[-1].total, seen[-1].answers) == (40, 100, True)
            freeze(own_nats)
            wait_for(lambda: sum(not p.answers for p in seen) >= 2)
            assert seen[-1].note.endswith(" s: waiting for NATS")
            own_nats.resume()
            counts = Counts(60)
            # The answers to what was asked meanwhile come late, and the connection goes on.
            wait_for(lambda: seen[-1] == Progress(60, 100))
            wait_for(lambda: seen[-1].quiet_s and seen[-1].answers)
            assert not link.client.lost.is_set()
        assert "progress" not in {thread.name for thread in threading.enumerate()}
