"""`nats3 store apply` and `export`: the files of docs/archives.md, what is shown, asked and refused."""

import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from nats3_dagster.settings import Settings
from nats3_dagster_tests.support.commands import Command
from nats3_dagster_tests.support.wire import Wire

DOCS = Path(__file__).parents[2] / "docs" / "archives.md"


@pytest.fixture
def nats3(
    capfd: pytest.CaptureFixture[str],
    settings: Settings,
    wire: Wire,
    s3_client: Any,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> Command:
    """The command line, in an empty folder, with the streams of the example."""
    for name in ("ORDERS", "LOGS"):
        wire.create_stream(name, f"{name.lower()}.>")
    wire.create_stream("JOBS", "jobs.>", retention="workqueue")
    monkeypatch.chdir(tmp_path)
    return Command(capfd)


def example(kind: str, bucket: str) -> str:
    """The example of the docs, with a bucket that there is."""
    text = re.findall(rf"```{kind}\n(.*?)```", DOCS.read_text(), re.DOTALL)[0]
    return (
        text.replace("bucket: archive\n", f"bucket: {bucket}\n")
        .replace('"bucket-1"', f'"{bucket}"')
        .replace("jobs-archive", f"jobs-{bucket}")
    )


def test_the_example_of_the_docs(nats3: Command, bucket: str) -> None:
    Path("archives.yaml").write_text(example("yaml", bucket))
    dry = nats3.ok("store", "apply", "-f", "archives.yaml", "--dry-run")
    assert [line.split() for line in dry.out.splitlines()] == [
        ["ARCHIVE", "ACTION", "STREAM", "WHAT"],
        ["jobs", "create", "JOBS"],
        ["logs", "create", "LOGS"],
        ["orders", "create", "ORDERS"],
    ]
    assert dry.err == "Nothing was changed: this was a dry run\n"
    assert nats3.ok("store", "list", "-o", "json").json == []
    refused = nats3("store", "apply", "-f", "archives.yaml")
    assert (refused.status, refused.error) == (
        2,
        "Error: This creates 3 archives. There is no terminal to confirm this on. Add --yes",
    )
    done = nats3.ok("store", "apply", "-f", "archives.yaml", "--yes", "-o", "json")
    assert [(one["name"], one["action"], one["done"], one["place"]) for one in done.json["archives"]] == [
        ("jobs", "create", True, "archives.yaml:18"),
        ("logs", "create", True, "archives.yaml:10"),
        ("orders", "create", True, "archives.yaml:7"),
    ]
    assert done.err.splitlines()[:3] == ["Created jobs", "Created logs", "Created orders"]
    assert sum(line.startswith("If Dagster runs") for line in done.err.splitlines()) == 1
    again = nats3.ok("store", "apply", "-f", "archives.yaml", "--prune")
    assert {line.split()[1] for line in again.out.splitlines()[1:]} == {"unchanged"}
    assert again.err == "Nothing to do: all archives are as declared\n"
    logs = nats3.ok("store", "get", "logs", "-o", "json").json
    assert (logs["max_bytes"], logs["max_age_s"], logs["subjects"]) == (128 << 20, 300, ["logs.web.>", "logs.db.>"])

    Path("exported.yaml").write_text(nats3.ok("store", "export").out)
    assert "Nothing to do" in nats3.ok("store", "apply", "-f", "exported.yaml", "--prune").err
    assert nats3.ok("store", "export", "orders").out == (
        f"archives:\n- name: orders\n  stream: ORDERS\n  bucket: {bucket}\n  buffer: 0s\n  buffer_bytes: 0\n"
        "  max_messages: 1000000\n  max_bytes: 67108864\n  max_age: 300s\n  zstd_level: 3\n  compact_after: 0s\n"
        "  compact_below: 33554432\n  keep: 0s\n  keep_bytes: 0\n"
    )


def test_changes_are_shown_and_pruned_archives_named(
    nats3: Command, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("a.yaml").write_text(example("yaml", bucket))
    nats3.ok("store", "apply", "-f", "a.yaml", "--yes")
    entry = {
        "name": "logs",
        "stream": "LOGS",
        "bucket": bucket,
        "prefix": "team/logs",
        "max_bytes": "1KiB",
        "subjects": ["logs.db.>", "logs.web.>"],
        "max_messages": 500000,
        "max_age": "5m",
        "zstd_level": 2,
    }
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps({"archives": [entry]})))
    refused = nats3("store", "apply", "-f", "-", "--prune")
    assert [re.split(" {2,}", line) for line in refused.out.splitlines()[1:]] == [
        ["jobs", "remove", "JOBS", "0 chunks (0 messages)"],
        ["logs", "change", "LOGS", "max bytes: 128 MiB -> 1 KiB; zstd level: 1 -> 2"],
        ["orders", "remove", "ORDERS", "0 chunks (0 messages)"],
    ]
    assert refused.error == (
        "Error: This changes 1 archive and removes 2 archives. Removed: jobs with 0 chunks (0 messages), whose objects "
        "stay. It also deletes consumer nats3-jobs of stream JOBS; of a stream with interest retention, messages that "
        "only it waits for go with it. Removed: orders with 0 chunks (0 messages), whose objects stay. There is no "
        "terminal to confirm this on. Add --yes"
    )
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps({"archives": [entry]})))
    done = nats3.ok("store", "apply", "-f", "-", "--prune", "--yes")
    assert done.err.splitlines()[:3] == ["Changed logs", "Deleted jobs", "Deleted orders"]
    (left,) = nats3.ok("store", "list", "-o", "json").json
    assert (left["name"], left["max_bytes"], left["zstd_level"]) == ("logs", 1024, 2)


