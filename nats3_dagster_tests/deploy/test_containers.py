"""The image, and the stack of compose.yaml, in containers: `make containers`. One story, told in order: each test goes
on with the stack that the one before has left."""

import json
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from nats3_dagster.dev.history import Past, restore_stream
from nats3_dagster.dev.process import HOST
from nats3_dagster.hours import HOUR_NS, hour_of, hour_start
from nats3_dagster.jetstream.nats_options import NatsOptions
from nats3_dagster_tests.deploy import stand_ins
from nats3_dagster_tests.deploy.engine import NAME, Engine, ask
from nats3_dagster_tests.deploy.files import ROOT
from nats3_dagster_tests.deploy.stack import LASTING, Stack
from nats3_dagster_tests.support.dagster import backfills
from nats3_dagster_tests.support.waiting import eventually

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not NAME, reason="needs an engine of containers: make containers"),
    pytest.mark.timeout(900),
]

_BEGAN_NS = time.time_ns()
IMAGE = "localhost/nats3-test"
# Of /opt/nats3, which is all that is not Debian's: the size of the base depends on who made it.
LARGEST_MB = 1100
_LAUNCH = """mutation ($how: ExecutionParams!) { launchRun(executionParams: $how) {
  __typename ... on LaunchRunSuccess { run { runId } } ... on PythonError { message }
  ... on RunConfigValidationInvalid { errors { message } } } }"""
_RUN = "query ($id: ID!) { runOrError(runId: $id) { ... on Run { status } } }"
_CLASSES = """
from nats3_dagster.pipeline import classes, java
assert classes.options(java.find_java()), "the archive of Spark's classes does not fit this Java and these jars"
"""


