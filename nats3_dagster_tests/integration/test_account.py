"""A rule for an account: which streams get an archive and why the others do not, streams that go and come again, rules
that change and end, and what a process leaves that dies in between."""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from pydantic import SecretStr

from nats3_dagster.archive.account import rules
from nats3_dagster.archive.account.follow import Followed, follow
from nats3_dagster.archive.account.plan import StreamPlan
from nats3_dagster.archive.account.status import status
from nats3_dagster.archive.captures.open import open_source
from nats3_dagster.archive.health import nats_health
from nats3_dagster.archive.lifecycle import remove
from nats3_dagster.archive.lifecycle.create import create
from nats3_dagster.archive.source.condition import condition
from nats3_dagster.archive.stored import folder
from nats3_dagster.catalog import migrate
from nats3_dagster.errors import Conflict, OperatorError, StreamChanged, Unknown
from nats3_dagster.model import ArchiveSpec
from nats3_dagster.model.account_rule import AccountRule
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.races import race
from nats3_dagster_tests.support.taking import run as take
from nats3_dagster_tests.support.wire import Wire


@pytest.fixture
def two(settings: Settings) -> Iterator[tuple[Workspace, Workspace]]:
    """What two processes have."""
    with ExitStack() as stack:
        yield stack.enter_context(Workspace(settings)), stack.enter_context(Workspace(settings))


@pytest.fixture
def other(empty_postgres_url: str, settings: Settings) -> Iterator[Workspace]:
    """Another catalog beside the same NATS and store."""
    migrate(empty_postgres_url)
    with Workspace(settings.model_copy(update={"postgres_url": SecretStr(empty_postgres_url)})) as opened:
        yield opened


def account(wire: Wire) -> None:
    """Streams of each kind that an account may have."""
    wire.create_stream("EV", "ev.>")
    wire.create_stream("Über=1+1", "ueber.>")
    wire.create_stream("KV_my-bucket", "$KV.my-bucket.>", max_msgs_per_subject=5)
    wire.create_stream("tmp-1", "tmp.1")
    wire.create_stream("JOBS", "jobs.>", retention="workqueue")
    wire.create_stream("SEEN", "seen.>", retention="interest")
    wire.api("STREAM.CREATE.MIRROR", name="MIRROR", mirror={"name": "EV"}, storage="memory")
    sources = [{"name": "EV"}, {"name": "KV_my-bucket"}]
    wire.api("STREAM.CREATE.SUM", name="SUM", sources=sources, storage="memory")
    wire.api("STREAM.CREATE.MIXED", name="MIXED", sources=sources, subjects=["mixed"], storage="memory")
    halves = [{"name": "EV"}, {"name": "SEEN"}]
    wire.api("STREAM.CREATE.HALF", name="HALF", sources=halves, storage="memory")
    wire.api("STREAM.CREATE.QSUM", name="QSUM", sources=[{"name": "JOBS"}], storage="memory")


def said(streams: tuple[StreamPlan, ...]) -> dict[str, str]:
    return {one.stream: one.action + (f": {one.reason.what}" if one.reason else "") for one in streams}


def archives(workspace: Workspace) -> dict[str, str]:
    return {archive.name: archive.spec.stream for archive in workspace.catalog.archives.all()}


def one_tick(workspace: Workspace) -> Followed:
    (found,) = follow(workspace)
    return found