def test_what_is_refused_is_shown_with_its_reason(nats3: Command, bucket: str) -> None:
    nats3.ok("store", "create", "--name", "logs", "--stream", "LOGS", "--bucket", bucket)
    before = nats3.ok("store", "list", "-o", "json").json
    Path("a.yaml").write_text(
        f"archives:\n- {{name: orders, stream: ORDERS, bucket: {bucket}}}\n"
        f"- {{name: logs, stream: LOGS, bucket: {bucket}, prefix: a}}\n"
    )
    refused = nats3("store", "apply", "-f", "a.yaml", "--yes", "-o", "json")
    there = "its chunks are there, and its objects are looked for there"
    reason = f"prefix of archive logs cannot change from none to a: {there}"
    instead = "Make another archive for it under another name; pause or delete this one, whose objects stay"
    assert refused.status == 2
    assert refused.error == f"Error: One archive is refused, and nothing was changed. a.yaml:3: {reason}. {instead}"
    logs, orders = refused.json["archives"]
    assert (logs["action"], logs["refused"], logs["done"]) == ("change", f"{reason}. {instead}", False)
    assert (orders["action"], orders["refused"], orders["done"]) == ("create", None, False)
    assert (
        nats3.differences(
            [
                (
                    ("store", "apply", "-f", "b.yaml"),
                    "2 Error: b.yaml cannot be read: No such file or directory. Give a file",
                ),
                (("store", "apply"), "2 Error: Missing option '--file' / '-f'. See nats3 store apply --help"),
                (("store", "export", "log"), "2 Error: There is no archive log. Did you mean logs?"),
            ]
        )
        == []
    )
    Path("a.yaml").write_bytes(b"\xff\xfe")
    assert nats3.refused("store", "apply", "-f", "a.yaml").startswith("2 Error: a.yaml cannot be read: it is no text")
    assert nats3.ok("store", "list", "-o", "json").json == before


