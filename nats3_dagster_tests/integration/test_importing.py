"""An archive of a backup has each message of it, at its sequence and time, and follows no stream that lives."""

import json
import shutil
import tarfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import cramjam
import pytest

from nats3_dagster.archive import status
from nats3_dagster.archive.account.plan import plan as plan_rule
from nats3_dagster.archive.captures import commit
from nats3_dagster.archive.captures.open import open_source
from nats3_dagster.archive.health.nats_health import check as check_nats
from nats3_dagster.archive.imports import copy as copy_module
from nats3_dagster.archive.imports import run as imports
from nats3_dagster.archive.imports.backup import read_backup
from nats3_dagster.archive.imports.run import Imported
from nats3_dagster.archive.lifecycle.create import create
from nats3_dagster.archive.read.cursor import Cursor
from nats3_dagster.archive.restore.folder import write_folder
from nats3_dagster.archive.restore.plan import RestoreSpec, plan
from nats3_dagster.archive.restore.run import restore
from nats3_dagster.archive.source.condition import condition
from nats3_dagster.dev.history import Past, restore_stream
from nats3_dagster.dev.nats_server import NatsServer
from nats3_dagster.dev.own_server import import_server
from nats3_dagster.errors import Conflict, OperatorError, StreamChanged
from nats3_dagster.hours import HOUR_NS, hour_of, parse_time
from nats3_dagster.jetstream.streams import all_streams
from nats3_dagster.model import ArchiveSpec, Selection
from nats3_dagster.model.account_rule import AccountRule
from nats3_dagster.settings import home
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.conftest import NatsFactory
from nats3_dagster_tests.support.backups import take_backup
from nats3_dagster_tests.support.captures import plan_hours, read
from nats3_dagster_tests.support.commands import Command
from nats3_dagster_tests.support.wire import Wire

pytestmark = pytest.mark.needs_nats("2.15")
# An hour that has ended, whenever the test runs.
LONG_AGO = 1_790_000_000_000_000_000 // HOUR_NS * HOUR_NS


@pytest.fixture(autouse=True)
def own_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NATS3_HOME", str(tmp_path / "home"))


def stored(wire: Wire, stream: str) -> list[tuple[Any, ...]]:
    return [tuple(message) for message in wire.messages(stream)]


def capture(workspace: Workspace, archive: str, hours: Sequence[str]) -> None:
    """In this process, without Spark."""
    for hour in hours:
        planned = plan_hours(workspace, workspace.catalog.archives.get(archive), [hour])
        commit.commit(workspace, planned, read(workspace, planned))


def imported(workspace: Workspace, folder: Path, bucket: str, name: str = "old", **spec: Any) -> Imported:
    backup = read_backup(folder)
    asked = ArchiveSpec(name, backup.stream, bucket, **spec)
    imports.check(workspace, backup, asked)
    with import_server(workspace.settings, name) as server, Workspace(server.settings) as there:

        def begun() -> None:
            server.keep = True

        done = imports.run(there, backup, asked, partial(capture, there, name), on_begun=begun)
        server.keep = False
    return done


def restored(workspace: Workspace, wire: Wire, name: str = "old", **spec: Any) -> list[tuple[Any, ...]]:
    """The messages of the archive, as a server has them that they are restored into."""
    planned = plan(workspace, RestoreSpec(name, over_gaps=True, name="CHECK", **spec))
    config = {**planned.config, "subjects": ["check.>"], "retention": "limits"}
    restore(workspace, replace(planned, config=config))
    found = stored(wire, "CHECK")
    wire.api("STREAM.DELETE.CHECK")
    return found


def nothing_is_left(workspace: Workspace, name: str = "old") -> bool:
    return workspace.catalog.archives.find(name) is None and not (home() / "imports" / name).exists()


