"""Faults: a login that ends in the middle of a capture, a replay, a taking, a follow, or under a server of the API, and
is renewed in time, late, or not."""

import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2 as httpx

from nats3_dagster.dev.nats_server import NatsServer
from nats3_dagster_tests.faults import cursor_faults, cursor_jobs, jobs, taking_faults, taking_jobs
from nats3_dagster_tests.faults.kill_faults import target_config
from nats3_dagster_tests.faults.registry import fault
from nats3_dagster_tests.faults.server_faults import meanwhile
from nats3_dagster_tests.faults.trial import ARCHIVE, Trial
from nats3_dagster_tests.faults.workload import publish
from nats3_dagster_tests.support.servers.logins import Operator
from nats3_dagster_tests.support.servers.serving import serving

# A JWT lives so long; one that is renewed in time is replaced so often. A server ends a connection at the full second.
_LIVES_S, _RENEWED_S = 2.2, 0.5
# A login that is renewed late is renewed so long after its end.
_LATE_S = (0.1, 0.5, 2.0, 4.0)
# Steps at which the work is held, and the passes from which the seed chooses one: some are passed once.
_CAPTURE = {"planned": 1, "before_put": 3, "object_put": 3, "before_commit": 1}
_REPLAY = {"attempt_started": 1, "chunk_fetched": 3, "sent": 3, "acknowledged": 3, "before_record": 1}
_FOLLOW = {"yielded": 20, "saving": 2, "saved": 2}
_TAKE = {"claimed": 1, "object_put": 2, "before_commit": 1, "committed": 1, "acknowledged": 1}
# A server answers again so long after it has a new login, at most.
_RECOVERS_S = 10.0
# Every error of a login says this.
_NAMED = "refused the login"


class Login:
    """The creds file of a trial's processes."""

    def __init__(self, operator: Operator, file: Path) -> None:
        self._operator, self._file = operator, file
        # When its JWT ends, of time.time.
        self.ends = 0.0
        self.last()

    def last(self) -> None:
        """Write a login without an end."""
        self._write(None)

    def renew(self) -> None:
        """Write another user, whose login ends soon."""
        self.ends = time.time() + _LIVES_S
        self._write(_LIVES_S)

    def _write(self, seconds: float | None) -> None:
        fresh = self._file.with_suffix(".new")
        fresh.write_text(self._operator.creds(seconds))
        fresh.chmod(0o600)
        fresh.replace(self._file)


@contextmanager
def login(trial: Trial) -> Iterator[Login]:
    """The streams are on a server with an operator, and the processes' login is a creds file, now without an end."""
    operator, folder = Operator(), trial.servers.folder / f"login-{trial.seed}"
    try:
        with NatsServer(folder, config=operator.config) as server:
            trial.use_nats(server, jwt=operator.bearer())
            file = folder / "user.creds"
            trial.environment["NATS3_NATS_CREDS"] = str(file)
            yield Login(operator, file)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def outlive(
    trial: Trial,
    creds: Login,
    kind: str,
    steps: Mapping[str, int],
    work: Callable[..., Any],
    *arguments: Any,
    others: Callable[[], object] = lambda: None,
) -> bool:
    """The work is held until the login that it began with has ended, and goes on. Then a login without an end is
    given. True if the work ended well: work that needs no connection any more may, and has to have done all. `others`:
    what other clients do while it is held."""
    step = trial.random.choice(list(steps))
    point, passes = f"{kind}.{step}", trial.random.randint(1, steps[step])
    with ending(trial, creds) as (manner, ends):
        with trial.held(point, work, *arguments, passes=passes) as job:
            others()
            # A server counts whole seconds.
            time.sleep(max(0.0, ends + 1 - time.time()))
        ended = trial.end(job, f"held at {point}, the login is {manner} renewed")
    trial.expect(ended.ok or _NAMED in ended.text, "unclear", f"ended by its login, renewed {manner}: {ended}")
    trial.expect(ended.ok or manner != "in time", "stuck", f"its login was renewed in time: {ended}")
    return ended.ok


@contextmanager
def ending(trial: Trial, creds: Login) -> Iterator[tuple[str, float]]:
    """Gives a login that ends soon: how it is renewed (in time, late, not), and when it ends (time.time()). Afterwards
    the login is one without an end."""
    manner = trial.random.choice(("in time", "late", "not"))
    creds.renew()
    ends = creds.ends
    late = threading.Timer(ends + trial.random.choice(_LATE_S) - time.time(), creds.last)
    if manner == "late":
        late.start()
    with meanwhile(creds.renew, _RENEWED_S) if manner == "in time" else nullcontext():
        yield manner, ends
    if manner == "late":
        late.join()
    creds.last()


