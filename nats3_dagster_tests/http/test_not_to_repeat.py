"""Defects of nats-s3-connector that must not come back, and what holds each here.

| defect | test |
|---|---|
| two chunks in one second share a key | test_two_chunks_of_one_second_have_keys_of_their_own (here) |
| a prefix is applied twice | test_two_chunks_of_one_second_have_keys_of_their_own (here) |
| an error kills a job for good after one retry | test_a_source_that_comes_back_is_no_failure_any_more (here), test_load_jobs.py: test_errors_have_a_text_and_no_number_of_them_ends_a_job_for_good, orchestration/test_failing_hours.py |
| a job ends in success with messages skipped | test_load_jobs.py: test_errors_have_a_text_and_no_number_of_them_ends_a_job_for_good (a chunk is missing, or damaged) |
| `a.b` and `a_b` share a durable | test_names_that_look_alike_have_durables_of_their_own (here), test_store_jobs.py: test_names_that_differ_in_what_an_archive_cannot_have_are_two_archives |
| a status is lost in a restart | test_server.py: test_a_server_ends_by_sigterm_when_it_has_answered |
| a second instance replays twice | test_load_jobs.py: test_a_key_begins_one_job, test_two_servers_that_resume_at_once_replay_once |
| an unknown stream is answered with 200 | test_an_unknown_stream_is_refused (here) |
| a bad UUID is answered with 500 | test_a_bad_id_is_refused_everywhere (here) |
| negative limits are accepted | test_limits_below_one_are_refused (here) |
| the text of an error is nowhere | test_store_jobs.py: test_a_source_that_is_gone_is_a_failure_that_says_why, test_load_jobs.py as above |
"""  # noqa: E501  # a table

from typing import Any

import pytest
from fastapi.testclient import TestClient

from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.replays import archived
from nats3_dagster_tests.support.wire import Wire

STORE = {"name": "job-1", "stream": "jobs", "subject": "subjects.1"}
ROUTES = [
    ("GET", "/store/job"),
    ("DELETE", "/store/job"),
    ("GET", "/store/jobs"),
    ("POST", "/store/job/pause"),
    ("POST", "/store/job/resume"),
    ("GET", "/store/job/lag"),
    ("GET", "/load/job"),
    ("DELETE", "/load/job"),
    ("POST", "/load/job/pause"),
    ("POST", "/load/job/resume"),
    ("GET", "/load/job/progress"),
    ("GET", "/chunks"),
]


def keys(s3_client: Any, bucket: str) -> list[str]:
    keys = [one["Key"] for one in s3_client.list_objects_v2(Bucket=bucket).get("Contents", [])]
    return [key for key in keys if "/_" not in key]


def test_two_chunks_of_one_second_have_keys_of_their_own(
    client: TestClient, workspace: Workspace, jobs_stream: Wire, bucket: str, s3_client: Any
) -> None:
    """And the prefix of both is in their keys once."""
    made = client.post("/store/job", json=STORE | {"bucket": bucket, "prefix": "team/logs"}).json()
    for n in range(2):
        jobs_stream.publish([("subjects.1", b"", b"%d" % n)])
        archived(workspace, jobs_stream, "jobs", bucket, made["archive"])
    chunks = client.get("/chunks", params={"job_id": made["id"]}).json()["chunks"]
    assert len({chunk["key"] for chunk in chunks}) == len(keys(s3_client, bucket)) == 2
    assert all(key.startswith("team/logs/") and key.count("team/logs") == 1 for key in keys(s3_client, bucket))


@pytest.mark.usefixtures("unshared")
def test_a_source_that_comes_back_is_no_failure_any_more(
    client: TestClient, workspace: Workspace, jobs_stream: Wire, bucket: str
) -> None:
    """However often it failed: nobody has to resume the job."""
    body = STORE | {"bucket": bucket, "consumer": "mine", "mode": "consumer"}
    durable = {
        "durable_name": "mine",
        "ack_policy": "explicit",
        "filter_subject": "subjects.1",
        "max_ack_pending": 10_000,
    }
    jobs_stream.api("CONSUMER.DURABLE.CREATE.jobs.mine", stream_name="jobs", config=durable)
    made = client.post("/store/job", json=body).json()
    assert "id" in made, made
    at = {"job_id": made["id"]}
    jobs_stream.api("CONSUMER.DELETE.jobs.mine")
    for _ in range(3):
        failed = client.get("/store/job", params=at).json()
        assert (failed["status"], "mine" in failed["error"]) == ("Failure", True)
    jobs_stream.api("CONSUMER.DURABLE.CREATE.jobs.mine", stream_name="jobs", config=durable)
    healed = client.get("/store/job", params=at).json()
    assert (healed["status"], healed["error"]) == ("Created", None)


def test_names_that_look_alike_have_durables_of_their_own(client: TestClient, wire: Wire, bucket: str) -> None:
    wire.create_stream("jobs", "subjects.>")
    names = ["a.b", "a_b", "a-b", "a b"]
    made = [
        client.post("/store/job", json=STORE | {"bucket": bucket, "name": name, "mode": "consumer"}).json()
        for name in names
    ]
    durables = wire.api("CONSUMER.NAMES.jobs")["consumers"]
    assert sorted(job["consumer"] for job in made) == sorted(durables)
    assert len(set(durables)) == len(names)


def test_an_unknown_stream_is_refused(client: TestClient, jobs_stream: Wire, bucket: str) -> None:
    refused = client.post("/store/job", json=STORE | {"bucket": bucket, "stream": "nowhere"})
    assert (refused.status_code, "nowhere" in refused.json()["error"]) == (404, True)
    refused = client.post(
        "/load/job", json={"bucket": bucket, "read_stream": "nowhere", "read_subject": "a", "write_subject": "b"}
    )
    assert (refused.status_code, "nowhere" in refused.json()["error"]) == (422, True)
    assert client.get("/store/jobs").json() == client.get("/load/jobs").json() == []


def test_a_bad_id_is_refused_everywhere(client: TestClient, jobs_stream: Wire) -> None:
    for method, path in ROUTES:
        for bad in ("x", "", "7f0f3f0a-2d0e-4d5c-9f4e-6f1f0f6b8a1", "%00"):
            refused = client.request(method, f"{path}?job_id={bad}")
            assert (refused.status_code, refused.json()["fields"][0]["field"]) == (422, "job_id"), (method, path, bad)


def test_limits_below_one_are_refused(client: TestClient, jobs_stream: Wire, bucket: str) -> None:
    for bad in (-1, 0):
        for limit in (
            {"batch": {"max_bytes": bad}},
            {"batch": {"max_count": bad}},
            {"max_messages": bad},
            {"max_bytes": bad},
            {"max_age_s": bad},
        ):
            refused = client.post("/store/job", json=STORE | {"bucket": bucket} | limit)
            assert refused.status_code == 422, limit
            assert refused.json()["fields"][0]["field"].startswith(next(iter(limit)))
        for path in ("/store/jobs", "/load/jobs", "/chunks"):
            assert client.get(path, params={"limit": bad}).json()["fields"][0]["field"] == "limit"
    assert client.get("/store/jobs").json() == []
