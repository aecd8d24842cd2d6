"""Rows of commands and options."""

import json
from collections.abc import Callable
from typing import Any

from nats3_dagster.dev.process import free_port
from nats3_dagster_tests.acceptance.migrating.shared import (
    Checks,
    equal,
    ids,
    listening,
    one,
    peers_durable,
    stored,
)
from nats3_dagster_tests.acceptance.migrating.side import Side
from nats3_dagster_tests.support.load_jobs import MESSAGES


def _server(side: Side) -> None:
    job = side.store()
    with listening(side.loads, free_port()) as url:
        for words in (("--server", url, "store", "list"), ("store", "list", "--server", url)):
            listed = side.nats3.ok(*words, "-o", "json").json
            assert job["archive"] in json.dumps(listed)


def _output(side: Side) -> None:
    assert isinstance(side.nats3.ok("--output", "json", "store", "list").json, list)
    assert isinstance(side.nats3.ok("store", "list", "--output", "json").json, list)
    assert "events" in side.nats3.ok("--output", "table", "store", "list").out


def _gets(field: str, wanted: Any, *words: str) -> Callable[[Side], None]:
    """`store create` with these words makes an archive with this value."""
    return lambda side: equal(side.created(*words)[field], wanted)


def _create_consumer(side: Side) -> None:
    words = ("--name", side.name, "--stream", "jobs", "--subject", "subject.1", "--bucket", side.bucket)
    refused = side.nats3.refused("store", "create", *words, "--consumer", "not-there")
    assert "Stream jobs has no consumer not-there" in refused
    assert side.created("--mode", "consumer")["consumer"].startswith("nats3-")
    peers_durable(side.wire, "jobs", "theirs", "subject.1")
    assert side.created("--consumer", "theirs", "--max-messages", "1000")["consumer"] == "theirs"


def _store_json(side: Side) -> None:
    path = side.folder / "job.json"
    path.write_text(
        json.dumps(
            {
                "name": "from-json",
                "stream": "jobs",
                "subject": "subject.1",
                "bucket": side.bucket,
                "prefix": "p",
                "batch": {"max_bytes": 5, "max_count": 7},
                "encoding": {"codec": "json"},
            }
        )
    )
    side.nats3.ok("store", "create", "--from-json", str(path))
    made = side.nats3.ok("store", "get", "from-json", "-o", "json").json
    assert (made["prefix"], made["max_bytes"], made["max_messages"]) == ("p", 5, 7)


def _load_json(side: Side) -> None:
    path = side.folder / "load.json"
    path.write_text(json.dumps(side.loads.body))
    assert side.nats3.ok("load", "create", "--from-json", str(path), "--dry-run", "-o", "json").json["messages"] == 10


def _by_id(*words: str) -> Callable[[Side], None]:
    """The command does it to the job of this id."""

    def check(side: Side) -> None:
        kind, verb = words[:2]
        job = side.store() if kind == "store" else side.load()
        if verb == "resume" and kind == "store":
            side.nats3.ok("store", "pause", "--job-id", job["id"])
        side.nats3.ok(kind, verb, "--job-id", job["id"], *words[2:])
        status = side.client.get(one(f"/{kind}/job", job))
        if verb == "delete":
            assert status.status_code == 404
        else:
            assert status.json()["status"] == ("Paused" if verb == "pause" else "Created"), status.text

    return check


def _load_resume(side: Side) -> None:
    """It would run it: one that has ended says so."""
    job = side.load()
    side.loads.gate.set()
    side.loads.until(side.client, job["id"], "Success")
    assert "has succeeded" in side.nats3.refused("load", "resume", "--job-id", job["id"])


def _load_list(side: Side) -> None:
    job = side.load()
    assert job["id"] in ids(side.nats3.ok("load", "list", "-o", "json").json)


def _plans(field: str, wanted: Any, *words: str) -> Callable[[Side], None]:
    """`load create --dry-run` with these words plans this."""
    return lambda side: equal(side.planned(*words)[field], wanted)


def _cli_chosen(option: str, value: str, **spec: Any) -> Callable[[Side], None]:
    def check(side: Side) -> None:
        if "consumer" in spec:
            peers_durable(side.wire, "EV", "theirs", "ev.a")
        made = side.store(stream="EV", subject=None, **spec)
        try:
            words = ("--bucket", side.bucket, "--read-stream", "EV", "--write-subject", "back.>", option, value)
            assert f"Archive {made['archive']} holds nothing" in side.nats3.refused("load", "create", *words)
        finally:
            side.answer("DELETE", one("/store/job", made), 200)

    return check


def _cli_time(option: str, none: str) -> Callable[[Side], None]:
    """The store time of a message selects some of the archive, the other time none of it."""

    def check(side: Side) -> None:
        assert side.planned(option, stored(side, 4))["messages"]
        words = ("--archive", "events", "--write-subject", "back.>", option, none)
        assert "holds nothing of this selection" in side.nats3.refused("load", "create", *words)

    return check


