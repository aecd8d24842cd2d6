"""Store jobs: a client of nats-s3-connector finds its fields, and every refusal says which field and what to do."""

import json
import threading
import uuid
from typing import Any

import pytest
from fastapi.testclient import TestClient

from nats3_dagster.api.app import create_app
from nats3_dagster.archive.captures.open import open_source
from nats3_dagster.model import Gap, SeqRange
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.catalog import chunk
from nats3_dagster_tests.support.commands import Command, everything
from nats3_dagster_tests.support.load_jobs import listening
from nats3_dagster_tests.support.wire import Wire

# The fields of nats-s3-connector's StoreJob.
PEERS = {
    "id",
    "name",
    "status",
    "stream",
    "consumer",
    "subject",
    "bucket",
    "prefix",
    "batch",
    "encoding",
    "created",
    "updated",
}


def body(bucket: str, name: str = "job-1", **more: Any) -> dict[str, Any]:
    return {"name": name, "stream": "jobs", "subject": "subjects.1", "bucket": bucket, **more}


def create(client: TestClient, bucket: str, name: str = "job-1", **more: Any) -> dict[str, Any]:
    answer = client.post("/store/job", json=body(bucket, name, **more))
    assert answer.status_code == 201, answer.text
    return answer.json()


def problem(answer: Any, status: int) -> dict[str, Any]:
    """The problem of a refused request: one that says what happened."""
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json"), answer.text
    document = answer.json()
    assert document["status"] == status
    assert document["error"]
    assert document["detail"].startswith(document["error"])
    return document


def capture(workspace: Workspace, name: str) -> None:
    """As if what the stream has were captured in one chunk."""
    archive = workspace.catalog.archives.get(name)
    state = open_source(workspace, archive).state
    made = chunk(1, state.last_seq, archive=name, incarnation=state.incarnation, bucket=archive.spec.bucket)
    workspace.catalog.chunks.commit(archive, [made])


@pytest.mark.usefixtures("unshared")
def test_the_life_of_a_job_for_a_client_of_the_peer(
    client: TestClient, workspace: Workspace, jobs_stream: Wire, bucket: str
) -> None:
    created = client.post("/store/job", content=json.dumps(body(bucket)), headers={"Content-Type": "application/json"})
    assert created.status_code == 201
    job = created.json()
    assert set(job) > PEERS
    assert {name: job[name] for name in ("name", "status", "stream", "subject", "bucket", "prefix", "consumer")} == {
        "name": "job-1",
        "status": "Created",
        "stream": "jobs",
        "subject": "subjects.1",
        "bucket": bucket,
        "prefix": None,
        "consumer": None,
    }
    assert (job["archive"], job["encoding"], job["error"]) == ("job_1", {"codec": "binary"}, None)
    assert str(uuid.UUID(job["id"])) == job["id"]
    one = {"job_id": job["id"]}
    assert client.get(created.headers["Location"]).json() == {k: v for k, v in job.items() if k != "warning"}
    jobs_stream.publish([("subjects.1", b"", b"x")] * 3)
    assert client.get("/api/v1/store/job", params=one).json()["lag"] == 3
    capture(workspace, "job_1")
    assert client.get("/store/job", params=one).json()["status"] == "Running"
    paused = client.post("/store/job/pause", params=one).json()
    assert (paused["status"], paused["id"]) == ("Paused", job["id"])
    assert paused["updated"] > job["updated"]
    assert workspace.catalog.archives.get("job_1").paused
    assert client.post("/store/job/resume", params=one).json()["status"] == "Running"
    lines = client.get("/api/v1/store/job/history", params=one).json()
    assert [(line["what"], line["detail"]) for line in lines] == [
        ("changed", {"paused": [True, False]}),
        ("changed", {"paused": [False, True]}),
        ("created", {}),
    ]
    assert client.get("/store/job/history", params=one | {"limit": 1}).json() == lines[:1]
    assert client.get("/store/job/history", params=one | {"since": "2100-01-01"}).json() == []
    assert "not a time" in problem(client.get("/store/job/history", params=one | {"since": "x"}), 422)["detail"]
    archive = workspace.catalog.archives.get("job_1")
    workspace.catalog.holds.create(archive, "case", "court order", hours=("2026-11-21-07:00", None))
    (hold,) = client.get("/store/job/holds", params=one).json()
    assert (hold["name"], hold["first_hour"], hold["last_hour"]) == ("case", "2026-11-21-07:00", None)
    problem(client.delete("/store/job", params=one), 409)
    workspace.catalog.holds.release(archive, "case", "closed")
    assert [j["id"] for j in client.get("/store/jobs").json()] == [job["id"]]
    # The peer's client gets one job so.
    assert client.get("/store/jobs", params=one).json()["id"] == job["id"]
    deleted = client.delete("/store/job", params=one)
    assert (deleted.status_code, deleted.json()["chunks"], deleted.json()["objects_deleted"]) == (200, 1, 0)
    problem(client.get("/store/job", params=one), 404)
    assert client.get("/store/jobs").json() == []


