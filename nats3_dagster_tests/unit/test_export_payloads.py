"""Payloads that nobody expects, through each decoder and each format: a message is written, or counted as undecoded
with its reason; the other messages of its file stay readable."""

import csv
import io
import json
import math
import re
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import duckdb
import fastavro
import msgpack
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from google.protobuf import descriptor_pb2, timestamp_pb2
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from hypothesis import given, settings
from hypothesis import strategies as st

from nats3_dagster.exports.group_export import GroupExport
from nats3_dagster.exports.job import ExportJob, Group
from nats3_dagster.model import ExportSpec
from nats3_dagster.model.messages import MESSAGES, subject_columns
from nats3_dagster.objects import OutletOptions, StoreOptions
from nats3_dagster_tests.support.catalog import HOUR, HOUR_NS
from nats3_dagster_tests.support.exports import Case

FORMATS = ("parquet", "csv", "ndjson")
GOOD = [b'{"id":%d,"s":"x","f":1.5}' % n for n in range(3)]
DEEP = 10_000
# Payloads, and the reason why each is not decoded; None where it is written.
PAYLOADS = {
    "nested empty object": (b'{"meta":{"labels":{}}}', None),
    "list of an empty object": (b'{"items":[{}]}', None),
    "empty names and values": (b'{"":{"":[[],[{"":{}}]]}}', None),
    "integer of 70 bits": (b'{"id":1180591620717411303424}', None),
    "integer of 70 bits in a list": (b'{"ids":[1,1180591620717411303424]}', None),
    "text where others have numbers": (b'{"id":"x","f":{"a":[]}}', None),
    "NUL": (b'{"s":"a\\u0000b"}', None),
    "a pair of surrogates": (b'{"s":"\\ud83d\\ude00"}', None),
    "100 levels": (b'{"a":' + b"[" * 99 + b"]" * 99 + b"}", None),
    "one name in three objects": (b'{"a": {"id":1},"id":{"id" :2},"b":"a\\":b"}', None),
    "a name twice": (b'{"id":1,"id":2}', "The JSON has a name twice in one object: 'id'"),
    "a name twice inside": (b'{"a":[{"k" :1,"b":2, "k":3}]}', "The JSON has a name twice in one object: 'k'"),
    "a name and its escape": (b'{"id":1,"\\u0069d":2}', "The JSON has a name twice in one object: 'id'"),
    "lone surrogate": (b'{"s":"\\ud83d"}', "The row has text that is not Unicode"),
    "lone surrogate in a name": (b'{"a":{"\\uDC00":1}}', "The row has text that is not Unicode"),
    "lone surrogate that another value hides": (b'{"s":"\\ud800","s":1}', "The row has text that is not Unicode"),
    "number beyond every double": (b'{"id":1e400}', "The row has a number beyond every double: 1e400"),
    "the same with many digits": (b'{"id":-1' + b"0" * 400 + b"}", "The row has a number beyond every double"),
    "101 levels": (b'{"a":' + b"[" * 100 + b"]" * 100 + b"}", "The row is nested deeper than 100 levels"),
    "lists of depth 10,000": (b'{"a":' + b"[" * DEEP + b"]" * DEEP + b"}", "The row is nested deeper than 100 levels"),
    "objects of depth 10,000": (b'{"a":' * DEEP + b"1" + b"}" * DEEP, "The row is nested deeper than 100 levels"),
    "NaN": (b'{"id":NaN}', "NaN is not JSON"),
    "not UTF-8": (b'{"s":"\xff"}', "The payload is not UTF-8"),
    "cut off": (b'{"s":', "The JSON is malformed: Expecting value at character 5"),
}


@pytest.fixture
def case(tmp_path):
    return Case(tmp_path)


