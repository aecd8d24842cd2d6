"""Decoders: what each makes of a payload, and what it says of one that it cannot read."""

import io
import json
import sys
import time
from datetime import UTC, datetime

import fastavro
import msgpack
import pytest
from fastavro.schema import fingerprint, to_parsing_canonical_form
from google.protobuf import descriptor_pb2
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

from nats3_dagster.errors import OperatorError
from nats3_dagster.exports.decoding import own_decoder
from nats3_dagster_tests.support.exports import Case, block

AVRO = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "store", "type": ["null", "string"], "default": None}],
}


@pytest.fixture
def case(tmp_path):
    return Case(tmp_path)


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Writes the user's module."""

    def write(code, name="shop_decoders"):
        (tmp_path / f"{name}.py").write_text(code)
        sys.modules.pop(name, None)
        return name

    monkeypatch.syspath_prepend(str(tmp_path))
    yield write
    sys.modules.pop("shop_decoders", None)


def avro(fields, schema=AVRO):
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), fields)
    return out.getvalue()


def reasons(case):
    return [message["reason"] for message in case.undecoded()]


def test_msgpack(case):
    stamp = datetime(2026, 11, 21, tzinfo=UTC)
    case.chunk(
        ("x", msgpack.packb({"a": 1, "b": b"\xff", 3: [True], "t": stamp}, datetime=True)),
        ("x", b"\xc1"),
        ("x", msgpack.packb([1])),
        ("x", b"\x81\xa1a\x01\0"),
        ("x", b""),
    )
    assert case.run(decode="msgpack", max_undecoded=4).messages == 1
    assert case.lines() == [{"a": 1, "b": "/w==", "3": [True], "t": "2026-11-21T00:00:00+00:00"}]
    assert reasons(case)[1] == "The MessagePack is no map: list"
    assert len(reasons(case)) == 4


def test_avro_with_and_without_the_mark_of_its_schema(case, tmp_path):
    schema = tmp_path / "order.avsc"
    schema.write_text(json.dumps(AVRO))
    digest = fingerprint(to_parsing_canonical_form(AVRO), "CRC-64-AVRO")
    mark = b"\xc3\x01" + bytes.fromhex(digest)[::-1]
    order = avro({"id": 2**40, "store": "milano"})
    case.chunk(("x", order), ("x", mark + order), ("x", order + b"!"), ("x", order[:-2]), ("x", b""))
    result = case.run(decode="avro", schema=str(schema), key="field:store", format="csv", max_undecoded=3)
    assert (result.messages, result.undecoded) == (2, 3)
    assert case.by_key()["milano"] == b"id,store\n1099511627776,milano\n1099511627776,milano\n"
    assert reasons(case)[0] == "The Avro schema does not fit: 1 bytes are left over"
    assert all(reason.startswith("The Avro schema does not fit") for reason in reasons(case))


def order_set(tmp_path):
    file = descriptor_pb2.FileDescriptorProto(name="order.proto", package="shop", syntax="proto3")
    message = file.message_type.add(name="Order")
    message.field.add(name="id", number=1, type=3, label=1, json_name="id")
    message.field.add(name="store_name", number=2, type=9, label=1, json_name="storeName")
    path = tmp_path / "order.pb"
    path.write_bytes(descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString())
    pool = DescriptorPool()
    pool.Add(file)
    return path, GetMessageClass(pool.FindMessageTypeByName("shop.Order"))


def test_protobuf(case, tmp_path):
    path, order = order_set(tmp_path)
    case.chunk(("x", order(id=2**60, store_name="napoli").SerializeToString()), ("x", b"\x08"), ("x", b""))
    assert case.run(decode="protobuf", schema=f"{path}#shop.Order", max_undecoded=1).messages == 2
    assert case.lines() == [{"id": str(2**60), "store_name": "napoli"}, {"id": "0", "store_name": ""}]
    assert reasons(case)[0].startswith("The Protobuf message does not fit")


def test_json_with_a_schema(case, tmp_path):
    schema = tmp_path / "order.json"
    schema.write_text(json.dumps({"properties": {"id": {"type": "integer"}, "by": {}}, "required": ["id"]}))
    case.chunk(("x", b'{"id": 1, "x": 2.50}'), ("x", b'{"id": "1"}'), ("x", b"{}"), ("x", b"["))
    assert case.run(decode="json", schema=str(schema), format="csv", compression="none", max_undecoded=3).messages == 1
    assert [*case.files().values()] == [b"id,by\n1,\n"]
    assert reasons(case)[:2] == [
        "The schema does not fit at $.id: '1' is not of type 'integer'",
        "The schema does not fit at $: 'id' is a required property",
    ]


@pytest.mark.parametrize(
    ("decode", "content", "suffix", "message"),
    [
        ("json", b"{", "", "The schema is not a JSON Schema: JSONDecodeError"),
        ("json", b'{"type": "nothing"}', "", "The schema is not a JSON Schema: SchemaError"),
        ("json", b'{"$ref": "http://127.0.0.1:1/x.json"}', "", "The schema refers to what is not in it"),
        ("avro", b'{"type": "record"}', "", "The schema is not an Avro schema"),
        ("avro", b'"string"', "", "The Avro schema is not a record"),
        ("protobuf", b"\xff", "#a.B", "The schema is not a descriptor set"),
        ("protobuf", b"", "#a.B", "The descriptor set has no message a.B"),
    ],
)
def test_a_schema_that_cannot_be_used_is_refused(case, tmp_path, decode, content, suffix, message):
    path = tmp_path / "schema"
    path.write_bytes(content)
    case.chunk(("x", b"{}"))
    with pytest.raises(OperatorError, match=message) as refused:
        case.run(decode=decode, schema=f"{path}{suffix}")
    assert refused.value.field == "schema"
    assert case.files() == {}


