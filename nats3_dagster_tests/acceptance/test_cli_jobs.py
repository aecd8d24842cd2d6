"""Archives and replays as clients of nats-s3-connector write them: their options, job names and ids, and documents."""

import io
import json
from pathlib import Path

import pytest

from nats3_dagster.model import ReplaySpec, Selection
from nats3_dagster.replay import jobs
from nats3_dagster.replay.job_request import JobRequest, JobSource
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.commands import Command
from nats3_dagster_tests.support.replays import archived
from nats3_dagster_tests.support.wire import Wire


@pytest.fixture
def stream(settings: Settings, wire: Wire) -> Wire:
    """A stream EV with ten messages, and an empty stream BACK on `back.>`."""
    wire.create_stream("EV", "ev.>")
    wire.create_stream("BACK", "back.>")
    wire.publish([("ev.a", b"", b"%d" % n) for n in range(10)])
    return wire


def test_options_of_the_peer_create_a_job_of_any_name(nats3: Command, stream: Wire, bucket: str) -> None:
    words = ("store", "create", "--name", "job-1", "--stream", "EV", "--subject", "ev.a", "--bucket", bucket)
    batch = ("--batch-max-bytes", "2000000", "--batch-max-count", "500", "--codec", "json")
    made = nats3.ok("--output", "json", *words, *batch)
    assert (made.json["archive"], made.json["name"]) == ("job_1", "job-1")
    assert (made.json["max_bytes"], made.json["max_messages"], made.json["max_age_s"]) == (2_000_000, 500, 30)
    assert "Chunks are Parquet" in made.err
    both = nats3.refused(*words, *batch, "--max-bytes", "1")
    assert both == "2 Error: --max-bytes and --batch-max-bytes are the same. Give one of them"
    assert nats3.refused(*words, "--codec", "avro").startswith("2 Error: Invalid value for '--codec'")
    job_id = made.json["id"]
    for given in (["job_1"], ["job-1"], [job_id], ["--job-id", job_id], ["--job-id", "job-1"]):
        assert nats3.ok("store", "get", *given, "-o", "json").json["archive"] == "job_1", given
    job = ("--job-id", job_id)
    assert nats3.ok("store", "pause", *job, "-o", "json").json["paused"] is True
    assert nats3.ok("store", "resume", *job, "-o", "json").json["paused"] is False
    assert nats3.refused("store", "get", "job-1", *job) == (
        "2 Error: ARCHIVE and --job-id exclude each other. See nats3 store get --help"
    )
    nobody = "7f0f3f0a-2d0e-4d5c-9f4e-6f1f0f6b8a11"
    refused = nats3.refused("store", "delete", "--yes", "--job-id", nobody)
    assert refused.startswith(f"2 Error: There is no archive {nobody}")
    assert nats3.ok("store", "delete", "--yes", *job, "-o", "json").json["archive"] == "job_1"
    assert nats3.refused("store", "get", *job).startswith("2 Error: There is no archive ")


def test_a_document_creates_an_archive(
    nats3: Command, stream: Wire, bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    peers = {"name": "job-1", "stream": "EV", "subject": "ev.a", "bucket": bucket, "batch": {"max_count": 7}}
    file = tmp_path / "job.json"
    file.write_text(json.dumps(peers))
    made = nats3.ok("store", "create", "--from-json", str(file), "-o", "json").json
    assert (made["archive"], made["subjects"]) == ("job_1", ["ev.a"])
    assert (made["max_messages"], made["max_bytes"]) == (7, 1_000_000)
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps(peers | {"name": "two", "batch": None, "max_age_s": 5})))
    assert nats3.ok("store", "create", "--from-json", "-", "-o", "json").json["max_age_s"] == 5

    def refused(text: str, *words: str) -> str:
        file.write_text(text)
        return nats3.refused("store", "create", "--from-json", str(file), *words).replace(str(file), "FILE")

    assert refused(json.dumps(peers | {"subjct": "a"})) == (
        "2 Error: FILE is not valid: subjct: There is no such field; did you mean subject?. "
        "Correct it; the API's document has all fields"
    )
    negative = json.dumps(peers | {"batch": {"max_count": -1}})
    assert refused(negative).startswith("2 Error: FILE is not valid: batch.max_count:")
    assert refused("{").startswith("2 Error: FILE is not JSON: ")
    assert "(line 2, column 1)" in refused('{"name": "a"\n"stream": "EV"}')
    assert refused('{"name": "a", "name": "b"}').startswith("2 Error: FILE is not JSON: the key 'name' is there twice")
    assert refused("[" * 100_000).startswith("2 Error: FILE is not JSON: it is nested too deeply")
    assert refused("[]").startswith("2 Error: FILE is not valid: the body: ")
    assert refused(json.dumps(peers), "--name", "x").startswith("2 Error: --from-json and fields as options exclude")
    file.unlink()
    missing = nats3.refused("store", "create", "--from-json", str(file))
    assert missing.startswith(f"2 Error: {file} cannot be read: No such")
    assert [a["archive"] for a in nats3.ok("store", "list", "-o", "json").json] == ["job_1", "two"]


