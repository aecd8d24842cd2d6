"""What an export may be, and which field is at fault where it may not."""

from dataclasses import replace

import pytest

from nats3_dagster.errors import OperatorError
from nats3_dagster.model import Destination, ExportSpec
from nats3_dagster.model.destination import parse_destination

TO = "s3://bucket/out"


def made(**fields):
    return ExportSpec(**{"name": "files", "destination": TO, **fields})


@pytest.mark.parametrize(
    ("fields", "field", "message"),
    [
        ({"name": "Files"}, "name", "'Files' is not an export name. Use lower-case letters, digits and _ only"),
        ({"name": "f" * 101}, "name", "is not an export name. Use at most 100 characters"),
        ({"subjects": ("a..b",)}, "subjects", "'a..b' is not a subject filter: token 2 is empty"),
        ({"decode": "xml"}, "decode", "There is no decoder 'xml'. Use raw, text, json, msgpack, avro, protobuf, or a"),
        ({"decode": "avro"}, "schema", "The decoder avro needs a schema. Name its file"),
        ({"decode": "json", "schema": "a.json"}, "schema", "The schema 'a.json' is a relative path: it would"),
        ({"decode": "text", "schema": "a.json"}, "schema", "The decoder text takes no schema"),
        ({"decode": "protobuf", "schema": "a.pb"}, "schema", "'a.pb' does not name a message of a descriptor set"),
        ({"key": "subject:0"}, "key", "'subject:0' is not a key. Use subject:2, header:Name, header:Name:default, "),
        ({"key": "field:"}, "key", "'field:' is not a key"),
        ({"key": "field:a"}, "key", "The decoder raw makes no fields to split by"),
        ({"key": "decoder", "decode": "json"}, "key", "The decoder json gives no key"),
        ({"format": "xls"}, "format", "There is no format 'xls'. Use parquet, csv, ndjson, raw or messages"),
        ({"compression": "lz4"}, "compression", "There is no compression 'lz4'. Use gzip, zstd, snappy or none"),
        ({"compression": "snappy"}, "compression", "Files of the format ndjson do not have the compression snappy"),
        ({"columns": ("a",)}, "columns", "Files of the format ndjson have no columns"),
        ({"format": "csv", "columns": ("a", "a")}, "columns", "A column is empty or twice in the columns"),
        ({"interval_minutes": 10}, "interval_minutes", "interval_minutes is 10. Use 1, 5, 15 or 60"),
        ({"max_undecoded": -1}, "max_undecoded", "max_undecoded is -1"),
        ({"path": "{date}/{hour}/{nothing}"}, "path", "The path has the unknown name {nothing}. It may have archive, "),
        ({"path": "{date}/{hour}/{0}"}, "path", "The path has the unknown name {0}"),
        ({"path": "{date}/{hour}/{first.x}"}, "path", "The path has the unknown name {first.x}"),
        ({"path": "{date}/{hour}/{first!r}"}, "path", "The path has more than the name in {first}"),
        ({"path": "{date}/{hour}/{first:>{hour}}"}, "path", "The path has more than the name in {first}"),
        ({"path": "{date}/{hour}/{first"}, "path", "has a brace too many"),
        ({"path": "/{date}/{hour}/{first}"}, "path", "has an empty part, . or .., or begins with _exports"),
        ({"path": "../{date}/{hour}/{first}"}, "path", "has an empty part, . or .., or begins with _exports"),
        ({"path": "_exports/{date}/{hour}/{first}"}, "path", "has an empty part, . or .., or begins with _exports"),
        ({"path": "{date}/{first}"}, "path", "The path has no {hour}, so that files would have one name"),
        ({"path": "{date}/{hour}"}, "path", "The path has none of {first}, {last} and {part}"),
        ({"path": "{date}/{hour}/{part}", "key": "subject:1"}, "path", "The path has no {key}"),
        ({"interval_minutes": 5, "path": "{date}/{hour}/{part}"}, "path", "The path has no {minute}"),
        ({"destination": "bucket/out"}, "destination", "'bucket/out' is not a destination. Write it as s3://bucket/"),
        ({"destination": "ftp://a/b"}, "destination", "'ftp://a/b' is not a destination"),
        ({"destination": "s3://b/out"}, "destination", "'s3://b/out' does not name a bucket"),
        ({"destination": "s3://bucket/a/../b"}, "destination", "has a part that no destination may have"),
        ({"destination": "s3://bucket/a//b"}, "destination", "has a part that no destination may have"),
        ({"destination": "s3://bucket/a?x=1"}, "destination", "The destination has a ? or a #"),
        ({"destination": "file://host/a"}, "destination", "does not name a folder by its absolute path"),
        ({"destination": "file:///"}, "destination", "does not name a folder by its absolute path"),
        ({"destination": "s3://[::/a"}, "destination", "The destination is not a URL"),
    ],
)
def test_a_field_that_cannot_be_right_is_refused(fields, field, message):
    with pytest.raises(OperatorError) as refused:
        made(**fields)
    assert refused.value.field == field
    assert message in str(refused.value)