def test_a_file_of_the_peer_is_applied(nats3: Command, wire: Wire, bucket: str) -> None:
    wire.create_stream("jobs", "subjects-1")
    Path("nats3-connector.toml").write_text(example("toml", bucket))
    done = nats3.ok("store", "apply", "-f", "nats3-connector.toml", "--yes")
    assert done.err.splitlines()[:3] == [
        "nats3-connector.toml: left out nats, which set up nats-s3-connector itself: see docs/configuration.md",
        "nats3-connector.toml: left out encoding: every archive is of Parquet objects",
        "Created job-1",
    ]
    got = nats3.ok("store", "get", "job_1", "-o", "json").json
    assert (got["max_messages"], got["max_bytes"], got["prefix"], got["subjects"]) == (
        1000,
        1_000_000,
        "foo",
        ["subjects-1"],
    )


def test_what_a_template_left_empty_prunes_nothing(nats3: Command, bucket: str) -> None:
    nats3.ok("store", "create", "--name", "logs", "--stream", "LOGS", "--bucket", bucket)
    setup = 'log = "info"\n[s3]\nregion = "a"\n'
    for name, text in {"a.yaml": "archives:\n", "a.json": '{"archives": null}', "config.toml": setup}.items():
        Path(name).write_text(text)
        assert nats3("store", "apply", "-f", name, "--prune", "--yes").status == 2
    assert len(nats3.ok("store", "list", "-o", "json").json) == 1
    shown = nats3.ok("store", "apply", "-f", "config.toml")
    assert shown.err.splitlines() == [
        "config.toml: left out log, s3, which set up nats-s3-connector itself: see docs/configuration.md",
        "config.toml: there are no store jobs in it: GET /store/jobs of its server lists those made over HTTP",
        "Nothing to do: all archives are as declared",
    ]
    Path("a.yaml").write_text("archives: []\n")
    assert "Deleted logs" in nats3.ok("store", "apply", "-f", "a.yaml", "--prune", "--yes").err


def test_exports_are_applied_with_their_archive(nats3: Command, bucket: str) -> None:
    def written(*exports: dict[str, Any]) -> None:
        entry = {"name": "orders", "stream": "ORDERS", "bucket": bucket, "exports": list(exports)}
        Path("a.json").write_text(json.dumps({"archives": [entry]}))

    by_store = {"name": "by_store", "to": f"s3://{bucket}/out", "key": "subject:2"}
    written({**by_store, "to": f"s3://{bucket}/archive=orders"})
    refused = nats3("store", "apply", "-f", "a.json", "--yes")
    assert refused.status == 2
    assert "One export is refused, and nothing was changed. a.json: orders/by_store: The export" in refused.error
    assert "live" in refused.out
    assert nats3.ok("store", "list", "-o", "json").json == []

    written(by_store, {"name": "all", "to": f"s3://{bucket}/all"})
    dry = nats3.ok("store", "apply", "-f", "a.json", "--dry-run")
    assert [line.split() for line in dry.out.splitlines()[1:]] == [
        ["orders", "create", "ORDERS"],
        ["orders/all", "create", "-"],
        ["orders/by_store", "create", "-"],
    ]
    asked = nats3("store", "apply", "-f", "a.json")
    assert asked.error.startswith("Error: This creates 1 archive and creates 2 exports. There is no terminal")
    done = nats3.ok("store", "apply", "-f", "a.json", "--yes", "-o", "json")
    assert [(one["name"], one["action"], one["done"]) for one in done.json["exports"]] == [
        ("all", "create", True),
        ("by_store", "create", True),
    ]
    assert "Created orders/by_store" in done.err
    assert "Nothing to do" in nats3.ok("store", "apply", "-f", "a.json", "--prune").err
    Path("exported.yaml").write_text(nats3.ok("store", "export").out)
    assert "Nothing to do" in nats3.ok("store", "apply", "-f", "exported.yaml", "--prune").err

    # Into a bucket that is made with the archive.
    entry = {"name": "more", "stream": "ORDERS", "bucket": f"more-{bucket}"}
    entry |= {"exports": [{"name": "all", "to": f"s3://more-{bucket}/out"}]}
    Path("more.json").write_text(json.dumps({"archives": [entry]}))
    assert "The bucket 'more-" in nats3("store", "apply", "-f", "more.json", "--yes").error
    Path("more.json").write_text(json.dumps({"archives": [entry | {"create_bucket": True}]}))
    assert "Created more/all" in nats3.ok("store", "apply", "-f", "more.json", "--yes").err
    nats3.ok("store", "delete", "more", "--yes")

    # What is not in the file stays, unless it is to be pruned.
    written({**by_store, "max_undecoded": 5})
    shown = nats3.ok("store", "apply", "-f", "a.json", "--yes")
    assert "max undecoded: 0 -> 5" in shown.out
    assert [one["name"] for one in nats3.ok("export", "list", "-o", "json").json] == ["all", "by_store"]
    pruned = nats3("store", "apply", "-f", "a.json", "--prune")
    assert "This removes 1 export. Removed: orders/all, whose files stay." in pruned.error
    nats3.ok("store", "apply", "-f", "a.json", "--prune", "--yes")
    (left,) = nats3.ok("export", "list", "-o", "json").json
    assert (left["name"], left["max_undecoded"], left["version"]) == ("by_store", 5, 2)


