"""Files of exports: what a message becomes in each format, split by each key."""

import base64
import csv
import io
import json
import struct

import duckdb
import polars
import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset as pads
import pyarrow.parquet as pq
import pytest
import zstandard

from nats3_dagster.errors import SourceError
from nats3_dagster_tests.support.catalog import HOUR, LOGS
from nats3_dagster_tests.support.exports import Case, block

DATE = "date=2026-11-21/hour=07"


@pytest.fixture
def case(tmp_path):
    return Case(tmp_path)


def test_pizza_orders_become_csv_by_store(case):
    """The worked example: orders as JSON on orders.<store>."""
    case.chunk(
        ("orders.milano", b'{"order": 1, "pizza": "Margherita", "price": 8.50, "extras": ["basil", "oil"]}'),
        ("orders.napoli", b'{"order": 2, "pizza": "Marinara \\"doppia\\", large", "price": 7.00, "note": null}'),
        ("orders.milano", b'{"order": 12345678901234567890123, "pizza": "Funghi", "paid": true}'),
    )
    result = case.run(decode="json", key="subject:2", format="csv", columns=("order", "pizza", "price", "extras"))
    assert (result.files, result.messages, result.undecoded, result.written) == (2, 3, 0, 2)
    first, last = "00000000000000000001", "00000000000000000003"
    assert case.files() == {
        f"key=milano/{DATE}/{first}-{last}.csv.gz": (
            b'order,pizza,price,extras\n1,Margherita,8.50,"[""basil"",""oil""]"\n12345678901234567890123,Funghi,,\n'
        ),
        f"key=napoli/{DATE}/{first[:-1]}2-{first[:-1]}2.csv.gz": (
            b'order,pizza,price,extras\n2,"Marinara ""doppia"", large",7.00,\n'
        ),
    }


def test_shipped_log_lines_become_ndjson_by_host(case):
    """The worked example: lines on logs.p<partition>.<host>, as a log shipper publishes them."""
    case.chunk(
        ("logs.p1.web-1", b"GET / 200", block(Log_File="/var/log/access", Log_Offset="7")),
        ("logs.p3.web-2", "Ende für heute".encode()),
        ("logs.p2.web-1", b"GET /favicon 404"),
    )
    case.run(subjects=("logs.>",), decode="text", key="subject:3")
    assert list(case.by_key()) == ["web-1", "web-2"]
    assert [json.loads(line) for line in case.by_key()["web-1"].splitlines()] == [
        {"subject": "logs.p1.web-1", "seq": 1, "time": "2026-11-21T07:00:00.000000000Z", "text": "GET / 200"},
        {"subject": "logs.p2.web-1", "seq": 3, "time": "2026-11-21T07:00:00.000000002Z", "text": "GET /favicon 404"},
    ]
    assert json.loads(case.by_key()["web-2"])["text"] == "Ende für heute"


def test_json_goes_into_ndjson_with_every_digit(case):
    payload = b' {"a": 1.10, "big": 123456789012345678901234567890,\r\n "a": 1E300, "s": "a\\nb"}\n'
    case.chunk(("x", payload), ("x", b'{"b": 0.1000}'))
    case.run(decode="json")
    lines = b'{"a": 1.10, "big": 123456789012345678901234567890,   "a": 1E300, "s": "a\\nb"}\n{"b": 0.1000}\n'
    assert [*case.files().values()] == [lines]


@pytest.mark.parametrize("key", [None, "subject:1", "field:ok", "header:Store"])
def test_lines_are_the_same_whether_a_batch_is_valid_as_a_whole_or_not(case, key):
    good = [("x", b'{"ok": %d}' % n, block(Store="a")) for n in range(50)]
    bad = [b"", b"no", b'{"a": NaN}', b'{"a":1}{"b":2}', b"[1]", b"\xff", b'{"a": 01}', b'{"a":1', b'"}', b'{"a":"\n"}']
    case.chunk(*good[:20], *[("x", b) for b in bad], *good[20:])
    result = case.run(decode="json", key=key, max_undecoded=10)
    assert (result.messages, result.undecoded) == (50, 10)
    assert sorted(line["ok"] for line in case.lines()) == list(range(50))
    assert [base64.b64decode(m["data"]) for m in case.undecoded()] == bad
    assert all(m["reason"] for m in case.undecoded())