def long_ago(nats: str, name: str = "EV", **config: Any) -> None:
    """A stream of three hours, with holes and headers."""
    past = [
        Past(
            seq,
            LONG_AGO + seq * HOUR_NS // 20,
            f"ev.{seq % 3}",
            b"NATS/1.0\r\nA: 1\r\n\r\n" if seq % 4 == 0 else b"",
            b"%d" % seq,
        )
        for seq in range(11, 71)
        if seq % 7
    ]
    restore_stream(nats, name, ["ev.>"], past, **config)


def test_a_backup_becomes_an_archive_that_is_sealed(
    workspace: Workspace, wire: Wire, nats: NatsServer, bucket: str, tmp_path: Path
) -> None:
    long_ago(nats.url)
    wire.api("CONSUMER.DURABLE.CREATE.EV.d", stream_name="EV", config={"durable_name": "d", "ack_policy": "explicit"})
    for _ in range(3):
        wire.acknowledge(wire.next("EV", "d"))
    before = stored(wire, "EV")
    for file in ("stream.arc.s2", "stream.tar.s2"):
        take_backup(nats.url, "EV", tmp_path / file, file)
    wire.api("STREAM.DELETE.EV")
    done = imported(workspace, tmp_path / "stream.arc.s2", bucket)
    assert (done.messages, done.hours, done.sealed) == (len(before), 4, 4)
    archive = workspace.catalog.archives.get("old")
    assert archive.paused
    assert [seal.hour for seal in status.seals(workspace, archive)] == [
        hour_of(LONG_AGO + hour * HOUR_NS) for hour in range(4)
    ]
    assert restored(workspace, wire) == before
    # Nothing else is left of it, and its durable is kept.
    assert not [*(home() / "imports").iterdir()]
    planned = plan(workspace, RestoreSpec("old", name="BACK", consumers=("all",)))
    assert [one.position.delivered.stream for one in planned.consumers] == [before[2][0]]
    # The name that earlier releases of the command give the file.
    assert imported(workspace, tmp_path / "stream.tar.s2", bucket, "older").messages == len(before)


@pytest.mark.parametrize("retention", ["limits", "interest", "workqueue"])
def test_limits_and_lives_of_messages_remove_nothing(
    workspace: Workspace, wire: Wire, nats: NatsServer, bucket: str, tmp_path: Path, retention: str
) -> None:
    """The backup says what there is, whatever the stream would remove by now."""
    wire.create_stream("EV", "ev.>", allow_msg_ttl=True, retention=retention)
    wire.api("CONSUMER.DURABLE.CREATE.EV.d", stream_name="EV", config={"durable_name": "d", "ack_policy": "explicit"})
    wire.publish([(f"ev.{n % 2}", b"NATS/1.0\r\nNats-TTL: 1h\r\n\r\n", b"%d" % n) for n in range(20)])
    before = stored(wire, "EV")
    take_backup(nats.url, "EV", tmp_path / "b")
    meta = json.loads((tmp_path / "b" / "backup.json").read_text())
    meta["config"] |= {"max_age": 10**9, "max_msgs": 3, "max_msgs_per_subject": 2, "max_bytes": 100, "max_msg_size": 1}
    (tmp_path / "b" / "backup.json").write_text(json.dumps(meta))
    assert imported(workspace, tmp_path / "b", bucket).messages == 20
    # The archive knows the limits that the stream had: what is absent may have gone by them.
    (coverage,) = workspace.catalog.coverage.all(workspace.catalog.archives.get("old"))
    state = workspace.catalog.coverage.last_state(coverage.incarnation)
    assert state
    assert (state.config["max_msgs"], state.config["retention"]) == (3, retention)
    wire.api("STREAM.DELETE.EV")
    assert archived(workspace) == [(seq, data) for seq, _, _, data, _ in before]


ENDS = b"NATS/1.0\r\nNats-TTL: 2s\r\n\r\n"


