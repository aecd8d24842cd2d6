"""docs/exports.md: its examples do what it says, and its tables have what there is."""

import csv
import gzip
import importlib.util
import io
import json
import re
import time
from pathlib import Path
from typing import Any

import pytest
import zstandard

from nats3_dagster.dev.history import Past, restore_stream
from nats3_dagster.hours import HOUR_NS, MINUTE_NS, hour_of, hour_start
from nats3_dagster.model.export_spec import DECODERS, PATH_NAMES, ExportSpec
from nats3_dagster.settings import Settings
from nats3_dagster_tests.support.commands import Command, root_command

DOCS = Path(__file__).parents[2] / "docs"
TEXT = (DOCS / "exports.md").read_text()
pytestmark = [pytest.mark.needs_nats("2.15"), pytest.mark.steady_hour(60)]


def commands(of: str) -> list[list[str]]:
    """The commands of a section, without `nats3`."""
    section = TEXT[TEXT.index(f"### {of}") :]
    (block, *_) = re.findall(r"```sh\n(.*?)```", section, re.DOTALL)
    return [line.split()[1:] for line in block.splitlines()]


def run(nats3: Command, of: str, bucket: str) -> list[dict[str, Any]]:
    """Run them, with a bucket that there is; what the last one says."""
    said: list[dict[str, Any]] = []
    for words in commands(of):
        if "-f" in words:
            file = words[words.index("-f") + 1]
            example = (DOCS / "examples" / "exports" / file).read_text()
            Path(file).write_text(
                example.replace("bucket: archive\n", f"bucket: {bucket}\n").replace("s3://archive", f"s3://{bucket}")
            )
        said = nats3.ok(*words, "-o", "json").json
    return said


def files(s3_client: Any, bucket: str, prefix: str) -> dict[str, bytes]:
    found = s3_client.list_objects_v2(Bucket=bucket, Prefix=prefix)["Contents"]
    keys = [item["Key"] for item in found if "/_exports/" not in item["Key"]]
    return {key.removeprefix(prefix): s3_client.get_object(Bucket=bucket, Key=key)["Body"].read() for key in keys}


def test_pizza_orders_go_to_csv_by_store(
    spark: Any,
    settings: Settings,
    bucket: str,
    s3_client: Any,
    nats3: Command,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    start = hour_start(hour_of(time.time_ns())) - HOUR_NS
    orders = [{"order": n, "pizza": "margherita, large", "price": 8.50 + n, "paid": True} for n in range(4)]
    payloads = [json.dumps(order).encode() for order in orders] + [b"no order"]
    restore_stream(
        settings.nats,
        "ORDERS",
        ["orders.>"],
        [Past(n + 1, start + n, f"orders.{('milano', 'napoli')[n % 2]}", b"", data) for n, data in enumerate(payloads)],
    )
    (done,) = run(nats3, "Pizza orders to CSV by store", bucket)
    assert (done["messages"], done["files"], done["undecoded"]) == (4, 2, 1)
    found = files(s3_client, bucket, "exports/pizza/")
    hour = f"date={done['hour'][:10]}/hour={done['hour'][11:13]}"
    assert sorted(found) == [
        f"key=milano/{hour}/{1:020d}-{3:020d}.csv.gz",
        f"key=napoli/{hour}/{2:020d}-{4:020d}.csv.gz",
    ]
    milano = csv.DictReader(io.StringIO(gzip.decompress(found[sorted(found)[0]]).decode()))
    assert list(milano) == [
        {"order": "0", "pizza": "margherita, large", "price": "8.5"},
        {"order": "2", "pizza": "margherita, large", "price": "10.5"},
    ]


def test_log_lines_go_to_ndjson_by_host(
    spark: Any,
    settings: Settings,
    bucket: str,
    s3_client: Any,
    nats3: Command,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    start = hour_start(hour_of(time.time_ns())) - HOUR_NS
    restore_stream(
        settings.nats,
        "LOGS",
        ["logs.>"],
        [
            Past(n + 1, start + n * 10 * MINUTE_NS, f"logs.p{n % 3}.{('web-1', 'db')[n % 2]}", b"", b"line %d" % n)
            for n in range(4)
        ],
    )
    (done,) = run(nats3, "Log lines to NDJSON by host", bucket)
    assert (done["messages"], done["files"]) == (4, 4)
    found = files(s3_client, bucket, "exports/logs/")
    date, hour = done["hour"][:10], done["hour"][11:13]
    assert sorted(found) == sorted(
        f"host={host}/date={date}/{hour}{minute}-{seq:020d}.ndjson.zst"
        for host, minute, seq in (("web-1", "00", 1), ("db", "00", 2), ("web-1", "15", 3), ("db", "30", 4))
    )
    line = json.loads(zstandard.ZstdDecompressor().stream_reader(found[sorted(found)[0]]).read())
    assert (line["subject"], line["text"], line["seq"]) == ("logs.p1.db", "line 1", 2)


def test_the_decoder_of_the_docs_is_the_one_of_the_example(monkeypatch: pytest.MonkeyPatch) -> None:
    path = DOCS / "examples" / "exports" / "order_decoder.py"
    (shown,) = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    assert shown in path.read_text()
    spec = importlib.util.spec_from_file_location("order_decoder", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.decode("orders.rome", {"Region": "eu"}, b'{"order": 7}') == ("eu", {"order": 7, "store": "rome"})
    assert module.decode("orders.rome", {}, b'{"order": 7, "test": true}') is None
    ExportSpec("by_region", "s3://archive/x", decode="order_decoder:decode", key="decoder")


def test_the_tables_have_every_option_decoder_and_name() -> None:
    command = root_command().commands["export"].commands["create"]
    options = {option for parameter in command.params for option in parameter.opts if option.startswith("--")}
    table = set(re.findall(r"^\| `(--[a-z-]+)`", TEXT, re.MULTILINE))
    assert table == options - {"--from-json", "--output", "--help"}
    assert {f"`{name}`" for name in DECODERS} <= set(re.findall(r"^\| (`\w+`)", TEXT, re.MULTILINE))
    assert all(f"`{{{name}}}`" in TEXT for name in PATH_NAMES)
    assert set(re.findall(r"^\| `--[a-z-]+` \| `(\w+)`", TEXT, re.MULTILINE)) == {
        {"destination": "to"}.get(name, name) for name in ExportSpec.__dataclass_fields__ if name != "name"
    }
