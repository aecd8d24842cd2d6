"""What a target would refuse half way is refused in the plan, with its value and the way out."""

from dataclasses import replace
from typing import Any

import psycopg
import pytest

from nats3_dagster.cli import wording as cli
from nats3_dagster.dev.nats_server import NatsServer
from nats3_dagster.errors import CatalogError, Nats3Error, OperatorError, TargetError
from nats3_dagster.model import Replay, ReplaySpec, Selection, SeqRange
from nats3_dagster.replay import attempt
from nats3_dagster.replay.begin import begin
from nats3_dagster.replay.control import delete
from nats3_dagster.replay.drive import drive
from nats3_dagster.replay.job import ReplayJob
from nats3_dagster.replay.messages.headers import header_room
from nats3_dagster.replay.planning.room import check_room
from nats3_dagster.steps import Next
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.replays import archived, dry_run, pending, publish_here, published, replayed
from nats3_dagster_tests.support.wire import Wire

TO_BACK = ReplaySpec("a", "back.>", Selection(subjects=("ev.>",)))
MAX_PAYLOAD = 1 << 20
# What marks and id take for a sequence of one digit, of 20 that there is room for; and the same for a message without
# headers, which also gets a first and a last line.
ADDED = header_room("EV") - 3 * 19
MARKS = ADDED - len(b"NATS/1.0\r\n\r\n")


def refused(
    ws: Workspace, wire: Wire, error: str, spec: ReplaySpec = TO_BACK, kind: type[Nats3Error] = TargetError
) -> None:
    for plan in (dry_run, begin):
        with pytest.raises(kind, match=error):
            plan(ws, spec)
    assert not wire.state("BACK")["messages"]


@pytest.mark.parametrize(
    ("config", "error"),
    [
        ({"no_ack": True}, r"BACK does not acknowledge messages \(no_ack\).* Set no_ack of stream BACK to false"),
        ({"retention": "interest"}, "Stream BACK has interest retention and no consumer.* Create its consumers first"),
        (
            {"max_msg_size": 300},
            r"The largest message takes 4\d\d bytes with its headers when replayed; Stream BACK takes up to 300",
        ),
        (
            {"max_msgs": 15, "discard": "new"},
            r"Stream BACK takes up to 15 \(max_msgs, discard new\): it has 0, and 20 come\. Set max_msgs .* least 20",
        ),
        ({"max_bytes": 1000, "discard": "new"}, r"BACK takes up to 1000 \(max_bytes, discard new\): it has 0, and"),
        (
            {"max_msgs_per_subject": 9, "max_msgs": 100, "discard": "new", "discard_new_per_subject": True},
            r"Stream BACK takes up to 9 messages of back\.0 \(discard new\): it has 0, and 10 come\. .* at least 10",
        ),
    ],
)
def test_by_the_targets_settings(
    workspace: Workspace, wire: Wire, bucket: str, config: dict[str, Any], error: str
) -> None:
    wire.create_stream("EV", "ev.>")
    wire.publish([(f"ev.{n % 2}", b"", b"x" * 100) for n in range(20)])
    wire.create_stream("BACK", "back.>", **config)
    archived(workspace, wire, "EV", bucket)
    refused(workspace, wire, error)


@pytest.mark.parametrize(
    ("read", "limits", "error"),
    [
        (">", {"max_msgs": 22}, r"takes up to 22 \(max_msgs, discard new\): it has 3, and 20 come"),
        ("0", {"max_msgs": 12}, r"takes up to 12 \(max_msgs, discard new\): it has 3, and 10 come"),
        ("0", {"max_msgs": 13}, None),
        # Of a subject that has messages already.
        (
            "0",
            {"max_msgs_per_subject": 12},
            r"takes up to 12 messages of back\.0 \(discard new\): it has 3, and 10 come",
        ),
        ("0", {"max_msgs_per_subject": 13}, None),
        ("1", {"max_msgs_per_subject": 9}, r"takes up to 9 messages of back\.1 \(discard new\): it has 0, and 10 come"),
        ("1", {"max_msgs_per_subject": 10}, None),
    ],
)
def test_a_full_target_and_a_part_of_the_subjects(
    workspace: Workspace, wire: Wire, bucket: str, read: str, limits: dict[str, int], error: str | None
) -> None:
    """nats-server#2314: what the plan lets pass must fit."""
    wire.create_stream("EV", "ev.>")
    wire.publish([(f"ev.{n % 2}", b"", b"x") for n in range(20)])
    per = {"discard_new_per_subject": True} if "max_msgs_per_subject" in limits else {}
    wire.create_stream("BACK", "back.>", **limits, **per, discard="new")
    wire.publish([("back.0", b"", b"x")] * 3)
    archived(workspace, wire, "EV", bucket)
    spec = replace(TO_BACK, selection=Selection(subjects=(f"ev.{read}",)), write_subject=f"back.{read}")
    if error is None:
        assert replayed(workspace, spec).state == "succeeded"
        return
    for plan in (dry_run, begin):
        with pytest.raises(TargetError, match=error):
            plan(workspace, spec)
    assert wire.state("BACK")["messages"] == 3


