"""Faults of archives of the mode `consumer`: killed at each step, the durable made again or shared, the catalog put
back to an earlier state."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import psycopg
from psycopg import sql

from nats3_dagster.dev.nats_server import find_nats_server, version_of
from nats3_dagster.model import ArchiveSpec
from nats3_dagster_tests.faults import taking_jobs
from nats3_dagster_tests.faults.judge_taking import judge_taking
from nats3_dagster_tests.faults.registry import fault
from nats3_dagster_tests.faults.topology import BUCKET
from nats3_dagster_tests.faults.trial import ARCHIVE, Trial
from nats3_dagster_tests.faults.workload import Key, Sent, created_ns, make_messages
from nats3_dagster_tests.support.wire import Wire

# The durable of the user, and the archive's own.
DURABLE, OWN = "taker", f"nats3-{ARCHIVE}"
SECOND_NS = 10**9
# The steps at which a process dies. Those of a task are passed by several processes.
STEPS = (
    "take.claimed",
    "take.object_put",
    "take.before_commit",
    "capture.in_commit",
    "take.committed",
    "take.acknowledged",
    "take.settling",
)
# What the archive takes, by the subjects of the workload. A durable with two filters needs nats-server 2.10.
FILTERS = ((), ("a",), ("a", "b.c")) if version_of(find_nats_server()) >= (2, 10) else ((), ("a",))


@dataclass
class Taking:
    """A trial of the mode `consumer`: what was sent, and what became of it."""

    trial: Trial
    retention: str
    # The tokens after the trial's prefix; none for every subject.
    tokens: tuple[str, ...]
    durable: str = DURABLE
    sent: dict[Key, Sent] = field(default_factory=dict[Key, Sent])
    # What nobody can have any more.
    gone: set[Key] = field(default_factory=set[Key])

    @property
    def subjects(self) -> tuple[str, ...]:
        return tuple(f"{self.trial.prefix}.{tokens}" for tokens in self.tokens)

    @property
    def wanted(self) -> list[Key]:
        return [key for key, message in self.sent.items() if not self.tokens or message[0] in self.subjects]

    def publish(self, count: int, *, is_kept: bool = True) -> None:
        """`is_kept`: whether the stream keeps it for the archive."""
        sent = make_messages(self.trial.random, self.trial.prefix, count, len(self.sent))
        with self.trial.wire() as wire:
            last, created = wire.state(self.trial.stream)["last_seq"], created_ns(wire, self.trial.stream)
            wire.publish(sent)
            assert wire.state(self.trial.stream)["last_seq"] == last + count
        self.sent |= {(created, last + n): message for n, message in enumerate(sent, 1)}
        if not is_kept:
            self.gone |= {(created, last + n) for n in range(1, count + 1)}.intersection(self.wanted)

    def steal(self, wire: Wire, count: int) -> None:
        """Another client pulls this many messages, acknowledges some, and gives the others back in any order."""
        rng, created = self.trial.random, created_ns(wire, self.trial.stream)
        replies = [wire.next(self.trial.stream, self.durable) for _ in range(count)]
        rng.shuffle(replies)
        for reply in replies:
            if rng.random() < 0.5:
                wire.acknowledge(reply)
                self.gone.add((created, int(reply.split(".")[-4])))
            else:
                wire.send(reply, b"-NAK")
        wire.state(self.trial.stream)

    def waiting(self, wire: Wire) -> int:
        return wire.api(f"CONSUMER.INFO.{self.trial.stream}.{self.durable}")["num_pending"]

    def run(self, fault_: str = "", *, adopt: bool = False) -> None:
        self.trial.run(taking_jobs.take, ARCHIVE, adopt, fault=fault_)

    def finish(self, *, exact: bool, adopt: bool = False) -> None:
        """Take the rest, and judge."""
        if self.trial.finish(taking_jobs.take, ARCHIVE, adopt):
            self.judge(exact=exact)

    def judge(self, *, exact: bool) -> None:
        """After a taking that succeeded."""
        self.trial.blame(judge_taking(self.trial.archived(), self.sent, set(self.wanted), self.gone, exact=exact))


def make(
    trial: Trial, retentions: tuple[str, ...] = ("workqueue", "interest", "limits"), *, own: bool = False
) -> Taking:
    """The stream, the durable and the archive, which has some of it; the seed chooses the kind of each. `own`: the
    archive makes its durable, whose flow control acknowledges where the server knows that."""
    name = OWN if own else DURABLE
    taking = Taking(trial, trial.random.choice(retentions), trial.random.choice(FILTERS), name)
    trial.make_empty_stream(retention=taking.retention)
    if not own:
        with trial.wire() as wire:
            durable(wire, taking)
    trial.must(
        taking_jobs.create,
        ArchiveSpec(
            ARCHIVE,
            trial.stream,
            BUCKET,
            prefix=trial.stream,
            subjects=taking.subjects,
            mode="consumer",
            durable=None if own else DURABLE,
        ),
    )
    taking.publish(trial.random.randint(1, 400))
    if trial.random.random() < 0.7:
        trial.must(taking_jobs.take, ARCHIVE)
    return taking


def durable(wire: Wire, taking: Taking) -> None:
    stream = taking.trial.stream
    config: dict[str, Any] = {
        "durable_name": DURABLE,
        "ack_policy": "explicit",
        "ack_wait": SECOND_NS,
        "max_ack_pending": 20_000,
    }
    if len(taking.subjects) == 1:
        config["filter_subject"] = taking.subjects[0]
    elif taking.subjects:
        config["filter_subjects"] = list(taking.subjects)
    wire.api(f"CONSUMER.CREATE.{stream}.{DURABLE}", stream_name=stream, config=config)


def _step(trial: Trial, steps: tuple[str, ...] = STEPS) -> str:
    step = trial.random.choice(steps)
    passes = trial.random.randint(1, 2) if step in ("take.object_put", "take.committed", "capture.in_commit") else 1
    return f"{step}:kill:{passes}"


@fault("taking killed", "kill -9 at a step of a round in consumer mode, once or twice", short=True)
def taking_killed(trial: Trial) -> None:
    taking = make(trial, own=trial.random.random() < 0.5)
    kills = trial.random.randint(1, 2)
    for _ in range(kills):
        taking.publish(trial.random.randint(1, 400))
        taking.run(_step(trial))
    if trial.random.random() < 0.5:
        taking.publish(trial.random.randint(1, 100))
    # The durable does not tell how often it delivered to processes that died: what the filter left out may count as
    # lost after two of them.
    taking.finish(exact=kills == 1)


@fault("taking durable made again", "the durable is deleted and made again, with messages in between", short=True)
def durable_made_again(trial: Trial) -> None:
    taking = make(trial)
    kept = taking.retention != "interest"
    for _ in range(trial.random.randint(1, 2)):
        if trial.random.random() < 0.5:
            taking.run(_step(trial))
        with trial.wire() as wire:
            # What the durable had not delivered, or was not acknowledged, goes with it.
            state = wire.state(trial.stream)
            if not kept and state["messages"]:
                held = {m.seq for m in wire.messages(trial.stream)}
                taking.gone |= {key for key in taking.wanted if key[1] in held}
            wire.api(f"CONSUMER.DELETE.{trial.stream}.{DURABLE}")
            taking.publish(trial.random.randint(1, 300), is_kept=kept)
            if trial.random.random() < 0.3:
                taking.run()
            durable(wire, taking)
        if trial.random.random() < 0.7:
            taking.publish(trial.random.randint(1, 100))
        if trial.random.random() < 0.4:
            taking.run(_step(trial))
    taking.finish(exact=False)


@fault("taking own durable made again", "the archive's own durable is deleted, and made again as the hint says, killed")
def own_durable_made_again(trial: Trial) -> None:
    retention = trial.random.choice(("workqueue", "interest", "limits"))
    taking = Taking(trial, retention, trial.random.choice(FILTERS))
    with trial.wire() as wire:
        wire.create_stream(trial.stream, f"{trial.prefix}.>", retention=retention, storage="file")
    trial.must(
        taking_jobs.create,
        ArchiveSpec(ARCHIVE, trial.stream, BUCKET, prefix=trial.stream, subjects=taking.subjects, mode="consumer"),
    )
    taking.publish(trial.random.randint(1, 300))
    trial.must(taking_jobs.take, ARCHIVE)
    with trial.wire() as wire:
        wire.api(f"CONSUMER.DELETE.{trial.stream}.nats3-{ARCHIVE}")
    taking.publish(trial.random.randint(1, 300), is_kept=retention != "interest")
    if trial.random.random() < 0.7:
        taking.run(_step(trial, ("take.made_again", "take.settling", "take.acknowledged")), adopt=True)
    taking.finish(exact=False, adopt=True)


@fault("taking shared", "another client pulls from the archive's durable, and acknowledges some")
def taking_shared(trial: Trial) -> None:
    # A stream that keeps what is acknowledged keeps these too, and the runs say that they do not come.
    taking = make(trial, ("workqueue", "interest"))
    for _ in range(trial.random.randint(1, 3)):
        taking.publish(trial.random.randint(1, 300))
        with trial.wire() as wire:
            if waiting := taking.waiting(wire):
                taking.steal(wire, trial.random.randint(1, waiting))
        match trial.random.randint(0, 3):
            case 0:
                taking.run(_step(trial))
            case 1:
                taking.run()
            case 2:
                taking.publish(trial.random.randint(100, 400))
                with trial.held("take.claimed", taking_jobs.take, ARCHIVE) as job, trial.wire() as wire:
                    if waiting := taking.waiting(wire):
                        taking.steal(wire, trial.random.randint(1, waiting))
                trial.end(job, "run that was held")
            case _:
                pass
    taking.finish(exact=False)


@fault("taking catalog put back", "the catalog is put back after more was taken and acknowledged", short=True)
def catalog_put_back(trial: Trial) -> None:
    taking = make(trial, own=trial.random.random() < 0.5)
    with earlier(trial) as put_back:
        for _ in range(trial.random.randint(1, 3)):
            taking.publish(trial.random.randint(1, 300))
            taking.run(_step(trial) if trial.random.random() < 0.3 else "")
        put_back()
    if trial.random.random() < 0.6:
        taking.publish(trial.random.randint(1, 100))
    if trial.random.random() < 0.4:
        taking.run(_step(trial))
    taking.finish(exact=False)


@contextmanager
def earlier(trial: Trial) -> Iterator[Any]:
    """The catalog is copied now; what is given puts it back to this state."""
    name, copy = trial.database, f"{trial.database}_copy"

    def execute(statement: str, *names: str) -> None:
        until = time.monotonic() + 10
        while True:
            try:
                with trial.servers.admin() as connection:
                    connection.execute(sql.SQL(statement).format(*map(sql.Identifier, names)))  # type: ignore[arg-type]
                return
            except psycopg.errors.ObjectInUse:  # of a process that has just ended
                assert time.monotonic() < until
                time.sleep(0.05)

    def put_back() -> None:
        execute("DROP DATABASE {} WITH (FORCE)", name)
        execute("CREATE DATABASE {} TEMPLATE {} STRATEGY FILE_COPY", name, copy)

    execute("CREATE DATABASE {} TEMPLATE {} STRATEGY FILE_COPY", copy, name)
    try:
        yield put_back
    finally:
        execute("DROP DATABASE {} WITH (FORCE)", copy)
