"""The permissions that `nats3 permissions` prints are enough, and all of them are used: the server traces it."""

import json
import re
from collections.abc import Callable, Collection
from pathlib import Path

import pytest

from nats3_dagster.archive.lifecycle import remove
from nats3_dagster.archive.permissions import Permissions, configuration, names_at, to_capture
from nats3_dagster.archive.proof import source_check
from nats3_dagster.archive.restore import run as restoring
from nats3_dagster.archive.restore.permissions import to_restore
from nats3_dagster.archive.restore.plan import RestoreSpec
from nats3_dagster.archive.restore.plan import plan as plan_restore
from nats3_dagster.archive.source import condition
from nats3_dagster.dev.nats_server import NatsServer
from nats3_dagster.model import ArchiveSpec, ReplaySpec, Selection
from nats3_dagster.replay import attempt
from nats3_dagster.replay.begin import begin
from nats3_dagster.replay.planning.permissions import to_replay
from nats3_dagster.settings import Settings
from nats3_dagster.subjects import matches
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.conftest import NatsFactory
from nats3_dagster_tests.support.replays import archived, driven
from nats3_dagster_tests.support.taking import make, run
from nats3_dagster_tests.support.wire import Wire

MESSAGES = [("ev.a", b"", b"%d" % n) for n in range(50)]
Guarded = Callable[..., NatsServer]
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
        archived(workspace, wire, "EV", bucket, subjects=subjects)
        archive = workspace.catalog.archives.get("a")
        assert condition.condition(workspace, archive).source == "ok"
        assert sum(c.messages for c in source_check.compare(workspace, archive, None)) == len(MESSAGES)
        reported(workspace)
        wire.api("STREAM.DELETE.EV")
        assert condition.condition(workspace, archive).source == "missing"
        remove.delete(workspace, "a")
    check_least(server, needed)


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
        remove.delete(workspace, "jobs")
        assert wire.api("CONSUMER.NAMES.JOBS")["total"] == 0
    check_least(server, needed, idle)


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
    check_least(server, needed, {"STREAM.MSG.GET.BACK", "STREAM.NAMES"})


@pytest.mark.needs_nats("2.15")
def test_a_restore_needs_all_that_is_printed_and_no_more(guarded: Guarded, settings: Settings, bucket: str) -> None:
    names = names_at(settings.nats)
    needed = to_capture(ArchiveSpec("a", "EV", bucket), names) | to_restore("EV", "EV", names)
    server = guarded(configuration(needed))
    with admin(server) as there, Workspace(Settings.load()) as opened:
        there.create_stream("EV", "ev.>")
        there.publish(MESSAGES)
        archived(opened, there, "EV", bucket)
        there.api("STREAM.DELETE.EV")
        reported(opened)
        planned = plan_restore(opened, RestoreSpec("a"))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(restoring, "update_stream", lambda *_: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                restoring.restore(opened, planned)
        assert restoring.restore(opened, planned).messages == len(MESSAGES)
    # Asked of streams that have no consumer left, and of names that are unknown.
    check_least(server, needed, {"STREAM.NAMES"})


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
