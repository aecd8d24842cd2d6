"""Faults of a cluster of three: leaders that change, servers that go, a replica that lags behind."""

import random
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from nats3_dagster.dev.nats_server import NatsServer
from nats3_dagster_tests.faults import jobs
from nats3_dagster_tests.faults.kill_faults import target_config
from nats3_dagster_tests.faults.registry import fault
from nats3_dagster_tests.faults.trial import ARCHIVE, Trial

# A cluster of 2.9 on one busy machine leaves requests without an answer for longer than a client waits.
_SINCE = (2, 14)
# What a replay may say where messages of a window were refused by a leader that stepped down.
_ORDER = ("order", "may have removed")


def leader(trial: Trial, stream: str) -> NatsServer:
    """The stream's leader, once it has one that hears from others: one that was cut off does not know yet that it leads
    no more."""
    until = time.monotonic() + 60
    while True:
        # A server that has just come back answers nothing for a while.
        with suppress(OSError), trial.wire() as wire:
            cluster = wire.try_api(f"STREAM.INFO.{stream}").get("cluster") or {}
            if cluster.get("leader") and any(r["active"] < 2 * 10**9 for r in cluster.get("replicas", ())):
                return trial.cluster[int(cluster["leader"][1:])]
        assert time.monotonic() < until, f"{stream} has no leader"
        time.sleep(0.1)


def step_down(trial: Trial, stream: str) -> None:
    with trial.wire() as wire:
        wire.try_api(f"STREAM.LEADER.STEPDOWN.{stream}")


def lose_leader(trial: Trial, stream: str) -> None:
    """kill -9 of the leader's server, and a restart."""
    lose_server(trial, leader(trial, stream))


def lose_server(trial: Trial, server: NatsServer) -> None:
    """kill -9 of a server of the cluster, and a restart."""
    trial.alive = [other for other in trial.cluster if other is not server]
    server.kill()
    if trial.random.random() < 0.5:
        time.sleep(0.5)
    server.start()


def cluster_capture(trial: Trial, act: Callable[[Trial, str], None]) -> None:
    trial.make_stream(500)
    step = trial.random.choice(("planned", "before_put", "task_returned"))
    with trial.held(f"capture.{step}", jobs.capture, ARCHIVE) as job:
        act(trial, trial.stream)
    trial.end(job, f"capture held at {step}")
    wait_for_leaders(trial, trial.stream)
    trial.finish_capture()


def cluster_replay(trial: Trial, act: Callable[[Trial, str], None]) -> None:
    trial.make_stream(500)
    trial.finish_capture()
    trial.make_target(**target_config(trial))
    replay = trial.begin_replay()
    step = trial.random.choice(("chunk_fetched", "sent"))
    with trial.held(f"replay.{step}", jobs.replay, replay, passes=trial.random.randint(1, 3)) as job:
        act(trial, trial.target)
    trial.end(job, f"replay held at {step}")
    wait_for_leaders(trial, trial.target)
    trial.finish_replay(replay, refusals=_ORDER)


def wait_for_leaders(trial: Trial, stream: str) -> None:
    """Until the faults are over: all servers run, and the stream has a leader."""
    trial.servers.repair()
    trial.alive = list(trial.cluster)
    leader(trial, stream)


@fault("cluster: leader steps down", "another server leads the stream or the target", cluster=True, since=_SINCE)
def steps_down(trial: Trial) -> None:
    trial.random.choice((cluster_capture, cluster_replay))(trial, step_down)


@fault("cluster: leader killed", "kill -9 of the server that leads, and a restart", cluster=True, since=_SINCE)
def leader_killed(trial: Trial) -> None:
    trial.random.choice((cluster_capture, cluster_replay))(trial, lose_leader)


@fault("cluster: node wiped", "a server lost its disk and catches up while a capture reads", cluster=True, since=_SINCE)
def node_wiped(trial: Trial) -> None:
    trial.make_stream(3000)
    first = leader(trial, trial.stream)
    lagging = random.Random(trial.seed).choice([server for server in trial.cluster if server is not first])
    trial.alive = [server for server in trial.cluster if server is not lagging]
    lagging.kill()
    shutil.rmtree(lagging.folder / "data")
    lagging.start()
    for _ in range(3):
        trial.capture()
    trial.finish_capture()