def test_messages_that_have_ended_are_counted(
    workspace: Workspace, wire: Wire, nats_factory: NatsFactory, bucket: str, tmp_path: Path
) -> None:
    """A server leaves them out of a backup of its own form, and of the older form none."""
    other = nats_factory()
    with Wire(other.url) as there:
        for stream in ("EV", "ALL"):
            there.create_stream(stream, f"{stream}.>", allow_msg_ttl=True)
        there.publish([(f"EV.{n}", b"" if n in (3, 11) else ENDS, b"%d" % n) for n in range(20)])
        there.publish([(f"ALL.{n}", ENDS, b"%d" % n) for n in range(3)])
        before = [(message.seq, message.data) for message in there.messages("EV")]
        for stream in ("EV", "ALL"):
            take_backup(other.url, stream, tmp_path / stream)
    of_a_store(other, "EV", tmp_path / "blocks")
    time.sleep(2.1)
    done = imported(workspace, tmp_path / "EV", bucket)
    assert (done.messages, done.ended) == (2, 18)
    assert archived(workspace) == [(4, b"3"), (12, b"11")]
    # It begins with the first that is left.
    assert status.holdings(workspace, "old").losses == {"ttl": 15}
    with pytest.raises(OperatorError, match="and 0 from"):
        imported(workspace, tmp_path / "ALL", bucket, "all")
    done = imported(workspace, tmp_path / "blocks", bucket, "blocks")
    assert (done.messages, done.ended) == (20, 0)
    assert archived(workspace, "blocks") == before


def archived(workspace: Workspace, name: str = "old") -> list[tuple[int, bytes]]:
    """Sequence and payload of each message of the archive: a server would not take those that have ended."""
    cursor = Cursor.begin(workspace, workspace.catalog.archives.get(name), Selection(), over_gaps=True)
    return [
        pair
        for batch in cursor.batches()
        for pair in zip(batch.column("seq").to_pylist(), batch.column("data").to_pylist(), strict=True)
    ]


def of_a_store(server: NatsServer, stream: str, folder: Path) -> None:
    """Make the backup that a server of before 2.15 makes of the stream: its files, in a tar. The server is stopped."""
    with Wire(server.url) as wire:
        info = wire.api(f"STREAM.INFO.{stream}")
    server.stop()
    folder.mkdir()
    (folder / "backup.json").write_text(json.dumps({"config": info["config"], "state": info["state"]}))
    (store,) = server.folder.glob(f"data/jetstream/*/streams/{stream}")
    with tarfile.open(folder / "tar", "w") as tar:
        for path in sorted(path for path in store.rglob("*") if path.is_file()):
            tar.add(path, str(path.relative_to(store)))
    (folder / "stream.tar.s2").write_bytes(bytes(cramjam.snappy.compress((folder / "tar").read_bytes())))
    (folder / "tar").unlink()


def fill(wire: Wire) -> list[tuple[Any, ...]]:
    wire.create_stream("EV", "ev.>", max_msgs_per_subject=20)
    wire.publish([(f"ev.{n % 3}", b"NATS/1.0\r\nA: 1\r\n\r\n" if n % 2 else b"", b"%d" % n) for n in range(90)])
    for seq in (40, 41, 90):
        wire.api("STREAM.MSG.DELETE.EV", seq=seq)
    return stored(wire, "EV")