def test_bytes_that_may_not_fit_are_named(workspace: Workspace, wire: Wire, bucket: str) -> None:
    wire.create_stream("EV", "ev.>")
    wire.publish([(f"ev.{n % 2}", b"", b"x" * 100) for n in range(20)])
    wire.create_stream("BACK", "back.>", max_bytes=900, discard="new")
    archived(workspace, wire, "EV", bucket)
    spec = replace(TO_BACK, selection=Selection(subjects=("ev.0",)), write_subject="back.0")
    assert "Stream BACK takes up to 900 bytes (max_bytes, discard new), and up to 1040 come" in str(
        dry_run(workspace, spec)["notes"]
    )


@pytest.mark.parametrize("limits", [{"max_msgs": 25}, {"max_bytes": 3500}], ids=str)
def test_a_replay_does_not_go_on_into_a_target_that_another_client_has_filled(
    workspace: Workspace, wire: Wire, bucket: str, limits: dict[str, int]
) -> None:
    """It is refused before it publishes, and the error has the command that goes on once there is room."""
    wire.create_stream("EV", "ev.>")
    wire.publish([(f"ev.{n % 2}", b"", b"%d" % n) for n in range(20)])
    wire.create_stream("BACK", "back.>", **limits, discard="new")
    archived(workspace, wire, "EV", bucket)
    replay_id = begin(workspace, TO_BACK)[0].id
    resume = f"nats3 load resume {replay_id}"

    def fill_and_publish(*given: Any) -> Any:
        wire.publish([("back.other", b"", b"")] * (10 if "max_msgs" in limits else 40))
        return publish_here(*given)

    # Another client is faster: the stream refuses a message in the middle.
    with pytest.raises(TargetError, match="maximum (messages|bytes)") as error:
        drive(workspace, replay_id, fill_and_publish)
    assert error.value.text_in(cli.WORDS).endswith(resume)
    stored = wire.state("BACK")["messages"]
    (setting,) = limits
    with pytest.raises(TargetError, match=rf"takes up to \d+ \({setting}, discard new\): .* still to come") as error:
        drive(workspace, replay_id, publish_here)
    assert error.value.text_in(cli.WORDS).endswith(resume)
    assert wire.state("BACK")["messages"] == stored
    assert workspace.catalog.replays.get(replay_id).attempt == 1
    wire.api("STREAM.UPDATE.BACK", **wire.api("STREAM.INFO.BACK")["config"] | {setting: -1})
    done = drive(workspace, replay_id, publish_here)
    assert (done.replay.state, done.published + done.found) == ("succeeded", 20)


def test_a_full_target_that_has_all_is_no_reason_to_refuse(workspace: Workspace, wire: Wire, bucket: str) -> None:
    """The process was killed before it recorded what the target acknowledged."""
    wire.create_stream("EV", "ev.>")
    wire.publish([(f"ev.{n % 2}", b"", b"%d" % n) for n in range(20)])
    wire.create_stream("BACK", "back.>", max_msgs=20, discard="new")
    archived(workspace, wire, "EV", bucket)
    replay_id = begin(workspace, TO_BACK)[0].id
    started = attempt.start(workspace, replay_id)
    published(started.job, pending(workspace, started.job.id))
    assert wire.state("BACK")["messages"] == 20
    done = drive(workspace, replay_id, publish_here)
    assert (done.replay.state, done.found) == ("succeeded", 20)


