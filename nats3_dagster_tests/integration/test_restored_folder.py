"""A backup that is written of an archive is the stream that was, to the program that restores it."""

import json
import os
import subprocess
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from nats3_dagster.archive.captures.consumers import record_where_complete
from nats3_dagster.archive.restore import folder as folder_module
from nats3_dagster.archive.restore.folder import Written, write_folder
from nats3_dagster.archive.restore.plan import RestoreSpec, plan
from nats3_dagster.archive.restore.run import restore
from nats3_dagster.errors import Conflict, EngineError, OperatorError, SourceError
from nats3_dagster.hours import parse_time
from nats3_dagster.model import Selection, SeqRange
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.conftest import NatsFactory
from nats3_dagster_tests.support.backups import restore_backup, take_backup
from nats3_dagster_tests.support.commands import Command
from nats3_dagster_tests.support.replays import archived
from nats3_dagster_tests.support.wire import Wire

pytestmark = pytest.mark.needs_nats("2.15")


def stored(wire: Wire, stream: str) -> list[tuple[Any, ...]]:
    return [tuple(message) for message in wire.messages(stream)]


def written(workspace: Workspace, folder: Path, **spec: Any) -> Written:
    return write_folder(workspace, plan(workspace, RestoreSpec("a", as_backup=True, **spec)), folder)


def test_a_server_restores_the_stream_that_was(
    workspace: Workspace, wire: Wire, bucket: str, tmp_path: Path, nats_factory: NatsFactory
) -> None:
    """On another server, beside a stream that lives, with holes, odd subjects, headers and a large message."""
    wire.create_stream("EV", "ev.>", "größe", first_seq=7)
    wire.publish(
        [
            ("ev.a", b"", b""),
            ("ev.b", b"NATS/1.0\r\nA: 1\r\nA: 2\r\n\r\n", b"x" * 300),
            (b"ev.\xff\xfe", b"", b"\0\r\n"),
            ("größe", b"NATS/1.0\r\n\r\n", os.urandom(700_000)),
            *[(f"ev.{n % 5}", b"", b"%d" % n) for n in range(40)],
        ]
    )
    for seq in (7, 20, 21, 50):
        wire.api("STREAM.MSG.DELETE.EV", seq=seq)
    archived(workspace, wire, "EV", bucket)
    before, state = stored(wire, "EV"), wire.state("EV")
    done = written(workspace, tmp_path / "backup")
    assert done.messages == 40
    meta = json.loads((tmp_path / "backup" / "backup.json").read_text())
    assert {key: meta["state"][key] for key in ("messages", "bytes", "first_seq", "last_seq")} == {
        key: state[key] for key in ("messages", "bytes", "first_seq", "last_seq")
    }
    other = nats_factory()
    restored = restore_backup(other.url, tmp_path / "backup")
    assert restored["state"]["bytes"] == state["bytes"]
    with Wire(other.url) as there:
        assert stored(there, "EV") == before
        assert there.state("EV")["last_seq"] == state["last_seq"]
        there.publish([("ev.a", b"", b"next")])
        assert there.state("EV")["last_seq"] == 51
        config = there.api("STREAM.INFO.EV")["config"]
    assert config["subjects"] == ["ev.>", "größe"]
    # The server's own backup of what it restored has the same messages.
    assert take_backup(other.url, "EV", tmp_path / "own")["state"]["messages"] == 41


def where(info: dict[str, Any]) -> list[int]:
    """The position of a consumer."""
    pairs = [info[name][key] for name in ("delivered", "ack_floor") for key in ("consumer_seq", "stream_seq")]
    return [*pairs, info["num_pending"], info["num_ack_pending"]]