def test_replays_by_name_are_applied_with_their_archive(nats3: Command, bucket: str) -> None:
    def written(*replays: dict[str, Any]) -> None:
        entry = {"name": "orders", "stream": "ORDERS", "bucket": bucket, "max_age": 300, "replays": list(replays)}
        Path("a.yaml").write_text(yaml.safe_dump({"archives": [entry]}, sort_keys=False))

    test = {"name": "to_test", "write_subject": "test.>", "rate": 100, "create_stream": "TEST"}
    live = {"name": "live", "read_subject": "orders.*", "write_subject": "live.{{wildcard(1)}}", "live": True}
    written(test, live)
    shown = nats3.ok("store", "apply", "-f", "a.yaml", "--yes", "-o", "json").json
    assert [(one["action"], one["done"]) for one in shown["archives"]] == [("create", True)]
    assert "Nothing to do" in nats3.ok("store", "apply", "-f", "a.yaml").err
    exported = yaml.safe_load(nats3.ok("store", "export").out)
    assert exported["archives"][0]["replays"] == [live, test]
    Path("exported.yaml").write_text(nats3.ok("store", "export").out)
    assert "Nothing to do" in nats3.ok("store", "apply", "-f", "exported.yaml").err
    # The file is the whole: what it changes and leaves out is shown, and done.
    written({**test, "rate": 5})
    planned = nats3.ok("store", "apply", "-f", "a.yaml", "--dry-run")
    assert (
        "replays: live (write_subject live.{{wildcard(1)}}, read_subject orders.*, live yes); to_test (write_subject "
        "test.>, rate 100, create_stream TEST) -> to_test (write_subject test.>, rate 5, create_stream TEST)"
    ) in " ".join(planned.out.split())
    changed = nats3.ok("store", "apply", "-f", "a.yaml", "--yes", "-o", "json").json
    (change,) = changed["archives"][0]["changes"]
    assert (change["field"], change["new"]) == ("replays", [{**test, "rate": 5}])
    assert yaml.safe_load(nats3.ok("store", "export").out)["archives"][0]["replays"] == [{**test, "rate": 5}]
    nats3.ok("store", "set", "orders", "--max-age", "7m")
    assert "replays" in nats3.ok("store", "export").out
    written()
    nats3.ok("store", "apply", "-f", "a.yaml", "--yes")
    assert "replays" not in nats3.ok("store", "export").out


