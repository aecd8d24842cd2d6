"""A target made like the archived stream: its settings, its subjects, and what cannot be taken over."""

from typing import Any

import pytest

from nats3_dagster.errors import OperatorError
from nats3_dagster.jetstream.server import server_info
from nats3_dagster.model import ReplaySpec, Selection
from nats3_dagster.replay.begin import begin
from nats3_dagster.replay.planning.creation import creation
from nats3_dagster.subjects import Transform
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.replays import archived, dry_run, replayed
from nats3_dagster_tests.support.wire import Wire

pytestmark = pytest.mark.nats

KV = {"max_msgs_per_subject": 5, "allow_rollup_hdrs": True, "discard": "new", "deny_delete": True, "allow_direct": True}


def like(read: str, write: str, **more: Any) -> ReplaySpec:
    return ReplaySpec("a", write, Selection(subjects=(read,)), like_source=True, **more)


def test_a_bucket_becomes_a_bucket(workspace: Workspace, wire: Wire, bucket: str) -> None:
    wire.create_stream("KV_old", "$KV.old.>", **KV)
    wire.publish([("$KV.old.a", b"", b"%d" % n) for n in range(3)])
    archived(workspace, wire, "KV_old", bucket)
    spec = like("$KV.old.>", "$KV.new.>", live=True)
    assert dry_run(workspace, spec)["creates_stream"] == "KV_new"
    assert replayed(workspace, spec).published == 3
    made, source = (wire.api(f"STREAM.INFO.{name}")["config"] for name in ("KV_new", "KV_old"))
    changed = {key for key in made | source if made.get(key) != source.get(key)} - {"metadata", "allow_batched"}
    assert changed == {"name", "subjects"}
    assert made["subjects"] == ["$KV.new.>"]


def test_what_is_left_out_is_said(workspace: Workspace, wire: Wire, bucket: str) -> None:
    wire.create_stream("ORIGIN", "o.>")
    wire.create_stream("EV", "ev.a", "ev.b.>", sources=[{"name": "ORIGIN"}], max_msgs=1000, description="mine")
    wire.publish([("ev.a", b"", b""), ("ev.b.x", b"", b"")])
    archived(workspace, wire, "EV", bucket)
    spec = like("ev.>", "back.>", create_stream="BACK")
    shown = dry_run(workspace, spec)
    assert (shown["creates_stream"], shown["creates_without"]) == ("BACK", ["sources"])
    begin(workspace, spec)
    made = wire.api("STREAM.INFO.BACK")["config"]
    assert (made["subjects"], made["max_msgs"], made["description"]) == (["back.a", "back.b.>"], 1000, "mine")
    assert not made.get("sources")


def test_a_limit_that_would_remove_is_said(workspace: Workspace, wire: Wire, bucket: str) -> None:
    wire.create_stream("EV", "ev.>", max_msgs=3)
    wire.publish([("ev.a", b"", b"")] * 3)
    archived(workspace, wire, "EV", bucket)
    wire.publish([("ev.a", b"", b"")] * 2)
    archived(workspace, wire, "EV", bucket)
    notes = dry_run(workspace, like("ev.>", "back.>", create_stream="BACK"))["notes"]
    assert notes == ["Stream BACK keeps the newest 3 messages (max_msgs), and up to 5 come"]


def test_a_plain_stream_is_no_bucket(workspace: Workspace, wire: Wire, bucket: str) -> None:
    wire.create_stream("EV", "ev.>")
    wire.publish([("ev.a", b"", b"")])
    archived(workspace, wire, "EV", bucket)
    spec = ReplaySpec("a", "$KV.new.>", Selection(subjects=("ev.>",)), create_stream="KV_new")
    with pytest.raises(OperatorError, match=r"A plain stream on \$KV\.new\.> would be no bucket.* made like the"):
        begin(workspace, spec)
    with pytest.raises(OperatorError, match=r"The archived stream EV is no bucket of the kind that \$KV\.new\.>"):
        begin(workspace, like("ev.>", "$KV.new.>"))
    with pytest.raises(OperatorError, match="Stream EV exists with another configuration"):
        dry_run(workspace, like("ev.>", "back.>"))


@pytest.mark.parametrize(
    ("subjects", "read", "write", "mapped"),
    [
        (["$O.old.C.>", "$O.old.M.>"], "$O.old.>", "$O.new.>", ["$O.new.C.>", "$O.new.M.>"]),
        (["ev.>", "other.>"], "ev.>", "back.>", ["back.>"]),
        (["ev.*.x", "ev.y"], ">", ">", ["ev.*.x", "ev.y"]),
        (["ev.>"], "ev.a.>", "back.>", ["back.>"]),
        (["ev.*"], "ev.*", "back.{{partition(3,1)}}", ["back.*"]),
        (["ev.a", "ev.b"], "ev.>", "all", ["all"]),
        ([], ">", "back.>", ["back.>"]),
    ],
)
def test_the_subjects_are_mapped(
    workspace: Workspace, subjects: list[str], read: str, write: str, mapped: list[str]
) -> None:
    source = {"name": "OBJ_old" if read.startswith("$O") else "EV", "subjects": subjects}
    made = creation(like(read, write), Transform(read, write), source, server_info(workspace.link))
    assert made
    assert made.config["subjects"] == mapped
    assert made.name == ("OBJ_new" if read.startswith("$O") else "EV")