def test_a_target_has_room_for_as_many_as_its_limit_leaves(workspace: Workspace, wire: Wire, bucket: str) -> None:
    """Before the first attempt, by what surely comes: the least that a message takes. Later by what the target has."""
    wire.create_stream("EV", "ev.>")
    wire.publish([(f"ev.{n % 2}", b"", b"%d" % n) for n in range(20)])
    wire.create_stream("BACK", "back.>")
    archived(workspace, wire, "EV", bucket)
    begun = begin(workspace, TO_BACK)[0]
    wire.api("STREAM.UPDATE.BACK", **wire.api("STREAM.INFO.BACK")["config"] | {"discard": "new", "max_msgs": 1})
    job = ReplayJob("", 1, begun.spec, begun.targets, workspace.settings.nats, workspace.settings.store, False)
    check_room(workspace.link, begun, job, 1)
    with pytest.raises(TargetError, match="takes up to 1 .max_msgs, discard new.: it has 0, and 2 messages"):
        check_room(workspace.link, begun, job, 2)
    wire.api("STREAM.UPDATE.BACK", **wire.api("STREAM.INFO.BACK")["config"] | {"max_msgs": -1})
    wire.publish([("back.other", b"", b"x")] * 3)
    has = wire.state("BACK")["bytes"]
    own = wire.api("STREAM.INFO.BACK")["config"]
    started = attempt.start(workspace, begun.id)

    def is_refused(replay: Replay, left: int = 20, **limits: Any) -> str:
        wire.api("STREAM.UPDATE.BACK", **own | {"discard": "new"} | limits)
        try:
            check_room(workspace.link, replay, started.job, left)
        except TargetError as error:
            return error.what
        return ""

    assert (begun.attempt, is_refused(begun)) == (0, "")
    for limits, left, refused_text in (
        ({"max_msgs": 23}, 20, ""),
        ({"max_msgs": 22}, 20, "max_msgs, discard new): it has 3, and 20 messages of the replay are still to come"),
        ({"max_msgs": 22}, 19, ""),
        ({"max_msgs": 3}, 1, "max_msgs, discard new): it has 3, and 1 messages"),
        ({"max_msgs": 3}, 0, ""),
        ({"max_msgs": 22, "discard": "old"}, 20, ""),
        ({"max_msgs": 22, "max_age": 3600 * 10**9}, 20, ""),
        ({"max_bytes": has + 20 * 150}, 20, ""),
        ({"max_bytes": has + 20 * 150 - 1}, 20, "max_bytes, discard new): it has"),
        ({"max_msgs": 99, "max_bytes": has + 150}, 2, "max_bytes, discard new): it has"),
        ({"max_msgs": 4, "max_bytes": has + 150}, 1, ""),
    ):
        text = is_refused(begun, left, **limits)
        assert refused_text in text, limits
        assert bool(text) == bool(refused_text), limits
    assert is_refused(replace(begun, spec=replace(begun.spec, live=True)), max_msgs=22) == ""
    assert is_refused(replace(begun, targets=begun.targets * 2), max_msgs=22) == ""
    # The target has all of it, and the catalog knows of none.
    wire.api("STREAM.UPDATE.BACK", **own)
    published(started.job, pending(workspace, started.job.id))
    now = workspace.catalog.replays.get(begun.id)
    assert (now.attempt, now.published, now.found) == (1, 0, 0)
    assert is_refused(now, max_msgs=23) == ""
    assert "it has 23, and 1 messages of the replay" in is_refused(now, 21, max_msgs=23)
    assert is_refused(now, 22, max_msgs=25) == ""
    assert "and 3 messages" in is_refused(now, 23, max_msgs=25)
    assert "and 7 messages" in is_refused(replace(now, published=3, found=4), max_msgs=23)


def test_a_replay_that_the_catalog_has_forgotten(
    workspace: Workspace, wire: Wire, bucket: str, postgres_url: str
) -> None:
    """As after a restore of Postgres: the same request would publish the same messages once more."""
    wire.create_stream("EV", "ev.>")
    wire.publish([(f"ev.{n % 2}", b"", b"x") for n in range(20)])
    wire.create_stream("BACK", "back.>", "other.>")
    archived(workspace, wire, "EV", bucket)
    first = replayed(workspace, replace(TO_BACK, selection=Selection(subjects=("ev.>",), sequences=SeqRange(1, 15))))
    # On subjects of the replay and on others: the newest messages are not those of the replay.
    wire.publish([(subject, b"", b"of another publisher") for subject in ["back.1"] * 300 + ["other.x"] * 300])
    with psycopg.connect(postgres_url) as connection:
        connection.execute("set session_replication_role = replica")
        for table in ("replay_chunk", "replay_attempt", "replay_target"):
            connection.execute(f"delete from nats3.{table} where replay_id = %s", (first.id,))
        connection.execute("delete from nats3.replay where id = %s", (first.id,))
    text = f"forgotten replay {first.id}.* restored backup.* See what its targets hold of it"
    for plan in (dry_run, begin):
        with pytest.raises(CatalogError, match=text):
            plan(workspace, TO_BACK)
    assert wire.state("BACK")["messages"] == 615
    # What the targets lack may be begun; so may all of it, once what they hold was deleted.
    rest = replace(TO_BACK, selection=Selection(subjects=("ev.>",), sequences=SeqRange(16, 20)))
    assert dry_run(workspace, rest)["notes"] == [
        "Messages of a replay that the catalog has forgotten are looked for in 401 of the 615 messages of stream BACK",
    ]
    assert replayed(workspace, rest).state == "succeeded"
    wire.api("STREAM.PURGE.BACK")
    assert dry_run(workspace, TO_BACK)["notes"] == []
    assert replayed(workspace, TO_BACK).state == "succeeded"
    assert wire.state("BACK")["messages"] == 20