# Routes


def apart(trial: Trial, server: NatsServer, seconds: float) -> None:
    """One server is far from the others: each piece between it and them is late. The workload asks the others."""
    trial.alive = [other for other in trial.cluster if other is not server]
    if seconds >= 1:  # a process that asks by the far one would need minutes
        trial.environment["NATS3_NATS_URL"] = ",".join(other.url for other in trial.alive)
    for proxy in trial.servers.routes_of(server):
        proxy.latency_s = seconds


def half_open(trial: Trial, server: NatsServer, seconds: float) -> None:
    """Nothing passes between one server and the others for so long; then their connections may be reset."""
    proxies, reset = trial.servers.routes_of(server), trial.random.random() < 0.5

    def end() -> None:
        for proxy in proxies:
            if reset:
                proxy.reset()
            proxy.repair()

    for proxy in proxies:
        proxy.freeze()
    threading.Timer(seconds, end).start()


@fault("cluster: routes delayed", "what passes between a server and the others is late", cluster=True, since=_SINCE)
def routes_delayed(trial: Trial) -> None:
    seconds = trial.random.choice((0.2, 1.0, 2.0))
    if trial.random.random() < 0.5:
        cluster_replay(trial, lambda trial, stream: apart(trial, trial.random.choice(trial.cluster), seconds))
        return
    trial.make_stream(400)
    first = leader(trial, trial.stream)
    apart(trial, trial.random.choice([server for server in trial.cluster if server is not first]), seconds)
    # The replica has not yet what is captured: its consumers end too early, and its answers are old.
    for _ in range(3):
        trial.publish(100)
        trial.capture()
    wait_for_leaders(trial, trial.stream)
    trial.finish_capture()


@fault("cluster: routes half-open", "nothing passes from and to a server for seconds", cluster=True, since=_SINCE)
def routes_half_open(trial: Trial) -> None:
    def act(trial: Trial, stream: str) -> None:
        server = leader(trial, stream) if trial.random.random() < 0.5 else trial.random.choice(trial.cluster)
        half_open(trial, server, trial.random.choice((1.0, 3.0, 6.0)))

    trial.random.choice((cluster_capture, cluster_replay))(trial, act)


@fault(
    "cluster: atomic target",
    "the leader of a target of atomic batches steps down or is killed, beside another client that publishes there; or "
    "the replay is killed as well",
    cluster=True,
    since=_SINCE,
)
def atomic_target(trial: Trial) -> None:
    """At a step of the replay, or a moment later, when messages are on their way."""
    trial.make_stream(trial.random.choice((500, 4000)))
    trial.finish_capture()
    trial.make_target(duplicate_window=100_000_000, allow_atomic=True)
    replay, step = trial.begin_replay(), trial.random.choice(("chunk_fetched", "sent"))
    act, killed = trial.random.choice((step_down, lose_leader)), trial.random.random() < 0.3
    later = threading.Timer(trial.random.uniform(0, 0.3), act, (trial, trial.target))
    with neighbour(trial):
        with trial.held(f"replay.{step}", jobs.replay, replay, passes=trial.random.randint(1, 3)) as job:
            if killed or trial.random.random() < 0.3:
                act(trial, trial.target)
            else:
                later.start()
            if killed:
                job.kill()
        trial.end(job, f"replay {'killed' if killed else 'held'} at {step}, {act.__name__}")
        if later.ident:
            later.join()
        wait_for_leaders(trial, trial.target)
        trial.finish_replay(replay)


@contextmanager
def neighbour(trial: Trial) -> Iterator[None]:
    """Another client publishes into the target, without an answer and by any server, while the body runs."""
    ended = threading.Event()

    def work() -> None:
        while not ended.wait(0.01):
            with suppress(OSError), trial.wire() as wire:
                while not ended.wait(0.002):
                    wire.send(f"{trial.back}.other", b"another's")

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
