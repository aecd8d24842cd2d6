"""Faults of Spark's sink and of its streaming source: tasks, stages, workers and drivers that are broken, and streams
that are changed between two batches."""

import shutil
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import psutil

from nats3_dagster.dev.nats_server import NatsServer
from nats3_dagster_tests.faults import sink_jobs, spark_driver
from nats3_dagster_tests.faults.forks import Ended, Job, Request
from nats3_dagster_tests.faults.judge_sinks import judge_write
from nats3_dagster_tests.faults.registry import fault
from nats3_dagster_tests.faults.trial import Trial
from nats3_dagster_tests.support.wire import Wire

# A session whose tasks are tried again.
MASTER = "local[2,3]"
SHORT_S, LONG_S = 2, 120
# Sessions of Spark start while other tests run.
WRITE_S = 240.0


def make_target(trial: Trial) -> dict[str, str]:
    """The target, whose window is short or long, and the options of a write to it."""
    window = trial.random.choice((SHORT_S, SHORT_S, LONG_S))
    with trial.wire() as wire:
        wire.create_stream(trial.target, f"{trial.back}.>", duplicate_window=window * 10**9)
    return {
        "url": trial.environment["NATS3_NATS_URL"],
        "stream": trial.target,
        "ackTimeout": "1s",
        "retryTimeout": "1s",
        "maxPending": str(trial.random.choice((5, 50, 1000))),
    }


def start(trial: Trial, work: Callable[..., Any], *arguments: Any, worker: str = "") -> Job:
    environment = {**trial.environment, "NATS3_FAULT": "", spark_driver.WORKER_FAULT: worker}
    request, scratch = Request(work, arguments, environment), trial.servers.folder / "scratch"
    scratch.mkdir(exist_ok=True)
    try:
        return Job(trial.servers.spark(str(scratch), MASTER), request)
    except (ConnectionError, EOFError):  # killed a moment ago, and not yet seen to have ended
        trial.servers.end_spark()
        return Job(trial.servers.spark(str(scratch), MASTER), request)


def judge(trial: Trial, ended: Ended, wanted: list[bytes]) -> None:
    """Errors of Spark are its own class: what they say is judged, and not that."""
    trial.log.append(f"write: {ended.error} {ended.text[-300:]}" if ended.error else "write: ok")
    with trial.wire() as wire:
        stored = list(wire.messages(trial.target))
        wire.try_api(f"STREAM.DELETE.NATS3_WRITES_{trial.target}")
    trial.findings += judge_write(stored, wanted, ok=ended.ok, text=ended.text)


def broken_write(trial: Trial, **breaks: Any) -> Ended:
    rows = trial.random.randint(2500, 4000)
    # Rows of a shuffle may come in another order when it is made again: without an id they are others.
    ids = "shuffle" in breaks or trial.random.random() < 0.5
    options = make_target(trial)
    breaks |= {
        "mark": str(trial.servers.folder / f"broken-{trial.seed}"),
        "after": trial.random.randint(1, 300),
        "wait": trial.random.choice((0.0, 1.0, SHORT_S + 0.5)),
        "subject": f"{trial.back}.a",
    }
    ended = start(trial, sink_jobs.write, options, rows, ids, breaks).wait(WRITE_S)
    judge(trial, ended, [b"%d" % n for n in range(rows)])
    return ended


@fault(
    "sink: task tried again",
    "a task of a write fails, or its worker is killed, and it is tried again",
    spark=True,
    short=True,
)
def task_again(trial: Trial) -> None:
    how = trial.random.choice(("kill", "raise"))
    broken_write(trial, **{how: True, "each": trial.random.random() < 0.5})


@fault("sink: stage run again", "the shuffle's files go while a write reads them: its stage is run again", spark=True)
def stage_again(trial: Trial) -> None:
    broken_write(trial, shuffle=True)


