"""`nats3 stream`: streams from the command line."""

import pytest

from nats3_dagster.dev.nats_server import NatsServer
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.commands import Command
from nats3_dagster_tests.support.wire import Wire


def test_a_stream_is_created_with_its_limits_and_shown(nats3: Command, settings: Settings, wire: Wire) -> None:
    made = nats3.ok(
        "stream",
        "create",
        "JOBS",
        "--subject",
        "jobs.>",
        "--subject",
        "work.*",
        "--max-msgs",
        "1000",
        "--max-bytes",
        "64MiB",
        "--max-age",
        "2h",
        "--max-msgs-per-subject",
        "10",
        "--max-msg-size",
        "1MiB",
        "--duplicate-window",
        "1m",
        "--discard",
        "new",
        "--description",
        "work",
        "-o",
        "json",
    )
    config = wire.api("STREAM.INFO.JOBS")["config"]
    expected = {
        "subjects": ["jobs.>", "work.*"],
        "max_msgs": 1000,
        "max_bytes": 64 << 20,
        "max_age": 7200 * 10**9,
        "max_msgs_per_subject": 10,
        "max_msg_size": 1 << 20,
        "duplicate_window": 60 * 10**9,
        "discard": "new",
        "storage": "file",
        "retention": "limits",
        "num_replicas": 1,
        "description": "work",
    }
    assert {name: config[name] for name in expected} == expected
    assert (made.json["max_msgs"], made.json["max_age_s"], made.json["archives"]) == (1000, 7200.0, [])
    assert made.json["archive_notes"] == [
        "The stream removes messages before a capture may see them, by its limit of 10 messages per subject"
    ]
    assert made.err.splitlines()[-1] == ("To archive it: nats3 store create --stream JOBS --name NAME --bucket BUCKET")
    again = ("stream", "create", "JOBS", "--subject", "jobs.>", "--max-age", "1h")
    assert nats3.refused(*again).startswith("2 Error: Stream JOBS exists with another configuration")


def test_the_list_says_what_no_archive_has(nats3: Command, settings: Settings, wire: Wire, bucket: str) -> None:
    wire.create_stream("EV", "ev.>")
    wire.create_stream("Q", "q.>", retention="workqueue")
    wire.publish([("ev.a", b"", b"x")] * 3)
    nats3.ok("store", "create", "--name", "ev", "--stream", "EV", "--bucket", bucket)
    listed = nats3.ok("stream", "list", "-o", "json")
    assert [(s["name"], s["archives"], s["archive_mode"], s["messages"]) for s in listed.json] == [
        ("EV", ["ev"], "stream", 3),
        ("Q", [], "consumer", 0),
    ]
    assert listed.err.splitlines()[-1] == "No archive has Q. To archive one: nats3 store create"
    shown = nats3.ok("stream", "info", "Q").out
    assert "--mode consumer" in shown
    assert "workqueue retention: its consumers decide how long it keeps a message" in " ".join(shown.split())


def test_streams_can_be_looked_at_without_a_catalog(
    nats3: Command, settings: Settings, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    wire.create_stream("EV", "ev.>")
    monkeypatch.setenv("NATS3_POSTGRES_URL", "postgresql://127.0.0.1:1/none")
    listed = nats3.ok("stream", "list", "-o", "json")
    assert listed.json[0]["archives"] is None
    assert "The catalog cannot be asked" in listed.err


def test_subjects_are_counted_the_largest_first(nats3: Command, settings: Settings, wire: Wire) -> None:
    wire.create_stream("EV", "ev.>")
    wire.publish([(f"ev.{'abb'[n % 3]}", b"", b"") for n in range(30)] + [("ev.c.d", b"", b"")])
    counted = nats3.ok("stream", "subjects", "EV", "-o", "json").json
    assert counted == [
        {"subject": "ev.b", "messages": 20},
        {"subject": "ev.a", "messages": 10},
        {"subject": "ev.c.d", "messages": 1},
    ]
    some = nats3.ok("stream", "subjects", "EV", "--subject", "ev.*", "--limit", "1", "-o", "json")
    assert (some.json, some.err) == (counted[:1], "1 subject more. To see them: --limit 2\n")


def test_pages_of_subjects_are_read_to_the_end(settings: Settings, wire: Wire) -> None:
    from nats3_dagster.archive.source.streams import subjects

    wire.create_stream("EV", "ev.>")
    wire.publish([(f"ev.{n}", b"", b"") for n in range(100_050)])  # a page has 100,000
    with Workspace(settings) as workspace:
        assert len(subjects(workspace, "EV")) == 100_050


def test_a_refused_command_creates_nothing(nats3: Command, settings: Settings, nats: NatsServer, wire: Wire) -> None:
    commands = [
        (("create", "A.B", "--subject", "a"), "2 Error: 'A.B' is not a stream name"),
        (("create", "A", "--subject", "a..b"), "2 Error: "),
        (("create", "A", "--subject", "a", "--replicas", "0"), "2 Error: A stream cannot have 0 replicas"),
        (("create", "A", "--subject", "a", "--max-msgs", "-5"), "2 Error: max_msgs is -5"),
        (("create", "A", "--subject", "a", "--max-age", "10s", "--duplicate-window", "1m"), "2 Error: A duplicate"),
        (("create", "A", "--subject", "a", "--replicas", "3"), "1 Error: "),
        (("info", "NONE"), "2 Error: There is no stream NONE"),
        (("subjects", "NONE"), "2 Error: There is no stream NONE"),
    ]
    assert nats3.differences([(("stream", *words), refused) for words, refused in commands]) == []
    assert wire.api("STREAM.NAMES").get("total", 0) == 0