@fault(
    "login ends in a capture", "the JWT of the login ends in the middle of a capture; a new one comes in time or late"
)
def capture(trial: Trial) -> None:
    with login(trial) as creds:
        trial.make_stream(trial.random.randint(300, 900))
        if outlive(trial, creds, "capture", _CAPTURE, jobs.capture, ARCHIVE):
            trial.judge_archive()
        trial.publish(50)
        trial.finish_capture()


@fault("login ends in a replay", "the same in the middle of a replay")
def replay(trial: Trial) -> None:
    with login(trial) as creds:
        trial.make_stream(trial.random.randint(300, 700))
        trial.finish_capture()
        trial.make_target(**target_config(trial))
        begun = trial.begin_replay()
        if outlive(trial, creds, "replay", _REPLAY, jobs.replay, begun):
            trial.judge_target(begun)
        trial.finish_replay(begun)


@fault("login ends in a taking", "the same while an archive of the mode `consumer` takes")
def taking(trial: Trial) -> None:
    with login(trial) as creds:
        work = taking_faults.make(trial)
        work.publish(trial.random.randint(100, 400))
        if outlive(trial, creds, "take", _TAKE, taking_jobs.take, ARCHIVE):
            work.judge(exact=False)
        work.publish(trial.random.randint(1, 100))
        work.finish(exact=False)


@fault("login ends in a follow", "the same while a program follows an archive and its stream")
def follow(trial: Trial) -> None:
    with login(trial) as creds:
        trial.make_stream(trial.random.randint(150, 300))
        if trial.random.random() < 0.7:
            trial.must(jobs.capture, ARCHIVE)
        reader = replace(cursor_faults.program(trial, follow=True), every=trial.random.choice((1, 7, 20)))

        def publish_rest() -> None:
            trial.publish(trial.random.randint(20, 100))
            with trial.wire() as wire:
                publish(wire, trial.stream, [(f"{trial.prefix}.a", b"", cursor_jobs.END)], trial.truth, 1)

        if not outlive(trial, creds, "cursor", _FOLLOW, cursor_jobs.read, ARCHIVE, reader, others=publish_rest):
            trial.finish(cursor_jobs.read, ARCHIVE, reader)
        cursor_faults.judge(trial, reader)


@fault("login ends under a server", "the same under a server of the API, which is asked again and again")
def server(trial: Trial) -> None:
    """Each answer is right, or says that the login has ended; and once there is a new one, all are right again."""
    with login(trial) as creds:
        trial.make_stream(trial.random.randint(50, 200))
        with trial.servers.admin(database=trial.database) as connection:
            (job_id,) = connection.execute("select job_id from nats3.archive").fetchone() or ("",)
        with serving(environment=trial.environment) as (_, url):
            path = f"{url}/store/job/lag?job_id={job_id}"
            with ending(trial, creds) as (manner, ends):
                while time.time() < ends + trial.random.uniform(1, 3):
                    before = len(trial.truth.messages)
                    _judge_lag(trial, httpx.get(path, timeout=60), before, may_refuse=manner != "in time")
                    trial.publish(trial.random.randint(1, 20))
            until = time.monotonic() + _RECOVERS_S
            while (answer := httpx.get(path, timeout=60)).status_code != 200 and time.monotonic() < until:
                time.sleep(0.1)
            trial.log.append(f"renewed {manner}: {answer.status_code}")
            trial.expect(answer.status_code == 200, "stuck", f"renewed {manner}, and then: {answer.text}")
            _judge_lag(trial, answer, len(trial.truth.messages))
        trial.finish_capture()


def _judge_lag(trial: Trial, answer: httpx.Response, messages: int, *, may_refuse: bool = False) -> None:
    """`messages`: that the stream had before it was asked."""
    if answer.status_code == 200:
        found = answer.json()["messages"]
        trial.expect(found >= messages, "silent", f"the lag is {found}, and {messages} messages wait")
    else:
        trial.expect(may_refuse, "stuck", f"its login was renewed in time: {answer.text}")
        trial.expect(_NAMED in answer.text, "unclear", f"ended by its login: {answer.text}")