def test_a_replay_that_was_deleted_is_not_forgotten(workspace: Workspace, wire: Wire, bucket: str) -> None:
    wire.create_stream("EV", "ev.>")
    wire.publish([("ev.a", b"", b"x")])
    wire.create_stream("BACK", "back.>")
    archived(workspace, wire, "EV", bucket)
    delete(workspace, replayed(workspace, TO_BACK).id)
    assert replayed(workspace, TO_BACK).state == "succeeded"
    assert wire.state("BACK")["messages"] == 2


def test_a_sealed_target(workspace: Workspace, wire: Wire, bucket: str) -> None:
    wire.create_stream("EV", "ev.>")
    wire.publish([("ev.a", b"", b"x")])
    wire.create_stream("BACK", "back.>")
    wire.api("STREAM.UPDATE.BACK", **wire.api("STREAM.INFO.BACK")["config"] | {"sealed": True})
    archived(workspace, wire, "EV", bucket)
    refused(workspace, wire, "Stream BACK is sealed: it takes no message. Choose another target")


@pytest.mark.needs_nats("2.12")
def test_a_target_for_counters(workspace: Workspace, wire: Wire, bucket: str) -> None:
    wire.create_stream("EV", "ev.>", allow_msg_counter=True)
    wire.publish([("ev.a", b"NATS/1.0\r\nNats-Incr: 1\r\n\r\n", b"")])
    wire.create_stream("BACK", "back.>", allow_msg_counter=True)
    archived(workspace, wire, "EV", bucket)
    refused(workspace, wire, r"Stream BACK is for counters .* takes nothing but increments. Make the replay live")


@pytest.mark.needs_nats("2.11")
def test_a_target_that_does_not_take_acting_headers(workspace: Workspace, wire: Wire, bucket: str) -> None:
    wire.create_stream("EV", "ev.>", allow_msg_ttl=True)
    wire.publish([("ev.a", b"NATS/1.0\r\nNats-TTL: 1h\r\n\r\n", b"")])
    wire.create_stream("BACK", "back.>")
    archived(workspace, wire, "EV", bucket)
    spec = ReplaySpec("a", "back.>", Selection(subjects=("ev.>",)), live=True)
    refused(workspace, wire, r"refuses messages with a time to live \(allow_msg_ttl is not set\)", spec)
    assert dry_run(workspace, TO_BACK)["targets"] == ["BACK"]


def block_of(size: int, name: bytes = b"A") -> bytes:
    return b"NATS/1.0\r\n%b: " % name + b"x" * (size - 16 - len(name)) + b"\r\n\r\n"


def test_a_header_block_that_grows_too_large(workspace: Workspace, wire: Wire, bucket: str) -> None:
    wire.create_stream("EV", "ev.>")
    wire.publish([("ev.a", b"", b"x" * 70_000), ("ev.b", block_of(65_400), b"x")])
    wire.create_stream("BACK", "back.>")
    archived(workspace, wire, "EV", bucket)
    refused(workspace, wire, r"The largest header block has 65\d\d\d bytes with what a replay adds; .* 65535 at most")
    done = replayed(workspace, ReplaySpec("a", "back.>", Selection(subjects=("ev.>",)), live=True, marks=False))
    assert (done.state, done.published) == ("succeeded", 2)
    assert [m.headers for m in wire.messages("BACK")] == [b"", block_of(65_400)]