def test_a_password_in_a_destination_is_not_repeated():
    with pytest.raises(OperatorError) as refused:
        made(destination="s3://key:secret@bucket/out")
    assert "secret" not in str(refused.value)
    assert "user or a password" in str(refused.value)


@pytest.mark.parametrize(
    ("url", "parts"),
    [
        ("s3://bucket", ("s3", "bucket", "")),
        ("s3://bucket/a/b/", ("s3", "bucket", "a/b")),
        ("gs://my_bucket/a", ("gs", "my_bucket", "a")),
        ("az://box/a", ("az", "box", "a")),
        ("file:///srv/out/", ("file", "", "/srv/out")),
    ],
)
def test_destinations(url, parts):
    assert parse_destination(url) == Destination(*parts)
    assert parse_destination(Destination(*parts).url) == Destination(*parts)


@pytest.mark.parametrize(
    ("form", "compression", "ext"),
    [
        ("ndjson", "gzip", "ndjson.gz"),
        ("csv", "zstd", "csv.zst"),
        ("raw", "none", "bin"),
        ("messages", "gzip", "ndjson.gz"),
        ("parquet", "snappy", "parquet"),
    ],
)
def test_extensions(form, compression, ext):
    assert made(format=form, compression=compression).ext == ext


@pytest.mark.parametrize(
    ("key", "minutes", "path"),
    [
        (None, 60, "date={date}/hour={hour}/{first}-{last}.{ext}"),
        (None, 15, "date={date}/hour={hour}/minute={minute}/{first}-{last}.{ext}"),
        ("subject:1", 60, "key={key}/date={date}/hour={hour}/{first}-{last}.{ext}"),
        ("subject:1", 1, "key={key}/date={date}/hour={hour}/minute={minute}/{first}-{last}.{ext}"),
    ],
)
def test_the_default_path_has_key_and_minute_where_they_are_needed(key, minutes, path):
    spec = ExportSpec("a", "s3://lake/x", key=key, interval_minutes=minutes)
    assert spec.path == path
    with pytest.raises(OperatorError) as refused:
        replace(spec, path="{date}/{hour}/x")
    assert path in str(refused.value.hint)
    # An export that is changed keeps a default path.
    assert replace(spec, key="subject:2", interval_minutes=5).path.startswith(
        "key={key}/date={date}/hour={hour}/minute="
    )


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("{key}/{date}{hour}{part}", "s3://lake/x"),
        ("a/b/{key}/{date}{hour}{part}", "s3://lake/x/a/b"),
        ("{archive}/{export}-1/{date}/{hour}{part}", "s3://lake/x/logs/a-1"),
        ("{stream}/{key}-a/b/{date}{hour}{part}", "s3://lake/x/LOGS"),
        ("{date}{hour}{part}", "s3://lake/x"),
    ],
)
def test_a_place_has_the_folders_that_all_files_share(path, place):
    assert ExportSpec("a", "s3://lake/x", path=path).place_of("logs", "LOGS").url == place