def test_settings_of_its_assets_are_applied_with_an_archive(nats3: Command, bucket: str) -> None:
    assets: dict[str, Any] = {
        "group_name": "sales",
        "owners": ["team:sales", "ops@example.com"],
        "tags": ["domain=sales"],
        "kinds": ["orders"],
        "pool": "sales_captures",
        "retries": 2,
        "retry_delay": "30s",
        "fail_window": "7200s",
        "warn_window": "3600s",
    }

    def write(**more: Any) -> None:
        entry = {"name": "orders", "stream": "ORDERS", "bucket": bucket} | assets | more
        Path("a.yaml").write_text(yaml.safe_dump({"archives": [entry]}, sort_keys=False))

    write()
    nats3.ok("store", "apply", "-f", "a.yaml", "--yes")
    assert "Nothing to do" in nats3.ok("store", "apply", "-f", "a.yaml").err
    (exported,) = yaml.safe_load(nats3.ok("store", "export").out)["archives"]
    assert {key: exported[key] for key in assets} == assets
    lines = dict(line.split(None, 1) for line in nats3.ok("store", "get", "orders").out.splitlines())
    assert (lines["owners"], lines["tags"], lines["copies"]) == ("team:sales, ops@example.com", "domain=sales", "none")
    wrong = {"owners": ["sales"], "tags": ["dagster/x=1"], "warn_window": "3h", "pool": "a b"}
    write(**wrong)
    refused = nats3("store", "apply", "-f", "a.yaml", "--yes").error
    assert all(f"a.yaml:{line}: " in refused for line in (6, 8, 12, 16)), refused
    write(owners=["team:shop"], tags=[], fail_window="2d")
    changed = nats3.ok("store", "apply", "-f", "a.yaml", "--yes", "-o", "json").json
    assert {one["field"] for one in changed["archives"][0]["changes"]} == {"owners", "tags", "fail_window_s"}
    job = nats3.ok("store", "set", "orders", "--owner", "", "--pool", "", "-o", "json").json
    assert (job["owners"], job["pool"], job["kinds"]) == ([], "", ["orders"])
    assert "owners" not in nats3.ok("store", "get", "orders").out


def test_a_wrong_replay_is_refused_where_it_stands(nats3: Command, bucket: str) -> None:
    wrong = {
        "rate: -5": "rate is -5",
        "rate: fast": "rate is 'fast', and must be a number",
        "order: random": "'random' is not an order",
        "write_subject: 'a b'": "'a b' is not a",
        "write_subject: 'b.{{wildcard(3)}}'": "wildcard",
        "read_subject: 'a..b'": "'a..b' is not a subject filter",
        "create_stream: a.b": "'a.b' is not a stream name",
        "speed: 2": "The original timing needs one publisher",
        "hours: [a]": "a replay has no key 'hours'",
        "nme: x": "a replay has no key 'nme'",
        "byte_rate: 5 apples": "'5 apples' is not a size",
        "live: maybe": "live is 'maybe'",
    }
    for line, says in wrong.items():
        own = "" if line.startswith("write_subject") else "      write_subject: back.>\n"
        order = "      order: subject\n" if line.startswith("speed") else ""
        text = f"archives:\n- name: orders\n  stream: ORDERS\n  bucket: {bucket}\n  replays:\n    - name: one\n"
        Path("a.yaml").write_text(f"{text}      {line}\n{own}{order}")
        error = nats3.refused("store", "apply", "-f", "a.yaml", "--yes")
        assert error.startswith("2 Error: a.yaml:7: "), (line, error)
        assert says in error, (line, error)
    both = "    - {name: one, write_subject: a.>}\n" * 2
    Path("a.yaml").write_text(f"archives:\n- name: o\n  stream: S\n  bucket: {bucket}\n  replays:\n{both}")
    assert "a.yaml:7: replay one is there twice" in nats3.refused("store", "apply", "-f", "a.yaml")
    Path("a.yaml").write_text(f"archives:\n- name: o\n  stream: S\n  bucket: {bucket}\n  replays: {{}}\n")
    assert "a.yaml:5: replays is no list of tables" in nats3.refused("store", "apply", "-f", "a.yaml")
    Path("a.yaml").write_text(f"archives:\n- name: o\n  stream: S\n  bucket: {bucket}\n  replays: [{{name: a}}]\n")
    assert "a replay without write_subject" in nats3.refused("store", "apply", "-f", "a.yaml")
