"""`nats3 store apply` with rules for the account: what is shown, asked, done and refused, and what a rule keeps."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from nats3_dagster.archive.account.follow import follow
from nats3_dagster.archive.declared.existing import declared_now
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.commands import Command, everything
from nats3_dagster_tests.support.wire import Wire

DOCS = Path(__file__).parents[2] / "docs" / "account.md"
Apply = Callable[..., Any]


@pytest.fixture
def folder(settings: Settings, wire: Wire, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An empty folder, and the streams ORDERS, KV_a, tmp1 and, a work queue, JOBS."""
    wire.create_stream("ORDERS", "orders.>")
    wire.create_stream("KV_a", "$KV.a.>")
    wire.create_stream("tmp1", "tmp.>")
    wire.create_stream("JOBS", "jobs.>", retention="workqueue")
    monkeypatch.chdir(tmp_path)


def tick(settings: Settings) -> None:
    with Workspace(settings) as workspace:
        follow(workspace)


def write(**keys: Any) -> None:
    Path("a.yaml").write_text(yaml.safe_dump(keys, sort_keys=False))


def applied(nats3: Command, *options: str) -> Any:
    return nats3.ok("store", "apply", "-f", "a.yaml", "--yes", *options, "-o", "json").json


def steps(document: Any, key: str = "accounts") -> dict[str, tuple[str, bool]]:
    return {one["name"]: (one["action"], one["done"]) for one in document[key]}


def names(nats3: Command) -> set[str]:
    return {one["name"] for one in nats3.ok("store", "list", "-o", "json").json}


def test_the_example_of_the_docs(nats3: Command, settings: Settings, folder: None, bucket: str) -> None:
    text = re.findall(r"```yaml\n(# archives.yaml.*?)```", DOCS.read_text(), re.DOTALL)[0]
    Path("a.yaml").write_text(text.replace("bucket: archive\n", f"bucket: {bucket}\n"))
    dry = nats3.ok("store", "apply", "-f", "a.yaml", "--dry-run")
    assert [re.split(" {2,}", line.rstrip()) for line in dry.out.splitlines()[1:]] == [
        ["orders", "create", "ORDERS"],
        ["rule all", "create", "*", "1 stream to be archived"],
    ]
    assert dry.err == "Nothing was changed: this was a dry run\n"
    assert nats3.ok("account", "list", "-o", "json").json == []
    asked = nats3("store", "apply", "-f", "a.yaml")
    assert asked.error.startswith("Error: This creates 1 archive and creates 1 rule. There is no terminal")
    done = applied(nats3)
    assert (steps(done), steps(done, "archives")) == ({"all": ("create", True)}, {"orders": ("create", True)})
    assert done["accounts"][0]["streams"] == 1
    tick(settings)
    # The stream of the declared archive is its own; that of the rule has the rule's settings.
    assert names(nats3) == {"orders", "KV_a"}
    kv = nats3.ok("store", "get", "KV_a", "-o", "json").json
    assert (kv["max_age_s"], kv["prefix"]) == (300, "nats/KV_a")
    again = nats3.ok("store", "apply", "-f", "a.yaml", "--prune")
    assert again.err == "Nothing to do: all archives are as declared\n"
    assert names(nats3) == {"orders", "KV_a"}


def test_a_rule_follows_its_file(nats3: Command, settings: Settings, folder: None, bucket: str) -> None:
    rule = {"name": "all", "bucket": bucket, "exclude": ["tmp*", "KV_*"], "max_age": "5m"}
    write(accounts=[rule])
    assert steps(applied(nats3)) == {"all": ("create", True)}
    tick(settings)
    assert names(nats3) == {"ORDERS"}
    # The order of patterns says nothing.
    write(accounts=[rule | {"exclude": ["KV_*", "tmp*"]}])
    assert steps(applied(nats3)) == {"all": ("unchanged", False)}
    # What is left out has its default, and archives of the rule get what differs, and nothing else.
    nats3.ok("store", "set", "ORDERS", "--zstd-level", "7")
    write(accounts=[{"name": "all", "bucket": bucket, "exclude": ["tmp*"]}])
    planned = nats3.ok("store", "apply", "-f", "a.yaml", "--dry-run")
    assert "max age: 5m -> 30s" in planned.out
    assert "1 stream to be archived" in " ".join(planned.out.split())
    done = applied(nats3)
    assert {one["field"]: (one["old"], one["new"]) for one in done["accounts"][0]["changes"]} == {
        "exclude": (["tmp*", "KV_*"], ["tmp*"]),
        "max_age_s": (300, 30),
    }
    orders = nats3.ok("store", "get", "ORDERS", "-o", "json").json
    assert (orders["max_age_s"], orders["zstd_level"]) == (30, 7)
    tick(settings)
    assert names(nats3) == {"ORDERS", "KV_a"}


