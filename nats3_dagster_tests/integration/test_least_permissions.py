"""The permissions that `nats3 permissions` prints are enough, and all of them are used: the server traces it."""

import json
import re
import secrets
from collections.abc import Callable, Collection
from pathlib import Path

import pytest

from nats3_dagster.archive.account import rules
from nats3_dagster.archive.account.follow import follow
from nats3_dagster.archive.account.permissions import to_follow, to_restore_account
from nats3_dagster.archive.account_restore.plan import plan as plan_account
from nats3_dagster.archive.account_restore.run import run as restore_account
from nats3_dagster.archive.account_restore.spec import AccountRestoreSpec
from nats3_dagster.archive.captures.consumers import record_consumers
from nats3_dagster.archive.captures.open import open_source
from nats3_dagster.archive.health import examination
from nats3_dagster.archive.lifecycle import remove
from nats3_dagster.archive.permissions import Permissions, configuration, names_at, to_capture
from nats3_dagster.archive.proof import source_check
from nats3_dagster.archive.restore import run as restoring
from nats3_dagster.archive.restore.permissions import to_restore
from nats3_dagster.archive.restore.plan import RestoreSpec
from nats3_dagster.archive.restore.plan import plan as plan_restore
from nats3_dagster.archive.served.permissions import to_serve
from nats3_dagster.archive.source import condition
from nats3_dagster.dev.nats_server import NatsServer
from nats3_dagster.errors import WrongState
from nats3_dagster.jetstream.codes import FLOW_ACKS
from nats3_dagster.jetstream.server import server_info
from nats3_dagster.model import ArchiveSpec, ReplaySpec, Selection
from nats3_dagster.model.account_rule import AccountRule
from nats3_dagster.nats.serve import DomainServer
from nats3_dagster.replay import attempt
from nats3_dagster.replay.begin import begin
from nats3_dagster.replay.planning.permissions import to_replay
from nats3_dagster.settings import Settings
from nats3_dagster.subjects import matches
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.conftest import NatsFactory
from nats3_dagster_tests.support.accounts import capture_all, make_rule
from nats3_dagster_tests.support.applications import Application
from nats3_dagster_tests.support.domain_client import DomainClient
from nats3_dagster_tests.support.replays import archived, driven
from nats3_dagster_tests.support.taking import make, run
from nats3_dagster_tests.support.wire import Wire

MESSAGES = [("ev.a", b"", b"%d" % n) for n in range(50)]
Guarded = Callable[..., NatsServer]
# For the positions of consumers, where there are none.
CONSUMERS = ("CONSUMER.LIST.EV", "STREAM.SNAPSHOT.EV", "$JS.SNAPSHOT.ACK.EV.>")
# The trace of an older one (2.9 was tried) does not say whose message it was.
pytestmark = pytest.mark.needs_nats("2.14")


