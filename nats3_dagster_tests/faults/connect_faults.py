"""Faults of Spark Connect: its server killed, restarted, with another token, of another release."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from unittest import mock

from nats3_dagster.dev.connect_server import ConnectServer
from nats3_dagster.dev.process import free_port, wait_for
from nats3_dagster.pipeline.java import RELEASE
from nats3_dagster_tests.faults.forks import Ended
from nats3_dagster_tests.faults.kill_faults import target_config
from nats3_dagster_tests.faults.registry import fault
from nats3_dagster_tests.faults.trial import ARCHIVE, RUN_S, Trial

# Where the task of the server that is killed is held.
_STEPS = {"capture": ("before_put", "object_put", "task_returned"), "replay": ("chunk_fetched", "sent")}
_ROOT = Path(__file__).parents[2]


class Client:
    """A capture or a replay, in a process of its own, on the server."""

    def __init__(self, trial: Trial, remote: str, what: str, argument: str) -> None:
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("NATS3_", "AWS_"))}
        environment |= {**trial.environment, "NATS3_SPARK_REMOTE": remote, "NATS3_HOME": str(trial.servers.folder)}
        command = [sys.executable, "-m", "nats3_dagster_tests.faults.connect_client", what, argument]
        self._process = subprocess.Popen(
            command, cwd=_ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )

    def kill(self) -> None:
        self._process.kill()

    def wait(self) -> Ended:
        try:
            said, _ = self._process.communicate(timeout=2 * RUN_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return Ended(None, "Hung", f"no answer within {2 * RUN_S:g} s")
        error, _, text = (said.splitlines() or ["Killed: it said nothing"])[-1].partition(": ")
        return Ended() if error == "ok" else Ended(None, error, text)


@contextmanager
def server(trial: Trial, *conf: str, fault: str = "") -> Iterator[ConnectServer]:
    """A server that listens, whose workers have this fault; one that is started again has none."""
    own = ConnectServer(trial.servers.folder / f"connect-{trial.seed}", port=free_port())
    try:
        with mock.patch.dict(os.environ, {"NATS3_FAULT": fault, "PYTHONPATH": str(_ROOT)}):
            own.start(*conf)
        yield own
    finally:
        own.stop()


def on_connect(trial: Trial, play: Callable[[str, str, str], Ended]) -> None:
    """Break a capture, or a replay, of this name, at a step of its task; then it is run again."""
    trial.make_stream(700)
    what = trial.random.choice(("capture", "replay"))
    step = trial.random.choice(_STEPS[what])
    if what == "capture":
        trial.note("capture on Spark Connect", play(what, ARCHIVE, step))
        trial.finish_capture()
        return
    trial.finish_capture()
    # A batch has no message of which it is known that it was sent.
    trial.make_target(**target_config(trial) if step == "chunk_fetched" else {})
    replay = trial.begin_replay()
    trial.note("replay on Spark Connect", play(what, replay, step))
    trial.finish_replay(replay)


@fault("connect: server killed", "kill -9 of Spark Connect in the middle, and it is started again at once", spark=True)
def server_killed(trial: Trial) -> None:
    def play(what: str, argument: str, step: str) -> Ended:
        file = trial.servers.folder / f"held-{trial.seed}"
        with server(trial, fault=f"{what}.{step}:hold={file}") as own:
            assert own.process
            assert own.remote
            client = Client(trial, own.remote, what, argument)
            trial.expect(wait_for(file.exists, 2 * RUN_S), "stuck", f"no worker came to {step}")
            own.process.kill()
            # The worker of the first one may still live, and goes on beside the second one.
            own.start()
            if trial.random.random() < 0.5:
                file.with_name(f"{file.name}.go").touch()
            ended = client.wait()
            file.with_name(f"{file.name}.go").touch()
        trial.expect(not ended.ok, "silent", f"{what} whose server was killed at {step} is called a success")
        return ended

    on_connect(trial, play)


@fault("connect: driver killed", "kill -9 of the driver, whose tasks go on in Spark Connect", spark=True)
def driver_killed(trial: Trial) -> None:
    file = trial.servers.folder / f"held-{trial.seed}"
    with ExitStack() as running:

        def play(what: str, argument: str, step: str) -> Ended:
            own = running.enter_context(server(trial, fault=f"{what}.{step}:hold={file}"))
            assert own.remote
            client = Client(trial, own.remote, what, argument)
            trial.expect(wait_for(file.exists, 2 * RUN_S), "stuck", f"no worker came to {step}")
            client.kill()
            # The worker goes on beside the next run, or after it.
            if trial.random.random() < 0.5:
                file.with_name(f"{file.name}.go").touch()
            return client.wait()

        on_connect(trial, play)
        file.with_name(f"{file.name}.go").touch()


@fault("connect: server restarted", "Spark Connect is killed and started again while a run connects", spark=True)
def server_restarted(trial: Trial) -> None:
    def play(what: str, argument: str, _: str) -> Ended:
        with server(trial) as own:
            assert own.process
            remote = own.remote
            assert remote
            own.process.kill()
            client = Client(trial, remote, what, argument)
            own.launch()
            return client.wait()

    on_connect(trial, play)


@fault("connect: another token", "Spark Connect is started again with another token", spark=True)
def another_token(trial: Trial) -> None:
    def play(what: str, argument: str, _: str) -> Ended:
        with server(trial) as own:
            remote = own.remote
            assert remote
            own.stop()
            (own.folder / "token").write_text("another")
            own.start()
            ended = Client(trial, remote, what, argument).wait()
            trial.expect("does not take the token" in ended.text, "silent", f"a former token: {ended}")
            assert own.remote
            return Client(trial, own.remote, what, argument).wait()

    on_connect(trial, play)


@fault("connect: another release", "Spark Connect has workers of another release", spark=True)
def another_release(trial: Trial) -> None:
    def play(what: str, argument: str, _: str) -> Ended:
        with server(trial, f"{RELEASE}=0.0.1") as own:
            assert own.remote
            ended = Client(trial, own.remote, what, argument).wait()
            trial.expect("has workers of nats3-dagster 0.0.1" in ended.text, "silent", f"another release: {ended}")
            return ended

    on_connect(trial, play)