def rows_of(data, form):
    """The rows of a file, as programs read them that read a file or refuse it whole."""
    if form == "csv":
        return len(list(csv.DictReader(io.StringIO(data.decode()))))
    if form == "ndjson":
        assert all(isinstance(json.loads(line), dict) for line in data.splitlines())
        return polars.read_ndjson(io.BytesIO(data), schema={"id": polars.String}).height
    table = pq.read_table(pa.BufferReader(data))
    assert polars.read_parquet(io.BytesIO(data)).height == table.num_rows
    return table.num_rows


@pytest.mark.parametrize("form", FORMATS)
def test_json_is_written_or_counted_and_takes_no_other_message_along(case, form):
    for payload, _ in PAYLOADS.values():
        case.chunk(*[("x", data) for data in (*GOOD, payload)])
    made = case.run(decode="json", format=form, compression="none", max_undecoded=100)
    # A line of NDJSON has both values of a name.
    left = "The JSON has a name twice" if form == "ndjson" else "-"
    reasons = [reason for _, reason in PAYLOADS.values() if reason and not reason.startswith(left)]
    assert (made.messages, made.undecoded) == (4 * len(PAYLOADS) - len(reasons), len(reasons))
    told = [message["reason"] for message in case.undecoded()]
    assert [t[: len(r)] for t, r in zip(told, reasons, strict=True)] == reasons
    (data,) = case.files().values()
    assert rows_of(data, form) == made.messages
    if form != "csv":
        (path,) = [path for path in case.out.rglob(f"*.{form}") if "_exports" not in path.parts]
        reader = {"ndjson": "read_ndjson_objects", "parquet": "read_parquet"}[form]
        assert duckdb.execute(f"SELECT count(*) FROM (SELECT * FROM {reader}('{path}'))").fetchall() == [
            (made.messages,)
        ]


def avro_payloads():
    """The schema of each type of Avro, and the values of two hours."""
    fields = [
        ("id", "long"),
        ("n", ["null", "int"]),
        ("price", {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}),
        ("by", {"type": "map", "values": "double"}),
        ("at", {"type": "long", "logicalType": "timestamp-micros"}),
        ("day", {"type": "int", "logicalType": "date"}),
        ("raw", ["null", "bytes"]),
        ("kind", {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}),
        ("key", {"type": "string", "logicalType": "uuid"}),
        ("any", ["null", "int", "string"]),
        ("lines", {"type": "array", "items": {"type": "record", "name": "Line", "fields": [
            {"name": "no", "type": "int"}, {"name": "note", "type": ["null", "string"]}]}}),
        ("more", {"type": "array", "items": "Line"}),
        ("tree", {"type": "record", "name": "Tree", "fields": [{"name": "next", "type": ["null", "Tree"]}]}),
    ]  # fmt: skip
    schema = {"type": "record", "name": "Order", "fields": [{"name": n, "type": t} for n, t in fields]}
    stamp, parsed = datetime(2026, 11, 21, 7, tzinfo=UTC), fastavro.parse_schema(schema)
    key = UUID("8d0d7a4e-3f0c-4a39-9d52-0e5a3f6d2a11")
    bare = {"id": 1, "n": None, "price": Decimal("1.50"), "by": {}, "at": stamp, "day": stamp.date(), "raw": None,
            "kind": "A", "key": key, "any": None, "lines": [], "more": [], "tree": {"next": None}}  # fmt: skip
    full = bare | {
        "n": 2, "price": Decimal("12345678.00"), "by": {"a": 1.5, "b": float("nan")}, "raw": b"\xff", "any": "x",
        "lines": [{"no": 1, "note": "n"}], "more": [{"no": 2, "note": None}], "tree": {"next": {"next": None}},
    }  # fmt: skip

    def packed(value):
        out = io.BytesIO()
        fastavro.schemaless_writer(out, parsed, value)
        return out.getvalue()

    line = pa.list_(pa.struct([("no", pa.int32()), ("note", pa.string())]))
    types = {
        "id": pa.int64(), "n": pa.int32(), "price": pa.decimal128(10, 2), "by": pa.map_(pa.string(), pa.float64()),
        "at": pa.timestamp("us", "UTC"), "day": pa.date32(), "raw": pa.binary(), "kind": pa.string(),
        "key": pa.string(), "any": pa.string(), "lines": line, "more": line,
        "tree": pa.struct([("next", pa.string())]),
    }  # fmt: skip
    row = full | {"by": [("a", 1.5), ("b", None)], "key": str(key), "tree": {"next": '{"next":null}'}}
    return json.dumps(schema).encode(), "", packed(bare), packed(full), types, row