@pytest.mark.parametrize("first", [1, 3, 7])
def test_its_consumers_stand_where_a_restore_puts_them(
    workspace: Workspace, wire: Wire, bucket: str, tmp_path: Path, nats_factory: NatsFactory, first: int
) -> None:
    """Also in a part that begins after what they have acknowledged; and they are not paused."""
    wire.create_stream("EV", "ev.>")
    wire.publish([(f"ev.{n % 2}", b"", b"%d" % n) for n in range(10)])
    for name, taken in (("d", 4), ("fresh", 0)):
        config = {"durable_name": name, "ack_policy": "explicit"}
        wire.api(f"CONSUMER.DURABLE.CREATE.EV.{name}", stream_name="EV", config=config)
        for _ in range(taken):
            wire.acknowledge(wire.next("EV", name))
    archived(workspace, wire, "EV", bucket)
    record_where_complete(workspace, workspace.catalog.archives.get("a"))
    wire.api("STREAM.DELETE.EV")
    part = {"consumers": ("all",), "selection": Selection(sequences=SeqRange(first, 10))}
    written(workspace, tmp_path / "backup", **part)
    restore(workspace, plan(workspace, RestoreSpec("a", **part)))
    other = nats_factory()
    restore_backup(other.url, tmp_path / "backup")
    with Wire(other.url) as there:
        for name in ("d", "fresh"):
            here, info = (one.api(f"CONSUMER.INFO.EV.{name}") for one in (wire, there))
            assert where(info) == where(here)
            assert not info.get("paused")


@pytest.mark.parametrize(
    ("selection", "seqs", "last"),
    [
        (Selection(sequences=SeqRange(4, 5)), [4], 5),
        (Selection(subjects=("ev.1",)), [2, 4, 6, 8, 10], 10),
    ],
)
def test_a_part_of_it_under_another_name(
    workspace: Workspace, wire: Wire, bucket: str, tmp_path: Path, selection: Selection, seqs: list[int], last: int
) -> None:
    wire.create_stream("EV", "ev.>")
    wire.publish([(f"ev.{n % 2}", b"", b"%d" % n) for n in range(10)])
    wire.api("STREAM.MSG.DELETE.EV", seq=5)
    archived(workspace, wire, "EV", bucket)
    before = [message for message in stored(wire, "EV") if message[0] in seqs]
    written(workspace, tmp_path / "b", name="PART", selection=selection, storage="memory")
    wire.api("STREAM.DELETE.EV")
    restored = restore_backup(workspace.settings.nats.servers[0], tmp_path / "b")
    assert stored(wire, "PART") == before
    assert wire.state("PART")["last_seq"] == last
    state = json.loads((tmp_path / "b" / "backup.json").read_text())["state"]
    assert [state[key] for key in ("messages", "bytes")] == [restored["state"][key] for key in ("messages", "bytes")]
    assert [parse_time(state[key]) for key in ("first_ts", "last_ts")] == [
        parse_time(restored["state"][key]) for key in ("first_ts", "last_ts")
    ]


def test_it_is_written_without_a_server(
    workspace: Workspace, wire: Wire, bucket: str, tmp_path: Path, settings: Settings
) -> None:
    wire.create_stream("EV", "ev.>")
    wire.publish([("ev.a", b"", b"x")] * 3)
    archived(workspace, wire, "EV", bucket)
    away = settings.model_copy(update={"nats_url": "nats://127.0.0.1:1"})
    with Workspace(away) as there:
        # The stream may have what the archive misses: without it a person has to say that this does not matter.
        with pytest.raises(SourceError, match="Nothing listens"):
            written(there, tmp_path / "backup")
        assert not [*tmp_path.iterdir()]
        assert written(there, tmp_path / "backup", over_gaps=True).messages == 3