@pytest.fixture(scope="module")
def engine() -> Engine:
    return Engine()


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clone as docs/deploy.md has it before the build: with the secrets of deploy/secrets.sh."""
    folder = tmp_path_factory.mktemp("clone") / "nats3"
    for name in ask(["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT).splitlines():
        if (ROOT / name).is_file() and not name.startswith(("docs/", "nats3_dagster_tests/")):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    ask([str(folder / "deploy" / "secrets.sh")])
    return folder


@pytest.fixture(scope="module")
def image(engine: Engine, context: Path) -> str:
    engine.build(IMAGE, context / "deploy" / "Dockerfile", context)
    return IMAGE


@pytest.fixture(scope="module")
def stack(engine: Engine, image: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    folder = tmp_path_factory.mktemp("compose")
    servers, said = stand_ins.images(engine, folder / "images")
    print(f"\nServers: {said}")
    made = Stack(engine, folder / "deploy", {"nats3": image, **servers})
    yield made
    for name in (*LASTING, "migrate"):
        print(f"== {name}\n{made.logs(name)[-4000:]}")
    made.down("-v")


@pytest.mark.timeout(3600)  # all packages are fetched
def test_the_image_has_what_its_processes_need_and_no_more(engine: Engine, image: str) -> None:
    found = engine.inspect(image)
    own = int(engine("run", "--rm", image, "du", "-sm", "/opt/nats3").split()[0])
    print(f"\nThe image has {found['Size'] // 1_000_000} MB, of which {own} MiB are under /opt/nats3")
    assert own < LARGEST_MB
    assert found["Config"]["User"] == "10001"
    assert engine("run", "--rm", image, "nats3", "--version").startswith("nats3 ")
    engine("run", "--rm", image, "python", "-c", _CLASSES)
    engine(
        "run", "--rm", image, "python", "-c", "import dagster_k8s, dagster_aws.s3, kubernetes, pyiceberg.catalog.sql"
    )


def test_the_stack_starts_and_doctor_finds_nothing(stack: Stack) -> None:
    began = time.monotonic()
    stack.up()
    print(f"\nHealthy after {time.monotonic() - began:.0f} s")
    said = stack.exec("api", "nats3", "doctor", "-o", "json")
    assert [finding for finding in json.loads(said) if finding["status"] == "fail"] == []
    assert "schema" in stack.logs("migrate")


def test_the_daemon_captures_a_stream(stack: Stack) -> None:
    with stack.wire() as wire:
        wire.create_stream("BACK", "back.>")
        wire.create_stream("UI", "ui.>")
        _past(stack)
        wire.publish([("ev.a", b"", b"%d" % n) for n in range(4000, 5000)])
    rest = {name: stack.engine.memory_mb(stack.container(name)) for name in LASTING}
    stack.api("POST", "/store/job", {"name": "events", "stream": "EV", "bucket": "archive", "max_age_s": 1})
    began, most = time.monotonic(), dict(rest)
    while stack.archived() < 5000:
        assert time.monotonic() - began < 300, "the daemon captures the stream"
        most = {name: max(most[name], stack.engine.memory_mb(stack.container(name))) for name in LASTING}
    print(f"\nCaptured after {time.monotonic() - began:.0f} s; MB at rest {rest}, in a run {most}")
    assert stack.archived() == 5000


def test_replays_by_the_api_and_by_the_ui(stack: Stack) -> None:
    body = {"bucket": "archive", "read_stream": "EV", "read_subject": "ev.>", "write_subject": "back.>"}
    replay = stack.api("POST", "/load/job", body)["id"]
    # Meanwhile by the button "Launch run".
    window = {"archive": "events", "read_subject": "ev.>", "write_subject": "ui.>"}
    config = {"ops": {"replay_window": {"config": window}}}
    selector = {"repositoryName": "__repository__", "repositoryLocationName": "nats3", "jobName": "replay"}
    how = {"selector": selector, "runConfigData": config}
    launched = stack.ask(_LAUNCH, how=how)["launchRun"]
    assert launched["__typename"] == "LaunchRunSuccess", launched
    ended = {"SUCCESS", "FAILURE", "CANCELED"}
    run = launched["run"]["runId"]
    eventually(lambda: stack.ask(_RUN, id=run)["runOrError"]["status"] in ended, "the run of the UI ends", 240)
    assert stack.ask(_RUN, id=run)["runOrError"]["status"] == "SUCCESS"
    eventually(lambda: _load(stack, replay) not in ("Created", "Running"), "the replay of the API ends", 240)
    assert _load(stack, replay) == "Success"
    with stack.wire() as wire:
        for stream in ("BACK", "UI"):
            assert [int(message.data) for message in wire.messages(stream)] == list(range(5000)), stream


def test_a_backfill_of_the_ui(stack: Stack) -> None:
    """Hours are captured again by hand: nothing is stored twice."""
    backfill = backfills.launched(stack, "events/chunks", _hours())
    done = ("COMPLETED_SUCCESS", "COMPLETED", "COMPLETED_FAILED", "FAILED", "CANCELED")
    eventually(lambda: backfills.status(stack, backfill) in done, "the backfill ends", 240)
    assert backfills.status(stack, backfill) == "COMPLETED_SUCCESS"
    assert stack.archived() == 5000


def _hours() -> list[str]:
    """Two hours that have ended."""
    start = hour_start(hour_of(_BEGAN_NS))
    return [hour_of(start - 2 * HOUR_NS), hour_of(start - HOUR_NS)]


def _past(stack: Stack) -> None:
    """A stream with 2,000 messages in each of them."""
    starts = [hour_start(hour) for hour in _hours()]
    past = [Past(n + 1, starts[n // 2000] + n % 2000, f"ev.{n % 7}", b"", b"%d" % n) for n in range(4000)]
    address = f"nats://{HOST}:{stack.ports['4222']}"
    password = stack.secrets["nats_password"]
    restore_stream(NatsOptions(servers=(address,), user="nats3", password=password), "EV", ["ev.>"], past)


def _load(stack: Stack, job: str) -> str:
    return stack.api("GET", f"/load/job?job_id={job}")["status"]