def test_the_whole_message_as_ndjson(case):
    case.chunk(("x.y", b"\0\xff", block(A="1")), ("x", b""))
    case.run(format="messages", compression="zstd")
    (data,) = case.files().values()
    first, second = map(json.loads, zstandard.ZstdDecompressor().decompress(data).splitlines())
    assert first == {
        "seq": 1,
        "time": "2026-11-21T07:00:00.000000000Z",
        "subject": "x.y",
        "stream": "LOGS",
        "headers": base64.b64encode(block(A="1")).decode(),
        "data": "AP8=",
    }
    assert (second["headers"], second["data"]) == (None, "")


def test_raw_payloads_have_their_length_in_front(case):
    case.chunk(("x", b"abc"), ("x", b""), ("x", b"\n" * 300))
    case.run(format="raw", compression="none")
    (data,) = case.files().values()
    assert data == b"\0\0\0\3abc" + b"\0\0\0\0" + struct.pack(">I", 300) + b"\n" * 300


@pytest.mark.parametrize("compression", ["gzip", "zstd", "snappy", "none"])
def test_parquet_has_columns_with_types_and_json_where_types_differ(case, compression):
    huge = 123456789012345678901234567890
    case.chunk(
        ("x", b'{"n": 1, "f": 1.5, "s": "a", "mixed": 1, "deep": {"a": [1]}, "huge": %d}' % huge),
        ("x", b'{"n": 2, "f": 2, "s": null, "mixed": "b", "new": true}'),
    )
    case.run(decode="json", format="parquet", compression=compression)
    (path,) = case.out.rglob("*.parquet")
    table = pq.ParquetFile(path).read()
    assert table.to_pylist() == [
        {"n": 1, "f": 1.5, "s": "a", "mixed": "1", "deep": {"a": [1]}, "huge": str(huge), "new": None},
        {"n": 2, "f": 2.0, "s": None, "mixed": "b", "deep": None, "huge": None, "new": True},
    ]
    stored = pq.read_metadata(path).row_group(0).column(0).compression
    assert stored == {"gzip": "GZIP", "zstd": "ZSTD", "snappy": "SNAPPY", "none": "UNCOMPRESSED"}[compression]


def test_csv_without_columns_has_those_of_all_rows(case):
    case.chunk(("x", b'{"a": 1}'), ("x", b'{"b": "two\\nlines", "a": 2}'), ("x", b'{"c": false}'), ("x", b"{}"))
    case.run(decode="json", format="csv", compression="none")
    (data,) = case.files().values()
    assert data == b'a,b,c\n1,,\n2,"two\nlines",\n,,false\n,,\n'
    options = pyarrow.csv.ParseOptions(newlines_in_values=True)
    assert pyarrow.csv.read_csv(pyarrow.BufferReader(data), parse_options=options).num_rows == 4


def test_intervals_have_files_of_their_own(case):
    case.chunk(*[("x", b"{}", None, minute) for minute in (0, 4, 5, 14, 15, 59)])
    path = "{date}/{hour}{minute}/{part}.{ext}"
    result = case.run(decode="json", interval_minutes=5, path=path)
    assert result.files == 5
    assert [p.split("/")[1] for p in case.files()] == ["0700", "0705", "0710", "0715", "0755"]
    assert case.run(decode="json", interval_minutes=1, path=path).files == 6
    assert case.run(decode="text", interval_minutes=15, path=path).files == 3


def test_engines_read_the_folders_of_keys_as_a_column(case):
    keys = ["rome", "a/b", "..", "é", "all"]
    case.chunk(*[("x", json.dumps({"k": key, "n": n}).encode()) for n, key in enumerate(keys)])
    case.run(decode="json", key="field:k", format="parquet", compression="none")
    rows = pads.dataset(case.out, format="parquet", partitioning="hive").to_table().to_pylist()
    assert sorted((row["key"], row["n"]) for row in rows) == sorted((key, n) for n, key in enumerate(keys))
    assert {(row["date"], row["hour"]) for row in rows} == {("2026-11-21", 7)}