def test_archives_of_a_rule_are_not_missing_in_a_file(
    nats3: Command, settings: Settings, folder: None, bucket: str
) -> None:
    rule = {"name": "all", "bucket": bucket, "exclude": ["tmp*"]}
    write(accounts=[rule])
    applied(nats3)
    tick(settings)
    nats3.ok("store", "create", "--name", "own", "--stream", "tmp1", "--bucket", bucket)
    assert names(nats3) == {"ORDERS", "KV_a", "own"}
    # A file without a list says nothing of what the list would have.
    assert steps(applied(nats3, "--prune"), "archives") == {}
    write(archives=[])
    pruned = applied(nats3, "--prune")
    assert (steps(pruned, "archives"), steps(pruned)) == ({"own": ("remove", True)}, {})
    assert names(nats3) == {"ORDERS", "KV_a"}
    # A rule that is pruned leaves its archives, also in the same file.
    write(archives=[], accounts=[])
    assert steps(nats3.ok("store", "apply", "-f", "a.yaml", "--dry-run", "-o", "json").json) == {}
    asked = nats3("store", "apply", "-f", "a.yaml", "--prune")
    assert asked.error.startswith(
        "Error: This ends 1 rule. Ended: rule all, whose 2 archives go on, and are pruned later if no file "
        "declares them"
    )
    ended = applied(nats3, "--prune")
    assert (steps(ended, "archives"), steps(ended)) == ({}, {"all": ("remove", True)})
    assert names(nats3) == {"ORDERS", "KV_a"}
    # From then on they are archives like any other.
    dry = nats3.ok("store", "apply", "-f", "a.yaml", "--prune", "--dry-run", "-o", "json").json
    assert steps(dry, "archives") == {"ORDERS": ("remove", False), "KV_a": ("remove", False)}


def test_of_two_rules_the_first_has_a_stream(nats3: Command, settings: Settings, folder: None, bucket: str) -> None:
    write(
        accounts=[
            {"name": "z_kv", "bucket": bucket, "match": "KV_*", "max_age": "7s"},
            {"name": "a_all", "bucket": bucket},
        ]
    )
    done = applied(nats3)
    assert [(one["name"], one["streams"]) for one in done["accounts"]] == [("z_kv", 1), ("a_all", 2)]
    tick(settings)
    assert nats3.ok("store", "get", "KV_a", "-o", "json").json["max_age_s"] == 7
    assert nats3.ok("store", "get", "ORDERS", "-o", "json").json["max_age_s"] == 30


def test_defaults_count_for_rules(nats3: Command, folder: None, bucket: str) -> None:
    write(
        defaults={"bucket": bucket, "max_age": "9s", "paused": True, "create_bucket": True},
        archives=[{"name": "orders", "stream": "ORDERS"}],
        accounts=[{"name": "all"}, {"name": "kv", "max_age": "8s"}],
    )
    applied(nats3)
    rules = {one["name"]: one for one in nats3.ok("account", "list", "-o", "json").json}
    assert {name: (one["bucket"], one["max_age_s"]) for name, one in rules.items()} == {
        "all": (bucket, 9),
        "kv": (bucket, 8),
    }