def protobuf_payloads():
    file = descriptor_pb2.FileDescriptorProto(name="o.proto", package="shop", syntax="proto3")
    file.dependency.append("google/protobuf/timestamp.proto")
    order = file.message_type.add(name="Order")
    line = order.nested_type.add(name="Line")
    line.field.add(name="no", number=1, type=13, label=1)
    line.field.add(name="rest", number=2, type=11, label=1, type_name=".shop.Order.Line")
    entry = order.nested_type.add(name="ByEntry", options=descriptor_pb2.MessageOptions(map_entry=True))
    entry.field.add(name="key", number=1, type=5, label=1)
    entry.field.add(name="value", number=2, type=1, label=1)
    kind = order.enum_type.add(name="Kind")
    kind.value.add(name="A", number=0)
    kind.value.add(name="B", number=1)
    plain = [("id", 3), ("big", 4), ("ratio", 1), ("near", 2), ("ok", 8), ("name", 9), ("raw", 12)]
    for number, (name, type_) in enumerate(plain, 1):
        order.field.add(name=name, number=number, type=type_, label=1)
    order.field.add(name="kind", number=20, type=14, label=1, type_name=".shop.Order.Kind")
    order.field.add(name="line", number=21, type=11, label=1, type_name=".shop.Order.Line")
    order.field.add(name="lines", number=22, type=11, label=3, type_name=".shop.Order.Line")
    order.field.add(name="by", number=23, type=11, label=3, type_name=".shop.Order.ByEntry")
    order.field.add(name="at", number=24, type=11, label=1, type_name=".google.protobuf.Timestamp")
    order.oneof_decl.add(name="_maybe")
    order.field.add(name="maybe", number=25, type=5, label=1, oneof_index=0, proto3_optional=True)
    stamp = descriptor_pb2.FileDescriptorProto()
    timestamp_pb2.DESCRIPTOR.CopyToProto(stamp)
    pool = DescriptorPool()
    pool.Add(stamp)
    pool.Add(file)
    make: Any = GetMessageClass(pool.FindMessageTypeByName("shop.Order"))
    full = make(
        id=-(2**62), big=2**64 - 1, ratio=float("nan"), near=0.1, ok=True, name="é", raw=b"\xff", kind=7, maybe=0
    )
    full.line.no, full.line.rest.no, full.by[3] = 2**32 - 1, 5, 0.5
    full.lines.add(no=1)
    full.at.seconds = 1
    shape = pa.struct([("no", pa.uint32()), ("rest", pa.string())])
    types = {
        "id": pa.int64(), "big": pa.uint64(), "ratio": pa.float64(), "near": pa.float32(), "ok": pa.bool_(),
        "name": pa.string(), "raw": pa.binary(), "kind": pa.string(), "line": shape, "lines": pa.list_(shape),
        "by": pa.map_(pa.int32(), pa.float64()), "at": pa.string(), "maybe": pa.int32(),
    }  # fmt: skip
    row = {"id": -(2**62), "big": 2**64 - 1, "ratio": None, "ok": True, "name": "é", "raw": b"\xff", "kind": "7",
           "line": {"no": 2**32 - 1, "rest": '{"no":5}'}, "lines": [{"no": 1, "rest": None}], "by": [(3, 0.5)],
           "at": "1970-01-01T00:00:01Z", "maybe": 0}  # fmt: skip
    set_ = descriptor_pb2.FileDescriptorSet(file=[stamp, file]).SerializeToString()
    return set_, "#shop.Order", b"", full.SerializeToString(), types, row


