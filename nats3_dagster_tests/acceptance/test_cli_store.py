"""`nats3 store`: archives from the command line."""

import os
import pty
import re
import subprocess
import sys
from typing import Any

import pytest
from pyspark.sql import SparkSession

from nats3_dagster.cli.reload import reload_dagster
from nats3_dagster.dev.nats_server import NatsServer
from nats3_dagster.dev.process import free_port
from nats3_dagster.model import Gap, SeqRange
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.commands import Command
from nats3_dagster_tests.support.wire import Wire


@pytest.fixture
def nats3(capfd: pytest.CaptureFixture[str], settings: Settings) -> Command:
    return Command(capfd)


@pytest.fixture
def events(nats: NatsServer) -> None:
    """A stream EV with 100 messages."""
    with Wire(nats.url) as wire:
        wire.create_stream("EV", "ev.>")
        wire.publish([(f"ev.{'a' if n % 2 else 'b'}", b"", b"%d" % n) for n in range(100)])


def test_an_archive_is_created_listed_paused_and_deleted(nats3: Command, events: None, bucket: str) -> None:
    made = nats3.ok(
        "store",
        "create",
        "--name",
        "ev",
        "--stream",
        "EV",
        "--bucket",
        bucket,
        "--subject",
        "ev.a",
        "--subject",
        "ev.b",
        "--prefix",
        "team/logs",
        "--max-messages",
        "5",
        "--max-bytes",
        "1.5MiB",
        "--max-age",
        "1h30m",
        "-o",
        "json",
    )
    assert made.json | {"created": "", "updated": "", "id": ""} == {
        "id": "",
        "name": "ev",
        "archive": "ev",
        "status": "Created",
        "stream": "EV",
        "subjects": ["ev.a", "ev.b"],
        "bucket": bucket,
        "prefix": "team/logs",
        "mode": "stream",
        "consumer": None,
        "subject": "ev.a,ev.b",
        "batch": {"max_bytes": 1572864, "max_count": 5},
        "encoding": {"codec": "binary"},
        "max_messages": 5,
        "max_bytes": 1572864,
        "max_age_s": 5400,
        "zstd_level": 3,
        "compact_after_s": 0,
        "compact_below": 32 << 20,
        "keep_s": 0,
        "keep_bytes": 0,
        "buffer_s": 0,
        "buffer_bytes": 0,
        "copies": [],
        "group_name": "",
        "owners": [],
        "tags": [],
        "kinds": [],
        "pool": "",
        "retries": 0,
        "retry_delay_s": 0,
        "fail_window_s": 0,
        "warn_window_s": 0,
        "paused": False,
        "created": "",
        "updated": "",
        "source": "ok",
        "error": None,
        "next": None,
        "restored": None,
        "lag": 100,
        "chunks": 0,
        "messages": 0,
        "payload_bytes": 0,
        "stored_bytes": 0,
        "ratio": None,
        "first_time": None,
        "last_time": None,
        "drill": None,
        "warning": None,
    }
    assert "nats3 store run ev" in made.err
    (listed,) = nats3.ok("store", "list", "-o", "json").json
    assert (listed["archive"], listed["chunks"], listed["messages"], listed["last_time"]) == ("ev", 0, 0, None)
    assert (listed["lag"], listed["source"], listed["error"], listed["next"]) == (100, "ok", None, None)
    table = nats3.ok("store", "list").out.splitlines()
    assert table[0].split()[:4] == ["NAME", "STATE", "LAG", "STREAM"]
    assert table[1].split()[:4] == ["ev", "active", "100", "EV"]
    assert nats3.ok("store", "pause", "ev", "-o", "json").json["paused"] is True
    assert nats3.ok("store", "resume", "ev", "-o", "json").json["paused"] is False
    got = nats3.ok("store", "get", "ev", "-o", "json").json
    assert (got["hours"], got["gaps"], got["coverage"][0]["first_seq"]) == (0, [], 1)
    assert nats3.refused("store", "delete", "ev") == (
        "2 Error: This deletes archive ev with 0 chunks (0 messages); their objects stay. There is no terminal to "
        "confirm this on. Add --yes"
    )
    assert nats3.ok("store", "delete", "ev", "--yes", "-o", "json").json["deleted"] is True
    assert nats3.ok("store", "list", "-o", "json").json == []