def test_engines_read_the_folders_of_any_keys(case):
    """One key that is not UTF-8 or that ends within a character would make engines refuse all files beside it."""
    subjects = ["rome", "\udcff", "%FF", "日" * 60, "日" * 59 + "本", "__HIVE_DEFAULT_PARTITION__"]
    case.chunk(*[(f"x.{subject}", b"%d" % n) for n, subject in enumerate(subjects)])
    case.run(decode="text", key="subject:2", format="parquet", compression="none")
    files = f"{case.out}/key=*/*/*/*.parquet"
    paths = sorted(map(str, case.out.glob("key=*/*/*/*.parquet")))
    dataset = pads.dataset(paths, format="parquet", partition_base_dir=str(case.out), partitioning="hive")
    select = f"SELECT text, key FROM read_parquet('{files}', hive_partitioning=true)"
    every = [
        {row["text"]: row["key"] for row in dataset.to_table().to_pylist()},
        dict(polars.scan_parquet(files, hive_partitioning=True).select("text", "key").collect().rows()),
        dict(duckdb.execute(select).fetchall()),
    ]
    assert every == every[:1] * 3
    assert (len(set(every[0].values())), None in every[0].values()) == (len(subjects), False)
    assert [every[0][text] for text in "02"] == ["rome", "%FF"]
    assert [every[0][text].partition("~")[0] for text in "1345"] == ["%FF", "日" * 16, "日" * 16, subjects[5]]


def test_hostile_keys_stay_below_the_destination_and_apart(case):
    keys = ["..", ".", "/etc", "a/b", "a%2Fb", "a\\b", "\x01\n", "_exports", "é", "~", "a"]
    keys += ["k" * 2000, "k" * 1999 + "j"]
    case.chunk(*[("x", json.dumps({"k": key}).encode()) for key in keys])
    result = case.run(decode="json", key="field:k")
    assert result.files == len(keys)
    assert [data for path, data in case.everything().items() if path.endswith(".gz")].count(b"") == 0
    assert sorted(line["k"] for line in case.lines()) == sorted(keys)
    assert {path.split("/")[1] for path in case.files()} == {"date=2026-11-21"}
    assert {path[:4] for path in case.files()} == {"key="}
    assert not [p for p in case.out.parent.iterdir() if p.name not in ("out", "store")]


@pytest.mark.parametrize(
    ("key", "subject", "data", "reason"),
    [
        ("field:k", "x", b'{"k": ""}', "The key is empty"),
        ("field:k.l", "x", b'{"k": {"l": [1]}}', "The field k.l is missing or has no key in it"),
        ("field:k", "x", b"{}", "The field k is missing or has no key in it"),
        ("subject:2", "x", b"{}", "The subject has no token 2"),
        ("header:Store", "x", b"{}", "The message has no header Store, and the key no default: header:Store:DEFAULT"),
    ],
)
def test_a_message_without_a_key_is_not_decoded(case, key, subject, data, reason):
    case.chunk((subject, data))
    assert case.run(decode="json", key=key, max_undecoded=1).undecoded == 1
    assert [message["reason"] for message in case.undecoded()] == [reason]


def test_keys_by_several_tokens_header_and_field(case):
    case.chunk(("a.b.c", b'{"n": {"m": 7}}', block(Store="s/1")))
    for key, folder in (("subject:1,3", "a.c"), ("header:Store", "s%2F1"), ("field:n.m", "7")):
        case.run(decode="json", key=key)
        assert list(case.by_key()) == [folder]


def test_messages_without_the_header_of_the_key_have_its_default(case):
    case.chunk(("a", b"1", block(Store="s1")), ("a", b"2"), ("a", b"3", block(Store="")))
    case.run(decode="text", key="header:Store:none")
    assert {key: len(text.splitlines()) for key, text in case.by_key().items()} == {"none": 2, "s1": 1}