def test_a_schema_that_is_not_there_is_refused(case):
    with pytest.raises(OperatorError, match="The schema /nowhere cannot be read: No such file"):
        case.plan(decode="json", schema="/nowhere")


def test_a_decoder_of_ones_own(case, module):
    module("""
def decode(subject, headers, data):
    if data == b"drop": return None
    if data == b"many": return [("a", {"n": 1}), ("b", {"n": 2}), ("a", {"n": 3})]
    return headers["Store"], {"subject": subject, "n": len(data)}
""")
    case.chunk(("s.1", b"xyz", block(Store="c")), ("s.2", b"drop"), ("s.3", b"many"))
    result = case.run(decode="shop_decoders:decode", key="decoder", format="csv")
    assert (result.files, result.messages, result.dropped, result.undecoded) == (3, 2, 1, 0)
    assert case.by_key() == {"a": b"n\n1\n3\n", "b": b"n\n2\n", "c": b"subject,n\ns.1,3\n"}
    case.run(decode="shop_decoders:decode", key="decoder", format="raw")
    assert case.by_key() == {"a": b"\0\0\0\4many", "b": b"\0\0\0\4many", "c": b"\0\0\0\3xyz"}


@pytest.mark.parametrize("form", ["ndjson", "csv", "parquet"])
def test_what_a_decoder_raises_and_wrong_types_are_reasons(case, module, form):
    module("""
import sys
from decimal import Decimal
loop = []
loop.append(loop)
def decode(subject, headers, data):
    if data == b"raise": raise KeyError("store")
    if data == b"exit": sys.exit(3)
    return {b"int": 5, b"list": [{}, 7], b"key": (1, {}), b"set": {"v": object()}, b"nan": {"v": float("nan")},
            b"none": ("k", None), b"text": {"t": "\\ud800"}, b"loop": {"v": loop}, b"twice": {"v": {1: 1, "1": 2}},
            b"name": {(1, 2): 3}, b"large": {"v": [Decimal("1E+500")]}, b"huge": {"v": 10**5000}}[data]
""")
    names = ["raise", "exit", "int", "list", "key", "set", "none", "text", "loop", "twice", "name", "large", "huge"]
    names += ["nan"] if form != "parquet" else []
    case.chunk(*[("x", name.encode()) for name in names])
    assert case.run(decode="shop_decoders:decode", format=form, max_undecoded=20).undecoded == len(names)
    wrong = ": neither dict, list of dicts, (key, dict) nor None"
    assert dict(zip(names, reasons(case), strict=True)) | {
        "nan": "The row has NaN or an infinity, which JSON has not"
    } == {
        "raise": "KeyError: 'store'",
        "exit": "SystemExit: 3",
        "int": f"The decoder returned a int{wrong}",
        "list": f"The decoder returned a int{wrong}",
        "key": f"The decoder returned a tuple{wrong}",
        "set": "A value of the type object cannot be written",
        "nan": "The row has NaN or an infinity, which JSON has not",
        "none": f"The decoder returned a tuple{wrong}",
        "text": "The row has text that is not Unicode",
        "loop": "The row is nested deeper than 100 levels",
        "twice": "The row has two fields of the name '1'",
        "name": "A name of the type tuple cannot be that of a field",
        "large": "The row has a number beyond every double: 1E+500",
        "huge": "The row has a number beyond every double, of 16610 bits",
    }


def test_a_decoder_that_hangs_fails_the_run(case, module, monkeypatch):
    monkeypatch.setattr(own_decoder, "LIMIT_S", 0.3)
    module("""
import time
def decode(subject, headers, data):
    if data == b"2": time.sleep(60)
    return {}
""")
    case.chunk(("x", b"1"), ("x", b"2"))
    begun = time.monotonic()
    with pytest.raises(OperatorError, match=r"decoder shop_decoders:decode took more than 0.3 s for message 2"):
        case.run(decode="shop_decoders:decode")
    assert time.monotonic() - begun < 30
    assert case.files() == {}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("no.such.module:decode", "cannot be imported: ModuleNotFoundError: No module named 'no'"),
        ("shop_decoders:nothing", "cannot be imported: AttributeError"),
        ("shop_decoders:number", "is not a function"),
    ],
)
def test_a_decoder_that_is_not_there_is_refused(case, module, name, message):
    module("number = 5")
    case.chunk(("x", b"1"))
    with pytest.raises(OperatorError, match=message):
        case.run(decode=name)


@pytest.mark.parametrize("library", ["msgpack", "fastavro", "jsonschema.exceptions", "google.protobuf.descriptor_pb2"])
def test_a_library_that_is_missing_names_the_extra(case, tmp_path, monkeypatch, library):
    monkeypatch.setitem(sys.modules, library, None)
    decode = {"fastavro": "avro", "jsonschema.exceptions": "json", "msgpack": "msgpack"}.get(library, "protobuf")
    (tmp_path / "s").write_text("{}")
    path = None if decode == "msgpack" else f"{tmp_path / 's'}{'#a.B' if decode == 'protobuf' else ''}"
    case.chunk(("x", b"{}"))
    with pytest.raises(OperatorError, match=r"which is not installed. pip install 'nats3-dagster\[exports\]'"):
        case.run(decode=decode, schema=path)
