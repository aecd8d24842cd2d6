"""An account comes back as it was at a moment: its streams with each message, its consumers, its buckets, its mirrors
and sources; what cannot come back is named before anything is made, and a run that stopped is run again."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nats3_dagster.archive.account import rules
from nats3_dagster.archive.account_restore import run as run_module
from nats3_dagster.archive.account_restore.plan import plan
from nats3_dagster.archive.account_restore.run import StreamRestored, run
from nats3_dagster.archive.account_restore.spec import AccountRestorePlan, AccountRestoreSpec
from nats3_dagster.archive.restore.plan import RestoreSpec
from nats3_dagster.archive.restore.plan import plan as plan_stream
from nats3_dagster.errors import OperatorError, SourceError, WrongState
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.conftest import NatsFactory
from nats3_dagster_tests.support.accounts import capture_all, capture_one, fields, make_rule, moment, tick
from nats3_dagster_tests.support.consumers import app
from nats3_dagster_tests.support.waiting import eventually
from nats3_dagster_tests.support.wire import Wire

pytestmark = pytest.mark.needs_nats("2.15")


def plain(wire: Wire) -> None:
    """Streams with messages and holes, one that never had any, one that lost all, and a bucket."""
    wire.create_stream("EV", "ev.>")
    wire.create_stream("Über=1+1", "ueber.>")
    wire.create_stream("EMPTY", "empty.>")
    wire.create_stream("WAS", "was.>")
    wire.create_stream("KV_b", "$KV.b.>", max_msgs_per_subject=3, allow_rollup_hdrs=True, deny_delete=True)
    wire.publish([("ev.1", b"NATS/1.0\r\nA: b\r\n\r\n" if n % 2 else b"", b"%d" % n) for n in range(40)])
    wire.publish([("ueber.x", b"", b"%d" % n) for n in range(5)] + [("was.x", b"", b"%d" % n) for n in range(3)])
    wire.publish([("$KV.b.k", b"", b"%d" % n) for n in range(5)])
    wire.api("STREAM.MSG.DELETE.EV", seq=7)


def destroy(wire: Wire) -> None:
    for name in wire.api("STREAM.NAMES")["streams"]:
        wire.api(f"STREAM.DELETE.{name}")


def planned(workspace: Workspace, **spec: Any) -> AccountRestorePlan:
    return plan(workspace, AccountRestoreSpec("all", **spec))


def restored(workspace: Workspace, **spec: Any) -> tuple[StreamRestored, ...]:
    return run(workspace, planned(workspace, **spec))


def actions(found: AccountRestorePlan) -> dict[str, str]:
    return {one.stream: one.action for one in found.streams}


def errors(found: Sequence[StreamRestored]) -> dict[str, str]:
    return {done.one.stream: done.error.what for done in found if done.error}


def test_everything_as_it_was(workspace: Workspace, wire: Wire, bucket: str) -> None:
    plain(wire)
    make_rule(workspace, bucket)
    app(workspace).make(ack_policy="explicit", ack_wait=1)
    assert app(workspace).take(12, acked=[1, 2, 3, 5]) == [1, 2, 3, 4, 5, 6, 8, 9, 10, 11, 12, 13]
    capture_all(workspace, wire)
    wire.api("STREAM.PURGE.WAS")
    names = wire.api("STREAM.NAMES")["streams"]
    before = {name: fields(wire, name) for name in names if name != "WAS"}
    capture_one(workspace, wire, workspace.catalog.archives.get("WAS"))
    destroy(wire)
    assert set(actions(planned(workspace)).values()) == {"restore"}
    done = restored(workspace)
    assert errors(done) == {}
    assert {name: fields(wire, name) for name in before} == before
    # What was purged after it was captured is in the archive.
    assert len(fields(wire, "WAS")) == 3
    assert wire.api("STREAM.INFO.KV_b")["config"]["max_msgs_per_subject"] == 3
    assert {d.one.stream: d.compared + d.ended for d in done} == {
        "EV": 39, "EMPTY": 0, "KV_b": 3, "WAS": 3, "Über=1+1": 5,
    }  # fmt: skip
    assert sorted(app(workspace).rest(2))[:9] == [(seq, 2) for seq in (4, 6, 8, 9, 10, 11, 12, 13)] + [(14, 1)]
    wire.publish([("empty.x", b"", b"first"), ("ev.1", b"", b"next")])
    assert [wire.state(name)["last_seq"] for name in ("EMPTY", "EV")] == [1, 41]


def test_a_moment_in_the_middle(workspace: Workspace, wire: Wire, bucket: str) -> None:
    """Streams that came later are not there, those that went before neither; the incarnation of then comes back."""
    plain(wire)
    wire.create_stream("GONE", "gone.>")
    wire.create_stream("OLD", "old.>")
    wire.publish([("gone.x", b"", b"x"), ("old.x", b"", b"first life")])
    make_rule(workspace, bucket)
    capture_all(workspace, wire)
    wire.api("STREAM.DELETE.GONE")
    tick(workspace)
    to_ns, text = moment()
    before = {name: fields(wire, name, text) for name in ("EV", "KV_b", "OLD", "EMPTY")}
    wire.create_stream("LATER", "later.>")
    wire.publish([(subject, b"", b"after") for subject in ("ev.1", "later.x", "$KV.b.k", "empty.x", "empty.x")])
    wire.api("STREAM.DELETE.OLD")
    wire.create_stream("OLD", "old.>")
    wire.publish([("old.x", b"", b"second life")] * 3)
    tick(workspace)
    for name in ("EV", "LATER", "KV_b", "OLD", "EMPTY"):
        archive = next(a for a in workspace.catalog.archives.all() if a.spec.stream == name)
        capture_one(workspace, wire, archive)
    destroy(wire)
    found = planned(workspace, to_ns=to_ns)
    left_out = {one.stream: one.reason.what for one in found.streams if one.action == "left_out" and one.reason}
    assert left_out.keys() == {"GONE", "LATER"}
    assert "deleted before" in left_out["GONE"]
    assert "made at" in left_out["LATER"]
    assert errors(run(workspace, found)) == {}
    assert {name: fields(wire, name) for name in before} == before
    assert wire.try_api("STREAM.INFO.LATER")["error"]
    wire.publish([("empty.x", b"", b"x")])
    assert wire.state("EMPTY")["last_seq"] == 1


def test_mirrors_and_sources_that_have_no_archive(workspace: Workspace, wire: Wire, bucket: str) -> None:
    """The rule keeps how they were made; the server fills them."""
    plain(wire)
    wire.api("STREAM.CREATE.MIRROR", name="MIRROR", mirror={"name": "EV"}, storage="memory")
    wire.api("STREAM.CREATE.SUM", name="SUM", sources=[{"name": "EV"}, {"name": "WAS"}], storage="memory")
    few = {"name": "Über=1+1", "filter_subject": "ueber.few"}
    wire.publish([("ueber.few", b"", b"few"), ("ueber.x", b"", b"x")])
    wire.api("STREAM.CREATE.FEW", name="FEW", mirror=few)
    eventually(lambda: wire.state("SUM")["messages"] == 42, "the sources arrived")
    eventually(lambda: wire.state("FEW")["messages"] == 1, "the mirror arrived")
    make_rule(workspace, bucket)
    capture_all(workspace, wire)
    before = {name: fields(wire, name) for name in ("MIRROR", "EV", "FEW")}
    destroy(wire)
    tick(workspace)
    found = planned(workspace)
    assert {name: found for name, found in actions(found).items() if found != "restore"} == {
        "FEW": "make",
        "MIRROR": "make",
        "SUM": "make",
    }
    assert [one.stream for one in found.streams[-3:]] == ["FEW", "MIRROR", "SUM"]
    done = run(workspace, found)
    assert errors(done) == {}
    assert {name: fields(wire, name) for name in before} == before
    assert wire.state("SUM")["messages"] == 42
    assert actions(planned(workspace))["MIRROR"] == "done"


def test_mirrors_and_sources_that_are_archived(workspace: Workspace, wire: Wire, bucket: str) -> None:
    """Exactly as they were, and they go on where they were: nothing comes again, nothing is left out."""
    plain(wire)
    wire.api("STREAM.CREATE.MIRROR", name="MIRROR", mirror={"name": "EV"}, storage="memory")
    wire.api("STREAM.CREATE.SUM", name="SUM", sources=[{"name": "EV"}, {"name": "WAS"}], storage="memory")
    eventually(lambda: wire.state("SUM")["messages"] == 42, "the sources arrived")
    make_rule(workspace, bucket, take_mirrors=True)
    capture_all(workspace, wire)
    before = {name: fields(wire, name) for name in ("MIRROR", "EV", "SUM", "WAS")}
    destroy(wire)
    # What EV had deleted before, the mirror never had: its archive cannot know why.
    assert errors(restored(workspace, over_gaps=True)) == {}
    assert {name: fields(wire, name) for name in before} == before
    wire.publish([("ev.9", b"", b"next"), ("was.9", b"", b"next")])
    eventually(lambda: wire.state("SUM")["messages"] == 44, "the sources go on")
    eventually(lambda: wire.state("MIRROR")["last_seq"] == 41, "the mirror goes on")
    assert fields(wire, "MIRROR") == fields(wire, "EV")
    assert wire.quiet("SUM", 1.0) == 44


def test_sources_with_filters_and_transforms(workspace: Workspace, wire: Wire, bucket: str) -> None:
    """Each of several sources of one stream goes on where it was."""
    plain(wire)
    every = [
        {"name": "EV", "filter_subject": "ev.1"},
        {"name": "EV", "subject_transforms": [{"src": "ev.2", "dest": "two"}, {"src": "ev.3", "dest": "three"}]},
        {"name": "Über=1+1"},
        {"name": "EMPTY", "opt_start_time": "2020-01-01T00:00:00Z"},
    ]
    wire.api("STREAM.CREATE.SUM", name="SUM", sources=every)
    wire.publish([(f"ev.{n % 4}", b"", b"%d" % n) for n in range(20)])
    eventually(lambda: wire.state("SUM")["messages"] == 39 + 15 + 5, "the sources arrived")
    make_rule(workspace, bucket, take_mirrors=True)
    capture_all(workspace, wire)
    before = {name: fields(wire, name) for name in ("EV", "SUM")}
    destroy(wire)
    assert errors(restored(workspace)) == {}
    wire.publish([(subject, b"", b"next") for subject in ("ev.1", "ev.2", "ev.3", "ev.0", "ueber.x", "empty.x")])
    eventually(lambda: wire.state("SUM")["messages"] == 64, "the sources go on")
    assert wire.quiet("SUM", 1.0) == 64
    assert fields(wire, "SUM")[:59] == before["SUM"]
    assert sorted(one["subject"] for one in fields(wire, "SUM")[59:]) == ["empty.x", "ev.1", "three", "two", "ueber.x"]
    starts = {one["name"]: one.get("opt_start_seq") for one in wire.api("STREAM.INFO.SUM")["config"]["sources"]}
    assert starts["Über=1+1"] == 6


def test_a_stream_with_more_than_its_origin_is_cut(workspace: Workspace, wire: Wire, bucket: str) -> None:
    """Its origin was captured earlier: the origin's next messages would be taken for those that it has."""
    plain(wire)
    wire.api("STREAM.CREATE.MIRROR", name="MIRROR", mirror={"name": "EV"}, storage="memory")
    wire.api("STREAM.CREATE.SUM", name="SUM", sources=[{"name": "EV"}], storage="memory")
    make_rule(workspace, bucket, take_mirrors=True)
    eventually(lambda: wire.state("SUM")["messages"] == 39, "the sources arrived")
    capture_all(workspace, wire)
    wire.publish([("ev.1", b"", b"not captured of EV")] * 4)
    eventually(lambda: wire.state("SUM")["messages"] == 43, "the sources arrived")
    eventually(lambda: wire.state("MIRROR")["last_seq"] == 44, "the mirror has it")
    for name in ("MIRROR", "SUM"):
        capture_one(workspace, wire, workspace.catalog.archives.get(name))
    destroy(wire)
    assert errors(restored(workspace, over_gaps=True)) == {}
    wire.publish([("ev.2", b"", b"other")] * 4)
    eventually(lambda: wire.state("SUM")["messages"] == 43, "the sources go on")
    eventually(lambda: wire.state("MIRROR")["last_seq"] == 44, "the mirror goes on")
    assert fields(wire, "MIRROR") == fields(wire, "EV")
    assert [one["subject"] for one in fields(wire, "SUM")][-4:] == ["ev.2"] * 4