def test_options_and_documents_plan_the_same_replay(
    nats3: Command, stream: Wire, workspace: Workspace, bucket: str, tmp_path: Path
) -> None:
    archived(workspace, stream, "EV", bucket, "events")
    options = {
        "--bucket": bucket,
        "--read-stream": "EV",
        "--read-subject": "ev.>",
        "--write-subject": "back.>",
        "--prefix": "",
        "--name": "load-1",
        "--start": "2",
        "--end": "5",
        "--poll-interval": "5sec",
    }
    words = [word for pair in options.items() for word in pair]
    by_options = nats3.ok("load", "create", *words, "--dry-run", "-o", "json").json
    body = {
        "bucket": bucket,
        "read_stream": "EV",
        "read_subject": "ev.>",
        "write_subject": "back.>",
        "name": "load-1",
        "start": 2,
        "end": 5,
        "poll_interval": {"secs": 5, "nanos": 0},
    }
    file = tmp_path / "load.json"
    file.write_text(json.dumps(body))
    by_document = nats3.ok("load", "create", "--from-json", str(file), "--dry-run", "-o", "json").json
    assert by_options == by_document
    assert (by_options["first_seq"], by_options["last_seq"]) == (2, 5)
    create = ("load", "create", *words, "--dry-run")
    assert nats3.refused(*create, "--sequences", "2-5").startswith("2 Error: --sequences and --start or --end are")
    assert nats3.refused(*create, "--read-consumer", "c").startswith("2 Error: read_consumer is c, and archive events")
    assert nats3.refused(*create, "--start", "0").startswith("2 Error: Invalid value for '--start'")
    assert nats3.refused("load", "create", "--bucket", bucket).startswith("2 Error: Missing option '--write-subject'")
    file.write_text(json.dumps(body | {"write_subjet": "x"}))
    refused = nats3.refused("load", "create", "--from-json", str(file))
    assert "write_subjet: There is no such field; did you mean write_subject?" in refused
    assert nats3.ok("load", "list", "-o", "json").json == []


def test_a_load_job_is_found_by_id_and_name(nats3: Command, stream: Wire, workspace: Workspace, bucket: str) -> None:
    archived(workspace, stream, "EV", bucket, "events")
    spec = ReplaySpec("", "back.>", Selection(subjects=("ev.>",)))
    replay, _ = jobs.begin_job(workspace, JobRequest(JobSource("events"), spec, name="load-1"))
    for given in ([replay.id], ["load-1"], [str(replay.job_id)], ["--job-id", str(replay.job_id)]):
        assert nats3.ok("load", "get", *given, "-o", "json").json["replay"] == replay.id, given
    nobody = "7f0f3f0a-2d0e-4d5c-9f4e-6f1f0f6b8a11"
    assert nats3.refused("load", "pause", "--job-id", nobody).startswith(f"2 Error: There is no load job {nobody}")
    assert nats3.refused("load", "resume").startswith("2 Error: Missing argument 'ID'. See nats3 load resume --help")
    assert nats3.ok("load", "delete", "--job-id", str(replay.job_id), "--yes", "-o", "json").json["replay"] == replay.id
    assert nats3.refused("load", "get", "load-1").startswith("2 Error: There is no replay load-1")