def _poll(side: Side) -> None:
    for text in ("5sec", "1min", "1m", "1h30m"):
        side.planned("--poll-interval", text)
    assert "is not a duration" in side.nats3.refused("load", "create", "--write-subject", "b.>", "--poll-interval", "x")


def _cli_delete_chunks(side: Side) -> None:
    assert side.planned("--delete-chunks")["deletes_chunks"] > 0
    words = ("--archive", "events", "--write-subject", "back.>", "--read-subject", "ev.>", "--delete-chunks")
    assert "--yes" in side.nats3.refused("load", "create", *words)


def _set(key: str, value: str) -> Callable[[Side], None]:
    """`config set` writes it, and `config get` reads it."""

    def check(side: Side) -> None:
        try:
            side.nats3.ok("config", "set", key, value)
            assert side.nats3.ok("config", "get", key, "-o", "table").out == f"{value}\n"
        finally:
            side.nats3.ok("config", "set", key, "--unset")

    return check


def _config_show(side: Side) -> None:
    shown = {item["key"]: item for item in side.nats3.ok("config", "show", "-o", "json").json}
    assert {"server_url", "output_format"} <= set(shown)
    assert all(item["source"] for item in shown.values())


COMMANDS: Checks = {
    "--server URL": _server,
    "--output table|json": _output,
    "store list": lambda side: equal(side.nats3.ok("store", "list", "-o", "json").json[0]["archive"], "events"),
    "store create --name NAME": _gets("archive", "its_own", "--name", "its-own"),
    "store create --stream STREAM": lambda side: equal(
        side.created("--stream", "BACK", "--subject", "back.>")["stream"], "BACK"
    ),
    "store create --subject SUBJECT": _gets(
        "subjects", ["subject.2", "subject.3"], "--subject", "subject.2", "--subject", "subject.3"
    ),
    "store create --bucket BUCKET": lambda side: equal(
        side.created("--bucket", f"cli-{side.bucket}", "--create-bucket")["bucket"], f"cli-{side.bucket}"
    ),
    "store create --prefix PREFIX": _gets("prefix", "team/a", "--prefix", "team/a"),
    "store create --consumer NAME": _create_consumer,
    "store create --batch-max-bytes N": _gets("max_bytes", 5000, "--batch-max-bytes", "5000"),
    "store create --batch-max-count N": _gets("max_messages", 500, "--batch-max-count", "500"),
    "store create --codec json|binary": lambda side: [side.created("--codec", codec) for codec in ("json", "binary")],
    "store create --from-json FILE": _store_json,
    "store create -i": lambda side: (side.asks("store", "create", "-i"), side.asks("store", "create", "--interactive")),
    "store delete --job-id ID": _by_id("store", "delete", "--yes"),
    "store delete -i": lambda side: side.asks("store", "delete", "-i"),
    "store pause --job-id ID": _by_id("store", "pause"),
    "store resume --job-id ID": _by_id("store", "resume"),
    "load list": _load_list,
    "load create --name NAME": lambda side: side.planned("--name", "its-name"),
    "load create --bucket BUCKET": lambda side: equal(side.planned("--bucket", side.bucket)["archive"], "events"),
    "load create --prefix PREFIX": _cli_chosen("--prefix", "other", prefix="other"),
    "load create --read-stream STREAM": _plans("archive", "events", "--read-stream", "EV"),
    "load create --read-consumer NAME": _cli_chosen(
        "--read-consumer", "theirs", consumer="theirs", batch={"max_count": 1000}
    ),
    "load create --read-subject SUBJECT": _plans("messages", MESSAGES, "--read-subject", "ev.>"),
    "load create --write-subject SUBJECT": _plans("targets", ["BACK"], "--write-subject", "back.one"),
    "load create --poll-interval 5sec": _poll,
    "load create --delete-chunks": _cli_delete_chunks,
    "load create --from-time TIME": _cli_time("--from-time", "2100-01-01T00:00:00Z"),
    "load create --to-time TIME": _cli_time("--to-time", "2020-01-01T00:00:00Z"),
    "load create --start N": _plans("messages", 7, "--start", "4"),
    "load create --end N": _plans("messages", 4, "--end", "4"),
    "load create --from-json FILE": _load_json,
    "load create -i": lambda side: (side.asks("load", "create", "-i"), side.asks("load", "create", "--interactive")),
    "load delete --job-id ID": _by_id("load", "delete", "--yes"),
    "load delete -i": lambda side: side.asks("load", "delete", "-i"),
    "load pause --job-id ID": _by_id("load", "pause"),
    "load resume --job-id ID": _load_resume,
    "config show": _config_show,
    "config set server-url URL": _set("server-url", "http://127.0.0.1:8080"),
    "config set output-format json": _set("output-format", "json"),
    "config get server-url": _set("server-url", "https://nats3.example.com"),
    "config get output-format": _set("output-format", "table"),
}
