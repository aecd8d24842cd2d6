"""The image, and the stack of compose.yaml, in containers: `make containers`. One story, told in order: each test goes
on with the stack that the one before has left. `.ci/run` has no time for those marked `thorough`."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nats3_dagster.catalog.session import schema
from nats3_dagster.dev.history import Past, restore_stream
from nats3_dagster.hours import HOUR_NS, hour_of, hour_start
from nats3_dagster.jetstream.nats_options import NatsOptions
from nats3_dagster_tests.deploy import earlier_stack, image_programs, leaks, reading, stand_ins
from nats3_dagster_tests.deploy.engine import NAME, Engine
from nats3_dagster_tests.deploy.files import documented_commands, services, upgrade_command
from nats3_dagster_tests.deploy.stack import LASTING, Stack, clone
from nats3_dagster_tests.support import earlier
from nats3_dagster_tests.support.dagster import backfills
from nats3_dagster_tests.support.domain_client import DomainClient
from nats3_dagster_tests.support.waiting import eventually

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not NAME, reason="needs an engine of containers: make containers"),
    pytest.mark.timeout(900),
]

_thorough = pytest.mark.thorough
_BEGAN_NS = time.time_ns()
IMAGE = "localhost/nats3-test"
# Messages of each past hour: the server syncs every one, and a restore may not take it seconds. And of all at first.
EACH, ALL = 500, 2000
# Of /opt/nats3, which is all that is not Debian's: the size of the base depends on who made it.
# 14 MB are the jar of Spark Connect, and 7 more of the archive its classes.
LARGEST_MB = 1000
_LAUNCH = """mutation ($how: ExecutionParams!) { launchRun(executionParams: $how) {
  __typename ... on LaunchRunSuccess { run { runId } } ... on PythonError { message }
  ... on RunConfigValidationInvalid { errors { message } } } }"""
_RUN = "query ($id: ID!) { runOrError(runId: $id) { ... on Run { status } } }"
_RUNS = "{ runsOrError { ... on Runs { results { runId } } } }"
_COUNTED = """SELECT count(*) AS messages, count(DISTINCT seq) AS different, min(n) AS first, max(n) AS last
  FROM (SELECT seq, as_text(data)::BIGINT AS n FROM events)"""
_DUMP = "PGPASSWORD=$(cat /run/secrets/postgres_password) exec pg_dump -h 127.0.0.1 -U nats3 nats3"


@pytest.fixture(scope="module")
def engine() -> Engine:
    return Engine()


@pytest.fixture(scope="module")
def servers(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The image to start for each server's image of compose.yaml."""
    found, said = stand_ins.images(engine, tmp_path_factory.mktemp("servers"))
    print(f"\nServers: {said}")
    return found


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = clone(tmp_path_factory.mktemp("clone") / "nats3")
    leaks.plant(folder)
    return folder


@pytest.fixture(scope="module")
def image(engine: Engine, checkout: Path) -> str:
    began = time.monotonic()
    engine.build(IMAGE, checkout / "deploy" / "Dockerfile", checkout)
    print(f"\nThe image was built in {time.monotonic() - began:.0f} s")
    return IMAGE


@pytest.fixture(scope="module")
def stack(engine: Engine, image: str, servers: dict[str, str], checkout: Path) -> Iterator[Stack]:
    made = Stack(engine, checkout, {"nats3": image, **servers})
    yield made
    made.end()


@pytest.mark.timeout(3600)  # all packages are fetched
def test_the_image_has_what_its_processes_need_and_no_more(engine: Engine, image: str) -> None:
    found = engine.inspect(image)
    own = int(engine("run", "--rm", image, "du", "-sm", "/opt/nats3").split()[0])
    print(f"\nThe image has {found['Size'] / 1e6:.1f} MB, of which {own} MiB are under /opt/nats3")
    assert own < LARGEST_MB
    assert found["Config"]["User"] == "10001"
    assert engine("run", "--rm", image, "nats3", "--version").startswith("nats3 ")
    for program in (image_programs.CLASSES, image_programs.MODULES, image_programs.LIBRARIES):
        engine("run", "--rm", image, "python", "-c", program)