def test_what_was_stopped_is_run_again(
    workspace: Workspace, wire: Wire, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Streams that are there already are found by the record, or compared; none is made twice."""
    plain(wire)
    make_rule(workspace, bucket)
    capture_all(workspace, wire)
    destroy(wire)
    real, made = run_module.restore, list[str]()

    def some(*given: Any, **more: Any) -> Any:
        if len(made) == 2:
            raise SourceError("the server is away")
        made.append(given[1].stream)
        return real(*given, **more)

    with monkeypatch.context() as patched:
        patched.setattr(run_module, "restore", some)
        first = restored(workspace, at_once=1)
    assert len(errors(first)) == 3
    # What an application did with a stream that is done changes nothing; of the other the record is lost.
    wire.api(f"STREAM.PURGE.{made[0]}")
    created = {name: wire.api(f"STREAM.INFO.{name}")["created"] for name in made}
    with workspace.catalog.session.transaction() as sql:
        sql.connection.execute("delete from nats3.restored_stream where stream = %s", [made[1]])
    found = planned(workspace)
    assert [actions(found)[name] for name in made] == ["done", "compare"]
    assert errors(run(workspace, found)) == {}
    assert {name: wire.api(f"STREAM.INFO.{name}")["created"] for name in made} == created
    assert set(actions(planned(workspace)).values()) == {"done"}


def test_nothing_begins_where_a_stream_cannot_be_restored(workspace: Workspace, wire: Wire, bucket: str) -> None:
    plain(wire)
    make_rule(workspace, bucket)
    capture_all(workspace, wire)
    destroy(wire)
    # Another stream has the name; its content is another.
    wire.create_stream("EV", "ev.>")
    wire.publish([("ev.1", b"", b"other")] * 50)
    with pytest.raises(WrongState, match="Stream EV exists, and is not as archive EV has it"):
        restored(workspace)
    # One takes a subject.
    wire.create_stream("OTHER", "was.x")
    found = planned(workspace, exclude=("EV",))
    assert found.refusal
    assert "Stream WAS cannot be restored" in found.refusal.what
    with pytest.raises(WrongState):
        run(workspace, found)
    assert wire.api("STREAM.NAMES")["streams"] == ["EV", "OTHER"]
    assert errors(restored(workspace, exclude=("EV", "WAS"))) == {}
    with pytest.raises(OperatorError, match="no archive of a stream that is asked for"):
        planned(workspace, match=("none",))


def test_a_rule_that_is_made_again_has_the_archives_that_are_there(
    workspace: Workspace, wire: Wire, bucket: str
) -> None:
    """As after a rebuild of the catalog, which knows no rule."""
    plain(wire)
    make_rule(workspace, bucket)
    capture_all(workspace, wire)
    before = fields(wire, "EV")
    rules.end(workspace, "all")
    destroy(wire)
    make_rule(workspace, bucket, match=("EV", "KV_*"))
    assert sorted(actions(planned(workspace))) == ["EV", "KV_b"]
    assert errors(restored(workspace)) == {}
    assert fields(wire, "EV") == before


def test_the_plan_says_where_an_archive_ends(workspace: Workspace, wire: Wire, bucket: str) -> None:
    plain(wire)
    make_rule(workspace, bucket)
    capture_all(workspace, wire)
    to_ns, _ = moment()
    notes = {one.stream: one.notes for one in planned(workspace, to_ns=to_ns, match=("EV",)).streams}
    assert "archived up to" in notes["EV"][0]
    capture_all(workspace, wire)
    assert [one.notes for one in planned(workspace, to_ns=to_ns, match=("EV",)).streams] == [()]


def test_a_stream_that_would_take_all_messages_again_is_named(workspace: Workspace, wire: Wire, bucket: str) -> None:
    """For a server from 2.15 a source that was made again is another one (seen: each message twice)."""
    plain(wire)
    wire.api("STREAM.CREATE.SUM", name="SUM", sources=[{"name": "EV"}, {"name": "WAS"}])
    eventually(lambda: wire.state("SUM")["messages"] == 42, "the sources arrived")
    make_rule(workspace, bucket, exclude=("SUM",))
    capture_all(workspace, wire)
    wire.api("STREAM.DELETE.EV")
    found = planned(workspace, match=("EV",))
    assert found.refusal
    assert "Stream SUM has EV as a source" in found.refusal.what
    with pytest.raises(WrongState, match="Stream SUM has EV as a source"):
        plan_stream(workspace, RestoreSpec("EV"))
    # As the hint says.
    config = wire.api("STREAM.INFO.SUM")["config"]
    wire.api("STREAM.UPDATE.SUM", **{**config, "sources": [{"name": "WAS"}]})
    wire.api("STREAM.UPDATE.SUM", **{**config, "sources": [{"name": "WAS"}, {"name": "EV", "opt_start_seq": 41}]})
    assert errors(restored(workspace, match=("EV",))) == {}
    wire.publish([("ev.1", b"", b"next")])
    eventually(lambda: wire.state("SUM")["messages"] >= 43, "the source goes on")
    assert wire.quiet("SUM", 2.0) == 43


def test_a_stream_that_was_restored_from_less_is_not_done(workspace: Workspace, wire: Wire, bucket: str) -> None:
    """The archive has more by now; a restore adds nothing to a stream."""
    plain(wire)
    make_rule(workspace, bucket)
    capture_all(workspace, wire)
    destroy(wire)
    assert errors(restored(workspace)) == {}
    # As if it had been restored elsewhere, and the archived one went on here.
    wire.publish([("ev.1", b"", b"later")] * 3)
    capture_one(workspace, wire, workspace.catalog.archives.get("EV"))
    assert actions(planned(workspace))["EV"] == "done"
    with workspace.catalog.session.transaction() as sql:
        sql.connection.execute("delete from nats3.restored_stream")
    wire.api("STREAM.DELETE.EV")
    wire.create_stream("EV", "ev.>")
    wire.publish([("ev.1", b"", b"x")])
    found = planned(workspace, match=("EV",))
    assert found.refusal
    assert "ends with sequence 1, and its archive has it up to 43" in found.refusal.what


def test_an_archive_without_a_capture_stops_no_other(workspace: Workspace, wire: Wire, bucket: str) -> None:
    plain(wire)
    make_rule(workspace, bucket)
    capture_all(workspace, wire)
    wire.create_stream("NEW", "new.>")
    wire.publish([("new.1", b"", b"x")])
    tick(workspace)
    destroy(wire)
    assert errors(restored(workspace, over_gaps=True)) == {}
    assert len(fields(wire, "EV")) == 39


def test_no_sequence_is_given_again_as_of_a_time(workspace: Workspace, wire: Wire, bucket: str) -> None:
    """Messages at the end were deleted before; what sources a stream has their sequences."""
    plain(wire)
    wire.api("STREAM.MSG.DELETE.EV", seq=40)
    make_rule(workspace, bucket)
    capture_all(workspace, wire)
    to_ns, _ = moment()
    wire.publish([("was.x", b"", b"later")])
    capture_all(workspace, wire)
    destroy(wire)
    assert errors(restored(workspace, to_ns=to_ns)) == {}
    assert [wire.state(name)["last_seq"] for name in ("EV", "WAS")] == [40, 3]


def test_a_stream_is_not_made_where_its_origin_failed(
    workspace: Workspace, wire: Wire, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain(wire)
    wire.api("STREAM.CREATE.SUM", name="SUM", sources=[{"name": "EV"}])
    eventually(lambda: wire.state("SUM")["messages"] == 39, "the source arrived")
    make_rule(workspace, bucket, take_mirrors=True)
    capture_all(workspace, wire)
    before = fields(wire, "SUM")
    destroy(wire)
    real = run_module.restore

    def without_one(*given: Any, **more: Any) -> Any:
        if given[1].stream == "EV":
            raise SourceError("the server is away")
        return real(*given, **more)

    with monkeypatch.context() as patched:
        patched.setattr(run_module, "restore", without_one)
        assert errors(restored(workspace)) == {
            "EV": "the server is away",
            "SUM": "EV, which it is filled from, was not restored",
        }
    assert errors(restored(workspace)) == {}
    assert fields(wire, "SUM") == before


def test_losses_are_said_before(workspace: Workspace, wire: Wire, bucket: str) -> None:
    plain(wire)
    make_rule(workspace, bucket)
    capture_all(workspace, wire)
    wire.publish([("ev.1", b"", b"lost")] * 3)
    wire.api("STREAM.PURGE.EV")
    wire.publish([("ev.1", b"", b"after")] * 3)
    capture_one(workspace, wire, workspace.catalog.archives.get("EV"))
    destroy(wire)
    found = planned(workspace)
    assert actions(found)["EV"] == "refused"
    assert found.refusal
    assert errors(restored(workspace, over_gaps=True)) == {}


def test_one_that_fails_stops_no_other(
    workspace: Workspace, wire: Wire, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain(wire)
    make_rule(workspace, bucket)
    capture_all(workspace, wire)
    destroy(wire)
    found = planned(workspace)
    broken = tuple(
        replace(one, planned=replace(one.planned, config={**one.planned.config, "max_msg_size": "x"}))
        if one.planned and one.stream == "EV"
        else one
        for one in found.streams
    )
    done = run(workspace, replace(found, streams=broken))
    assert list(errors(done)) == ["EV"]
    assert wire.api("STREAM.NAMES")["streams"] == ["EMPTY", "KV_b", "WAS", "Über=1+1"]


def test_an_account_whose_jetstream_is_in_a_domain(
    workspace: Workspace, bucket: str, nats_factory: NatsFactory, tmp_path: Path
) -> None:
    """The domain is that of the settings, as for a leaf node: its API has another prefix."""
    server = nats_factory(config=f'jetstream {{ domain: HUB, store_dir: "{tmp_path}/hub" }}')
    domain = {"nats_url": server.url, "nats_domain": "HUB"}
    with Workspace(workspace.settings.model_copy(update=domain)) as there, Wire(server.url) as wire:
        wire.create_stream("EV", "ev.>")
        wire.publish([("ev.1", b"", b"%d" % n) for n in range(40)])
        wire.api("STREAM.CREATE.SUM", name="SUM", sources=[{"name": "EV"}])
        eventually(lambda: wire.state("SUM")["messages"] == 40, "the sources arrived")
        make_rule(there, bucket, take_mirrors=True)
        app(there).make(ack_policy="explicit")
        capture_all(there, wire)
        before = {name: fields(wire, name) for name in ("EV", "SUM")}
        destroy(wire)
        assert errors(restored(there)) == {}
        assert {name: fields(wire, name) for name in before} == before
        assert wire.api("CONSUMER.INFO.EV.app")["num_pending"] == 40