@fault("sink: worker stopped", "the Python workers of a write stand still, longer than the window or not", spark=True)
def worker_stopped(trial: Trial) -> None:
    rows = trial.random.randint(3000, 5000)
    options = make_target(trial) | {"maxPending": "5"}
    breaks = {"after": rows, "mark": "", "subject": f"{trial.back}.a"}
    job = start(trial, sink_jobs.write, options, rows, trial.random.random() < 0.5, breaks)
    least = trial.random.randint(1, rows // 2)
    until = time.monotonic() + 30
    with trial.wire() as wire:
        while wire.state(trial.target)["messages"] < least and time.monotonic() < until:
            time.sleep(0.002)
    workers = [p for p in psutil.Process(job.pid).children(recursive=True) if "python" in p.name()]
    for process in workers:
        with suppress(psutil.Error):
            process.send_signal(signal.SIGSTOP)
    time.sleep(trial.random.choice((0.5, SHORT_S + 0.5, 6)))
    for process in workers:
        with suppress(psutil.Error):
            process.send_signal(signal.SIGCONT)
    judge(trial, job.wait(WRITE_S), [b"%d" % n for n in range(rows)])


def make_source(trial: Trial, url: str, count: int) -> dict[str, str]:
    with Wire(url) as wire:
        wire.create_stream(trial.stream, f"{trial.prefix}.>")
    publish(trial, url, 1, count)
    size = trial.random.choice((100, 250, 1000))
    return {"url": url, "stream": trial.stream, "maxMessagesPerTrigger": str(size), "numPartitions": "2"}


def publish(trial: Trial, url: str, first: int, last: int) -> None:
    with Wire(url) as wire:
        wire.publish([(f"{trial.prefix}.a", b"", b"m%d" % n) for n in range(first, last + 1)])


@fault(
    "sink: streaming driver killed",
    "kill -9 of the driver in a batch or between two; the checkpoint goes on",
    spark=True,
)
def driver_killed(trial: Trial) -> None:
    count = trial.random.randint(800, 1500)
    source, target = make_source(trial, trial.environment["NATS3_NATS_URL"], count), make_target(trial)
    checkpoint = trial.servers.folder / f"checkpoint-{trial.seed}"
    arguments = source, target, f"{trial.back}.a", str(checkpoint)
    step = trial.random.choice(("begun", "sent", "finished"))
    file = trial.servers.folder / f"held-{trial.seed}"
    job = start(trial, sink_jobs.stream, *arguments, worker=f"sink.{step}:hold={file}:{trial.random.randint(1, 2)}")
    until = time.monotonic() + 30
    while not file.exists() and time.monotonic() < until:
        time.sleep(0.01)
    job.kill()
    trial.log.append(f"killed at {step}: {job.wait(WRITE_S)}")
    if trial.random.random() < 0.5:
        file.with_name(f"{file.name}.go").touch()  # its worker goes on
    time.sleep(trial.random.choice((0.0, SHORT_S + 0.5)))
    if not (checkpoint / "offsets" / "0").exists():
        # Killed before its first offsets were whole: where a part of them lies there, Spark refuses the checkpoint, and
        # says to delete it ([STATE_STORE_CHECKPOINT_LOCATION_NOT_EMPTY]). No batch had begun, so nothing was written.
        shutil.rmtree(checkpoint, ignore_errors=True)
    ended = start(trial, sink_jobs.stream, *arguments).wait(WRITE_S)
    file.with_name(f"{file.name}.go").touch()
    judge(trial, ended, [b"%d m%d" % (n, n) for n in range(1, count + 1)])


@fault(
    "source: changed between batches",
    "the stream is purged, made again, or forgets its tail, before a query goes on",
    spark=True,
    short=True,
)
def source_changed(trial: Trial) -> None:
    folder = trial.servers.folder / f"source-{trial.seed}"
    earlier, count = trial.random.randint(100, 300), trial.random.randint(301, 600)
    how = trial.random.choice(("purged", "made again", "forgotten", "forgotten", "shorter", "left alone"))
    target = make_target(trial)
    with NatsServer(folder) as server:
        source = make_source(trial, server.url, earlier)
        server.stop()
        shutil.copytree(folder / "data", folder / "earlier")
        server.start()
        publish(trial, server.url, earlier + 1, count)
        arguments = source | {"url": server.url}, target, f"{trial.back}.a", str(folder / "checkpoint")
        first = start(trial, sink_jobs.stream, *arguments).wait(WRITE_S)
        assert first.ok, first.text
        wanted = [b"%d m%d" % (n, n) for n in range(1, count + 1)]
        last = count
        if how in ("forgotten", "shorter"):
            server.kill()
            shutil.rmtree(folder / "data")
            shutil.copytree(folder / "earlier", folder / "data")
            server.start()
            last = earlier
        with Wire(server.url) as wire:
            if how == "made again":
                wire.api(f"STREAM.DELETE.{trial.stream}")
                wire.create_stream(trial.stream, f"{trial.prefix}.>")
            elif how == "purged":
                publish(trial, server.url, count + 1, count + 50)
                wire.api(f"STREAM.PURGE.{trial.stream}", seq=count + trial.random.randint(2, 50))
        more = trial.random.randint(count - last + 1, count - last + 300)
        if how != "shorter":
            publish(trial, server.url, 5001, 5000 + more)
        if how == "left alone":
            wanted += [b"%d m%d" % (count + n, 5000 + n) for n in range(1, more + 1)]
        ended = start(trial, sink_jobs.stream, *arguments).wait(WRITE_S)
        trial.expect(ended.ok == (how == "left alone"), "silent", f"the stream was {how}: {ended}"[:500])
        judge(trial, ended, wanted)
    shutil.rmtree(folder, ignore_errors=True)