@_thorough
def test_the_image_has_what_clusters_start(engine: Engine, image: str) -> None:
    """A run as dagster-k8s starts it, and Spark's master, worker and executor."""
    engine("run", "--rm", image, "dagster", "api", "execute_run", "--help")
    engine("run", "--rm", image, *image_programs.CLUSTER, timeout_s=800)


@pytest.mark.timeout(1800)  # stand-ins of the servers are built
def test_the_two_commands_of_the_readme_start_all_of_it(stack: Stack) -> None:
    began = time.monotonic()
    stack.up()
    print(f"\nHealthy after {time.monotonic() - began:.0f} s")
    said = stack.exec("api", "nats3", "doctor", "-o", "json")
    assert [finding for finding in json.loads(said) if finding["status"] == "fail"] == []
    assert "schema" in stack.logs("migrate")


def test_each_container_has_the_memory_of_its_service(engine: Engine, stack: Stack) -> None:
    for name, service in services().items():
        wanted = service["deploy"]["resources"]
        reserved, limit = (_bytes(wanted[key]["memory"]) for key in ("reservations", "limits"))
        given = engine.inspect(stack.container(name))["HostConfig"]
        assert (given["MemoryReservation"], given["Memory"]) == (reserved, limit), name
        if name in LASTING:
            assert engine.memory_limit(stack.container(name)) == limit, name


def test_the_daemon_captures_a_stream(stack: Stack) -> None:
    with stack.wire() as wire:
        wire.create_stream("BACK", "back.>")
        wire.create_stream("UI", "ui.>")
        _past(stack)
        wire.publish([("ev.a", b"", b"%d" % n) for n in range(2 * EACH, ALL)])
    rest = {name: stack.engine.memory_mb(stack.container(name)) for name in LASTING}
    stack.api("POST", "/store/job", {"name": "events", "stream": "EV", "bucket": "archive", "max_age_s": 1})
    began, most = time.monotonic(), dict(rest)
    while stack.archived() < ALL:
        assert time.monotonic() - began < 300, "the daemon captures the stream"
        most = {name: max(most[name], stack.engine.memory_mb(stack.container(name))) for name in LASTING}
    print(f"\nCaptured after {time.monotonic() - began:.0f} s; MB at rest {rest}, in a run {most}")
    assert stack.archived() == ALL


def test_a_client_of_nats_reads_the_archive_in_its_domain(stack: Stack) -> None:
    """The service `api` answers, and no server: none of the stack has a domain."""
    with DomainClient(stack.nats_url, user="nats3", password=stack.secrets["nats_password"]) as client:
        archive = client.client.jetstream(domain="archive")
        metadata = client.run(archive.stream_info("EV")).config.metadata or {}
        assert (metadata["nats3.archive"], metadata["nats3.archived_through"]) == ("events", str(ALL))
        messages = [client.run(archive.get_msg("EV", seq=seq, direct=True)) for seq in (1, EACH + 1, ALL)]
    assert [(message.seq, message.subject, message.data) for message in messages] == [
        (1, "ev.0", b"0"),
        (EACH + 1, f"ev.{EACH % 7}", b"%d" % EACH),
        (ALL, "ev.a", b"%d" % (ALL - 1)),
    ]


@_thorough
def test_replays_by_the_api_and_by_the_ui(stack: Stack) -> None:
    replay = _replay(stack, "back.>")
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
            assert [int(message.data) for message in wire.messages(stream)] == list(range(ALL)), stream