def lines_of(nats3: Command, *words: str) -> dict[str, str]:
    """A table of one thing."""
    return dict(re.split(" {2,}", line, maxsplit=1) for line in nats3.ok(*words).out.splitlines())


def test_what_the_stream_says_is_shown(
    nats3: Command, events: None, bucket: str, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    nats3.ok("store", "create", "--name", "ev", "--stream", "EV", "--bucket", bucket)

    def listed() -> list[str]:
        return re.split(" {2,}", nats3.ok("store", "list").out.splitlines()[1])[1:3]

    got = nats3.ok("store", "get", "ev", "-o", "json").json
    assert (got["lag"], got["losses"], got["time_to_loss"]["level"]) == (100, {}, "ok")
    assert 0 < got["oldest_uncaptured_s"] < 60
    lines = lines_of(nats3, "store", "get", "ev")
    assert re.fullmatch(r"100 sequences are not captured, the oldest is \d+ s old", lines["lag"])
    assert (lines["state"], lines["lost"]) == ("active", "nothing")
    assert lines["time to loss"] == "No limit of the stream deletes messages"
    (covered,) = (text for title, text in lines.items() if title.startswith("stream of "))
    assert (covered, listed()) == ("nothing captured yet", ["active", "100"])
    nats3.ok("store", "pause", "ev")
    assert listed() == ["paused", "100"]

    wire.api("STREAM.DELETE.EV")
    got = nats3.ok("store", "get", "ev", "-o", "json").json
    assert (got["lag"], got["time_to_loss"], got["source"]) == (None, None, "missing")
    lines = lines_of(nats3, "store", "get", "ev")
    assert (lines["state"], listed()) == ("stream missing", ["stream missing", "-"])
    assert lines["problem"].startswith("It is paused as well. There is no stream EV at NATS 127.0.0.1:")
    assert lines["problem"].endswith("if it is gone for good, delete archive ev: nats3 store delete ev")
    wire.create_stream("EV", "ev.>")
    assert listed() == ["stream was made again", "-"]
    assert lines_of(nats3, "store", "get", "ev")["problem"].endswith(
        "Let archive ev adopt the new one: nats3 store run ev --adopt"
    )
    monkeypatch.setenv("NATS3_NATS_URL", f"nats://127.0.0.1:{free_port()}")
    assert listed() == ["NATS not reachable", "-"]
    assert "Nothing listens for NATS at 127.0.0.1:" in lines_of(nats3, "store", "get", "ev")["problem"]


def test_losses_are_shown_by_reason(nats3: Command, events: None, bucket: str, workspace: Workspace) -> None:
    nats3.ok("store", "create", "--name", "ev", "--stream", "EV", "--bucket", bucket)
    archive = workspace.catalog.archives.get("ev")
    life = workspace.catalog.coverage.incarnations(archive)[0]
    gaps = [Gap(life, (SeqRange(1, 2),), "expired"), Gap(life, (SeqRange(5, 5),), "missing")]
    gaps += [Gap(life, (SeqRange(7, 7),), "expired"), Gap(life, (SeqRange(8, 9),), "deleted")]
    workspace.catalog.chunks.commit(archive, [], gaps)
    assert nats3.ok("store", "get", "ev", "-o", "json").json["losses"] == {"expired": 3, "missing": 1}
    assert lines_of(nats3, "store", "get", "ev")["lost"] == "3 expired, 1 missing"


def test_on_a_terminal_a_deletion_asks(nats3: Command, events: None, bucket: str) -> None:
    nats3.ok("store", "create", "--name", "ev", "--stream", "EV", "--bucket", bucket)
    asked = "This deletes archive ev with 0 chunks (0 messages); their objects stay. Go on? [y/N]:"
    for answer, status, said in (("n", 2, "Error: It was not confirmed: nothing was changed"), ("y", 0, "deleted")):
        ours, theirs = pty.openpty()
        command = [sys.executable, "-m", "nats3_dagster.cli", "store", "delete", "ev"]
        os.write(ours, f"{answer}\n".encode())
        ran = subprocess.run(command, stdin=theirs, capture_output=True, text=True, timeout=60, check=False)
        os.close(ours), os.close(theirs)
        assert (ran.returncode, asked in ran.stderr, said in ran.stderr + ran.stdout) == (status, True, True), ran
    assert nats3.ok("store", "list", "-o", "json").json == []


def test_a_bucket_is_made_only_when_asked_for(nats3: Command, events: None, bucket: str) -> None:
    new = bucket + "-new"
    create = ("store", "create", "--name", "ev", "--stream", "EV", "--bucket", new)
    assert "--create-bucket" in nats3.refused(*create)
    nats3.ok(*create, "--create-bucket")


def test_a_capture_is_complete_and_a_second_one_adds_nothing(
    nats3: Command, spark: SparkSession, events: None, bucket: str, s3_client: Any
) -> None:
    nats3.ok("store", "create", "--name", "ev", "--stream", "EV", "--bucket", bucket)
    ran = nats3.ok("store", "run", "ev", "-o", "json")
    assert sum(hour["messages"] for hour in ran.json) == 100
    assert all(hour["gaps"] == [] and hour["lost"] == 0 for hour in ran.json)
    again = nats3.ok("store", "run", "ev", "-o", "json")
    assert again.json == []
    assert "complete" in again.err
    again = nats3.ok("store", "run", "ev", "--hour", ran.json[-1]["hour"], "-o", "json")
    assert [(hour["messages"], hour["chunks"]) for hour in again.json] == [(0, [])]
    captures = 'nats3_archive_captures_total{archive="ev"} ' + f"{len(ran.json) + 1}.0\n"
    assert captures in nats3.ok("metrics").out

    chunks = nats3.ok("chunk", "list", "ev", "-o", "json").json
    owner, _, *keys = sorted(o["Key"] for o in s3_client.list_objects_v2(Bucket=bucket)["Contents"])
    assert (owner, keys) == ("archive=ev/_owner.json", [c["key"] for c in chunks])
    verified = nats3.ok("chunk", "verify", "ev", "-o", "json").json
    assert (verified["chunks"], verified["messages"], verified["bad"]) == (len(chunks), 100, [])
    by_id = nats3.ok("chunk", "get", "ev", str(chunks[0]["id"]), "-o", "json").json
    assert by_id == nats3.ok("chunk", "get", "ev", chunks[0]["key"], "-o", "json").json
    assert sum(by_id["subjects"].values()) == chunks[0]["messages"]
    got = nats3.ok("store", "get", "ev", "-o", "json").json
    assert (got["messages"], got["coverage"][0]["complete_to_seq"]) == (100, 100)
    for words in ("store list", "store get ev", "chunk list ev", f"chunk get ev {chunks[0]['id']}", "chunk verify ev"):
        assert nats3.ok(*words.split()).out

    # Deleted, the archive leaves its objects, until somebody asks for that as well.
    nats3.ok("store", "delete", "ev", "--yes")
    assert s3_client.list_objects_v2(Bucket=bucket)["KeyCount"] == len(chunks) + 2  # and the owner, with its settings
    nats3.ok("store", "create", "--name", "ev", "--stream", "EV", "--bucket", bucket)
    nats3.ok("store", "run", "ev", "--all")
    purged = nats3.ok("store", "delete", "ev", "--yes", "--purge", "-o", "json").json
    assert purged["objects_deleted"] == len(chunks)
    assert s3_client.list_objects_v2(Bucket=bucket)["KeyCount"] == 0


def test_a_dagster_that_is_not_there_is_told_in_a_line(nats: NatsServer) -> None:
    by_hand = "reload the code location in the Dagster UI (Deployment, Reload)"
    assert reload_dagster(Settings.load()) == (
        f"If Dagster runs, {by_hand}; with NATS3_DAGSTER_URL set, this command does it"
    )
    # Nobody, one that speaks no HTTP, and no address at all.
    for url in (f"http://127.0.0.1:{free_port()}", nats.url.replace("nats://", "http://"), "file:///etc/passwd"):
        said = reload_dagster(Settings.load().model_copy(update={"dagster_url": url}))
        assert said.startswith("The Dagster at NATS3_DAGSTER_URL did not reload (")
        assert said.endswith(f"); {by_hand}")
        assert "\n" not in said