def test_each_stream_has_an_archive_or_a_reason(workspace: Workspace, wire: Wire, bucket: str) -> None:
    account(wire)
    rule = AccountRule("all", bucket, exclude=("tmp*",), prefix="nats/{stream}", max_age_s=7)
    expected = {
        "EV": "create",
        "HALF": "create",  # of one source there is no archive
        "JOBS": "left_out: it has workqueue retention, and an archive would be one of its consumers",
        "KV_my-bucket": "create",
        "MIRROR": "left_out: it mirrors EV",
        "MIXED": "create",
        "QSUM": "create",
        "SEEN": "left_out: it has interest retention, and an archive would be one of its consumers",
        "SUM": "left_out: all that it has is from EV, KV_my-bucket",
        "tmp-1": "left_out: it is excluded by the rule",
        "Über=1+1": "create",
    }
    assert said(rules.preview(workspace, rule)) == expected
    assert archives(workspace) == {}  # a preview writes nothing
    assert workspace.catalog.accounts.rules() == ()

    kept, _ = rules.create(workspace, rule)
    found = one_tick(workspace)
    assert sorted(found.created) == ["EV", "HALF", "KV_my_x2D_bucket", "MIXED", "QSUM", "_xDC_ber_x3D_1_x2B_1"]
    assert not found.problems
    made = {archive.name: archive.spec for archive in workspace.catalog.archives.all()}
    assert {name: spec.stream for name, spec in made.items()} == {
        "EV": "EV",
        "HALF": "HALF",
        "KV_my_x2D_bucket": "KV_my-bucket",
        "MIXED": "MIXED",
        "QSUM": "QSUM",
        "_xDC_ber_x3D_1_x2B_1": "Über=1+1",
    }
    assert made["EV"].prefix == "nats/EV"
    assert made["_xDC_ber_x3D_1_x2B_1"].prefix == "nats/%C3%9Cber%3D1%2B1"
    assert {spec.max_age_s for spec in made.values()} == {7}

    again = one_tick(workspace)
    assert (again.created, again.ended, again.adopted, again.released, again.problems) == ([], [], [], [], {})
    archived = {name: "archived" for name, text in expected.items() if text == "create"}
    assert said(rules.planned(workspace, kept)) == expected | archived


@pytest.mark.needs_nats("2.14")  # 2.9.10: what sources a work queue is a consumer of it, and there can be no other
def test_what_is_asked_for_is_archived_too(workspace: Workspace, wire: Wire, bucket: str) -> None:
    account(wire)
    rules.create(workspace, AccountRule("all", bucket, match=("*S*", "MI*"), take_queues=True, take_mirrors=True))
    found = one_tick(workspace)
    assert sorted(found.created) == ["JOBS", "MIRROR", "MIXED", "QSUM", "SEEN", "SUM"]
    modes = {archive.name: archive.spec.mode for archive in workspace.catalog.archives.all()}
    assert {name for name, mode in modes.items() if mode == "consumer"} == {"JOBS", "SEEN"}
    assert "nats3-JOBS" in wire.api("CONSUMER.NAMES.JOBS")["consumers"]


def test_streams_that_others_have_are_left_to_them(workspace: Workspace, wire: Wire, bucket: str) -> None:
    for stream in ("A", "B", "C_1", "D"):
        wire.create_stream(stream, f"{stream}.>")
    create(workspace, ArchiveSpec("mine", "A", bucket))
    create(workspace, ArchiveSpec("part", "B", bucket, subjects=("B.x",)))  # a part of it is not all of it
    create(workspace, ArchiveSpec("D", "A", bucket, subjects=("A.x",)))  # has the name that D's would have
    rules.create(workspace, AccountRule("first", bucket, match=("C*",)))
    rules.create(workspace, AccountRule("second", bucket))
    first, second = follow(workspace)
    assert said(first.streams) == {
        "A": "left_out: no pattern of the rule takes it",
        "B": "left_out: no pattern of the rule takes it",
        "C_1": "create",
        "D": "left_out: no pattern of the rule takes it",
    }
    assert said(second.streams) == {
        "A": "left_out: archive mine has it",
        "B": "create",
        "C_1": "left_out: rule first has it",
        "D": "left_out: archive D, of stream A, has the name that its own would have",
    }


def test_a_stream_that_goes_ends_its_archive_and_one_made_again_goes_on(
    workspace: Workspace, wire: Wire, bucket: str
) -> None:
    wire.create_stream("EV", "ev.>")
    wire.publish([("ev.1", b"", b"first")])
    rules.create(workspace, AccountRule("all", bucket))
    assert one_tick(workspace).created == ["EV"]
    archive = workspace.catalog.archives.get("EV")
    assert workspace.catalog.accounts.ended_at(archive) is None

    wire.api("STREAM.DELETE.EV")
    assert one_tick(workspace).ended == ["EV"]
    ended = workspace.catalog.accounts.ended_at(archive)
    assert ended is not None
    assert one_tick(workspace).ended == []
    assert workspace.catalog.accounts.ended_at(archive) == ended
    assert archives(workspace) == {"EV": "EV"}
    # An account whose streams come and go is well.
    assert [one.status for one in nats_health.check(workspace) if "EV" in one.what] == ["ok"]

    wire.create_stream("EV", "ev.>")
    wire.publish([("ev.1", b"", b"again")])
    found = one_tick(workspace)
    assert (found.created, found.adopted, found.problems) == ([], ["EV"], {})
    assert workspace.catalog.accounts.ended_at(archive) is None
    assert len(workspace.catalog.coverage.incarnations(archive)) == 2
    assert one_tick(workspace).adopted == []