@_thorough
def test_a_backfill_of_the_ui(stack: Stack) -> None:
    """Hours are captured again by hand: nothing is stored twice."""
    backfill = backfills.launched(stack, "events/chunks", _hours())
    done = ("COMPLETED_SUCCESS", "COMPLETED", "COMPLETED_FAILED", "FAILED", "CANCELED")
    eventually(lambda: backfills.status(stack, backfill) in done, "the backfill ends", 240)
    assert backfills.status(stack, backfill) == "COMPLETED_SUCCESS"
    assert stack.archived() == ALL


@_thorough
def test_commands_of_the_page_read_the_archive(stack: Stack) -> None:
    lines = documented_commands("code")
    assert {word for words in lines for word in words} >= {"query", "export", "table", "chunk", "python"}
    for words in lines:
        stack.exec("code", *words)
    assert _counted(stack) == [ALL, ALL, 0, ALL - 1]
    hours = json.loads(stack.exec("code", "nats3", "export", "hours", "events", "lines", "-o", "json"))
    assert {hour["hour"] for hour in hours if hour["state"] == "done"} >= set(_hours())
    # The open hour, with the rest, may have ended meanwhile.
    assert _read(stack, reading.EXPORTED)[: 2 * EACH] == list(range(2 * EACH))
    for program in (reading.ICEBERG, reading.SPARK):
        assert _read(stack, program) == list(range(ALL))


@_thorough
@pytest.mark.parametrize("service", LASTING)
def test_a_killed_container_comes_back_and_captures_go_on(stack: Stack, service: str) -> None:
    _publish(stack, 500)
    stack.kill(service)
    sent = _publish(stack, 500)
    print(f"\n{service} was killed: all is archived {stack.await_archived(sent):.0f} s after it was healthy")


@_thorough
def test_a_replay_whose_code_server_was_killed_goes_on(stack: Stack) -> None:
    """The run dies with the container, and nobody is left to tell Dagster."""
    with stack.wire() as wire:
        wire.create_stream("KILLED", "killed.>")
        sent = wire.state("EV")["messages"]
        job = _replay(stack, "killed.>", rate=500)
        eventually(lambda: wire.state("KILLED")["messages"] > 500, "the replay publishes", 240)
        stack.kill("code")
        assert wire.state("KILLED")["messages"] < sent, "the replay was killed in its middle"
        eventually(lambda: _load(stack, job) == "Success", "the replay ends", 600, every_s=1)
        assert [int(message.data) for message in wire.messages("KILLED")] == list(range(sent))


@_thorough
def test_what_was_killed_lost_and_doubled_nothing(stack: Stack) -> None:
    with stack.wire() as wire:
        sent = wire.state("EV")["messages"]
    assert _counted(stack) == [sent, sent, 0, sent - 1]
    stack.exec("code", "nats3", "chunk", "verify", "events", "--source")


@_thorough
def test_a_stack_that_was_taken_down_has_everything_when_it_is_up_again(stack: Stack) -> None:
    runs, sent = _runs(stack), _counted(stack)[0]
    stack.down()
    assert not any(stack.has_container(name) for name in LASTING)
    stack.up()
    assert _counted(stack) == [sent, sent, 0, sent - 1]
    assert _runs(stack) >= runs
    assert stack.await_archived(_publish(stack, 500)) < 240


def test_secrets_are_nowhere_but_in_their_files(engine: Engine, stack: Stack) -> None:
    wanted = leaks.patterns(stack.secrets)
    texts = leaks.shown(engine, [stack.container(name) for name in (*LASTING, "migrate")])
    texts["inspect image"] = engine("image", "inspect", IMAGE)
    texts["history"] = engine("history", "--no-trunc", IMAGE)
    # As the webserver shows it: it shares a volume with the code server, which starts the runs.
    texts["output of runs"] = stack.exec("webserver", "sh", "-c", "find dagster/storage -type f -exec cat {} +")
    texts["database"] = stack.exec("postgres", "sh", "-c", _DUMP)
    assert {where: found for where, text in texts.items() if (found := leaks.in_text(text, wanted))} == {}
    # Each was really read.
    assert [where for where, text in texts.items() if not text.strip()] == []
    assert "NATS3_POSTGRES_URL_FILE" in texts[f"inspect {stack.container('api')}"]
    assert "COPY nats3.chunk " in texts["database"]
    assert leaks.in_image(engine, IMAGE, wanted | {"known": leaks.KNOWN}) == {"known"}


