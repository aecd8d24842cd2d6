"""`nats3 load`: replays from the command line."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from nats3_dagster.cli.terminal.output import counted
from nats3_dagster.settings import Settings
from nats3_dagster_tests.support.commands import Command, everything
from nats3_dagster_tests.support.wire import Wire

MESSAGES = 300


@pytest.fixture
def nats3(
    spark: SparkSession, capfd: pytest.CaptureFixture[str], settings: Settings, wire: Wire, bucket: str
) -> Command:
    """The command line, with the archive `ev` of the stream EV captured, and an empty stream BACK on `back.>`."""
    wire.create_stream("EV", "ev.>")
    wire.create_stream("BACK", "back.>")
    wire.publish([(f"ev.{'ab'[n % 2]}", b"", b"%d" % n) for n in range(MESSAGES)])
    command = Command(capfd)
    command.ok("store", "create", "--name", "ev", "--stream", "EV", "--bucket", bucket)
    command.ok("store", "run", "ev")
    return command


def back(wire: Wire) -> list[tuple[str, int]]:
    return [(m.subject, int(m.data)) for m in wire.messages("BACK")]


ALL = [(f"back.{'ab'[n % 2]}", n) for n in range(MESSAGES)]
NATS3 = (sys.executable, "-m", "nats3_dagster.cli")
TO_BACK = ("--read-subject", "ev.>", "--write-subject", "back.>")


def wait_for(what: Callable[[], Any], told: Callable[[], object] = lambda: None) -> Any:
    until = time.monotonic() + 120
    while not (found := what()):
        assert time.monotonic() < until, told()
        time.sleep(0.2)
    return found


def test_a_replay_waits_and_says_what_it_did(nats3: Command, wire: Wire, bucket: str) -> None:
    done = nats3.ok("load", "create", "--bucket", bucket, "--read-stream", "EV", *TO_BACK, "-o", "json").json
    assert (done["state"], done["selected"], done["published"], done["found"]) == ("succeeded", MESSAGES, MESSAGES, 0)
    assert back(wire) == ALL
    (listed,) = nats3.ok("load", "list", "--archive", "ev", "-o", "json").json
    got = nats3.ok("load", "get", done["id"], "-o", "json").json
    assert listed == got
    assert (got["state"], got["targets"], got["chunks_done"]) == ("succeeded", ["BACK"], got["chunks"])
    chunk = nats3.ok("chunk", "list", "ev", "-o", "json").json[0]["id"]
    assert nats3.ok("chunk", "get", "ev", str(chunk), "-o", "json").json["replays"][0]["replay"] == done["replay"]
    assert done["replay"] in nats3.ok("load", "list").out
    assert "succeeded" in nats3.ok("load", "get", done["id"]).out
    assert "has succeeded" in nats3.refused("load", "resume", done["id"])
    assert "it is succeeded" in nats3.refused("load", "pause", done["id"])
    nats3.ok("load", "delete", done["id"])  # finished: there is nothing to ask
    assert nats3.ok("load", "list", "-o", "json").json == []


def test_a_selection_and_a_stream_made_for_it(nats3: Command, wire: Wire) -> None:
    done = nats3.ok(
        "load",
        "create",
        "--archive",
        "ev",
        "--read-subject",
        "ev.a",
        "--write-subject",
        "again.a",
        "--sequences",
        "11-20",
        "--create-stream",
        "AGAIN",
        "--order",
        "none",
        "-o",
        "json",
    ).json
    assert done["published"] == 5
    assert [(m.subject, int(m.data)) for m in wire.messages("AGAIN")] == [("again.a", n) for n in (10, 12, 14, 16, 18)]


@pytest.mark.parametrize("to", [TO_BACK, ("--write-subject", "again.x", "--create-stream", "AGAIN")])
def test_a_dry_run_tells_and_does_nothing(
    nats3: Command, wire: Wire, settings: Settings, s3_client: Any, bucket: str, to: tuple[str, ...]
) -> None:
    def seen() -> Any:
        return everything(settings.postgres, settings.nats_url or "", s3_client, bucket)

    before = seen()
    plan = nats3.ok("load", "create", "--archive", "ev", *to, "--dry-run", "-o", "json").json
    assert (plan["archive"], plan["messages"], plan["messages_exact"]) == ("ev", MESSAGES, True)
    table = nats3.ok("load", "create", "--archive", "ev", *to, "--dry-run").out
    lines = dict(line.split(maxsplit=1) for line in table.splitlines())
    assert (lines["messages"], lines["first"].split()[:2]) == (str(MESSAGES), ["sequence", "1"])
    assert lines["into"] == ("AGAIN (to be created)" if "AGAIN" in to else "BACK")
    # A part of a chunk counts as such; and a dry run does not ask.
    part = (*to, "--sequences", "1-5", "--delete-chunks", "--dry-run")
    plan = nats3.ok("load", "create", "--archive", "ev", *part, "-o", "json").json
    assert (plan["messages"], plan["first_seq"], plan["last_seq"], plan["deletes_chunks"]) == (5, 1, 5, 0)
    plan = nats3.ok("load", "create", "--archive", "ev", *to, "--delete-chunks", "--dry-run", "-o", "json").json
    assert (plan["deletes_chunks"], plan["deletes_messages"]) == (plan["chunks"], MESSAGES)
    assert seen() == before


def test_a_stream_that_cannot_be_created_is_refused_by_a_dry_run_as_by_the_real_one(nats3: Command, wire: Wire) -> None:
    wire.create_stream("AGAIN", "other.>")
    create = ("load", "create", "--archive", "ev", "--write-subject", "again.x", "--create-stream")
    said = nats3.refused(*create, "AGAIN", "--dry-run")
    assert said == "2 Error: Stream AGAIN exists with another configuration. Use it as it is, or another name"
    assert nats3.refused(*create, "AGAIN") == said
    said = nats3.refused(*create, "A.B", "--dry-run")
    assert said.startswith("2 Error: 'A.B' is not a stream name for create_stream. It may not")
    assert nats3.refused(*create, "A.B") == said


def test_two_archives_of_one_stream_in_one_bucket(nats3: Command, wire: Wire, bucket: str) -> None:
    nats3.ok("store", "create", "--name", "only_a", "--stream", "EV", "--bucket", bucket, "--subject", "ev.a")
    said = nats3.refused("load", "create", "--bucket", bucket, "--read-stream", "EV", *TO_BACK)
    assert said == f"2 Error: Bucket {bucket} has 2 archives of stream EV: ev, only_a. Name it with --archive"
    nats3.ok("load", "create", "--bucket", bucket, "--read-stream", "EV", "--archive", "ev", *TO_BACK)
    assert back(wire) == ALL


def test_chunks_are_deleted_only_when_they_were_replayed_whole(
    nats3: Command, wire: Wire, s3_client: Any, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def objects() -> int:
        keys = [item["Key"] for item in s3_client.list_objects_v2(Bucket=bucket)["Contents"]]
        return sum(key.endswith(".parquet") for key in keys)

    before = objects()
    create = ("load", "create", "--archive", "ev", *TO_BACK, "--delete-chunks")
    assert nats3.refused(*create) == (
        f"2 Error: After the replay this deletes {counted(before, 'chunk')} with {MESSAGES} messages from archive ev "
        "for good. There is no terminal to confirm this on. Add --yes"
    )
    assert nats3.ok("load", "list", "-o", "json").json == []
    # Nothing to delete is nothing to ask.
    done = nats3.ok(
        "load",
        "create",
        "--archive",
        "ev",
        "--read-subject",
        "ev.a",
        "--write-subject",
        "back.a",
        "--delete-chunks",
        "-o",
        "json",
    ).json
    assert (done["published"], done["chunks_deleted"], objects()) == (MESSAGES // 2, 0, before)
    done = nats3.ok(*create, "--yes", "-o", "json").json
    assert (done["published"], done["chunks_deleted"], objects()) == (MESSAGES, before, before)
    got = nats3.ok("store", "get", "ev", "-o", "json").json
    assert nats3.ok("chunk", "list", "ev", "-o", "json").json == []
    assert nats3.ok("store", "sweep", "-o", "json").json["objects"] == 0
    monkeypatch.setenv("NATS3_DELETE_GRACE", "0")
    assert got["unswept"]["objects"] == before
    assert f"{before:,} objects" in nats3.ok("store", "get", "ev").out
    assert nats3.ok("store", "sweep", "--dry-run", "-o", "json").json["objects"] == objects() == before
    swept = nats3.ok("store", "sweep", "-o", "json").json
    assert (swept["objects"], swept["bytes"], objects()) == (before, got["unswept"]["bytes"], 0)
    assert (got["chunks"], [(g["reason"], g["sequences"]) for g in got["gaps"]]) == (0, [("retired", MESSAGES)])
    assert nats3.ok("store", "run", "ev", "-o", "json").json == []
    again = nats3.ok("load", "resume", done["id"], "-o", "json").json
    assert again["chunks_deleted"] == 0


def test_detached_it_outlives_the_command_and_can_be_paused_and_resumed(nats3: Command, wire: Wire) -> None:
    started = nats3.ok("load", "create", "--archive", "ev", *TO_BACK, "--rate", "20", "--detach", "-o", "json").json
    replay, log = started["replay"], Path(started["log"])

    def state() -> str:
        return nats3.ok("load", "get", replay, "-o", "json").json["state"]

    wait_for(lambda: wire.state("BACK")["messages"] > 5, log.read_text)
    assert state() == "running"
    # The count is kept while it runs, not by chunk.
    wait_for(lambda: nats3.ok("load", "get", replay, "-o", "json").json["published"], log.read_text)
    assert "is being run by another process" in nats3.refused("load", "resume", replay)
    assert "is being run by another process" in nats3.refused("load", "delete", replay)
    paused = nats3.ok("load", "pause", replay, "-o", "json").json
    assert (paused["state"], paused["error"]) == ("paused", "Paused by nats3 load pause")
    reached = wire.state("BACK")["messages"]
    assert 5 < reached < MESSAGES
    assert 0 < paused["published"] <= reached
    wait_for(lambda: not alive(started["pid"]))
    assert wire.state("BACK")["messages"] == reached
    assert f"nats3 load resume {replay}" in nats3.ok("load", "get", replay).out
    assert str(log) in nats3.ok("load", "get", replay).out
    last = log.read_text().splitlines()[-1]
    assert last.startswith(f"Error: Replay {replay} was paused; ")
    assert last.endswith(f". Resume replay {replay}, to go on after its last message: nats3 load resume {replay}")
    # The pace stands in the replay: 20 a second are left.
    done = nats3.ok("load", "resume", replay, "-o", "json").json
    assert (done["found"], done["published"]) == (reached, MESSAGES)
    assert back(wire) == ALL


def alive(pid: int) -> bool:
    try:
        os.waitpid(pid, os.WNOHANG)  # it is a child of this process, and nobody else reaps it
        os.kill(pid, 0)
    except (ProcessLookupError, ChildProcessError):
        return False
    return True


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupt_stops_it_cleanly_and_it_goes_on(
    nats3: Command, wire: Wire, number: signal.Signals, status: int
) -> None:
    command = [*NATS3, "load", "create", "--archive", "ev", *TO_BACK, "--rate", "50"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        wait_for(lambda: wire.state("BACK")["messages"] > 5)
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (status, ""), err
    lines = err.splitlines()
    assert lines[-1] == "Interrupted"
    assert "Traceback" not in err
    (replay,) = nats3.ok("load", "list", "-o", "json").json
    assert replay["state"] == "canceled"
    assert lines[-2] == f"Replay {replay['replay']} is not finished. To go on: nats3 load resume {replay['replay']}"
    reached = wire.state("BACK")["messages"]
    assert wire.quiet("BACK", 1) == reached < MESSAGES
    # Tasks report five times a second: on a busy machine the last report is a second old, of 50 messages.
    assert max(1, reached - 50) <= replay["published"] <= reached
    done = nats3.ok("load", "resume", replay["id"], "-o", "json").json
    assert (done["attempt"], done["published"], done["found"]) == (2, MESSAGES, reached)
    this = done["this_attempt"]
    assert (this["selected"], this["published"], this["found"]) == (MESSAGES, MESSAGES - reached, reached)
    got = nats3.ok("load", "get", replay["id"], "-o", "json").json
    assert (got["published"], got["found"]) == (MESSAGES, reached)
    assert back(wire) == ALL


def test_killed_it_is_told_as_interrupted(nats3: Command, wire: Wire) -> None:
    command = [*NATS3, "load", "create", "--archive", "ev", *TO_BACK, "--rate", "50"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        wait_for(lambda: wire.state("BACK")["messages"] > 5)
        process.kill()
    (replay,) = nats3.ok("load", "list", "-o", "json").json
    assert replay["state"] == "interrupted"
    said = nats3.refused("load", "delete", replay["id"])
    assert said.startswith(f"2 Error: Replay {replay['replay']} is interrupted, with 0 of ")
    assert said.endswith("; deleted, it cannot be resumed. There is no terminal to confirm this on. Add --yes")
    assert "to go on: nats3 load resume" in nats3.ok("load", "get", replay["id"]).out
    nats3.ok("load", "resume", replay["id"])
    assert back(wire) == ALL


def test_it_follows_the_archive_until_it_is_interrupted_or_paused(nats3: Command, wire: Wire) -> None:
    def more() -> None:
        first = wire.state("EV")["messages"]
        wire.publish([(f"ev.{'ab'[n % 2]}", b"", b"%d" % n) for n in range(first, first + 10)])
        nats3.ok("store", "run", "ev")
        wait_for(lambda: wire.state("BACK")["messages"] == first + 10)

    command = [*NATS3, "load", "create", "--archive", "ev", *TO_BACK, "--poll-interval", "1s"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        wait_for(lambda: wire.state("BACK")["messages"] == MESSAGES)
        more()
        (replay,) = nats3.ok("load", "list", "-o", "json").json
        assert (replay["state"], replay["poll_interval"]) == ("running", {"secs": 1, "nanos": 0})
        wait_for(lambda: nats3.ok("load", "list", "-o", "json").json[0]["chunks_waiting"] == 0)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, ""), err
    assert "Traceback" not in err, err
    assert nats3.ok("load", "get", replay["id"], "-o", "json").json["state"] == "canceled"
    started = nats3.ok("load", "resume", replay["id"], "--detach", "-o", "json").json
    more()
    assert nats3.ok("load", "pause", replay["id"], "-o", "json").json["state"] == "paused"
    wait_for(lambda: not alive(started["pid"]))
    assert [n for _, n in back(wire)] == list(range(MESSAGES + 20))
