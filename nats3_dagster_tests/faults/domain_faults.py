"""Faults: clients read the archive as a JetStream domain while what answers them dies, and the archive changes."""

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from nats.errors import Error

from nats3_dagster_tests.faults import compact_jobs, domain_jobs, jobs
from nats3_dagster_tests.faults.registry import fault
from nats3_dagster_tests.faults.trial import ARCHIVE, Trial
from nats3_dagster_tests.support.domain_client import DomainClient, status_of
from nats3_dagster_tests.support.wire import Message

SERVES_S = 60.0


class Reader:
    """A client that compares each whole answer with what the stream had."""

    def __init__(self, trial: Trial, client: DomainClient) -> None:
        self._trial, self._client = trial, client
        self.api = f"$JS.{_domain(trial)}.API"
        self.answers = 0

    def known(self) -> dict[int, Message]:
        """What the stream has now."""
        with self._trial.wire() as wire:
            return {message.seq: message for message in list(wire.messages(self._trial.stream))}

    def one(self, known: dict[int, Message]) -> None:
        """One message by a sequence of `known`."""
        seq = self._trial.random.choice(list(known))
        with suppress(Error):  # no answer is no wrong one
            body = {"seq": seq}
            answer = self._client.ask(f"{self.api}.DIRECT.GET.{self._trial.stream}", body, timeout=3)
            status = status_of(answer)
            if status.startswith("5"):
                return
            self.answers += 1
            self._trial.expect(not status, "lost", f"sequence {seq} was answered with {answer.headers}")
            self._trial.expect(answer.data == known[seq].data, "silent", f"sequence {seq} has another payload")

    def some(self, known: dict[int, Message]) -> None:
        """A batch from a sequence of `known` on."""
        first = self._trial.random.choice(list(known))
        with suppress(Error):
            *found, end = self._client.batch(self._trial.stream, {"seq": first, "batch": 200}, self.api, timeout=5)
            if end.headers["Status"] != "204":
                return
            self.answers += 1
            seqs = [int(m.headers["Nats-Sequence"]) for m in found]
            wanted = [seq for seq in sorted(known) if seq >= first][:200]
            self._trial.expect(seqs[: len(wanted)] == wanted, "lost", f"a batch from {first} has {len(seqs)} messages")
            same = all(known[seq].data == m.data for seq, m in zip(seqs, found, strict=True) if seq in known)
            self._trial.expect(same, "silent", f"a batch from {first} has another payload")

    def all(self, known: dict[int, Message]) -> None:
        """Every message, batch by batch."""
        seqs, at = list[int](), 1
        for _ in range(200):
            *found, end = self._client.batch(self._trial.stream, {"seq": at, "batch": 200}, self.api, timeout=20)
            if end.headers["Status"] == "404":
                break
            seqs += [int(m.headers["Nats-Sequence"]) for m in found]
            at = seqs[-1] + 1
        self._trial.expect(seqs == sorted(known), "lost", f"{len(seqs)} of {len(known)} messages came")


def _domain(trial: Trial) -> str:
    return f"archive{trial.seed}"


@contextmanager
def _reader(trial: Trial) -> Iterator[Reader]:
    """A client whose domain is served."""
    with DomainClient(trial.servers.nats.url) as client:
        reader, until = Reader(trial, client), time.monotonic() + 30
        while time.monotonic() < until:
            with suppress(Error):
                client.ask(f"{reader.api}.INFO", timeout=1)
                break
            time.sleep(0.1)
        yield reader
        trial.expect(reader.answers > 0, "stuck", "nothing was answered")


def _read_for(trial: Trial, reader: Reader, known: dict[int, Any], seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        (reader.some if trial.random.random() < 0.3 else reader.one)(known)


@fault(
    "domain killed",
    "kill -9 of one of two processes that serve archives to NATS clients",
    short=True,
)
def domain_killed(trial: Trial) -> None:
    trial.make_stream(400)
    trial.capture()
    trial.publish(trial.random.randint(0, 60))
    at = trial.random.randint(1, 40)
    killed = trial.start(domain_jobs.serve, _domain(trial), SERVES_S, fault=f"domain.answered:kill:{at}")
    with _reader(trial) as reader:
        # The first one may be dead by now; the second sees its domain served, and serves it too.
        other = trial.start(domain_jobs.serve, _domain(trial), SERVES_S)
        known = reader.known()
        _read_for(trial, reader, known, 6)
        reader.all(known)
    killed.kill()
    other.kill()
    trial.finish_capture()


@fault(
    "domain while archive changes",
    "captures, compactions and the end of the stream while NATS clients read",
)
def domain_while_archive_changes(trial: Trial) -> None:
    trial.make_stream(300)
    trial.capture()
    server = trial.start(domain_jobs.serve, _domain(trial), SERVES_S)
    with _reader(trial) as reader:
        for _ in range(3):
            trial.publish(trial.random.randint(1, 80))
            known = reader.known()
            works = [
                trial.start(jobs.capture, ARCHIVE),
                *([trial.start(compact_jobs.seal_each, ARCHIVE)] if trial.random.random() < 0.5 else []),
            ]
            _read_for(trial, reader, known, 1.5)
            for work in works:
                trial.end(work, "change")
            if trial.random.random() < 0.6:
                trial.must(compact_jobs.seal_each, ARCHIVE)
                work = trial.start(compact_jobs.compact, ARCHIVE)
                _read_for(trial, reader, known, 1.0)
                trial.end(work, "compact")
        trial.finish_capture()
        known = reader.known()
        reader.all(known)
        with trial.wire() as wire:
            wire.api(f"STREAM.DELETE.{trial.stream}")
        _read_for(trial, reader, known, 0.5)
        reader.all(known)
    server.kill()


@fault("domain while nats restarts", "the NATS server goes and comes back while clients read the archive by it")
def domain_while_nats_restarts(trial: Trial) -> None:
    trial.make_stream(300)
    trial.capture()
    server = trial.start(domain_jobs.serve, _domain(trial), SERVES_S)
    with _reader(trial) as reader:
        known = reader.known()
        _read_for(trial, reader, known, 0.5)
        trial.servers.nats.kill()
        time.sleep(trial.random.uniform(0.0, 2.0))
        trial.servers.nats.start()
    with _reader(trial) as reader:
        _read_for(trial, reader, known, 2.0)
        reader.all(known)
    server.kill()