def test_a_listing_without_a_stream_ends_no_archive(
    workspace: Workspace, wire: Wire, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cluster may answer with a part of its streams: the stream itself is asked for by its name."""
    wire.create_stream("EV", "ev.>")
    rules.create(workspace, AccountRule("all", bucket))
    one_tick(workspace)
    with monkeypatch.context() as patch:
        patch.setattr(rules, "all_streams", lambda _: [])
        assert one_tick(workspace).ended == []
    assert workspace.catalog.accounts.ended_at(workspace.catalog.archives.get("EV")) is None


def test_a_rule_that_asks_leaves_a_stream_made_again_alone(workspace: Workspace, wire: Wire, bucket: str) -> None:
    wire.create_stream("EV", "ev.>")
    rules.create(workspace, AccountRule("all", bucket, remade="ask"))
    one_tick(workspace)
    wire.api("STREAM.DELETE.EV")
    wire.create_stream("EV", "ev.>")
    found = one_tick(workspace)
    assert said(found.streams) == {"EV": "remade"}
    assert found.adopted == []
    archive = workspace.catalog.archives.get("EV")
    assert len(workspace.catalog.coverage.incarnations(archive)) == 1


@pytest.mark.needs_nats("2.10")  # streams have metadata
def test_a_stream_that_is_being_restored_is_left_alone(workspace: Workspace, wire: Wire, bucket: str) -> None:
    """It has a part of the messages and none of its subjects: no rule and no person may take it for the stream."""
    wire.create_stream("EV", "ev.>")
    wire.create_stream("NEW", "nats3.restoring.NEW", metadata={"nats3.restoring": "true"})
    rules.create(workspace, AccountRule("all", bucket))
    assert said(one_tick(workspace).streams)["NEW"] == "left_out: it is being restored"
    archive = workspace.catalog.archives.get("EV")
    wire.api("STREAM.DELETE.EV")
    wire.create_stream("EV", "nats3.restoring.EV", metadata={"nats3.restoring": "true"})
    found = one_tick(workspace)
    assert (said(found.streams)["EV"], found.adopted, found.problems) == ("restoring", [], {})
    for adopt in (False, True):
        with pytest.raises(StreamChanged, match="is being restored, or was left by a restore that was cut"):
            open_source(workspace, archive, adopt=adopt)
    assert "is being restored" in str(condition(workspace, archive).error)
    told = [one.what for one in nats_health.check(workspace) if one.status == "fail"]
    assert len(told) == 1
    assert "is being restored" in told[0]
    assert len(workspace.catalog.coverage.incarnations(archive)) == 1


def test_an_archive_that_somebody_deleted_is_not_made_again(workspace: Workspace, wire: Wire, bucket: str) -> None:
    wire.create_stream("EV", "ev.>")
    kept, _ = rules.create(workspace, AccountRule("all", bucket))
    one_tick(workspace)
    remove.delete(workspace, "EV")
    assert said(one_tick(workspace).streams) == {"EV": "left_out: its archive EV was deleted"}
    assert archives(workspace) == {}
    rules.end(workspace, kept.name)  # another rule is asked anew
    rules.create(workspace, AccountRule("again", bucket, prefix="again"))
    assert one_tick(workspace).created == ["EV"]


def test_a_changed_rule_changes_its_archives(workspace: Workspace, wire: Wire, bucket: str) -> None:
    for stream in ("A", "B", "tmp"):
        wire.create_stream(stream, f"{stream}.>")
    rules.create(workspace, AccountRule("all", bucket))
    one_tick(workspace)
    wanted: dict[str, Any] = {"max_age_s": 5, "exclude": ("tmp",)}
    assert said(rules.preview_change(workspace, "all", wanted)[1]) == {
        "A": "archived",
        "B": "archived",
        "tmp": "released: it is excluded by the rule",
    }
    done = rules.change(workspace, "all", wanted)
    assert (done.archives, done.failed) == (("A", "B"), {})
    assert one_tick(workspace).released == ["tmp"]
    ages = {archive.name: archive.spec.max_age_s for archive in workspace.catalog.archives.all()}
    assert ages == {"A": 5, "B": 5, "tmp": 30}  # it goes on, by itself
    assert rules.change(workspace, "all", wanted).archives == ()
    assert rules.change(workspace, "all", {"exclude": ()}).archives == ()
    # It is an archive like any other now.
    assert said(one_tick(workspace).streams)["tmp"] == "left_out: archive tmp has it"


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ({"prefix": "other"}, "prefix of rule all cannot change"),
        ({"name": "other"}, "name of rule all cannot change"),
        ({"copies": ("no-such-bucket",)}, "The bucket of a copy 'no-such-bucket' does not exist"),
        ({"match": ()}, "The rule takes no stream"),
        ({"match": ("a.b",)}, "'a.b' is not a pattern of stream names"),
        ({"max_age_s": 0}, "max_age_s is 0"),
    ],
)
def test_a_change_that_is_refused_changes_nothing(
    workspace: Workspace, wire: Wire, bucket: str, wanted: dict[str, Any], message: str
) -> None:
    wire.create_stream("EV", "ev.>")
    kept, _ = rules.create(workspace, AccountRule("all", bucket))
    with pytest.raises(OperatorError, match=message):
        rules.change(workspace, "all", wanted)
    assert workspace.catalog.accounts.get("all") == kept


def test_rules_are_refused_before_anything_is_written(workspace: Workspace, bucket: str) -> None:
    with pytest.raises(OperatorError, match="The bucket 'no-such-bucket' does not exist"):
        rules.create(workspace, AccountRule("all", "no-such-bucket"))
    rules.create(workspace, AccountRule("all", bucket))
    with pytest.raises(Conflict, match="There is a rule all already"):
        rules.create(workspace, AccountRule("all", bucket))
    with pytest.raises(Unknown, match="There is no rule al for an account"):
        rules.end(workspace, "al")
    assert [kept.name for kept in workspace.catalog.accounts.rules()] == ["all"]


def test_a_rule_ends_without_touching_its_archives(workspace: Workspace, wire: Wire, bucket: str) -> None:
    wire.create_stream("EV", "ev.>")
    rules.create(workspace, AccountRule("all", bucket))
    one_tick(workspace)
    before = workspace.catalog.archives.all()
    assert rules.end(workspace, "all") == 1
    assert workspace.catalog.archives.all() == before
    assert follow(workspace) == []


def test_one_stream_that_fails_does_not_stop_the_others(
    workspace: Workspace, other: Workspace, wire: Wire, bucket: str
) -> None:
    wire.create_stream("A", "a.>")
    wire.create_stream("B", "b.>")
    create(other, ArchiveSpec("A", "A", bucket))
    rules.create(workspace, AccountRule("all", bucket))
    for _ in range(2):  # what failed is tried again, and is not taken for deleted by somebody
        found = one_tick(workspace)
        assert "belongs to an archive of another catalog" in str(found.problems.pop("A"))
        assert not found.problems
    assert archives(workspace) == {"B": "B"}
    workspace.bucket(bucket).delete("archive=A/_owner.json")
    assert one_tick(workspace).created == ["A"]


def test_an_archive_whose_folder_was_taken_meanwhile_is_tried_again(
    workspace: Workspace, other: Workspace, wire: Wire, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another catalog claims the folder after it was seen free: the archive that was begun goes, and is not taken for
    one that somebody deleted."""
    wire.create_stream("A", "a.>")
    rules.create(workspace, AccountRule("all", bucket))
    with monkeypatch.context() as patch:
        patch.setattr(folder, "check_free", lambda *_: None)
        create(other, ArchiveSpec("A", "A", bucket))
        found = one_tick(workspace)
    assert list(found.problems) == ["A"]
    assert archives(workspace) == {}
    workspace.bucket(bucket).delete("archive=A/_owner.json")
    assert one_tick(workspace).created == ["A"]


def test_two_ticks_at_once_make_each_archive_once(two: tuple[Workspace, Workspace], wire: Wire, bucket: str) -> None:
    names = {f"S{n}" for n in range(5)}
    for name in sorted(names):
        wire.create_stream(name, f"{name}.>")
    rules.create(two[0], AccountRule("all", bucket))
    both = race(lambda: follow(two[0])[0], lambda: follow(two[1])[0])
    assert archives(two[0]) == {name: name for name in names}
    made = [name for found in both if isinstance(found, Followed) for name in found.created]
    assert sorted(made) == sorted(names)
    rest = one_tick(two[0])
    assert {one.action for one in rest.streams} == {"archived"}


def test_what_there_is_no_time_for_the_next_tick_does(workspace: Workspace, wire: Wire, bucket: str) -> None:
    for name in ("A", "B", "C"):
        wire.create_stream(name, f"{name}.>")
    rules.create(workspace, AccountRule("all", bucket))
    (found,) = follow(workspace, budget_s=-1)
    assert (found.created, found.left) == ([], 3)
    assert one_tick(workspace).created == ["A", "B", "C"]


def test_the_state_of_an_account(workspace: Workspace, wire: Wire, bucket: str) -> None:
    wire.create_stream("A", "a.>")
    wire.create_stream("JOBS", "jobs.>", retention="workqueue")
    rules.create(workspace, AccountRule("all", bucket))
    one_tick(workspace)
    wire.publish([("a.1", b"", b"1"), ("a.2", b"", b"2")])
    (found,) = status(workspace)
    (a, jobs) = found.streams
    assert a.condition is not None
    assert a.condition.waiting is not None
    assert a.condition.waiting.behind == 2
    assert a.loss is not None
    assert a.loss.level == "ok"
    assert (jobs.condition, jobs.loss) == (None, None)
    with pytest.raises(Unknown):
        status(workspace, ["other"])


def test_a_queue_that_is_made_again_is_taken_from(workspace: Workspace, wire: Wire, bucket: str) -> None:
    """The durable of its archive went with it, and is made again in the same tick."""
    wire.create_stream("JOBS", "jobs.>", retention="workqueue")
    rules.create(workspace, AccountRule("all", bucket, take_queues=True))
    one_tick(workspace)
    archive = workspace.catalog.archives.get("JOBS")
    wire.publish([("jobs.1", b"", b"1")] * 5)
    assert take(workspace, archive).messages == 5
    wire.api("STREAM.DELETE.JOBS")
    wire.create_stream("JOBS", "jobs.>", retention="workqueue")
    wire.publish([("jobs.1", b"", b"2")] * 3)
    assert one_tick(workspace).adopted == ["JOBS"]
    assert condition(workspace, archive).error is None
    assert take(workspace, archive).messages == 3


def test_why_an_archive_cannot_be_made_is_said(workspace: Workspace, wire: Wire, bucket: str) -> None:
    """A work queue that a consumer takes everything from has no place for the archive's own."""
    wire.create_stream("EV", "ev.>")
    wire.create_stream("JOBS", "jobs.>", retention="workqueue")
    config = {"durable_name": "app", "ack_policy": "explicit"}
    wire.api("CONSUMER.CREATE.JOBS.app", stream_name="JOBS", config=config)
    rules.create(workspace, AccountRule("all", bucket, take_queues=True))
    (before,) = status(workspace, ["all"])
    said_before = {one.plan.stream: one.problem and one.problem.what for one in before.streams}
    assert said_before.keys() == {"EV", "JOBS"}
    assert said_before["EV"] is None
    assert "app" in (said_before["JOBS"] or "")
    problems = one_tick(workspace).problems
    (after,) = status(workspace, ["all"])
    assert {one.plan.stream: one.problem and one.problem.what for one in after.streams} == {
        "EV": None,
        "JOBS": problems["JOBS"].what,
    }
