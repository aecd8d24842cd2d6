"""`--watch`, and the names that a shell completes."""

import json
import os
import signal
import socket
import subprocess
import sys
import time

import pytest

from nats3_dagster.cli.terminal import watch
from nats3_dagster.cli.terminal.output import Format
from nats3_dagster.errors import CatalogError, Unknown
from nats3_dagster.model import ReplaySpec, Selection
from nats3_dagster.replay import jobs
from nats3_dagster.replay.job_request import JobRequest, JobSource
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.commands import Command
from nats3_dagster_tests.support.replays import archived
from nats3_dagster_tests.support.wire import Wire

NATS3 = (sys.executable, "-m", "nats3_dagster.cli")


def test_a_list_is_shown_again_until_it_is_interrupted(
    nats3: Command, settings: Settings, wire: Wire, bucket: str
) -> None:
    wire.create_stream("EV", "ev.>")
    command = [*NATS3, "store", "list", "--watch=0.1", "-o", "json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stderr
        assert json.loads(process.stdout.readline()) == []
        nats3.ok("store", "create", "--name", "ev", "--stream", "EV", "--bucket", bucket)
        while not (shown := json.loads(process.stdout.readline())):
            pass
        assert [one["archive"] for one in shown] == ["ev"]
        process.send_signal(signal.SIGINT)
        process.stdout.read()
        assert (process.wait(30), process.stderr.read()) == (0, "")


def test_a_server_that_is_away_for_a_moment_is_a_note(capsys: pytest.CaptureFixture[str]) -> None:
    looks = iter([["a"], CatalogError("Postgres is away"), ["b"], Unknown("There is no archive x")])

    def look() -> list[str]:
        match next(looks):
            case list() as names:
                return names
            case error:
                raise error

    with pytest.raises(Unknown):
        watch.watched(0.01, Format.table, look, lambda names: print(*names))
    assert capsys.readouterr() == ("a\n\nb\n\n", "Postgres is away. Trying again in 0.01 s\n")
    looks = iter([CatalogError("Postgres is away")])
    with pytest.raises(CatalogError):
        watch.watched(1, Format.table, look, print)


def completed(typed: str, **variables: str) -> tuple[set[str], str]:
    """What a shell offers, and what else is printed."""
    shell = {"_NATS3_COMPLETE": "complete_bash", "COMP_WORDS": typed, "COMP_CWORD": str(len(typed.split(" ")) - 1)}
    ran = subprocess.run(
        NATS3, capture_output=True, text=True, timeout=60, check=False, env=os.environ | shell | variables
    )
    return set(ran.stdout.split()), ran.stderr


def test_a_shell_completes_names(
    nats3: Command, settings: Settings, workspace: Workspace, wire: Wire, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    wire.create_stream("EV", "ev.>")
    wire.create_stream("BACK", "back.>")
    wire.publish([("ev.a", b"", b"1")])
    archived(workspace, wire, "EV", bucket, "events")
    spec = ReplaySpec("", "back.>", Selection(subjects=("ev.>",)))
    replay, _ = jobs.begin_job(workspace, JobRequest(JobSource("events"), spec))
    chunk = str(nats3.ok("chunk", "list", "events", "-o", "json").json[0]["id"])
    for typed, name in (
        ("nats3 store get e", "events"),
        ("nats3 load get ", replay.id),
        ("nats3 chunk get events ", chunk),
        ("nats3 stream info E", "EV"),
    ):
        assert completed(typed) == ({name}, ""), typed
    assert completed("nats3 store get x") == (set(), "")


def test_a_catalog_that_does_not_answer_holds_up_no_shell(settings: Settings) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"postgresql://u:p@127.0.0.1:{silent.getsockname()[1]}/d"
        began = time.monotonic()
        assert completed("nats3 store get ", NATS3_POSTGRES_URL=url) == (set(), "")
        assert time.monotonic() - began < 20