def schema_payloads():
    properties = {
        "id": {"type": "integer"},
        "ratio": {"type": ["number", "null"]},
        "name": {"$ref": "#/$defs/name"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "line": {"type": "object", "properties": {"no": {"type": "integer"}, "ok": {"type": "boolean"}}},
        "free": {"type": "object"},
        "any": {},
        "either": {"anyOf": [{"type": "null"}, {"type": "integer"}]},
        "size": {"enum": ["s", "m"]},
        "tree": {"$ref": "#/$defs/tree"},
    }
    tree = {"type": "object", "properties": {"next": {"$ref": "#/$defs/tree"}}}
    schema = {"properties": properties, "$defs": {"name": {"type": "string"}, "tree": tree}}
    full = {"id": 2**62, "ratio": 1, "name": "é", "tags": ["a"], "line": {"no": 1}, "free": {"a": {}}, "any": [1, "x"],
            "either": 3, "size": "m", "tree": {"next": {"next": {}}}, "extra": 1}  # fmt: skip
    types = {
        "id": pa.int64(), "ratio": pa.float64(), "name": pa.string(), "tags": pa.list_(pa.string()),
        "line": pa.struct([("no", pa.int64()), ("ok", pa.bool_())]), "free": pa.string(), "any": pa.string(),
        "either": pa.int64(), "size": pa.string(), "tree": pa.struct([("next", pa.string())]),
    }  # fmt: skip
    row = full | {"line": {"no": 1, "ok": None}, "free": '{"a":{}}', "any": '[1,"x"]', "tree": {"next": '{"next":{}}'}}
    del row["extra"]
    return json.dumps(schema).encode(), "", b'{"ratio": 0.5, "any": null}', json.dumps(full).encode(), types, row


SCHEMAS = {"avro": avro_payloads, "protobuf": protobuf_payloads, "json": schema_payloads}


@pytest.mark.parametrize("decode", SCHEMAS)
def test_columns_have_the_types_of_the_schema_whatever_the_values_of_an_hour(case, tmp_path, decode):
    """So engines read the files of all hours as one table."""
    content, name, bare, full, types, row = SCHEMAS[decode]()
    (tmp_path / "schema").write_bytes(content)
    files = []
    for payload in (bare, full):
        case.chunks.clear()
        case.chunk(("x", payload), first=1 + len(files))
        case.run(decode=decode, schema=f"{tmp_path}/schema{name}", format="parquet")
        (path,) = case.out.rglob("*.parquet")
        files.append(path.rename(tmp_path / f"{len(files)}.parquet"))
    schemas = [pq.read_schema(path) for path in files]
    assert [{f.name: _shown(f.type) for f in schema} for schema in schemas] == [
        {n: _shown(t) for n, t in types.items()}
    ] * 2
    (written,) = pq.read_table(files[1]).to_pylist()
    assert {name: _without_nan(written[name]) for name in row} == row
    assert polars.scan_parquet(files).collect().height == 2
    assert duckdb.execute(f"SELECT count(*) FROM read_parquet({[*map(str, files)]})").fetchall() == [(2,)]


def _shown(type_):
    """A type without the names of its parts that nobody gave."""
    return re.sub(r" \('\w+'\)", "", str(type_).replace("element: ", "item: "))


def _without_nan(value):
    """NaN as None, for it equals nothing."""
    if isinstance(value, list):
        return [(name, _without_nan(each)) for name, each in value] if value and isinstance(value[0], tuple) else value
    return None if isinstance(value, float) and math.isnan(value) else value


NUMBERS = st.sampled_from(["0", "-0", "1.5", "1e400", "-1E+0309", "1e-999", str(2**63), str(2**70), "9" * 400, "NaN"])
STRINGS = st.text(max_size=4).map(json.dumps) | st.sampled_from(
    ['"\\ud800"', '"\\udc00\\ud800"', '"\\u0000"', '"a,\\"b"']
)
DOCUMENTS = st.recursive(
    st.sampled_from(["null", "true", "{}", "[]"]) | NUMBERS | STRINGS,
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda parts: f"[{','.join(parts)}]")
        | st.lists(st.tuples(STRINGS, inner), max_size=3).map(
            lambda pairs: "{" + ",".join(f"{name}:{value}" for name, value in pairs) + "}"
        )
    ),
    max_leaves=12,
)
OBJECTS = st.lists(st.tuples(st.sampled_from(['"id"', '"s"', '"a"', '""']), DOCUMENTS), max_size=4).map(
    lambda pairs: ("{" + ",".join(f"{name}:{value}" for name, value in pairs) + "}").encode()
)
SCALARS = st.none() | st.booleans() | st.floats() | st.text(max_size=3) | st.binary(max_size=3)
VALUES = st.recursive(
    SCALARS | st.integers(-(2**63), 2**64 - 1),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2) | st.integers(0, 9), inner, max_size=3)
    ),
    max_leaves=8,
)
MAPS = st.dictionaries(st.sampled_from(["id", "s", "", 1, "1", b"\xff"]), VALUES, max_size=4).map(msgpack.packb)