def test_names_that_differ_in_what_an_archive_cannot_have_are_two_archives(
    client: TestClient, jobs_stream: Wire, bucket: str, nats3: Command
) -> None:
    names = ["a-b", "a_b", "a.b", "a b"]
    jobs = [create(client, bucket, name) for name in names]
    assert [job["name"] for job in jobs] == names
    assert [job["archive"] for job in jobs] == ["a_b", "a_b_2", "a_b_3", "a_b_4"]
    for job, name in zip(jobs, names, strict=True):
        assert client.get("/store/job", params={"job_id": job["id"]}).json()["archive"] == job["archive"]
        assert "There is an archive" in problem(client.post("/store/job", json=body(bucket, name)), 409)["error"]
    # A name of the catalog goes before a job's.
    shown = [nats3.ok("store", "get", name, "-o", "json").json["archive"] for name in ("a.b", "a_b_2", "a_b")]
    assert shown == ["a_b_3", "a_b_2", "a_b"]
    assert nats3.ok("store", "delete", "a.b", "-o", "json", "--yes").json["deleted"] is True
    # What a.b left in the bucket stays its own: a second job of that name has it again, and no other job.
    assert create(client, bucket, "a.b")["archive"] == "a_b_3"
    client.delete("/store/job", params={"job_id": jobs[0]["id"]})
    assert create(client, bucket, "a/b")["archive"] == "a_b_5"


