"""Load jobs over HTTP: begun once, paused, resumed, refused, and what is known of them afterwards."""

import threading
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from nats3_dagster.replay import jobs
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.load_jobs import MESSAGES, Loads, replay_of
from nats3_dagster_tests.support.replays import archived
from nats3_dagster_tests.support.waiting import eventually
from nats3_dagster_tests.support.wire import Wire

ALL = list(range(MESSAGES))


@pytest.fixture
def loads(workspace: Workspace, wire: Wire, bucket: str) -> Iterator[Loads]:
    made = Loads(workspace.settings, wire, bucket)
    made.archive(workspace)
    yield made
    made.join()


def test_a_minimal_body_is_a_replay(loads: Loads) -> None:
    with loads.server() as client:
        answer = client.post("/load/job", json=loads.body)
        assert answer.status_code == 201, answer.text
        made = answer.json()
        uuid.UUID(made["id"])
        assert {name: made[name] for name in ("bucket", "read_stream", "read_subject", "write_subject")} == loads.body
        wanted = {
            "name": f"load-{made['replay']}",
            "prefix": None,
            "read_consumer": None,
            "poll_interval": None,
            "delete_chunks": False,
            "from_time": None,
            "to_time": None,
            "archive": "events",
        }
        assert made.items() >= wanted.items()
        assert made["status"] in ("Created", "Running", "Success")
        done = loads.until(client, made["id"], "Success")
        assert (done["published"], done["error"], done["next"]) == (MESSAGES, None, None)
        assert done["updated"] > done["created"]
        assert loads.back == ALL
        assert client.get("/api/v1/load/jobs").json() == [done]
        assert client.post("/load/job/resume", params={"job_id": made["id"]}).status_code == 409
    # Another server, started later, knows as much.
    with loads.server() as client:
        assert client.get("/load/job", params={"job_id": made["id"]}).json() == done
        assert client.delete("/load/job", params={"job_id": made["id"]}).status_code == 204
        assert client.get("/load/job", params={"job_id": made["id"]}).status_code == 404
        assert loads.back == ALL


def test_the_body_that_the_peer_documents(loads: Loads, workspace: Workspace, s3_client: Any, wire: Wire) -> None:
    s3_client.create_bucket(Bucket="bucket-1")
    wire.create_stream("jobs", "subjects-1", "destination")
    wire.publish([("subjects-1", b"", b"1")])
    archived(workspace, wire, "jobs", "bucket-1", f"jobs_{uuid.uuid4().hex[:8]}")
    body = (
        '{ "bucket":"bucket-1", "read_stream":"jobs", "read_subject":"subjects-1", "write_stream":"jobs", '
        '"write_subject":"destination", "delete_chunks":true }'
    )
    with loads.server() as client:
        answer = client.post("/load/job", content=body, headers={"Content-Type": "application/json"})
        assert answer.status_code == 201, answer.text
        loads.until(client, answer.json()["id"], "Success")
    assert [m.subject for m in wire.messages("jobs")] == ["subjects-1", "destination"]


def test_a_key_begins_one_job(loads: Loads, workspace: Workspace) -> None:
    key = str(uuid.uuid4())
    with loads.server() as first, loads.server() as second:
        answers: list[Any] = []
        posts = [
            threading.Thread(
                target=lambda client=client: answers.append(
                    client.post("/load/job", json=loads.body | {"name": "job-1"}, headers={"Idempotency-Key": key})
                )
            )
            for client in (first, second) * 2
        ]
        for post in posts:
            post.start()
        for post in posts:
            post.join()
        assert sorted(a.status_code for a in answers) == [200, 200, 200, 201], [a.text for a in answers]
        assert {(a.json()["id"], a.json()["name"]) for a in answers} == {(key, "job-1")}
        assert len(loads.started) == 1
        loads.until(first, key, "Success")
        assert (
            second.post("/load/job", json=loads.body | {"name": "job-1"}, headers={"Idempotency-Key": key}).json()[
                "status"
            ]
            == "Success"
        )
        other = second.post("/load/job", json=loads.body | {"end": 3}, headers={"Idempotency-Key": key})
        assert (other.status_code, other.json()["error"]) == (409, f"The key {key} began another load job")
    loads.join()
    assert loads.back == ALL
    assert len(workspace.catalog.replays.select()) == 1