def check(payloads, form, schema=(None, ""), **fields):
    """Export them between good messages, and hold what is promised. Returns the sequences that are undecoded."""
    content, name = schema
    path = None if content is None else f"/nowhere{name}"
    spec = ExportSpec("files", "file:///nowhere", format=form, compression="none", schema=path, **fields)
    nowhere = OutletOptions("file", "", "/nowhere")
    job = ExportJob("logs", "", "LOGS", HOUR, spec, content, StoreOptions(url="file:///nowhere"), nowhere, "")
    export = GroupExport(job, Group(0, (), ""))
    for first in range(0, len(payloads), 4):
        part, seqs = payloads[first : first + 4], range(first + 1, min(first + 5, len(payloads) + 1))
        subjects = subject_columns(pa.array([b"x"] * len(part)))
        columns = [seqs, [HOUR_NS + seq for seq in seqs], *subjects, pa.nulls(len(part), pa.binary()), part]
        export._add(pa.record_batch(columns, schema=MESSAGES))
    rows = sum(rows_of(file.writer.finish(), form) for file in export._files.values())
    assert (rows, rows + len(export._undecoded)) == (export._messages, len(payloads))
    reasons = [json.loads(line)["reason"] for _, line in export._undecoded]
    assert all(reason and "\n" not in reason for reason in reasons)
    return {seq for seq, _ in export._undecoded}


@pytest.mark.parametrize("form", FORMATS)
@given(payloads=st.lists(OBJECTS | st.binary(max_size=6), max_size=4))
@settings(max_examples=60, deadline=None)
def test_any_json(form, payloads):
    undecoded = check([*GOOD, *payloads, GOOD[0]], form, decode="json")
    assert not undecoded & {1, 2, 3, len(payloads) + 4}


@pytest.mark.parametrize("form", FORMATS)
@given(payloads=st.lists(MAPS | st.binary(max_size=6), max_size=4))
@settings(max_examples=40, deadline=None)
def test_any_messagepack(form, payloads):
    deep = b"\x91" * 5000 + b"\xc0"
    undecoded = check([msgpack.packb({"id": 1}), *payloads, b"\x81\xa1a" + deep], form, decode="msgpack")
    assert 1 not in undecoded
    assert len(payloads) + 2 in undecoded


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("decode", SCHEMAS)
def test_any_bytes_for_a_schema(decode, form):
    content, name, bare, full, *_ = SCHEMAS[decode]()

    @given(
        payloads=st.lists(st.binary(max_size=40), max_size=3),
        at=st.integers(0, len(full) - 1),
        byte=st.integers(0, 255),
    )
    @settings(max_examples=25, deadline=None)
    def whatever(payloads, at, byte):
        changed = full[:at] + bytes([byte]) + full[at + 1 :]
        undecoded = check([bare, *payloads, changed], form, (content, name), decode=decode)
        assert 1 not in undecoded

    whatever()