def test_two_who_create_at_once_get_two_names(client: TestClient, jobs_stream: Wire, bucket: str) -> None:
    names = ["x-y", "x.y", "x y", "x-y", "x_y", "x_y_2"]
    answers: list[Any] = [None] * len(names)

    def ask(at: int) -> None:
        answers[at] = client.post("/store/job", json=body(bucket, names[at]))

    threads = [threading.Thread(target=ask, args=(at,)) for at in range(len(names))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    made = [answer.json() for answer in answers if answer.status_code == 201]
    refused = [problem(answer, 409) for answer in answers if answer.status_code != 201]
    assert len({job["archive"] for job in made}) == len({job["name"] for job in made}) == len(made)
    assert len(made) + len(refused) == 6
    assert 4 <= len(made) <= 5
    assert sum(answers[at].status_code == 201 for at in (0, 3)) == 1


def test_fields_of_the_peer_and_of_archives(client: TestClient, jobs_stream: Wire, bucket: str) -> None:
    job = create(
        client,
        bucket,
        "full",
        prefix="team/logs",
        batch={"max_count": 5, "max_bytes": 6},
        encoding={"codec": "Json"},
        max_age_s=7,
        zstd_level=9,
    )
    assert (job["max_messages"], job["max_bytes"], job["max_age_s"], job["zstd_level"]) == (5, 6, 7, 9)
    assert (job["prefix"], job["batch"]) == ("team/logs", {"max_count": 5, "max_bytes": 6})
    # Defaults of the peer only where its field was given; else those of archives.
    assert create(client, bucket, "half", batch={"max_count": 5})["batch"] == {"max_count": 5, "max_bytes": 1_000_000}
    assert create(client, bucket, "none")["batch"] == {"max_count": 1_000_000, "max_bytes": 64 << 20}
    several = create(client, bucket, "several", subject=None, subjects=["subjects.1", "subjects.2"])
    assert (several["subject"], several["subjects"]) == ("subjects.1,subjects.2", ["subjects.1", "subjects.2"])
    assert create(client, bucket, "all", subject=">")["subjects"] == []
    jobs_stream.create_stream("work", "work.>", retention="workqueue")
    taking = create(client, bucket, "taking", stream="work", subject=None, mode="consumer")
    assert (taking["mode"], taking["consumer"]) == ("consumer", "nats3-taking")


_REFUSED: list[tuple[dict[str, Any], int, str | None, str]] = [
    ({"stream": "nothing"}, 404, None, "nothing"),
    ({"bucket": "nothing-here"}, 422, "bucket", "does not exist"),
    ({"bucket": "x"}, 422, "bucket", "not a bucket name"),
    ({"subject": "other.>"}, 422, "subject", "no subject that 'other.>' takes"),
    ({"subject": "a..b"}, 422, "subject", "a..b"),
    ({"consumer": "nobodys"}, 422, "consumer", "nobodys"),
    ({"prefix": "a//b"}, 422, "prefix", "empty part"),
    ({"name": ""}, 422, "name", "at least 1 character"),
    ({"name": "a\nb"}, 422, "name", "more than one line"),
    ({"name": "a\0b"}, 422, "name", "NUL"),
    ({"name": "x" * 195}, 422, "name", "not a name"),
    ({"name": None}, 422, "name", "valid string"),
    ({"max_messages": -1}, 422, "max_messages", "greater than or equal to 1"),
    ({"max_messages": 2**63}, 422, "max_messages", "less than or equal"),
    ({"max_messages": 2**63 - 1}, 422, "max_messages", "less than or equal to 281474976710656"),
    ({"max_bytes": 2**63 - 1}, 422, "max_bytes", "less than or equal to 281474976710656"),
    ({"max_age_s": 2**63 - 1}, 422, "max_age_s", "less than or equal to 315360000"),
    ({"batch": {"max_count": 2**63 - 1}}, 422, "batch.max_count", "less than or equal to"),
    ({"max_messages": True}, 422, "max_messages", "valid integer"),
    ({"batch": {"max_count": 0}}, 422, "batch.max_count", "greater than or equal to 1"),
    ({"batch": {"max_cout": 1}}, 422, "batch.max_cout", "did you mean max_count?"),
    ({"batch": {}, "max_bytes": 5}, 422, "", "Give batch"),
    ({"zstd_level": 23}, 422, "zstd_level", "less than or equal to 22"),
    ({"encoding": {"codec": "xml"}}, 422, "encoding.codec", "'binary'"),
    ({"buckett": "b"}, 422, "buckett", "did you mean bucket?"),
    ({"\ud800": 1}, 422, None, "half of a character"),
    ({"create_bucket": "yes"}, 422, "create_bucket", "valid boolean"),
]


def test_what_cannot_be_is_refused_with_the_field_and_writes_nothing(
    client: TestClient, settings: Settings, jobs_stream: Wire, bucket: str, s3_client: Any
) -> None:
    before = everything(settings.postgres, settings.nats_url or "", s3_client, bucket)
    for changes, status, field, text in _REFUSED:
        answer = client.post(
            "/store/job", content=json.dumps(body(bucket) | changes), headers={"Content-Type": "application/json"}
        )
        document = problem(answer, status)
        assert text in json.dumps(document), changes
        if field is not None:
            assert [f["field"] for f in document["fields"]] == [field], changes
        assert everything(settings.postgres, settings.nats_url or "", s3_client, bucket) == before, changes


def test_a_body_that_is_no_object_is_refused(client: TestClient) -> None:
    for content in (b"", b"{", b"[]", b"null", b'"x"', b"\xff\xfe", b'{"name": 1e999}', b"[" * 5000):
        answer = client.post("/store/job", content=content, headers={"Content-Type": "application/json"})
        assert answer.status_code in (400, 422), (content, answer.text)
        problem(answer, answer.status_code)


def test_an_id_of_no_job(client: TestClient) -> None:
    asked = [
        ("GET", "/store/job"),
        ("DELETE", "/store/job"),
        ("POST", "/store/job/pause"),
        ("POST", "/store/job/resume"),
        ("GET", "/store/job/lag"),
        ("GET", "/store/job/history"),
        ("GET", "/store/job/holds"),
        ("GET", "/store/jobs"),
        ("GET", "/chunks"),
    ]
    for method, path in asked:
        unknown = problem(client.request(method, path, params={"job_id": str(uuid.uuid4())}), 404)
        assert unknown["next"] == "See the list of archives: GET /store/jobs", path
        for bad in ("x", "", "0", "job-1", "7f0f3f0a-2d0e-4d5c-9f4e-6f1f0f6b8a1", "\0", "%"):
            document = problem(client.request(method, path, params={"job_id": bad}), 422)
            assert [f["field"] for f in document["fields"]] == ["job_id"], (path, bad)


def test_filters_of_the_list(client: TestClient, workspace: Workspace, jobs_stream: Wire, bucket: str) -> None:
    jobs_stream.create_stream("other", "other.>")
    for name in ("a", "b"):
        create(client, bucket, name)
    create(client, bucket, "c", stream="other", subject=None)
    workspace.catalog.archives.pause("b")

    def names(**params: Any) -> list[str]:
        return [job["name"] for job in client.get("/store/jobs", params=params).json()]

    assert names() == ["a", "b", "c"]
    assert names(status="Paused") == ["b"]
    assert names(status="Created", limit=1) == ["a"]
    assert names(stream="other") == ["c"]
    assert names(stream="jobs", bucket=bucket) == ["a", "b"]
    assert names(bucket="nothing") == []
    for name, bad in [("limit", "-1"), ("limit", "0"), ("limit", "x"), ("status", "running"), ("limt", "1")]:
        assert [f["field"] for f in problem(client.get("/store/jobs", params={name: bad}), 422)["fields"]] == [name]


@pytest.mark.usefixtures("unshared")
def test_a_source_that_is_gone_is_a_failure_that_says_why(
    client: TestClient, settings: Settings, jobs_stream: Wire, bucket: str
) -> None:
    job = create(client, bucket)
    one = {"job_id": job["id"]}
    jobs_stream.api("STREAM.DELETE.jobs")
    failed = client.get("/store/job", params=one).json()
    assert (failed["status"], failed["lag"]) == ("Failure", None)
    assert "jobs" in failed["error"]
    assert "Restore the stream" in failed["next"]
    assert "jobs" in problem(client.get("/store/job/lag", params=one), 404)["error"]
    jobs_stream.create_stream("jobs", "subjects.>")
    assert "made again" in client.get("/store/job", params=one).json()["error"]
    problem(client.get("/store/job/lag", params=one), 409)
    # Nothing is in the memory of the server: another one says the same.
    with TestClient(create_app(settings)) as other:
        assert other.get("/store/job", params=one).json()["status"] == "Failure"
        other.post("/store/job/pause", params=one)
    assert client.get("/store/job", params=one).json()["status"] == "Paused"


def test_lag_and_time_to_loss(client: TestClient, workspace: Workspace, wire: Wire, bucket: str) -> None:
    wire.create_stream("jobs", "subjects.>", max_msgs=10)
    job = create(client, bucket, subject=None)
    wire.publish([("subjects.1", b"", b"x")] * 8)
    lag = client.get("/store/job/lag", params={"job_id": job["id"]}).json()
    assert (lag["messages"], lag["time_to_loss"]["limit"], lag["time_to_loss"]["used"]) == (8, "max_msgs", 0.8)
    assert 0 < lag["seconds"] < 60
    archive = workspace.catalog.archives.get("job_1")
    state = open_source(workspace, archive).state
    workspace.catalog.chunks.commit(archive, [], [Gap(state.incarnation, (SeqRange(1, 8),), "unselected")])
    lag = client.get("/store/job/lag", params={"job_id": job["id"]}).json()
    assert (lag["messages"], lag["seconds"], lag["time_to_loss"]["level"]) == (0, None, "ok")


def test_a_purge_that_is_asked_for_later_or_again(
    client: TestClient, workspace: Workspace, jobs_stream: Wire, bucket: str, s3_client: Any
) -> None:
    job = create(client, bucket)
    jobs_stream.publish([("subjects.1", b"", b"x")] * 3)
    capture(workspace, "job_1")
    key = workspace.catalog.chunks.select(workspace.catalog.archives.get("job_1"))[0].meta.key
    s3_client.put_object(Bucket=bucket, Key=key, Body=b"x")
    s3_client.put_object(Bucket=bucket, Key="other", Body=b"x")
    one = {"job_id": job["id"]}
    assert client.delete("/store/job", params=one).json()["objects_deleted"] == 0
    again = create(client, bucket)
    assert again["archive"] == "job_1"
    assert client.delete("/store/job", params=one | {"purge": True}).json()["objects_deleted"] == 1
    left = [o["Key"] for o in s3_client.list_objects_v2(Bucket=bucket)["Contents"]]
    # Of the archive that has the name now.
    own = ["archive=job_1/_owner.json", f"archive=job_1/_settings-{again['id']}.json"]
    assert sorted(left) == [*own, "other"]
    problem(client.delete("/store/job", params=one | {"purge": True}), 404)
    # The job that has its name now is untouched.
    assert client.get("/store/job", params={"job_id": again["id"]}).status_code == 200


def test_the_consumer_of_a_deleted_archive_is_kept_where_that_is_asked(
    client: TestClient, settings: Settings, wire: Wire, bucket: str, nats3: Command
) -> None:
    wire.create_stream("WORK", "work.>", retention="interest")
    ids = {}
    for name in ("gone", "kept", "by_cli"):
        made = client.post(
            "/store/job", json={"name": name, "stream": "WORK", "bucket": bucket, "mode": "consumer"}
        ).json()
        assert made["consumer"] == f"nats3-{name}", made
        ids[name] = made["id"]
    kept = client.delete("/store/job", params={"job_id": ids["kept"], "keep_consumer": True})
    assert (kept.status_code, kept.json()["consumer_deleted"]) == (200, None)
    gone = client.delete("/store/job", params={"job_id": ids["gone"], "keep_consumer": "false"})
    assert (gone.status_code, gone.json()["consumer_deleted"]) == (200, "nats3-gone")
    problem(client.delete("/store/job", params={"job_id": ids["by_cli"], "keep_consumer": "perhaps"}), 422)
    with listening(create_app(settings)) as url:
        delete = ("store", "delete", "by_cli", "--server", url)
        assert "Its consumer nats3-by_cli stays: stream WORK goes on" in nats3.refused(*delete, "--keep-consumer")
        assert "It also deletes consumer nats3-by_cli of stream WORK" in nats3.refused(*delete)
        view = nats3.ok(*delete, "--keep-consumer", "--yes", "-o", "json").json
        assert view == {
            "id": ids["by_cli"],
            "name": "by_cli",
            "archive": "by_cli",
            "deleted": True,
            "chunks": 0,
            "objects_deleted": 0,
            "consumer_deleted": None,
            "buffer_deleted": None,
        }
    assert sorted(wire.api("CONSUMER.NAMES.WORK")["consumers"]) == ["nats3-by_cli", "nats3-kept"]
