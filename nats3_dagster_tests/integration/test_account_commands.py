"""`nats3 account`, and the same over HTTP: what a person types, and what programs get."""

import json
from typing import Any

import pytest

from nats3_dagster.archive.account.follow import follow
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.commands import Command
from nats3_dagster_tests.support.wire import Wire


@pytest.fixture
def streams(settings: Settings, wire: Wire) -> None:
    """EV with two messages, KV_a-b and a work queue."""
    wire.create_stream("EV", "ev.>")
    wire.create_stream("KV_a-b", "$KV.a-b.>")
    wire.create_stream("JOBS", "jobs.>", retention="workqueue")
    wire.publish([("ev.1", b"", b"1"), ("ev.2", b"", b"2")])


def said(nats3: Command, *words: str) -> Any:
    """The document of a command."""
    return nats3.ok(*words, "-o", "json").json


def tick(settings: Settings) -> None:
    with Workspace(settings) as workspace:
        follow(workspace)


def test_a_rule_from_its_preview_to_its_end(nats3: Command, settings: Settings, streams: None, bucket: str) -> None:
    asked = ("account", "create", "all", "--exclude", "KV_*", "--bucket", bucket, "--max-age", "5m")
    previewed = nats3.ok(*asked, "--dry-run")
    assert "gets an archive" in previewed.out
    assert "--take-queues" in previewed.out
    assert said(nats3, "account", "list") == []
    made: dict[str, Any] = said(nats3, *asked)
    assert {one["stream"]: one["action"] for one in made["streams"]} == {
        "EV": "create",
        "JOBS": "left_out",
        "KV_a-b": "left_out",
    }
    tick(settings)
    shown: dict[str, Any] = said(nats3, "account", "get", "all")
    assert (shown["archived"], shown["left_out"], shown["max_age_s"]) == (1, 2, 300)
    ev = shown["streams"][0]
    assert (ev["stream"], ev["archive"], ev["lag"], ev["time_to_loss"]["level"]) == ("EV", "EV", 2, "ok")

    again = said(nats3, "account", "set", "all", "--exclude", "JOBS", "--dry-run")
    assert {one["stream"]: one["action"] for one in again["streams"]}["KV_a-b"] == "create"
    assert said(nats3, "account", "get", "all")["exclude"] == ["KV_*"]
    changed = said(nats3, "account", "set", "all", "--exclude", "JOBS", "--max-age", "7s")
    assert (changed["exclude"], changed["changed"]) == (["JOBS"], ["EV"])
    tick(settings)
    assert said(nats3, "store", "get", "KV_a_x2D_b")["max_age_s"] == 7

    table = nats3.ok("account", "get", "all").out
    assert "KV_a-b" in table
    assert "it is excluded by the rule" in table
    assert "all" in nats3.ok("account", "list").out
    assert said(nats3, "account", "delete", "all", "--yes") == {"name": "all", "archives": 2}
    assert len(said(nats3, "store", "list")) == 2


def test_what_is_refused(nats3: Command, streams: None) -> None:
    create = ("account", "create")
    cases = [
        ((*create, "--bucket", "b00"), "2 Error: Missing option 'RULE'"),
        ((*create, "all"), "2 Error: Missing option '--bucket'"),
        ((*create, "all", "--bucket", "no-such"), "2 Error: The bucket 'no-such' does not exist"),
        ((*create, "a b", "--bucket", "b00"), "2 Error: 'a b' is not a name of a rule"),
        ((*create, "all", "--bucket", "b00", "--match", "a.*"), "2 Error: 'a.*' is not a pattern of stream names"),
        (
            (*create, "all", "--bucket", "b00", "--prefix", "{stream}/.."),
            "2 Error: The parts . and .. cannot be in the",
        ),
        (("account", "get", "all"), "2 Error: There is no rule all for an account"),
        (("account", "set", "all", "--max-age", "1m"), "2 Error: There is no rule all for an account"),
        (("account", "set", "all"), "2 Error: There is nothing to change"),
        (("account", "delete", "all", "--yes"), "2 Error: There is no rule all for an account"),
    ]
    assert nats3.differences(cases) == []
    assert said(nats3, "account", "list") == []


def test_the_body_of_the_api_makes_the_same_rule(
    nats3: Command, streams: None, bucket: str, tmp_path: Any, settings: Settings
) -> None:
    (file := tmp_path / "rule.json").write_text(json.dumps({"name": "kv", "bucket": bucket, "match": ["KV_*"]}))
    made = said(nats3, "account", "create", "--from-json", str(file))
    assert (made["name"], made["match"], made["archived"]) == ("kv", ["KV_*"], 1)