@pytest.mark.parametrize("lives", [False, True])
def test_blocks_of_a_file_store(
    workspace: Workspace, wire: Wire, nats_factory: NatsFactory, bucket: str, tmp_path: Path, lives: bool
) -> None:
    """The form of servers before 2.15; `lives`: the stream goes on, and another archive has it."""
    other = nats_factory()
    with Wire(other.url) as there:
        before = fill(there)
        created = there.api("STREAM.INFO.EV")["created"]
    of_a_store(other, "EV", tmp_path / "b")
    known = None
    if lives:
        other.start()
        with Workspace(workspace.settings.model_copy(update={"nats_url": other.url})) as there, Wire(other.url) as live:
            archive = create(there, ArchiveSpec("live", "EV", bucket))
            live.publish([("ev.0", b"", b"later")])
            assert live.api("STREAM.INFO.EV")["created"] == created
            open_source(there, archive)
            (coverage,) = there.catalog.coverage.all(archive)
            known = there.catalog.coverage.last_state(coverage.incarnation)
            assert known
            assert known.last_seq == 91
    assert imported(workspace, tmp_path / "b", bucket).messages == len(before)
    assert restored(workspace, wire) == before
    # A limit of messages per subject may have removed what is absent: it is no deletion.
    assert status.holdings(workspace, "old").losses == {"superseded": 3}
    if known:
        # The live stream is as it was seen, and its archive as well.
        assert workspace.catalog.coverage.last_state(known.incarnation) == known
        now = condition(workspace, workspace.catalog.archives.get("old")).waiting
        assert now
        assert now.is_empty


@pytest.mark.thorough
@pytest.mark.parametrize("version", ["2.10.29"])
def test_a_backup_that_an_older_server_took(
    workspace: Workspace,
    wire: Wire,
    old_nats: Callable[..., NatsServer],
    bucket: str,
    tmp_path: Path,
    version: str,
) -> None:
    old = old_nats(version)
    with Wire(old.url) as there:
        before = fill(there)
    take_backup(old.url, "EV", tmp_path / "b")
    assert imported(workspace, tmp_path / "b", bucket).messages == len(before)
    assert restored(workspace, wire) == before