@_thorough
def test_an_installation_of_an_earlier_release_is_upgraded(
    engine: Engine, image: str, servers: dict[str, str], tmp_path: Path
) -> None:
    stack = Stack(engine, clone(tmp_path / "earlier"), {"nats3": image, **servers})
    try:
        earlier_stack.load(stack, image, tmp_path / "volumes")
        version = ("-At", "-c", "select version_num from nats3.alembic_version")
        assert earlier_stack.psql(stack, *version) < schema.VERSION
        stack.up(*upgrade_command())
        assert earlier_stack.psql(stack, *version) == schema.VERSION
        kept = [message.data for message in earlier.past(0) if message.seq not in earlier.ERASED]
        kept += [data for _, _, data in earlier.late(0, earlier.CAPTURED_LATE + earlier.WAITING)]
        stack.await_archived(len(kept))
        for command in (("doctor",), ("chunk", "verify", "events")):
            stack.exec("code", "nats3", *command)
        load = ("load", "create", "--archive", "events", "--read-subject", "ev.>", "--write-subject", "all.>")
        stack.exec("code", "nats3", *load, "--create-stream", "ALL")
        with stack.wire() as wire:
            assert [message.data for message in wire.messages("ALL")] == kept
    finally:
        stack.end()


def _bytes(size: str) -> int:
    return int(size[:-1]) << {"M": 20, "G": 30}[size[-1]]


def _counted(stack: Stack) -> list[int]:
    """Messages of the archive, different sequences, the smallest and the largest number in a payload."""
    (row,) = json.loads(stack.exec("code", "nats3", "query", _COUNTED, "-o", "json"))
    return [int(value) for value in row.values()]


def _read(stack: Stack, program: str) -> list[int]:
    """The numbers that a program has read in the stack, sorted."""
    return sorted(json.loads(stack.exec("code", "python", "-c", program).splitlines()[-1]))


def _publish(stack: Stack, count: int) -> int:
    """Publish messages with the next numbers; how many the stream has then."""
    with stack.wire() as wire:
        last = wire.state("EV")["last_seq"]
        wire.publish([("ev.more", b"", b"%d" % n) for n in range(last, last + count)])
    return last + count


def _replay(stack: Stack, subjects: str, **options: Any) -> str:
    """Have the API start a replay of the whole archive; its id."""
    body = {"bucket": "archive", "read_stream": "EV", "read_subject": "ev.>", "write_subject": subjects}
    return stack.api("POST", "/load/job", body | options)["id"]


def _runs(stack: Stack) -> set[str]:
    return {run["runId"] for run in stack.ask(_RUNS)["runsOrError"]["results"]}


def _hours() -> list[str]:
    """Two hours that have ended."""
    start = hour_start(hour_of(_BEGAN_NS))
    return [hour_of(start - 2 * HOUR_NS), hour_of(start - HOUR_NS)]


def _past(stack: Stack) -> None:
    """A stream with messages in each of them."""
    starts = [hour_start(hour) for hour in _hours()]
    past = [Past(n + 1, starts[n // EACH] + n % EACH, f"ev.{n % 7}", b"", b"%d" % n) for n in range(2 * EACH)]
    password = stack.secrets["nats_password"]
    restore_stream(NatsOptions(servers=(stack.nats_url,), user="nats3", password=password), "EV", ["ev.>"], past)


def _load(stack: Stack, job: str) -> str:
    return stack.api("GET", f"/load/job?job_id={job}")["status"]