def test_a_key_starts_what_nobody_started(loads: Loads, workspace: Workspace) -> None:
    """The server that began it died before it started anything."""
    key = uuid.uuid4()
    with loads.server() as client:
        from nats3_dagster.bodies.load_jobs import CreateLoadJob

        jobs.begin_job(workspace, CreateLoadJob(**loads.body).request(), key=key)
        assert client.get("/load/job", params={"job_id": str(key)}).json()["status"] == "Created"
        again = client.post("/load/job", json=loads.body, headers={"Idempotency-Key": str(key)})
        assert (again.status_code, again.json()["id"]) == (200, str(key))
        loads.until(client, str(key), "Success")
    assert loads.back == ALL


def test_without_a_key_a_second_unfinished_one_is_refused(loads: Loads) -> None:
    loads.gate.clear()
    with loads.server() as client:
        made = client.post("/load/job", json=loads.body).json()
        second = client.post("/load/job", json=loads.body)
        assert second.status_code == 409
        assert second.json()["error"].startswith(f"Replay {made['replay']} of the same selection to back.> is planned")
        assert "POST /load/job/resume" in second.json()["next"]
        assert [j["id"] for j in client.get("/load/jobs", params={"replay": made["replay"]}).json()] == [made["id"]]


def test_a_pause_holds_before_it_begins_and_while_it_runs(loads: Loads, wire: Wire) -> None:
    loads.gate.clear()
    with loads.server() as client:
        # Five seconds: it goes on while it is refused twice, also on a busy machine.
        made = client.post("/load/job", json=loads.body | {"rate": 2}).json()
        at = {"job_id": made["id"]}
        paused = client.post("/load/job/pause", params=at)
        assert (paused.status_code, paused.json()["status"]) == (200, "Paused")
        assert paused.json()["next"] == f"POST /load/job/resume?job_id={made['id']}"
        loads.join()  # what was started ends without a message
        assert (client.get("/load/job", params=at).json()["status"], loads.back) == ("Paused", [])
        assert client.post("/load/job/pause", params=at).status_code == 409
        assert client.post("/load/job/resume", params=at).json()["status"] in ("Created", "Running")
        eventually(lambda: wire.state("BACK")["messages"] > 1, "the first messages")
        assert client.post("/load/job/resume", params=at).status_code == 409
        assert client.delete("/load/job", params=at).status_code == 409
        assert client.post("/load/job/pause", params=at).json()["status"] == "Paused"
        reached = wire.state("BACK")["messages"]
        assert 1 < reached < MESSAGES
        assert client.get("/load/jobs", params={"status": "Paused"}).json()[0]["id"] == made["id"]
        assert client.get("/load/jobs", params={"status": "Failure"}).json() == []
    with loads.server() as other:
        assert wire.state("BACK")["messages"] == reached
        assert other.post("/load/job/resume", params=at).status_code == 200
        loads.until(other, made["id"], "Success")
    assert loads.back == ALL


def test_two_servers_that_resume_at_once_replay_once(loads: Loads, workspace: Workspace) -> None:
    with loads.server() as first, loads.server() as second:
        loads.gate.clear()
        made = first.post("/load/job", json=loads.body).json()
        at = {"job_id": made["id"]}
        assert first.post("/load/job/pause", params=at).status_code == 200
        answers: list[int] = []
        both = [
            threading.Thread(target=lambda c=client: answers.append(c.post("/load/job/resume", params=at).status_code))
            for client in (first, second)
        ]
        for thread in both:
            thread.start()
        for thread in both:
            thread.join()
        assert 200 in answers
        assert set(answers) <= {200, 409}
        loads.join()
        loads.until(second, made["id"], "Success")
    # The first launch was paused; of the others the newest one ran, and no other began an attempt.
    assert (loads.back, replay_of(workspace, made).attempt) == (ALL, 1)