def test_what_is_cut_leaves_nothing(
    workspace: Workspace, wire: Wire, bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wire.create_stream("EV", "ev.>")
    wire.publish([("ev.a", b"", b"x")] * 3)
    archived(workspace, wire, "EV", bucket)
    parent = tmp_path / "parent"
    (parent / "b").mkdir(parents=True)

    def broken(at: str, error: BaseException, step: str) -> None:
        if step == at:
            raise error

    full = OSError(28, "No space left on device")
    for at, error, seen in (
        ("backup.writing", KeyboardInterrupt(), KeyboardInterrupt),
        ("backup.written", KeyboardInterrupt(), KeyboardInterrupt),
        ("backup.writing", full, EngineError),
    ):
        monkeypatch.setattr(folder_module, "fault_point", partial(broken, at, error))
        with pytest.raises(seen):
            written(workspace, parent / "b")
        assert [path.name for path in parent.iterdir()] == ["b"]
        assert not any((parent / "b").iterdir())
    monkeypatch.undo()
    # A process that was killed leaves its draft, which the next one removes.
    (parent / ".b.nats3").mkdir()
    (parent / ".b.nats3" / "stream.tar.s2").write_bytes(b"cut")
    written(workspace, parent / "b")
    assert [path.name for path in parent.iterdir()] == ["b"]
    assert {path.name for path in (parent / "b").iterdir()} == {"backup.json", "stream.tar.s2"}


def test_a_full_disk_is_an_error_and_leaves_nothing(
    workspace: Workspace, wire: Wire, bucket: str, tmp_path: Path
) -> None:
    """On a file system of 256 KiB."""
    wire.create_stream("EV", "ev.>")
    wire.publish([("ev.a", b"", os.urandom(100_000))] * 10)
    archived(workspace, wire, "EV", bucket)
    small = tmp_path / "small"
    small.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(small)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("this user may mount nothing")
    try:
        with pytest.raises(EngineError, match="cannot be written: No space left"):
            written(workspace, small / "b")
        assert not any(small.iterdir())
    finally:
        subprocess.run(["umount", str(small)], check=True)


def test_a_folder_that_has_something_stays_as_it_is(
    workspace: Workspace, wire: Wire, bucket: str, tmp_path: Path, nats3: Command
) -> None:
    wire.create_stream("EV", "ev.>")
    wire.publish([("ev.a", b"", b"x")] * 3)
    archived(workspace, wire, "EV", bucket)
    full, file = tmp_path / "full", tmp_path / "file"
    full.mkdir()
    (full / "mine").write_text("kept")
    file.write_text("kept")
    for where, says in (
        (full, "is not empty"),
        (file, "is no folder"),
        (tmp_path / "none" / "b", "There is no folder"),
    ):
        with pytest.raises(OperatorError, match=says):
            written(workspace, where)
        assert nats3.refused("stream", "restore", "a", "--into-file", str(where)).startswith("2 Error")
    assert ((full / "mine").read_text(), file.read_text()) == ("kept", "kept")
    assert {path.name for path in tmp_path.iterdir()} >= {"full", "file"}
    assert not [path for path in tmp_path.iterdir() if path.name.endswith(".nats3")]
    # Two that write one folder: the second one is refused, and harms nothing.
    planned = plan(workspace, RestoreSpec("a", as_backup=True))

    def second(_: int) -> None:
        with pytest.raises(Conflict, match="Another process writes"):
            written(workspace, tmp_path / "b")

    write_folder(workspace, planned, tmp_path / "b", on_progress=second)
    with Wire(workspace.settings.nats.servers[0]) as there:
        there.api("STREAM.DELETE.EV")
    assert restore_backup(workspace.settings.nats.servers[0], tmp_path / "b")["state"]["messages"] == 3


def test_the_command(workspace: Workspace, wire: Wire, bucket: str, nats3: Command, tmp_path: Path) -> None:
    """It says where it wrote what; a dry run writes nothing; the stream that lives does not stand in the way."""
    wire.create_stream("EV", "ev.>", max_age=3600 * 10**9)
    wire.publish([("ev.a", b"", b"x")] * 3)
    archived(workspace, wire, "EV", bucket)
    asked = ("stream", "restore", "a", "--into-file", str(tmp_path / "b"))
    planned = nats3.ok(*asked, "--dry-run", "-o", "json")
    assert (planned.json["messages"], planned.json["folder"]) == (3, None)
    assert not (tmp_path / "b").exists()
    done = nats3.ok(*asked, "-o", "json")
    assert [done.json[key] for key in ("stream", "messages", "first_seq", "last_seq", "folder", "proven")] == [
        "EV", 3, 1, 3, str(tmp_path / "b"), None,
    ]  # fmt: skip
    assert f"nats stream restore {tmp_path}" in done.err
    assert "Not as in the archived stream: max_age" in done.err
    assert len(stored(wire, "EV")) == 3
