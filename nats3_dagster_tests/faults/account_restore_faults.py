"""Faults: an account is restored while a restore of it dies, or two of them run at once."""

import json
from contextlib import suppress
from functools import partial

from nats3_dagster.archive.account_restore.plan import plan
from nats3_dagster.archive.account_restore.run import run
from nats3_dagster.archive.account_restore.spec import AccountRestoreSpec
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.faults import jobs
from nats3_dagster_tests.faults.account_faults import RULE, make_rule, tick
from nats3_dagster_tests.faults.registry import fault
from nats3_dagster_tests.faults.trial import Trial
from nats3_dagster_tests.support.wire import Wire

_POINTS = {
    "account.restore": "before a stream",
    "restore.sending": "while it sends a stream",
    "restore.sent": "before a stream is compared",
    "restore.proven": "before a stream has its subjects",
    "restore.named": "before it lets consumers deliver",
    "account.restored": "before a stream is recorded",
}
# Seconds within which a stream has what its sources have.
_SOURCED_S = 20.0


def restore() -> None:
    """In a process of its own: restore the account of the rule. Raises what one of its streams failed with."""
    with Workspace(Settings.load()) as workspace:
        # A mirror never had what its origin had deleted before: its archive cannot know why it has not.
        done = run(workspace, plan(workspace, AccountRestoreSpec(RULE, over_gaps=True)))
    for one in done:
        if one.error:
            raise one.error


class _Streams:
    """The streams of a trial: some with messages and holes, a mirror, one with sources, one that is empty."""

    def __init__(self, trial: Trial) -> None:
        self._trial, self._made = trial, list[str]()
        self._before = dict[str, list[object]]()

    def make(self) -> None:
        rng, name = self._trial.random, self._trial.stream
        with self._trial.wire() as wire:
            plain = [f"{name}_{letter}" for letter in "abc"]
            for one in plain:
                wire.create_stream(one, f"{one}.>")
                wire.publish([(f"{one}.{n % 5}", b"", b"%d" % n) for n in range(rng.randint(1, 4000))])
                if rng.random() < 0.5:
                    wire.api(f"STREAM.MSG.DELETE.{one}", seq=1)
            wire.create_stream(f"{name}_e", f"{name}_e.>")
            wire.api(f"STREAM.CREATE.{name}_m", name=f"{name}_m", mirror={"name": plain[0]})
            wire.api(f"STREAM.CREATE.{name}_s", name=f"{name}_s", sources=[{"name": one} for one in plain])
            self._made = [*plain, f"{name}_e", f"{name}_m", f"{name}_s"]
            wire.quiet(f"{name}_s", 0.5)

    def archive(self) -> None:
        """Archive all of them by a rule, keep what they have, and delete them."""
        trial = self._trial
        trial.must(make_rule, f"{trial.stream}_*", (), True)
        trial.must(tick)
        with trial.servers.admin(database=trial.database) as connection:
            archives = [row[0] for row in connection.execute("select name from nats3.archive").fetchall()]
        for archive in archives:
            trial.must(jobs.capture, archive)
        with trial.wire() as wire:
            self._before = {name: self._stored(wire, name) for name in self._made}
        self.end()

    def judge(self) -> None:
        """Each stream has what it had, at the same sequences and times, and no other message; also later."""
        with self._trial.wire() as wire:
            for name, before in self._before.items():
                wire.quiet(name, 0.5)
                now = self._stored(wire, name)
                missing, more = [one for one in before if one not in now], [one for one in now if one not in before]
                self._trial.expect(not missing, "lost", f"stream {name} lacks {len(missing)} of {len(before)}")
                self._trial.expect(not more, "doubled", f"stream {name} has {len(more)} others")
                config = json.dumps(wire.api(f"STREAM.INFO.{name}")["config"])
                self._trial.expect("nats3.restoring" not in config, "unclear", f"stream {name} is marked")

    def end(self) -> None:
        with suppress(OSError, AssertionError), self._trial.wire() as wire:
            for name in self._made:
                wire.try_api(f"STREAM.DELETE.{name}")

    def _stored(self, wire: Wire, name: str) -> list[object]:
        return [tuple(one) for one in wire.messages(name)]


def _killed(trial: Trial, point: str) -> None:
    streams = _Streams(trial)
    try:
        streams.make()
        streams.archive()
        for _ in range(trial.random.randint(1, 3)):
            trial.run(restore, fault=f"{point}:kill:{trial.random.randint(1, 4)}")
        trial.finish(restore)
        streams.judge()
    finally:
        streams.end()


for _point, _where in _POINTS.items():
    fault(
        f"account restored, {_point.replace('.', ' ')} killed",
        f"kill -9 of a restore of an account {_where}",
        since=(2, 15),
        short=_point == "account.restored",
    )(partial(_killed, point=_point))


@fault("account restored, twice at once", "two restores of one account at once", since=(2, 15))
def twice(trial: Trial) -> None:
    streams = _Streams(trial)
    try:
        streams.make()
        streams.archive()
        with trial.held("restore.sent", restore, passes=trial.random.randint(1, 3)) as first:
            trial.run(restore)
        trial.end(first, "the restore that was held")
        trial.finish(restore)
        streams.judge()
    finally:
        streams.end()