def test_errors_have_a_text_and_no_number_of_them_ends_a_job_for_good(
    loads: Loads, workspace: Workspace, s3_client: Any
) -> None:
    objects = s3_client.list_objects_v2(Bucket=loads.bucket)["Contents"]
    (item,) = [item for item in objects if item["Key"].endswith(".parquet")]
    whole = s3_client.get_object(Bucket=loads.bucket, Key=item["Key"])["Body"].read()
    loads.gate.clear()
    with loads.server() as client:
        made = client.post("/load/job", json=loads.body).json()
        at = {"job_id": made["id"]}
        s3_client.delete_object(Bucket=loads.bucket, Key=item["Key"])
        loads.gate.set()
        failed = loads.until(client, made["id"], "Failure")
        assert item["Key"] in failed["error"]
        assert failed["next"] == f"POST /load/job/resume?job_id={made['id']}"
        # Of the right size, and not what was written: it must not end in success.
        s3_client.put_object(Bucket=loads.bucket, Key=item["Key"], Body=whole[:-20] + bytes(20))
        for _ in range(2):
            assert client.post("/load/job/resume", params=at).status_code == 200
            loads.join()
            failed = client.get("/load/job", params=at).json()
            assert (failed["status"], item["Key"] in failed["error"], loads.back) == ("Failure", True, [])
        s3_client.put_object(Bucket=loads.bucket, Key=item["Key"], Body=whole)
        assert client.post("/load/job/resume", params=at).status_code == 200
        assert loads.until(client, made["id"], "Success")["error"] is None
    assert loads.back == ALL


def test_one_whose_process_was_killed_says_so(loads: Loads, workspace: Workspace) -> None:
    loads.gate.clear()
    with loads.server() as client:
        made = client.post("/load/job", json=loads.body).json()
        workspace.catalog.replays.start_attempt(made["replay"])
        killed = client.get("/load/job", params={"job_id": made["id"]}).json()
        assert (killed["status"], killed["state"]) == ("Failure", "interrupted")
        assert killed["error"].startswith(f"What ran replay {made['replay']} has ended without a word")
        assert [j["id"] for j in client.get("/load/jobs", params={"status": "Failure"}).json()] == [made["id"]]
        assert client.get("/load/jobs", params={"status": "Running"}).json() == []
        with workspace.catalog.replays.lock(made["replay"]):
            assert client.get("/load/job", params={"job_id": made["id"]}).json()["status"] == "Running"


def test_a_dry_run_is_a_plan_and_nothing_else(loads: Loads, workspace: Workspace) -> None:
    with loads.server() as client:
        answer = client.post("/load/job", json=loads.body | {"dry_run": True, "sequences": [2, 4]})
        assert answer.status_code == 200, answer.text
        assert answer.json().items() >= {"messages": 3, "messages_exact": True, "targets": ["BACK"]}.items()
    assert (workspace.catalog.replays.select(), loads.started, loads.back) == ((), [], [])


BAD: list[tuple[dict[str, Any], int, str]] = [
    ({"write_subjects": "x"}, 422, "write_subjects: There is no such field; did you mean write_subject?"),
    ({"from_time": "2026-11-21T07:00:00"}, 422, "from_time: write it in RFC 3339 with its offset"),
    ({"to_time": "2026-13-21T07:00:00Z"}, 422, "to_time: '2026-13-21T07:00:00Z' is not a time"),
    ({"poll_interval": {"secs": 0, "nanos": 0}}, 422, "poll_interval: it must be above 0"),
    ({"poll_interval": {"secs": -1}}, 422, "poll_interval.secs: Input should be greater than or equal to 0"),
    ({"start": -1}, 422, "start: Input should be greater than or equal to 1"),
    ({"start": 5, "end": 2}, 422, "5-2 is not a sequence range"),
    ({"rate": -1}, 422, "rate: Input should be greater than or equal to 0.000000001"),
    ({"rate": 1e-300}, 422, "rate: Input should be greater than or equal to"),
    ({"speed": 1e-300}, 422, "speed: Input should be greater than or equal to"),
    ({"byte_rate": 1e300}, 422, "byte_rate: Input should be less than or equal to 1000000000000"),
    ({"poll_interval": {"nanos": 1}}, 422, "The poll interval is 1e-09 s"),
    ({"read_stream": "NONE"}, 422, "No archive of stream NONE is in bucket "),
    ({"prefix": "other"}, 422, "No archive of stream EV is in bucket "),
    ({"archive": "nobody"}, 404, "There is no archive nobody"),
    ({"read_consumer": "c"}, 422, "read_consumer is c, and archive events takes its messages through no consumer"),
    ({"write_stream": "OTHER"}, 422, "write_stream is OTHER, and what is published to back.> goes into BACK"),
    ({"write_subject": "nobody.>"}, 422, "No stream listens on nobody.>"),
    ({"write_subject": "ev.>"}, 422, ""),
    ({"name": "a\0b"}, 422, "name: It has a NUL character"),
]