def test_a_folder_that_is_no_whole_backup_is_refused_and_nothing_is_left(
    workspace: Workspace, wire: Wire, nats_factory: NatsFactory, nats: NatsServer, bucket: str, tmp_path: Path
) -> None:
    other = nats_factory()
    with Wire(other.url) as there:
        fill(there)
    take_backup(other.url, "EV", tmp_path / "new")
    of_a_store(other, "EV", tmp_path / "old")
    for number, form in enumerate(("new", "old")):
        whole = (tmp_path / form / "stream.tar.s2").read_bytes()
        flipped = bytearray(whole)
        flipped[len(whole) // 2] ^= 1
        for kind, content in enumerate((whole[: len(whole) // 2], whole[:-5], b"", bytes(flipped), b"no backup")):
            folder = tmp_path / f"{number}-{kind}"
            shutil.copytree(tmp_path / form, folder)
            (folder / "stream.tar.s2").write_bytes(content)
            with pytest.raises(OperatorError, match="is cut or damaged"):
                imported(workspace, folder, bucket)
            assert nothing_is_left(workspace), (form, kind)
    for name, change in (
        ("messages", {"messages": 3}),
        ("first_seq", {"first_seq": 2}),
        ("last_seq", {"last_seq": 1000}),
        # Blocks keep messages that have ended: fewer of them are none of these.
        ("lives", {"messages": 80}),
    ):
        folder = tmp_path / name
        shutil.copytree(tmp_path / "old", folder)
        meta = json.loads((folder / "backup.json").read_text())
        meta["state"] |= change
        meta["config"]["allow_msg_ttl"] = name == "lives"
        (folder / "backup.json").write_text(json.dumps(meta))
        with pytest.raises(OperatorError, match="by backup.json, and"):
            imported(workspace, folder, bucket)
        assert nothing_is_left(workspace)
    for name, text, says in (
        ("cut", "", "does not say what it is a backup of"),
        ("list", "[]", "does not say what it is a backup of"),
        ("name", '{"config": {"name": "a.b"}, "state": {}}', "does not say what it is a backup of"),
        (
            "empty",
            '{"config": {"name": "a"}, "state": {"messages": 0, "first_seq": 1, "last_seq": 0}}',
            "has no message",
        ),
    ):
        folder = tmp_path / f"meta-{name}"
        shutil.copytree(tmp_path / "new", folder)
        (folder / "backup.json").write_text(text)
        with pytest.raises(OperatorError, match=says):
            imported(workspace, folder, bucket)
    shutil.copy(tmp_path / "new" / "stream.tar.s2", tmp_path / "new" / "stream.arc.s2")
    (tmp_path / "nothing").mkdir()
    for folder, says in ((tmp_path / "new", "has both"), (tmp_path / "nothing", "no backup"), (tmp_path / "x", "no f")):
        with pytest.raises(OperatorError, match=says):
            imported(workspace, folder, bucket)
    assert nothing_is_left(workspace)
    assert wire.api("STREAM.NAMES")["streams"] is None


def test_a_name_that_is_taken_is_refused(
    workspace: Workspace, wire: Wire, nats: NatsServer, bucket: str, tmp_path: Path
) -> None:
    long_ago(nats.url)
    take_backup(nats.url, "EV", tmp_path / "b")
    create(workspace, ArchiveSpec("old", "EV", bucket), paused=True)
    with pytest.raises(Conflict, match="There is an archive old already"):
        imported(workspace, tmp_path / "b", bucket)
    imported(workspace, tmp_path / "b", bucket, "again")
    with pytest.raises(Conflict, match="There is an archive again already"):
        imported(workspace, tmp_path / "b", bucket, "again")
    with pytest.raises(Conflict, match="already"), import_server(workspace.settings, "third"):
        imported(workspace, tmp_path / "b", bucket, "old")
    with pytest.raises(OperatorError, match="bucket"):
        imported(workspace, tmp_path / "b", "no-such-bucket", "third")
    assert nothing_is_left(workspace, "third")


@pytest.mark.parametrize("point", ["import.sending", "import.copied", "import.begun", "import.captured"])
@pytest.mark.parametrize("is_lost", [False, True])
def test_what_was_cut_goes_on_or_begins_anew(
    workspace: Workspace,
    wire: Wire,
    nats: NatsServer,
    bucket: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    point: str,
    is_lost: bool,
) -> None:
    """`is_lost`: the folder of the server is gone as well."""
    long_ago(nats.url)
    before = stored(wire, "EV")
    take_backup(nats.url, "EV", tmp_path / "b")
    wire.publish([("ev.0", b"", b"another backup")])
    take_backup(nats.url, "EV", tmp_path / "other")
    wire.api("STREAM.DELETE.EV")

    def broken(step: str) -> None:
        if step == point:
            raise KeyboardInterrupt

    for module in (imports, copy_module):
        monkeypatch.setattr(module, "fault_point", broken)
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            imported(workspace, tmp_path / "b", bucket)
        if is_lost:
            shutil.rmtree(home() / "imports" / "old", ignore_errors=True)
    monkeypatch.undo()
    monkeypatch.setenv("NATS3_HOME", str(tmp_path / "home"))
    if point in ("import.begun", "import.captured"):
        with pytest.raises(Conflict, match="is of another backup"):
            imported(workspace, tmp_path / "other", bucket)
        with pytest.raises(Conflict, match="was begun with other settings"):
            imported(workspace, tmp_path / "b", bucket, zstd_level=9)
        assert "its import was cut" in " ".join(one.what for one in check_nats(workspace))
    else:
        assert workspace.catalog.archives.find("old") is None
    done = imported(workspace, tmp_path / "b", bucket)
    assert (done.messages, done.sealed) == (len(before), 4)
    assert restored(workspace, wire) == before
    assert len(workspace.catalog.coverage.all(workspace.catalog.archives.get("old"))) == 1
    assert not [*(home() / "imports").iterdir()]


def test_a_stream_of_the_name_that_lives_is_another_one(
    workspace: Workspace, wire: Wire, nats: NatsServer, bucket: str, tmp_path: Path, nats3: Command
) -> None:
    """Not captured, not compared, no alarm, and no rule takes it for archived; resumed, it is compared by content."""
    long_ago(nats.url)
    take_backup(nats.url, "EV", tmp_path / "b")
    wire.api("STREAM.DELETE.EV")
    imported(workspace, tmp_path / "b", bucket)
    archive = workspace.catalog.archives.get("old")
    for there_is_one in (False, True):
        if there_is_one:
            wire.create_stream("EV", "ev.>")
            wire.publish([("ev.a", b"", b"another")] * 100)
        now = condition(workspace, archive)
        assert (now.source, now.error, now.waiting and now.waiting.is_empty) == ("ok", None, True)
        findings = [finding for finding in check_nats(workspace) if "old" in finding.what]
        assert [(f.status, f.what) for f in findings] == [("ok", "Archive old is of a backup: it follows no stream")]
        view = nats3.ok("store", "get", "old", "-o", "json").json
        assert (view["status"], view["source"], view["lag"]) == ("Paused", "ok", 0)
    (planned,) = plan_rule(
        AccountRule("all", bucket, ("EV",), (), "{stream}"),
        all_streams(workspace.link),
        workspace.catalog.accounts.archives(),
    )
    assert planned.action == "create"
    status.resume(workspace, "old")
    with pytest.raises(StreamChanged, match="deleted and"):
        open_source(workspace, workspace.catalog.archives.get("old"))
    assert condition(workspace, workspace.catalog.archives.get("old")).source == "recreated"


def test_the_stream_itself_goes_on_in_the_archive(
    workspace: Workspace, wire: Wire, nats: NatsServer, bucket: str, tmp_path: Path
) -> None:
    """Resumed, it is the one that the backup is of, by its messages: nothing is archived twice."""
    long_ago(nats.url)
    take_backup(nats.url, "EV", tmp_path / "b")
    imported(workspace, tmp_path / "b", bucket)
    wire.publish([("ev.a", b"", b"new")] * 5)
    status.resume(workspace, "old")
    archive = workspace.catalog.archives.get("old")
    open_source(workspace, archive)
    now = condition(workspace, archive).waiting
    assert now
    assert now.behind == 5
    capture(workspace, "old", [hour_of(wire_last(wire))])
    (coverage,) = workspace.catalog.coverage.all(archive)
    assert coverage.messages == wire.state("EV")["messages"]


def wire_last(wire: Wire) -> int:
    return parse_time(wire.state("EV")["last_ts"])


def test_a_backup_that_nats3_wrote(
    workspace: Workspace, wire: Wire, nats: NatsServer, bucket: str, tmp_path: Path
) -> None:
    """There and back again."""
    long_ago(nats.url)
    before = stored(wire, "EV")
    take_backup(nats.url, "EV", tmp_path / "b")
    imported(workspace, tmp_path / "b", bucket)
    write_folder(workspace, plan(workspace, RestoreSpec("old", as_backup=True, over_gaps=True)), tmp_path / "own")
    assert imported(workspace, tmp_path / "own", bucket, "again").messages == len(before)
    wire.api("STREAM.DELETE.EV")
    assert restored(workspace, wire, "again") == before


def test_the_command(
    workspace: Workspace, wire: Wire, nats: NatsServer, bucket: str, tmp_path: Path, nats3: Command
) -> None:
    long_ago(nats.url)
    before = stored(wire, "EV")
    take_backup(nats.url, "EV", tmp_path / "b")
    wire.api("STREAM.DELETE.EV")
    asked = ("stream", "import", str(tmp_path / "b"), "--archive", "old", "--bucket", bucket, "--prefix", "p")
    done = nats3.ok(*asked, "-o", "json")
    keys = ("archive", "stream", "prefix", "messages", "hours", "sealed", "paused")
    assert [done.json[key] for key in keys] == ["old", "EV", "p", len(before), 4, 4, True]
    assert "It is paused, and follows no stream" in done.err
    assert restored(workspace, wire) == before
    assert "already" in nats3.refused(*asked)