@pytest.fixture
def guarded(settings: Settings, nats_factory: NatsFactory, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Guarded:
    """A server that traces, with a user `nats3` that has this block, and one that may do all. Settings name the
    first."""

    def start(block: str, domain: str = "") -> NatsServer:
        users = f"{{user: admin, password: all}}, {{user: nats3, password: some, {block}}}"
        named = f", domain: {domain}" if domain else ""
        store = f"jetstream: {{ store_dir: {json.dumps(str(tmp_path / 'js'))}{named} }}"
        server = nats_factory(
            config=f"trace: true\n{store}\naccounts {{ A: {{ jetstream: enabled, users: [{users}] }} }}"
        )
        monkeypatch.setenv("NATS3_NATS_URL", server.url)
        monkeypatch.setenv("NATS3_NATS_USER", "nats3")
        monkeypatch.setenv("NATS3_NATS_PASSWORD", "some")
        return server

    return start


def admin(server: NatsServer) -> Wire:
    return Wire(server.url, user="admin", **{"pass": "all"})


def published(server: NatsServer) -> set[str]:
    """The subjects to which our user published, as permissions know them, and each violation as it stands in the
    log."""
    log = (server.folder / "server.log").read_text(errors="replace")
    subjects = set(re.findall(r'user:nats3" - <<- \[(?:H?PUB|MAPPING \S+ ->) ([^\s\]]+)', log))
    subjects -= set(re.findall(r'user:nats3" - <<- \[MAPPING (\S+) ->', log))
    return subjects | {line for line in log.splitlines() if "Violation" in line}


def check_least(server: NatsServer, needed: Permissions, idle: Collection[str] = ()) -> None:
    """Every subject that was used is allowed, and every one that is allowed was used but those that end so."""
    used, allowed = published(server), [subject for need in needed.publish for subject in need.subjects]
    assert {s for s in used if not any(matches(pattern, s) for pattern in allowed)} == set()
    unused = {p for p in allowed if not any(matches(p, s) for s in used)}
    assert {p.removeprefix("$JS.API.") for p in unused} == set(idle)


@pytest.mark.parametrize("domain", ["", "HUB"])
@pytest.mark.parametrize("subjects", [(), ("ev.a",)])
def test_a_capture_needs_all_that_is_printed_and_no_more(
    guarded: Guarded, bucket: str, monkeypatch: pytest.MonkeyPatch, domain: str, subjects: tuple[str, ...]
) -> None:
    if domain:
        monkeypatch.setenv("NATS3_NATS_DOMAIN", domain)
    monkeypatch.setenv("NATS3_NATS_URL", "nats://127.0.0.1:1")  # only the prefix is asked of these options
    spec = ArchiveSpec("a", "EV", bucket, subjects=subjects)
    needed = to_capture(spec, names_at(Settings.load().nats, domain))
    server = guarded(configuration(needed), domain)
    with admin(server) as wire, Workspace(Settings.load()) as workspace:
        wire.create_stream("EV", "ev.>")
        wire.publish(MESSAGES)
        # The kept positions do not fit in one part of a backup.
        with_delivered(wire, "EV", secrets.token_hex(20_000))
        archived(workspace, wire, "EV", bucket, subjects=subjects)
        archive = workspace.catalog.archives.get("a")
        kept = record_consumers(workspace, archive)
        assert kept
        assert kept.consumers == 1
        assert workspace.catalog.consumers.problems() == {}
        has_backups = server_info(workspace.link).version >= (2, 15)
        assert condition.condition(workspace, archive).source == "ok"
        assert sum(c.messages for c in source_check.compare(workspace, archive, None)) == len(MESSAGES)
        reported(workspace)
        wire.api("STREAM.DELETE.EV")
        assert condition.condition(workspace, archive).source == "missing"
        remove.delete(workspace, "a")
    check_least(server, needed, () if has_backups else {"STREAM.SNAPSHOT.EV", "$JS.SNAPSHOT.ACK.EV.>"})


def test_a_capture_through_a_buffer_needs_all_that_is_printed_and_no_more(
    guarded: Guarded, settings: Settings, bucket: str
) -> None:
    spec = ArchiveSpec("a", "EV", bucket, buffer_s=3600)
    needed = to_capture(spec, names_at(settings.nats))
    server = guarded(configuration(needed))
    with admin(server) as wire, Workspace(Settings.load()) as workspace:
        wire.create_stream("EV", "ev.>", max_msgs=30)
        wire.publish(MESSAGES)
        with_delivered(wire, "EV", secrets.token_hex(20_000))
        archived(workspace, wire, "EV", bucket, buffer_s=3600)
        archive = workspace.catalog.archives.get("a")
        assert record_consumers(workspace, archive)
        wire.publish(MESSAGES)
        wire.api("STREAM.PURGE.NATS3-BUFFER-a")
        open_source(workspace, archive)
        assert condition.condition(workspace, archive).source == "ok"
        reported(workspace)
        wire.api("STREAM.DELETE.EV")
        assert condition.condition(workspace, archive).source == "missing"
        remove.delete(workspace, "a")
        assert wire.api("STREAM.NAMES")["streams"] is None
    # Its own consumers: only of what the buffer no longer has.
    check_least(server, needed, {"CONSUMER.CREATE.EV.>", "CONSUMER.MSG.NEXT.EV.>", "CONSUMER.DELETE.EV.>"})


@pytest.mark.parametrize("takes_queues", [False, True])
def test_a_rule_needs_all_that_is_printed_and_no_more(
    guarded: Guarded, settings: Settings, bucket: str, takes_queues: bool
) -> None:
    rule = AccountRule("all", bucket, take_queues=takes_queues)
    needed = to_follow(rule, names_at(settings.nats))
    server = guarded(configuration(needed))
    with admin(server) as there, Workspace(Settings.load()) as opened:
        there.create_stream("EV", "ev.>")
        there.create_stream("JOBS", "jobs.>", retention="workqueue")
        there.publish([*MESSAGES, ("jobs.a", b"", b"1")])
        rules.create(opened, rule)
        (found,) = follow(opened)
        assert (found.created, found.problems) == (["EV", "JOBS"] if takes_queues else ["EV"], {})
        with_delivered(there, "EV", secrets.token_hex(20_000))
        archived(opened, there, "EV", bucket, name="EV")
        assert record_consumers(opened, opened.catalog.archives.get("EV"))
        if takes_queues:
            assert run(opened, opened.catalog.archives.get("JOBS")).messages == 1
        reported(opened)
        version = server_info(opened.link).version
        has_backups, by_flow = version >= (2, 15), version >= FLOW_ACKS
        there.api("STREAM.DELETE.EV")
        (found,) = follow(opened)
        assert found.ended == ["EV"]
        if takes_queues:
            remove.delete(opened, "JOBS")
    # Asked where a name is unknown.
    backups = set[str]() if has_backups else {"STREAM.SNAPSHOT.*", "$JS.SNAPSHOT.ACK.*.>"}
    other = {"$JS.FC.*.*.>", "CONSUMER.RESET.*.*"} if not by_flow else {"$JS.ACK.*.*.>"}
    check_least(server, needed, {"STREAM.NAMES", *backups, *(other if takes_queues else ())})


def with_delivered(wire: Wire, stream: str, note: str = "") -> None:
    """Make a durable that has a message outstanding."""
    config = {"name": "app", "durable_name": "app", "ack_policy": "explicit", "metadata": {"note": note}}
    wire.api(f"CONSUMER.CREATE.{stream}.app", stream_name=stream, config=config)
    wire.next(stream, "app")


def reported(workspace: Workspace) -> None:
    """What a task says of its progress."""
    workspace.link.publish("_NATS3.progress.0", b"")


@pytest.mark.parametrize(
    ("retention", "subjects", "idle"),
    [
        ("interest", (), {"CONSUMER.LIST.JOBS", "STREAM.NAMES"}),  # only work queues give a message to one consumer
        ("workqueue", ("jobs.a",), {"STREAM.NAMES"}),
    ],
)
def test_taking_needs_all_that_is_printed_and_no_more(
    guarded: Guarded, bucket: str, settings: Settings, retention: str, subjects: tuple[str, ...], idle: set[str]
) -> None:
    spec = ArchiveSpec("jobs", "JOBS", bucket, mode="consumer", subjects=subjects)
    needed = to_capture(spec, names_at(settings.nats))
    server = guarded(configuration(needed))
    with admin(server) as wire, Workspace(Settings.load()) as workspace:
        wire.create_stream("JOBS", "jobs.>", retention=retention)
        archive = make(workspace, bucket, subjects=subjects)
        wire.publish([("jobs.a", b"", b"%d" % n) for n in range(50)])
        assert run(workspace, archive).messages == 50
        assert condition.condition(workspace, archive).source == "ok"
        reported(workspace)
        by_flow = server_info(workspace.link).version >= FLOW_ACKS
        remove.delete(workspace, "jobs")
        assert wire.api("CONSUMER.NAMES.JOBS")["total"] == 0
    if by_flow:
        other = {"CONSUMER.MSG.NEXT.JOBS.nats3-jobs", "CONSUMER.MSG.NEXT.JOBS.>", "$JS.ACK.JOBS.nats3-jobs.>"}
    else:
        other = {"CONSUMER.RESET.JOBS.nats3-jobs", "$JS.FC.JOBS.nats3-jobs.>"}
    # It has no consumer but ours.
    check_least(server, needed, idle | other | {"STREAM.SNAPSHOT.JOBS", "$JS.SNAPSHOT.ACK.JOBS.>"})


def test_a_domain_needs_all_that_is_printed_and_no_more(
    guarded: Guarded, settings: Settings, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    needed = to_serve("archive", names_at(settings.nats))
    server = guarded(configuration(needed))
    with admin(server) as there:
        there.create_stream("EV", "ev.>")
        there.publish(MESSAGES)
        with monkeypatch.context() as as_admin:
            as_admin.setenv("NATS3_NATS_USER", "admin")
            as_admin.setenv("NATS3_NATS_PASSWORD", "all")
            with Workspace(Settings.load()) as opened:
                archived(opened, there, "EV", bucket)
        there.publish([("ev.a", b"", b"new")] * 3)
        with (
            DomainServer(Settings.load()),
            DomainClient(server.url, user="admin", password="all") as client,
        ):
            assert client.get(7) == ("", b"6")
            assert client.get(len(MESSAGES) + 1) == ("", b"new")
            replies = client.batch("EV", {"seq": 1, "batch": 1000})
            assert [m.data for m in replies[:-1]] == [m[2] for m in MESSAGES] + [b"new"] * 3
            assert client.ask("$SRV.PING").data
    # Answers go where the client wants them.
    used = {subject for subject in published(server) if not subject.startswith("_INBOX.")}
    allowed = [subject for need in needed.publish for subject in need.subjects]
    assert {s for s in used if not any(matches(pattern, s) for pattern in allowed)} == set()
    assert {p for p in allowed if not any(matches(p, s) for s in used)} == {"$JS.API.STREAM.NAMES"}


def test_another_account_reads_what_it_imports(
    nats_factory: NatsFactory, settings: Settings, bucket: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The accounts of docs/domain.md."""
    page = (Path(__file__).parents[2] / "docs" / "domain.md").read_text()
    (accounts,) = re.findall(r"```\n(accounts \{.*?)```", page, re.DOTALL)
    server = nats_factory(config=f"jetstream: {{ store_dir: {json.dumps(str(tmp_path / 'js'))} }}\n{accounts}")
    monkeypatch.setenv("NATS3_NATS_URL", server.url)
    monkeypatch.setenv("NATS3_NATS_USER", "nats3")
    monkeypatch.setenv("NATS3_NATS_PASSWORD", "secret")
    with Wire(server.url, user="nats3", **{"pass": "secret"}) as there, Workspace(Settings.load()) as opened:
        there.create_stream("EV", "ev.>")
        there.publish(MESSAGES)
        archived(opened, there, "EV", bucket)
    with DomainServer(Settings.load()), DomainClient(server.url, user="app", password="secret") as client:
        assert client.get(7) == ("", b"6")
        replies = client.batch("EV", {"seq": 1, "batch": 1000})
        assert [m.data for m in replies[:-1]] == [m[2] for m in MESSAGES]


def test_a_replay_needs_all_that_is_printed_and_no_more(guarded: Guarded, settings: Settings, bucket: str) -> None:
    spec = ArchiveSpec("a", "EV", bucket)
    names = names_at(settings.nats)
    needed = to_capture(spec, names) | to_replay("EV", "back.>", "BACK", names, create=True)
    server = guarded(configuration(needed))
    with admin(server) as there, Workspace(Settings.load()) as opened:
        there.create_stream("EV", "ev.>")
        there.publish(MESSAGES)
        archived(opened, there, "EV", bucket)
        replay = ReplaySpec("a", "back.>", Selection(subjects=("ev.>",)), create_stream="BACK")
        begun, _ = begin(opened, replay)
        attempt.start(opened, begun.id)  # and no more: as if killed
        there.publish([("back.other", b"", b"")])  # what came since is looked through
        assert driven(opened, begun.id).acknowledged == len(MESSAGES)
        assert there.state("BACK")["messages"] == len(MESSAGES) + 1
    # Asked of targets that remove what is acknowledged, and of names that are unknown.
    check_least(server, needed, {"STREAM.MSG.GET.BACK", "STREAM.NAMES", *CONSUMERS})


@pytest.mark.needs_nats("2.15")
def test_a_restore_of_an_account_needs_all_that_is_printed_and_no_more(
    guarded: Guarded, settings: Settings, bucket: str
) -> None:
    names = names_at(settings.nats)
    needed = to_follow(AccountRule("all", bucket), names) | to_restore_account(names)
    server = guarded(configuration(needed))
    with admin(server) as there, Workspace(Settings.load()) as opened:
        there.create_stream("EV", "ev.>")
        there.publish(MESSAGES)
        there.api("STREAM.CREATE.MIRROR", name="MIRROR", mirror={"name": "EV"})
        make_rule(opened, bucket)
        with_delivered(there, "EV", secrets.token_hex(20_000))
        capture_all(opened, there)
        for name in ("EV", "MIRROR"):
            there.api(f"STREAM.DELETE.{name}")
        # What was cut is deleted.
        there.create_stream("EV", "nats3.restoring.EV", metadata={"nats3.restoring": "true"})
        reported(opened)
        done = restore_account(opened, plan_account(opened, AccountRestoreSpec("all")))
        assert [one.error for one in done] == [None, None]
        assert there.state("MIRROR")["messages"] == len(MESSAGES)
    # Asked where a name is unknown.
    check_least(server, needed, {"STREAM.NAMES"})


@pytest.mark.needs_nats("2.15")
def test_a_restore_needs_all_that_is_printed_and_no_more(guarded: Guarded, settings: Settings, bucket: str) -> None:
    names = names_at(settings.nats)
    needed = to_capture(ArchiveSpec("a", "EV", bucket), names) | to_restore("EV", "EV", names)
    server = guarded(configuration(needed))
    with admin(server) as there, Workspace(Settings.load()) as opened:
        there.create_stream("EV", "ev.>")
        there.publish(MESSAGES)
        with_delivered(there, "EV")
        archived(opened, there, "EV", bucket)
        assert record_consumers(opened, opened.catalog.archives.get("a"))
        there.api("STREAM.DELETE.EV")
        reported(opened)
        planned = plan_restore(opened, RestoreSpec("a", consumers=("app",)))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(restoring, "update_stream", lambda *_: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                restoring.restore(opened, planned)
        assert restoring.restore(opened, planned).messages == len(MESSAGES)
    # Asked of streams that have no consumer left, and of names that are unknown.
    check_least(server, needed, {"STREAM.NAMES", "$JS.SNAPSHOT.ACK.EV.>"})


def test_a_capture_goes_on_without_the_permissions_for_consumers(
    guarded: Guarded, bucket: str, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is missing is named, until it is there."""
    needed = configuration(to_capture(ArchiveSpec("a", "EV", bucket), names_at(settings.nats)))
    listing, backup = '"$JS.API.CONSUMER.LIST.EV", ', '"$JS.API.STREAM.SNAPSHOT.EV", '
    assert listing in needed
    assert backup in needed
    server = guarded(needed.replace(listing, "").replace(backup, ""))
    with admin(server) as wire, Workspace(Settings.load()) as workspace:
        wire.create_stream("EV", "ev.>")
        wire.publish(MESSAGES)
        with_delivered(wire, "EV")
        archived(workspace, wire, "EV", bucket)
        archive = workspace.catalog.archives.get("a")
        assert record_consumers(workspace, archive) is None
        assert "consumer.list.ev" in workspace.catalog.consumers.problems()[archive.id].what
        (finding,) = [one for one in examination.examine(Settings.load()) if "consumers are not kept" in one.what]
        assert (finding.status, "consumer.list.ev" in finding.what) == ("warn", True)
        assert sum(chunk.meta.messages for chunk in workspace.catalog.chunks.select(archive)) == len(MESSAGES)
        wire.api("STREAM.DELETE.EV")
    monkeypatch.setenv("NATS3_NATS_USER", "admin")
    monkeypatch.setenv("NATS3_NATS_PASSWORD", "all")
    with (
        Workspace(Settings.load()) as workspace,
        pytest.raises(WrongState, match=r"consumers of archive a are not kept: .*consumer\.list\.ev"),
    ):
        plan_restore(workspace, RestoreSpec("a", consumers=("all",)))


@pytest.mark.needs_nats("2.15")
def test_without_the_permission_for_backups_the_floor_is_kept(
    guarded: Guarded, bucket: str, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on servers that have no such backups. What was acknowledged above the floor comes again, and the plan says
    it."""
    needed = configuration(to_capture(ArchiveSpec("a", "EV", bucket), names_at(settings.nats)))
    server = guarded(needed.replace('"$JS.API.STREAM.SNAPSHOT.EV", ', ""))
    app = Application(server.url.replace("//", "//admin:all@"), "EV", "app")
    with admin(server) as wire:
        wire.create_stream("EV", "ev.>")
        wire.publish(MESSAGES)
        app.make(ack_policy="explicit")
        app.take(5, acked=[1, 3])
        with Workspace(Settings.load()) as workspace:
            archived(workspace, wire, "EV", bucket)
            archive = workspace.catalog.archives.get("a")
            assert record_consumers(workspace, archive)
            assert "stream.snapshot.ev" in workspace.catalog.consumers.problems()[archive.id].what
        wire.api("STREAM.DELETE.EV")
        monkeypatch.setenv("NATS3_NATS_USER", "admin")
        monkeypatch.setenv("NATS3_NATS_PASSWORD", "all")
        with Workspace(Settings.load()) as workspace:
            planned = plan_restore(workspace, RestoreSpec("a", consumers=("app",)))
            (one,) = planned.consumers
            assert (one.kept.exact, one.position.delivered.stream, one.again) == (False, 1, 4)
            restoring.restore(workspace, planned)
            assert [seq for seq, _ in app.rest()] == [*range(2, 51)]
            # What is kept as it is has no problem. A capture has to know the new stream first.
            objects = list(workspace.bucket(bucket).list())
            assert record_consumers(workspace, archive) is None
            assert list(workspace.bucket(bucket).list()) == objects
            archived(workspace, wire, "EV", bucket)
            assert record_consumers(workspace, archive)
            assert workspace.catalog.consumers.problems() == {}


def test_a_user_may_replay_and_not_read_the_archived_stream(
    guarded: Guarded, settings: Settings, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = guarded(configuration(to_replay("EV", "back.>", "BACK", names_at(settings.nats), create=True)))
    with admin(server) as there:
        there.create_stream("EV", "ev.>")
        there.publish(MESSAGES)
        with monkeypatch.context() as patch:
            patch.setenv("NATS3_NATS_USER", "admin")
            patch.setenv("NATS3_NATS_PASSWORD", "all")
            with Workspace(Settings.load()) as opened:
                archived(opened, there, "EV", bucket)
        with Workspace(Settings.load()) as opened:
            replay = ReplaySpec("a", "back.>", Selection(subjects=("ev.>",)), create_stream="BACK")
            begun, _ = begin(opened, replay)
            assert driven(opened, begun.id).acknowledged == len(MESSAGES)
    assert [line for line in published(server) if "Violation" in line] == []


@pytest.mark.parametrize("domain", ["", "HUB"])
def test_a_refused_subject_is_an_error_that_names_it(
    guarded: Guarded, bucket: str, settings: Settings, monkeypatch: pytest.MonkeyPatch, domain: str
) -> None:
    if domain:
        monkeypatch.setenv("NATS3_NATS_DOMAIN", domain)
    settings = Settings.load()
    needed = to_capture(ArchiveSpec("a", "EV", bucket), names_at(settings.nats, domain))
    block = configuration(needed).replace(', "$JS.API.STREAM.MSG.GET.EV"', "")
    server = guarded(block, domain)
    with admin(server) as wire, Workspace(Settings.load()) as workspace:
        wire.create_stream("EV", "ev.>")
        wire.publish(MESSAGES)
        with pytest.raises(Exception, match=r"(?i)refused: .*\$JS\.API\.STREAM\.MSG\.GET\.EV"):
            archived(workspace, wire, "EV", bucket)