def test_raw_and_text_have_the_columns_of_a_chunk_in_parquet(case):
    """A subject that is not UTF-8 keeps its bytes, in each format."""
    case.chunk(("a.b", b"1"), ("a.\udcff", b"2"))
    for decode, content in (("raw", pa.binary()), ("text", pa.string())):
        case.run(decode=decode, format="parquet")
        (file,) = case.by_key().values()
        table = pq.read_table(pa.BufferReader(file))
        assert {field.name: field.type for field in table.schema} == {
            "subject": pa.string(),
            "subject_bytes": pa.binary(),
            "seq": pa.int64(),
            "time": pa.timestamp("us", "UTC"),
            "time_ns": pa.int64(),
            {"raw": "data"}.get(decode, "text"): content,
        }
        assert table["subject_bytes"].to_pylist() == [None, b"a.\xff"]
        assert table["time"].cast(pa.int64()).to_pylist() == [n // 1000 for n in table["time_ns"].to_pylist()]
    case.run(decode="text")
    assert [line.get("subject_bytes") for line in case.lines()] == [None, "YS7/"]
    case.run(format="messages")
    assert [line.get("subject_bytes") for line in case.lines()] == [None, "YS7/"]


def test_only_the_subjects_of_the_export(case):
    case.chunk(("a.b", b"1"), ("c.d", b"2"), ("a.e", b"3"))
    assert case.run(subjects=("a.*",), decode="text").messages == 2
    assert [line["text"] for line in case.lines()] == ["1", "3"]


def test_incarnations_with_the_same_sequences_have_files_of_their_own(case):
    case.chunk(("x", b"old"))
    case.chunk(("x", b"new"), first=1, life=type(LOGS)("LOGS", LOGS.created_ns + 10**9))
    assert case.run(decode="text").files == 2
    assert [line["text"] for line in case.lines()] == ["old", "new"]


@pytest.mark.parametrize("more", [{}, {"format": "csv", "columns": ("a",)}, {"key": "field:k"}], ids=str)
def test_messages_of_more_keys_than_files_are_undecoded(case, monkeypatch, more):
    """They come between messages of keys that have a file, which are exported as ever."""
    monkeypatch.setattr("nats3_dagster.exports.group_export.MAX_FILES", 3)
    case.chunk(*[(f"x.{n % 5}", b'{"k":"%d","a":1}' % (n % 5)) for n in range(10)])
    made = case.run(**{"decode": "json", "key": "subject:2", "max_undecoded": 4, **more})
    assert (made.files, made.messages, made.undecoded) == (3, 6, 4)
    assert [m["seq"] for m in case.undecoded()] == [4, 5, 9, 10]
    assert "choose a key with fewer values" in case.undecoded()[0]["reason"]


def test_more_undecoded_messages_than_allowed_change_no_file(case):
    case.chunk(("x", b"{}"))
    case.run(decode="json", max_undecoded=1)
    before = case.files()
    case.chunk(("x", b"bad"), ("x", b"worse"), ("x", b'{"a":1}'))
    with pytest.raises(SourceError, match="2 messages of .* do not decode, .* allows 1. .* message 2: The JSON is"):
        case.run(decode="json", max_undecoded=1)
    assert case.files() == before
    assert [m["seq"] for m in case.undecoded()] == [2, 3]
    assert case.run(decode="json", max_undecoded=2).messages == 2
    assert HOUR[:10] in next(iter(case.files()))


# One 50 ms before the hour, one in its last minute, one just after its end and one much later: of the keys a, b and c.
OUTSIDE = (-0.05 / 60, 0, 14.5, 59.5, 60, 61.001, 130)


@pytest.mark.parametrize("interval", [1, 5, 15, 60])
@pytest.mark.parametrize("form", [("json", "ndjson"), ("json", "csv"), ("raw", "ndjson"), ("text", "csv")])
def test_messages_outside_of_their_hour_by_time_stay_with_their_key(case, interval, form):
    """In the first or the last interval: an hour is a range of sequences."""
    rows = [(key, minute) for minute in (30, *OUTSIDE) for key in ("a", "c", "b")]
    case.chunk(
        *(
            (f"x.{key}", f'{{"key": "{key}", "n": {n}}}'.encode(), None, minute)
            for n, (key, minute) in enumerate(rows, 1)
        )
    )
    decode, made = form
    path = "{key}/{date}/{hour}-{minute}/{part}.{ext}"
    fields = {"decode": decode, "format": made, "compression": "none", "key": "subject:2", "path": path}
    assert case.run(interval_minutes=interval, **fields).messages == len(rows)
    places = {
        int(row.get("n") or row["seq"]): (path.split("/")[0], int(path.split("/")[2].split("-")[1]))
        for path, data in case.files().items()
        for row in _rows(made, data.decode())
    }
    last = 60 - interval
    assert places == {
        seq: (key, min(max(int(minute // interval) * interval, 0), last)) for seq, (key, minute) in enumerate(rows, 1)
    }


def _rows(made, text):
    return list(csv.DictReader(io.StringIO(text))) if made == "csv" else map(json.loads, text.splitlines())


@pytest.mark.parametrize(("decode", "form"), [("json", "ndjson"), ("json", "csv"), ("text", "ndjson")])
def test_subjects_of_one_text_have_keys_of_their_own(case, decode, form):
    """A byte that is not UTF-8 is shown as %XX, which another subject may be."""
    subjects = ("x.\udcff", "x.%FF", "x.ÿ")
    case.chunk(*((subject, b'{"n": %d}' % n) for n, subject in enumerate(subjects)))
    assert case.run(decode=decode, format=form, key="subject:2").files == 3
    assert sorted(data.count(b"n") for data in case.files().values()) == [1, 1, 1]