@pytest.mark.parametrize("name", [b"A", b"Nats-Msg-Id"])
def test_a_header_block_that_just_fits(workspace: Workspace, wire: Wire, bucket: str, name: bytes) -> None:
    wire.create_stream("EV", "ev.>")
    wire.create_stream("BACK", "back.>")
    renamed = 0 if name == b"A" else 21
    # The first message of a chain has a line less than the others.
    wire.publish([("ev.a", b"", b""), ("ev.b", block_of(65_535 - MARKS - renamed, name), b"")])
    archived(workspace, wire, "EV", bucket)
    assert replayed(workspace, TO_BACK).published == 2


@pytest.mark.parametrize("room", [0, -1], ids=["fits", "too large"])
def test_a_message_near_the_servers_limit(workspace: Workspace, wire: Wire, bucket: str, room: int) -> None:
    wire.create_stream("EV", "ev.>")
    wire.create_stream("BACK", "back.>")
    # A small block that grows much beside a large message that does not.
    wire.publish([("ev.a", block_of(100, b"Nats-Msg-Id"), b""), ("ev.b", b"", b"x" * (MAX_PAYLOAD - ADDED - room))])
    archived(workspace, wire, "EV", bucket)
    if room < 0:
        refused(workspace, wire, f"takes {MAX_PAYLOAD + 1} bytes .* max_payload is {MAX_PAYLOAD}")
    else:
        assert replayed(workspace, TO_BACK).published == 2


def test_the_origin_of_a_mirror_is_its_own_stream(workspace: Workspace, wire: Wire, bucket: str) -> None:
    wire.create_stream("ORIGIN", "ev.>")
    wire.publish([("ev.a", b"", b"x")])
    wire.api("STREAM.CREATE.MIDDLE", name="MIDDLE", sources=[{"name": "ORIGIN"}])
    wire.api("STREAM.CREATE.EV", name="EV", mirror={"name": "MIDDLE"})
    while not wire.state("EV")["messages"]:
        pass
    archived(workspace, wire, "EV", bucket)
    with pytest.raises(OperatorError, match="captured by ORIGIN, from which EV is filled, the stream that archive a"):
        dry_run(workspace, ReplaySpec("a", "ev.>", Selection(subjects=("ev.>",))))
    spec = ReplaySpec("a", "ev.>", Selection(subjects=("ev.>",)), into_own_stream=True)
    assert dry_run(workspace, spec)["targets"] == ["ORIGIN"]


def test_a_missing_target_among_very_many_subjects(
    workspace: Workspace, wire: Wire, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nats3_dagster.chunks.meta.MAX_SUBJECTS", 3)
    wire.create_stream("EV", "ev.>")
    wire.publish([(f"ev.{n}.x", b"", b"") for n in range(5)])
    wire.create_stream("BACK", "back.*.x")
    archived(workspace, wire, "EV", bucket)
    shown = dry_run(workspace, TO_BACK)
    assert shown["sample_subjects"] == [{"from": f"ev.{n}.x", "to": f"back.{n}.x"} for n in range(5)]
    wire.publish([("ev.5.y", b"", b"")])
    archived(workspace, wire, "EV", bucket)
    refused(workspace, wire, r"No stream listens on back\.5\.y, to which ev\.5\.y would go", kind=OperatorError)


@pytest.mark.needs_nats("2.10")
def test_the_plan_says_what_will_not_stay(workspace: Workspace, wire: Wire, bucket: str, nats: NatsServer) -> None:
    wire.create_stream("EV", "ev.>")
    wire.publish([("ev.a", b"", b"x")] * 5)
    limits = {"max_msgs": 3, "max_age": 60 * 10**9, "max_msgs_per_subject": 2, "duplicate_window": 10**9}
    wire.create_stream("BACK", "back.>", **limits)
    archived(workspace, wire, "EV", bucket)
    assert dry_run(workspace, TO_BACK)["notes"] == [
        "Stream BACK removes messages 60 s after they are replayed (max_age)",
        "Stream BACK keeps the newest 2 of each subject (max_msgs_per_subject)",
        "Stream BACK keeps the newest 3 messages (max_msgs), and up to 5 come",
        "A purge of stream BACK is not noticed: it removes messages itself (max_age, max_msgs_per_subject)",
    ]


def test_what_a_publisher_cannot_know_ends_with_the_command_that_goes_on(workspace: Workspace) -> None:
    """It knows no replay: the attempt that it publishes for does."""
    for step in (Next.PUBLISH_AGAIN(), Next.CHANGE_TARGET()):
        error = attempt.cause(workspace, "r1", TargetError("What became of the last messages cannot be known", step))
        assert "nats3 load resume r1" in error.text_in(cli.WORDS)