def test_what_is_not_right_is_refused_and_leaves_nothing(loads: Loads, workspace: Workspace) -> None:
    with loads.server() as client:
        for fields, status, error in BAD:
            answer = client.post("/load/job", json=loads.body | fields)
            assert (fields, answer.status_code) == (fields, status), answer.text
            assert error in answer.json()["error"], answer.text
        for path in ("/load/job", "/load/job/progress"):
            assert client.get(path, params={"job_id": "x"}).status_code == 422
            assert client.get(path, params={"job_id": str(uuid.uuid4())}).status_code == 404
        assert client.get("/load/jobs", params={"limit": -1}).status_code == 422
        assert client.get("/load/jobs", params={"archive": "nobody"}).status_code == 404
        twice = client.post("/load/job", json=loads.body, headers={"Idempotency-Key": "x"})
        assert twice.status_code == 422
    assert (workspace.catalog.replays.select(), loads.started) == ((), [])


def test_what_is_in_the_way_is_no_outage(loads: Loads, workspace: Workspace, wire: Wire, s3_client: Any) -> None:
    """Asked again it would fail again: 409, and no dependency is named."""
    wire.create_stream("FULL", "full.>", max_msgs=5, discard="new")
    wire.create_stream("SMALL", "small.>", max_msg_size=1)
    with loads.server() as client:
        for target, text in (("full.>", "max_msgs"), ("small.>", "Stream SMALL takes up to 1")):
            answer = client.post("/load/job", json=loads.body | {"write_subject": target})
            assert (answer.status_code, answer.json()["dependency"]) == (409, None), answer.text
            assert text in answer.json()["error"]
        (chunk,) = client.get("/chunks", params={"archive": "events"}).json()["chunks"]
        size = s3_client.head_object(Bucket=loads.bucket, Key=chunk["key"])["ContentLength"]
        for body in (None, bytes(size)):
            if body is None:
                s3_client.delete_object(Bucket=loads.bucket, Key=chunk["key"])
            else:
                s3_client.put_object(Bucket=loads.bucket, Key=chunk["key"], Body=body)
            answer = client.get("/archive/events/message", params={"seq": 3})
            assert (answer.status_code, answer.json().get("dependency")) == (409, None), answer.text
            assert chunk["key"] in answer.json()["error"]
    assert (workspace.catalog.replays.select(), loads.started) == ((), [])


def test_head_of_progress_ends(loads: Loads) -> None:
    """A stream of events has no end of its own."""
    loads.gate.clear()
    with loads.server() as client:
        job = client.post("/load/job", json=loads.body).json()
        asked, headers = {"job_id": job["id"]}, {"Accept": "text/event-stream"}
        answer = client.head("/load/job/progress", params=asked, headers=headers)
        assert (answer.status_code, answer.content) == (200, b"")
        assert answer.headers["content-type"].startswith("text/event-stream")


def test_several_archives_that_fit_are_named(loads: Loads, workspace: Workspace, wire: Wire) -> None:
    archived(workspace, wire, "EV", loads.bucket, "more", prefix="second")
    with loads.server() as client:
        answer = client.post("/load/job", json=loads.body)
        assert (answer.status_code, answer.json()["code"]) == (422, "CHOOSE_ARCHIVE")
        assert answer.json()["error"].endswith("2 archives of stream EV: events, more")
        made = client.post("/load/job", json=loads.body | {"prefix": "second/"})
        assert (made.status_code, made.json()["archive"], made.json()["prefix"]) == (201, "more", "second")
