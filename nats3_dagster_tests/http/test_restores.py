"""A stream made again from its archive over HTTP: planned, refused, and started as a process or as a run of Dagster."""

import os
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from nats3_dagster.api.app import create_app
from nats3_dagster.bodies.restores import RestoreStream
from nats3_dagster.dev.process import HOST, free_port
from nats3_dagster.runs.restores import command
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.commands import Command
from nats3_dagster_tests.support.dagster.processes import Dagster
from nats3_dagster_tests.support.replays import archived
from nats3_dagster_tests.support.waiting import eventually
from nats3_dagster_tests.support.wire import Wire

pytestmark = pytest.mark.needs_nats("2.15")


@pytest.fixture
def before(workspace: Workspace, wire: Wire, bucket: str) -> list[tuple[Any, ...]]:
    """What the stream had that is archived and gone."""
    wire.create_stream("EV", "ev.>", max_age=3600 * 10**9)
    wire.publish([(f"ev.{n % 2}", b"", b"%d" % n) for n in range(20)])
    archived(workspace, wire, "EV", bucket)
    messages = stored(wire)
    wire.api("STREAM.DELETE.EV")
    return messages


def stored(wire: Wire, stream: str = "EV") -> list[tuple[Any, ...]]:
    return [tuple(message) for message in wire.messages(stream)]


def is_there(wire: Wire, stream: str = "EV") -> bool:
    """True if a restore of the stream has ended well."""
    if stream not in (wire.api("STREAM.NAMES")["streams"] or ()):
        return False
    return "nats3.restoring" not in (wire.api(f"STREAM.INFO.{stream}")["config"].get("metadata") or {})


def test_it_is_planned_and_nothing_is_made(client: TestClient, before: list[tuple[Any, ...]], wire: Wire) -> None:
    for prefix in ("", "/api/v1"):
        answer = client.post(f"{prefix}/stream/restore?dry_run=true", json={"archive": "a", "sequences": [3, 7]})
        assert answer.status_code == 200, answer.text
        plan = answer.json()
        assert (plan["stream"], plan["messages"], plan["proven"], plan["left_out"]) == ("EV", 5, None, ["max_age"])
    assert wire.api("STREAM.NAMES")["streams"] is None


@pytest.mark.parametrize(
    ("body", "status", "says"),
    [
        ({"archive": "nothing"}, 404, "nothing"),
        ({}, 422, "archive"),
        ({"archive": "a", "nam": "B"}, 422, "did you mean name"),
        ({"archive": "a", "name": "a.b"}, 422, "not a stream name"),
        ({"archive": "a", "replicas": 6}, 422, "replicas"),
        ({"archive": "a", "storage": "tape"}, 422, "storage"),
        ({"archive": "a", "from_time": "yesterday"}, 422, "from_time"),
        ({"archive": "a", "from_time": "2026-11-21T07:00:00Z", "to_time": "2026-11-21T07:00:00Z"}, 422, "to_time"),
        ({"archive": "a", "sequences": [7, 3]}, 422, "sequences"),
        ({"archive": "a", "subjects": ["no"]}, 422, "No subject of archive a"),
        ({"archive": "a", "consumers": ["no"]}, 409, "no consumer"),
        ({"archive": "a", "incarnation": "20200101T000000000000000Z"}, 404, "incarnation"),
        ({"archive": "a", "name": "THERE"}, 409, "Stream THERE exists"),
    ],
)
@pytest.mark.parametrize("dry_run", ["", "?dry_run=true"])
def test_what_cannot_be_is_refused_and_nothing_is_started(
    client: TestClient,
    before: list[tuple[Any, ...]],
    wire: Wire,
    body: dict[str, Any],
    status: int,
    says: str,
    dry_run: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("NATS3_HOME", str(tmp_path))
    wire.create_stream("THERE", "there.>")
    answer = client.post(f"/stream/restore{dry_run}", json=body)
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json"), answer.text
    assert says in answer.text
    assert wire.api("STREAM.NAMES")["streams"] == ["THERE"]
    assert not (tmp_path / "logs").exists()


def restore_of(**fields: Any) -> RestoreStream:
    return RestoreStream.model_validate(fields)


def test_the_words_of_the_command_are_those_of_the_body(nats3: Command, before: list[tuple[Any, ...]]) -> None:
    body = restore_of(
        archive="a",
        name="B",
        from_time="2020-01-01T00:00:00Z",
        to_time="2100-01-01T00:00:00Z",
        sequences=(2, 9),
        subjects=["ev.0", "ev.1"],
        replicas=1,
        storage="memory",
        limits=True,
        over_gaps=True,
        verify=False,
    )
    assert body.config() | {"consumers": [], "incarnation": None} == body.model_dump(mode="json")
    words = command(body.config())
    done = nats3.ok(*words, "-o", "json").json
    assert (done["stream"], done["messages"], done["proven"], done["left_out"]) == ("B", 8, None, [])
    every = {*RestoreStream.model_fields} - {"archive"}
    assert {name for name in every if f"--{name.replace('_', '-').removesuffix('s')}" in " ".join(words)} == {
        *every
    } - {"consumers", "incarnation", "verify"}
    more = command(restore_of(archive="a", consumers=["all"], incarnation="x").config())
    assert more == ["stream", "restore", "a", "--consumers", "all", "--incarnation", "x"]


def test_a_process_of_its_own(
    client: TestClient,
    before: list[tuple[Any, ...]],
    wire: Wire,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("NATS3_HOME", str(tmp_path))
    answer = client.post("/stream/restore", json={"archive": "a"})
    assert answer.status_code == 202, answer.text
    started = answer.json()
    log = Path(started["log"])
    assert (started["run_id"], started["plan"]["messages"], log.parent) == (None, 20, tmp_path / "logs")
    eventually(lambda: is_there(wire), "the stream", timeout_s=30)
    assert stored(wire) == before
    eventually(lambda: "Each message of stream EV is as archive a has it" in log.read_text(), "the end", timeout_s=30)


def test_a_dagster_that_does_not_answer(before: list[tuple[Any, ...]], settings: Settings, wire: Wire) -> None:
    nobody = settings.model_copy(update={"dagster_url": f"http://{HOST}:{free_port()}"})
    with TestClient(create_app(nobody)) as client:
        refused = client.post("/stream/restore", json={"archive": "a"})
        assert (refused.status_code, refused.json()["dependency"]) == (503, "dagster")
    assert wire.api("STREAM.NAMES")["streams"] is None


@pytest.mark.slow
@pytest.mark.thorough
@pytest.mark.timeout(300)
def test_dagster_runs_it(before: list[tuple[Any, ...]], settings: Settings, wire: Wire, tmp_path: Path) -> None:
    environment = {name: os.environ[name] for name in os.environ if name.startswith(("NATS3_", "AWS_"))}
    with Dagster(tmp_path, environment) as dagster:
        with TestClient(create_app(settings.model_copy(update={"dagster_url": dagster.url}))) as client:
            answer = client.post("/stream/restore", json={"archive": "a", "subjects": ["ev.1"]})
            assert answer.status_code == 202, answer.text
            started = answer.json()
        (run,) = dagster.runs()
        assert (run["id"], run["jobName"], run["tags"]["nats3/archive"]) == (started["run_id"], "restore_stream", "a")
        eventually(lambda: dagster.runs()[0]["status"] in ("SUCCESS", "FAILURE"), "the end", timeout_s=120)
        assert dagster.runs()[0]["status"] == "SUCCESS"
    assert stored(wire) == [message for message in before if message[1] == "ev.1"]
