"""`nats3 export`: declare, run, look at and delete, and what is refused before anything is written."""

import csv
import gzip
import io
import json
import time
from pathlib import Path
from typing import Any

import pytest

from nats3_dagster.archive.proof.seal import ended_hours, seal_hours, sealable
from nats3_dagster.dev.history import Past, restore_stream
from nats3_dagster.hours import HOUR_NS, hour_of, hour_start
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.commands import Command, everything
from nats3_dagster_tests.support.dagster.stories import archive, hold, past

pytestmark = [pytest.mark.needs_nats("2.15"), pytest.mark.steady_hour(60)]
STORES = ("berlin", "rome")


def orders(settings: Settings, hours: int = 2, bad: bool = False) -> list[str]:
    """A stream with orders of two stores in each of the last hours, one of them no JSON where `bad`; the hours."""
    start = hour_start(hour_of(time.time_ns())) - hours * HOUR_NS
    messages: list[Past] = []
    for n in range(hours * 4):
        order = {"order": n, "store": STORES[n % 2], "price": 10 + n}
        data = b"no JSON" if bad and n == 1 else json.dumps(order).encode()
        messages.append(Past(n + 1, start + n // 4 * HOUR_NS + n, f"orders.{STORES[n % 2]}", b"", data))
    restore_stream(settings.nats, "ORDERS", ["orders.>"], messages)
    return [hour_of(start + n * HOUR_NS) for n in range(hours)]


def keys_of(s3_client: Any, bucket: str) -> list[str]:
    found = s3_client.list_objects_v2(Bucket=bucket).get("Contents", [])
    return sorted(item["Key"] for item in found if "_exports" not in item["Key"] and "archive=" not in item["Key"])


def rows_of(s3_client: Any, bucket: str, key: str) -> list[dict[str, str]]:
    data = gzip.decompress(s3_client.get_object(Bucket=bucket, Key=key)["Body"].read())
    return list(csv.DictReader(io.StringIO(data.decode())))


def seal_all(settings: Settings, name: str) -> None:
    with Workspace(settings) as workspace:
        found = workspace.catalog.archives.get(name)
        list(seal_hours(workspace, found, sealable(workspace, found, ended_hours(workspace, found)[0]).hours))


def test_an_export_from_its_declaration_to_its_end(
    spark: Any, settings: Settings, bucket: str, s3_client: Any, nats3: Command
) -> None:
    hours = orders(settings, bad=True)
    nats3.ok("store", "create", "--name", "pizza", "--stream", "ORDERS", "--bucket", bucket)
    nats3.ok("store", "run", "pizza", "--all")
    made = nats3.ok(
        "export",
        "create",
        "pizza",
        "by_store",
        "--to",
        f"s3://{bucket}/exports",
        "--decode",
        "json",
        "--key",
        "subject:2",
        "--format",
        "csv",
        "--column",
        "order",
        "--column",
        "price",
        "-o",
        "json",
    )
    assert (made.json["archive"], made.json["name"], made.json["key"]) == ("pizza", "by_store", "subject:2")
    assert "Declared. To export what is sealed now: nats3 export run pizza by_store" in made.err

    # Nothing is sealed.
    assert "Nothing is due" in nats3.ok("export", "run", "pizza", "by_store").err
    refused = nats3.refused("export", "run", "pizza", "by_store", "--hour", hours[0])
    assert refused == (
        f"2 Error: Hour {hours[0]} of archive pizza is not sealed, and only sealed hours are exported. Seal the hours "
        "of archive pizza that have ended and are complete: nats3 store seal pizza"
    )
    nats3.ok("store", "seal", "pizza")
    planned = nats3.ok("export", "run", "pizza", "by_store", "--dry-run", "-o", "json")
    assert planned.json == [{"hour": hour, "state": "due", "messages": 4} for hour in hours]
    assert keys_of(s3_client, bucket) == []

    # The first hour has a message that is no JSON; the other is exported all the same.
    ran = nats3("export", "run", "pizza", "by_store", "-o", "json")
    assert ran.status == 1
    assert [(one["hour"], one["messages"], one["files"]) for one in ran.json] == [(hours[1], 4, 2)]
    assert "1 messages of" in ran.error
    states = {h["hour"]: h for h in nats3.ok("export", "hours", "pizza", "by_store", "-o", "json").json}
    assert [states[hour]["state"] for hour in hours] == ["failed", "done"]
    assert "do not decode" in states[hours[0]]["error"]
    assert "failed 1 time" in nats3.ok("export", "get", "pizza", "by_store").out

    changed = nats3.ok("export", "set", "pizza", "by_store", "--max-undecoded", "1", "-o", "json")
    assert [(c["field"], c["old"], c["new"]) for c in changed.json["changes"]] == [("max_undecoded", 0, 1)]
    ran = nats3.ok("export", "run", "pizza", "by_store", "-o", "json")
    assert [(one["hour"], one["messages"], one["undecoded"]) for one in ran.json] == [(hours[0], 3, 1)]
    got = nats3.ok("export", "get", "pizza", "by_store", "-o", "json").json
    assert (got["hours_done"], got["hours_due"], got["hours_failed"], got["messages"]) == (2, 0, 0, 7)
    (listed,) = nats3.ok("export", "list", "-o", "json").json
    assert (listed["undecoded"], listed["hours_exported"], listed["last_hour"]) == (1, 2, hours[1])

    keys = keys_of(s3_client, bucket)
    assert len(keys) == 4
    assert {key.split("/")[1] for key in keys} == {f"key={store}" for store in STORES}
    rome = next(key for key in keys if "=rome/" in key and f"hour={hours[1][11:13]}" in key)
    assert rows_of(s3_client, bucket, rome) == [{"order": "5", "price": "15"}, {"order": "7", "price": "17"}]

    # Again: the same files.
    (again,) = nats3.ok("export", "run", "pizza", "by_store", "--hour", hours[1], "-o", "json").json
    assert (again["files"], again["written"], again["removed"]) == (2, 0, 0)
    assert keys_of(s3_client, bucket) == keys

    gone = nats3.ok("export", "delete", "pizza", "by_store", "--yes", "-o", "json").json
    assert gone == {
        "archive": "pizza",
        "name": "by_store",
        "deleted": True,
        "hours_exported": 2,
        "files_kept": 4,
    }
    assert keys_of(s3_client, bucket) == keys
    assert nats3.ok("export", "list", "-o", "json").json == []
    assert nats3.refused("export", "get", "pizza", "by_store").startswith("2 Error: Archive pizza has no export")


def test_what_cannot_run_is_refused_and_writes_nothing(
    settings: Settings, bucket: str, s3_client: Any, nats3: Command, tmp_path: Path
) -> None:
    hours = past(settings, 2)
    archive(settings, bucket)
    hold(settings, bucket, hours)
    (tmp_path / "schema.json").write_text("{")
    (tmp_path / "body.json").write_text(json.dumps({"to": "s3://lake/x", "interval_minuts": 5}))
    (tmp_path / "named.json").write_text(json.dumps({"to": "s3://lake/x", "name": "other"}))
    before = everything(settings.postgres, str(settings.nats_url), s3_client, bucket)
    create = ("export", "create", "events", "out", "--to", "s3://lake/out")
    cases = [
        ((*create, "--decode", "no_such_package:decode"), "2 Error: "),
        ((*create, "--decode", "json:no_such_function"), "2 Error: "),
        ((*create, "--decode", "yaml"), "2 Error: There is no decoder 'yaml'"),
        ((*create, "--decode", "json", "--schema", str(tmp_path / "none.json")), "2 Error: "),
        ((*create, "--decode", "json", "--schema", str(tmp_path / "schema.json")), "2 Error: "),
        ((*create, "--path", "{key}/{store}.{ext}"), "2 Error: The path has the unknown name {store}"),
        ((*create, "--key", "subject"), "2 Error: 'subject' is not a key"),
        ((*create, "--interval-minutes", "7"), "2 Error: interval_minutes is 7. Use 1, 5, 15 or 60"),
        ((*create, "--format", "xml"), "2 Error: Invalid value for '--format': 'xml' is not one of"),
        (("export", "create", "events", "out", "--to", f"s3://{bucket}"), "2 Error: The export out would write where"),
        (
            ("export", "create", "events", "out", "--to", f"s3://{bucket}/archive=events/x"),
            "2 Error: The export out would write where the chunks of archive events live",
        ),
        (("export", "create", "events", "out", "--to", "ftp://lake"), "2 Error: 'ftp://lake' is not a destination"),
        (("export", "create", "events", "chunks", "--to", "s3://lake/x"), "2 Error: An export cannot be called chunks"),
        (("export", "create", "events", "Out", "--to", "s3://lake/x"), "2 Error: 'Out' is not an export name"),
        (("export", "create", "event", "out", "--to", "s3://lake/x"), "2 Error: There is no archive event. Did you"),
        (("export", "create", "events", "out"), "2 Error: Missing option '--to'"),
        (
            ("export", "create", "events", "out", "--from-json", str(tmp_path / "body.json")),
            f"2 Error: {tmp_path / 'body.json'} is not valid: interval_minuts: There is no such field; did you mean",
        ),
        (
            ("export", "create", "events", "out", "--from-json", str(tmp_path / "named.json")),
            "2 Error: The document names the export other, and the command out",
        ),
        (
            ("export", "run", "events", "out"),
            "2 Error: Archive events has no export out. Create an export of archive events first: nats3 export",
        ),
        (("export", "run", "events", "out", "--hour", "yesterday"), "2 Error: "),
        (("export", "delete", "events", "out", "--yes"), "2 Error: Archive events has no export out"),
        (("export", "set", "events", "out"), "2 Error: There is nothing to change"),
    ]
    assert nats3.differences(cases) == []
    assert everything(settings.postgres, str(settings.nats_url), s3_client, bucket) == before


def test_a_relative_schema_is_the_file_in_this_folder(
    settings: Settings, bucket: str, nats3: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And stays that file wherever the export runs."""
    past(settings, 2)
    archive(settings, bucket)
    (tmp_path / "schemas").mkdir()
    (tmp_path / "schemas" / "order.json").write_text("{}")
    monkeypatch.chdir(tmp_path)
    create = ("export", "create", "events", "out", "--to", f"s3://{bucket}/out", "--decode", "json")
    path = str(tmp_path / "schemas" / "order.json")
    assert nats3.ok(*create, "--schema", "schemas/order.json", "-o", "json").json["schema"] == path
    monkeypatch.chdir(tmp_path / "schemas")
    assert nats3.ok("export", "set", "events", "out", "--schema", "order.json", "-o", "json").json["changes"] == []


def test_a_bad_change_is_refused_and_changes_nothing(settings: Settings, bucket: str, nats3: Command) -> None:
    hours = past(settings, 2)
    archive(settings, bucket)
    hold(settings, bucket, hours)
    nats3.ok("export", "create", "events", "out", "--to", f"s3://{bucket}/out", "--key", "subject:1")
    seal_all(settings, "events")
    before = nats3.ok("export", "get", "events", "out", "-o", "json").json
    assert [hour["state"] for hour in before["hours"]] == ["due", "due"]
    cases = [
        (
            ("export", "create", "events", "out", "--to", f"s3://{bucket}/x"),
            "1 Error: Archive events has an export out",
        ),
        (
            ("export", "create", "events", "other", "--to", "s3://lake/x"),
            "2 Error: The destination's bucket 'lake' does not exist in ",
        ),
        (("export", "set", "events", "out", "--interval-minutes", "7"), "2 Error: interval_minutes is 7"),
        (("export", "set", "events", "out", "--decode", "nope:nope"), "2 Error: "),
        (("export", "set", "events", "out", "--to", f"s3://{bucket}/archive=events"), "2 Error: The export out would"),
        (
            ("export", "run", "events", "out", "--hour", hours[0], "--from-hour", hours[1]),
            "2 Error: --hour and --from-hour or --to-hour exclude each other",
        ),
        (("export", "run", "events", "outs"), "2 Error: Archive events has no export outs. Did you mean out?"),
    ]
    assert nats3.differences(cases) == []
    assert nats3.ok("export", "get", "events", "out", "-o", "json").json == before
    ranged = nats3.ok("export", "run", "events", "out", "--from-hour", hours[1], "--dry-run", "-o", "json").json
    assert [one["hour"] for one in ranged] == [hours[1]]
    taken_back = nats3.ok("export", "set", "events", "out", "--key", "", "-o", "json").json
    assert (taken_back["key"], taken_back["version"]) == (None, 2)


def test_an_archive_made_again_takes_the_place_of_the_former_ones_export_when_told_to(
    spark: Any, settings: Settings, bucket: str, s3_client: Any, nats3: Command
) -> None:
    hours = orders(settings)
    create = ("store", "create", "--name", "pizza", "--stream", "ORDERS", "--bucket", bucket)
    export = ("export", "create", "pizza", "files", "--to", f"s3://{bucket}/out", "--decode", "json")

    def make() -> str:
        nats3.ok(*create)
        nats3.ok("store", "run", "pizza", "--all")
        seal_all(settings, "pizza")
        return nats3.ok(*export).err

    assert "belongs to" not in make()
    nats3.ok("export", "run", "pizza", "files")
    before = keys_of(s3_client, bucket)
    nats3.ok("store", "delete", "pizza", "--purge", "--yes")
    said = make()
    assert "belongs to export files of another archive pizza" in said
    assert "nats3 export claim pizza files" in said
    refused = nats3("export", "run", "pizza", "files", "--hour", hours[0])
    assert refused.status == 1
    assert "nats3 export claim pizza files" in refused.err
    assert keys_of(s3_client, bucket) == before
    claimed = nats3.ok("export", "claim", "pizza", "files", "--yes", "-o", "json").json
    assert (claimed["former"]["archive"], claimed["former_hours"]) == ("pizza", 2)
    assert nats3.ok("export", "claim", "pizza", "files", "-o", "json").json["former"] is None
    nats3.ok("export", "run", "pizza", "files")
    assert keys_of(s3_client, bucket) == before