def test_a_bad_rule_is_named_at_its_line_and_nothing_is_written(
    nats3: Command, folder: None, bucket: str, settings: Settings, postgres_url: str, nats: Any, s3_client: Any
) -> None:
    good = f"archives:\n- {{name: orders, stream: ORDERS, bucket: {bucket}}}\naccounts:\n"
    wrong = {
        "- {name: a b, bucket: B}": "a.yaml:4: 'a b' is not a name of a rule",
        "- {name: all}": "a.yaml:4: a rule without bucket. Add what is missing",
        "- {bucket: B}": "a.yaml:4: a rule without name",
        "- {name: all, bucket: B, stream: S}": "a.yaml:4: a rule has no key 'stream'",
        "- {name: all, bucket: B, exlude: [a]}": "a.yaml:4: a rule has no key 'exlude'. Did you mean exclude?",
        "- name: all\n  bucket: B\n  match: [a.b]": "a.yaml:6: 'a.b' is not a pattern of stream names",
        "- name: all\n  bucket: B\n  match: [1]": "a.yaml:6: match is 1, and must be text",
        "- name: all\n  bucket: B\n  max_age: fast": "a.yaml:6: ",
        "- name: all\n  bucket: B\n  take_queues: 1": "a.yaml:6: take_queues is 1. Write true or false",
        "- name: all\n  bucket: B\n  remade: maybe": "a.yaml:6: There is no remade 'maybe'",
        "- name: all\n  bucket: B\n  zstd_level: 23": "a.yaml:6: zstd_level is 23",
        "- {name: all, bucket: B}\n- {name: all, bucket: B}": "a.yaml:5: rule all is declared at a.yaml:4 already",
        "  all: {bucket: B}": "a.yaml:3: accounts is no list of tables. Begin each rule with - name:",
        "": "a.yaml:3: accounts has no value. Write a list of tables, or [] for none",
    }
    before = everything(postgres_url, nats.url, s3_client, bucket)
    for text, says in wrong.items():
        Path("a.yaml").write_text(good + text.replace("bucket: B", f"bucket: {bucket}") + "\n")
        error = nats3.refused("store", "apply", "-f", "a.yaml", "--yes")
        assert error.startswith("2 Error: "), (text, error)
        assert says in error, (text, error)
    Path("a.yaml").write_text(good + "- {name: all, bucket: no-such-one}\n")
    error = nats3("store", "apply", "-f", "a.yaml", "--yes").error
    assert "One rule is refused, and nothing was changed. a.yaml:4: The bucket 'no-such-one' does not exist" in error
    Path("a.yaml").write_text("acounts: []\n")
    assert "Did you mean accounts?" in nats3.refused("store", "apply", "-f", "a.yaml", "--yes")
    assert everything(postgres_url, nats.url, s3_client, bucket) == before


def test_what_cannot_change_is_refused(nats3: Command, settings: Settings, folder: None, bucket: str) -> None:
    write(accounts=[{"name": "all", "bucket": bucket, "prefix": "a"}])
    applied(nats3)
    new = {"name": "orders", "stream": "ORDERS", "bucket": bucket}
    write(archives=[new], accounts=[{"name": "all", "bucket": bucket, "prefix": "b", "max_age": "2m"}])
    refused = nats3("store", "apply", "-f", "a.yaml", "--yes", "-o", "json")
    reason = "prefix of rule all cannot change: its archives are there"
    assert (refused.status, f"nothing was changed. a.yaml:6: {reason}" in refused.error) == (2, True), refused.error
    assert refused.json["accounts"][0]["refused"].startswith(reason)
    assert names(nats3) == set()
    (rule,) = nats3.ok("account", "list", "-o", "json").json
    assert (rule["prefix"], rule["max_age_s"]) == ("a", 30)


def test_what_is_exported_is_found_unchanged(nats3: Command, settings: Settings, folder: None, bucket: str) -> None:
    write(
        archives=[{"name": "own", "stream": "tmp1", "bucket": bucket}],
        accounts=[{"name": "all", "bucket": bucket, "prefix": "p/{stream}", "take_queues": True, "max_age": "90s"}],
    )
    applied(nats3)
    tick(settings)
    assert names(nats3) == {"own", "ORDERS", "KV_a", "JOBS"}
    Path("b.yaml").write_text(nats3.ok("store", "export").out)
    exported = yaml.safe_load(Path("b.yaml").read_text())
    assert [one["name"] for one in exported["archives"]] == ["own"]
    assert exported["accounts"] == [
        {"name": "all", "bucket": bucket, "prefix": "p/{stream}", "take_queues": True, "max_age": "90s"}
    ]
    assert "Nothing to do" in nats3.ok("store", "apply", "-f", "b.yaml", "--prune").err
    # An archive of a rule that is otherwise than the rule makes it is told by itself.
    nats3.ok("store", "pause", "KV_a")
    nats3.ok("store", "set", "JOBS", "--max-age", "3s")
    with Workspace(settings) as workspace:
        assert [one["name"] for one in declared_now(workspace)["archives"]] == ["JOBS", "KV_a", "own"]
    Path("b.yaml").write_text(nats3.ok("store", "export").out)
    assert "Nothing to do" in nats3.ok("store", "apply", "-f", "b.yaml", "--prune").err
