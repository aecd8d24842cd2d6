"""Faults: streams of an account come, go and come again under a rule, while a tick of it dies, another one runs, or the
rule changes."""

from collections import Counter
from contextlib import suppress
from functools import partial
from itertools import count

from nats3_dagster.archive.account import rules
from nats3_dagster.archive.account.follow import follow
from nats3_dagster.model.account_rule import AccountRule
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.faults import jobs
from nats3_dagster_tests.faults.judge import Archived, read_archive
from nats3_dagster_tests.faults.registry import fault
from nats3_dagster_tests.faults.topology import BUCKET
from nats3_dagster_tests.faults.trial import Trial
from nats3_dagster_tests.support.wire import Wire

RULE = "all"
_POINTS = {
    "account.create": "kill -9 of a tick of the account before it makes an archive",
    "archive.created": "kill -9 of a tick of the account after an archive is in the catalog, before its folder is",
}
# The archives that are not deleted: name, stream, and whether the stream was found to be gone.
_ARCHIVES = """
    select a.name, a.stream, m.ended_at is not null from nats3.archive a
    left join nats3.account_archive m on m.archive_id = a.id where a.deleted_at is null
"""


def make_rule(match: str, exclude: tuple[str, ...] = (), take_mirrors: bool = False) -> None:
    """In a process of its own: make the rule."""
    with Workspace(Settings.load()) as workspace:
        rule = AccountRule(RULE, BUCKET, (match,), exclude, "{stream}", take_mirrors=take_mirrors)
        rules.create(workspace, rule)


def change_rule(exclude: tuple[str, ...]) -> None:
    """In a process of its own: change the rule."""
    with Workspace(Settings.load()) as workspace:
        rules.change(workspace, RULE, {"exclude": exclude})


def tick() -> None:
    """In a process of its own: a tick of the account. Raises what one of its streams failed with."""
    with Workspace(Settings.load()) as workspace:
        problems = [error for found in follow(workspace) for error in found.problems.values()]
    if problems:
        raise problems[0]


class Account:
    """The streams of a trial, which the rule takes: those of its name and a letter."""

    def __init__(self, trial: Trial) -> None:
        self._trial, self._numbers = trial, count()
        self.names = [f"{trial.stream}_{letter}" for letter in "abcd"]
        self.there = set[str]()

    @property
    def match(self) -> str:
        return f"{self._trial.stream}_*"

    def move(self) -> None:
        """Some streams come, go, are made again, and get messages."""
        rng = self._trial.random
        with self._trial.wire() as wire:
            for name in self.names:
                step = rng.choice(("make", "make", "delete", "again", "publish", "nothing"))
                if name in self.there and step in ("delete", "again"):
                    self._delete(wire, name)
                if name not in self.there and step in ("make", "again"):
                    self._make(wire, name)
                if name in self.there:
                    wire.publish([(f"{name}.x", b"", b"%d" % next(self._numbers)) for _ in range(rng.randint(0, 150))])

    def end(self) -> None:
        with suppress(OSError, AssertionError), self._trial.wire() as wire:
            for name in self.names:
                wire.try_api(f"STREAM.DELETE.{name}")

    def judge(self, excluded: tuple[str, ...] = ()) -> None:
        """Each stream that is there has one archive with each of its messages once; one that is gone and was archived
        has an archive that ended."""
        trial = self._trial
        with trial.servers.admin(database=trial.database) as connection:
            rows = connection.execute(_ARCHIVES).fetchall()
            by_stream = Counter(stream for _, stream, _ in rows)
            for name in sorted(self.there - {*excluded}):
                trial.expect(by_stream[name] == 1, "lost", f"stream {name} has {by_stream[name]} archives")
            for archive, stream, has_ended in rows:
                if stream in excluded:
                    continue
                trial.expect(has_ended == (stream not in self.there), "unclear", f"{archive} has ended: {has_ended}")
                if stream in self.there:
                    trial.must(jobs.capture, archive)
                    self._compare(stream, read_archive(connection, archive, trial.fetch))

    def _compare(self, stream: str, archived: Archived) -> None:
        with self._trial.wire() as wire:
            stored = [(one.seq, one.subject, one.data) for one in wire.messages(stream)]
        newest = max((created for created, _ in archived.messages), default=0)
        have = [
            (seq, *one[:1], one[2])
            for (made, seq), every in archived.messages.items()
            if made == newest
            for one in every
        ]
        missing, more = set(stored) - set(have), len(have) - len(set(have))
        self._trial.expect(not missing, "lost", f"{len(missing)} messages of {stream} are in no chunk")
        self._trial.expect(not more, "doubled", f"{more} messages of {stream} are in two chunks")
        self._trial.blame(archived.findings)

    def _make(self, wire: Wire, name: str) -> None:
        wire.create_stream(name, f"{name}.>")
        self.there.add(name)

    def _delete(self, wire: Wire, name: str) -> None:
        wire.api(f"STREAM.DELETE.{name}")
        self.there.discard(name)


def _settled(trial: Trial) -> None:
    """Ticks until one finds nothing left: what a tick did not see the next one does."""
    for _ in range(2):
        trial.finish(tick)


def _killed(trial: Trial, point: str) -> None:
    account = Account(trial)
    try:
        account.move()
        trial.must(make_rule, account.match)
        for _ in range(trial.random.randint(2, 4)):
            trial.run(tick, fault=f"{point}:kill:{trial.random.randint(1, 3)}")
            account.move()
        _settled(trial)
        account.judge()
    finally:
        account.end()


for _point, _breaks in _POINTS.items():
    fault(f"account, {_point.partition('.')[2]} killed", _breaks, short=_point == "archive.created")(
        partial(_killed, point=_point)
    )


@fault("account, two ticks", "streams come and go while two ticks of the account run at once")
def two_ticks(trial: Trial) -> None:
    """Whatever each of them sees, no stream gets two archives, and none is without one at the end."""
    account = Account(trial)
    try:
        account.move()
        trial.must(make_rule, account.match)
        for _ in range(trial.random.randint(2, 3)):
            with trial.held("account.create", tick) as first:
                account.move()
                trial.run(tick)
            trial.end(first, "the tick that was held")
        _settled(trial)
        account.judge()
    finally:
        account.end()


@fault("account, rule changed", "the rule changes while a tick makes archives")
def rule_changed(trial: Trial) -> None:
    """A stream that the rule excludes by then keeps the archive that it has; the others have theirs."""
    account = Account(trial)
    try:
        for _ in range(2):
            account.move()
        trial.must(make_rule, account.match)
        excluded = (account.names[0],)
        with trial.held("account.create", tick, passes=trial.random.randint(1, 2)) as held:
            trial.must(change_rule, excluded)
            account.move()
        trial.end(held, "the tick that was held")
        _settled(trial)
        account.judge(excluded)
    finally:
        account.end()
