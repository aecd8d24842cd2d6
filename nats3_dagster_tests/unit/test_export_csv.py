"""CSV of JSON: a batch makes the files that message by message does, byte for byte."""

import csv
import io
import json

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nats3_dagster.errors import OperatorError
from nats3_dagster.exports.formats.json_fields import fields_of
from nats3_dagster.exports.formats.json_lines import json_lines
from nats3_dagster.exports.group_export import GroupExport
from nats3_dagster.exports.job import ExportJob, Group
from nats3_dagster.hours import MINUTE_NS
from nats3_dagster.model import ExportSpec
from nats3_dagster.model.messages import MESSAGES, subject_columns
from nats3_dagster.objects import OutletOptions, StoreOptions
from nats3_dagster.subjects import encoded
from nats3_dagster_tests.support.catalog import HOUR, HOUR_NS

NUMBERS = [
    "0",
    "-0",
    "1",
    "1.0",
    "1.10",
    "-7",
    "-0.0",
    "1e5",
    "1E400",
    "0.0000001",
    "0.000001",
    "0.000000",
    "10.0000000",
    "9007199254740993",
    "123456789012345678901234567890.123456789012345678901234567890",
    "-0e0",
    "9" * 601,
    "9" * 4301,
    "0." + "1" * 700,
]
NAMES = ["a", "b", "", "é", "c,d", 'x\\"y', "price", "\\u0061", "=n", "-1"]
TEXTS = [
    "",
    "a",
    ",",
    "a, b",
    "é€😀",
    '\\"',
    "\\\\",
    "\\n",
    "\\r\\n",
    "\\ud83d\\ude00",
    "{}[]:,",
    "null",
    "1.0",
    " x ",
    "'",
    "\x7f",
    "NaN",
    "\\u0000",
    "z" * 700,
    "=1+1",
    "=a,b",
    "=\\u0031",
    "-5",
    "+5.5e3",
    "-5a",
    "@a",
    "-",
    "'=1",
    '=\\"',
    "\\t=1",
    '\\"=1',
    "5-3",
    "-5\\n",
]
WHITE = st.sampled_from(["", "", " ", "\t", "\n", "\r\n"])
texts = st.sampled_from(TEXTS) | st.text(max_size=5).map(lambda text: json.dumps(text, ensure_ascii=False)[1:-1])
scalars = st.one_of(
    st.sampled_from(["null", "true", "false", *NUMBERS]),
    texts.map('"{}"'.format),
    st.integers().map(str),
    st.decimals(allow_nan=False, allow_infinity=False, places=2).map("{:f}".format),
)


def _join(parts, white, ends):
    return ends[0] + white + ("," + white).join(parts) + white + ends[1]


def _objects(values, names=None):
    pair = st.builds("{}:{}{}".format, (names or st.sampled_from(NAMES)).map('"{}"'.format), WHITE, values)
    return st.builds(_join, st.lists(pair, max_size=4), WHITE, st.just("{}"))


values = st.recursive(
    scalars,
    lambda inner: _objects(inner) | st.builds(_join, st.lists(inner, max_size=3), WHITE, st.just("[]")),
    max_leaves=4,
)


@st.composite
def _alike(draw):
    """Objects of one shape, with other values in each."""
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=4, unique=True))
    row = st.tuples(*[scalars | st.just('{"id": "a", "list": [1, "b"]}')] * len(names))
    return [
        _join([f'"{name}": {value}' for name, value in zip(names, row, strict=True)], " ", "{}")
        for row in draw(st.lists(row, min_size=1, max_size=8))
    ]


payloads = st.lists(
    _alike() | _objects(values).map(lambda o: [o]) | st.sampled_from([["no"], ["[1]"], ["{}"], ['{"a": 1']]), max_size=6
).map(lambda lists: [payload for payloads in lists for payload in payloads])
SUBJECTS = ["x.a", "x.b", "y"]


def _files(
    payloads: list[str],
    *,
    by_batch: bool,
    key: str | None = None,
    columns: tuple[str, ...] = (),
    interval: int = 60,
    size: int = 7,
    escape: bool = False,
):
    """The files by key and interval, and the undecoded messages."""
    spec = ExportSpec(
        "files",
        "file:///nowhere",
        decode="json",
        format="csv",
        compression="none",
        key=key,
        columns=columns,
        path="{key}/{date}/{hour}/{minute}/{first}",
        interval_minutes=interval,
        max_undecoded=10**6,
        escape_formulas=escape,
    )
    job = ExportJob(
        "logs",
        "",
        "LOGS",
        HOUR,
        spec,
        None,
        StoreOptions(url="file:///nowhere"),
        OutletOptions("file", "", "/nowhere"),
        "",
    )
    export = GroupExport(job, Group(0, (), ""))
    assert export._is_table
    export._is_table = by_batch
    for first in range(0, len(payloads), size):
        part = payloads[first : first + size]
        raw = pa.array([encoded(SUBJECTS[(first + at) * 7 % 11 % 3]) for at in range(len(part))], pa.binary())
        export._add(
            pa.record_batch(
                [
                    range(first + 1, first + len(part) + 1),
                    [HOUR_NS + (first + at) * 3 % 60 * MINUTE_NS for at in range(len(part))],
                    *subject_columns(raw),
                    pa.nulls(len(part), pa.binary()),
                    [payload.encode() for payload in part],
                ],
                schema=MESSAGES,
            )
        )
    files = {
        name: (file.writer.finish(), file.messages, file.first_seq, file.last_seq)
        for name, file in export._files.items()
    }
    return files, export._undecoded, export._messages, export._first_reason


@given(
    payloads,
    st.sampled_from([None, "subject:2"]),
    st.sampled_from([(), ("b", "a"), ("price",), ("none", "a")]),
    st.sampled_from([15, 60]),
    st.sampled_from([3, 100]),
    st.booleans(),
)
@example(['{"a": 1}', "{}", '{"b": "x\\ry"}', '{"a": null}', '{"a": 2, "b": 3}'], None, (), 60, 100, False)
@example([f'{{"a": {number}}}' for number in NUMBERS], None, (), 60, 100, True)
@example([f'{{"a": "{text}", "b": {{"c": "{text}"}}}}' for text in TEXTS], None, (), 60, 100, True)
@example([f'{{"{name}": {{"{name}": [], "k": {{}}}}}}' for name in NAMES] * 2, "subject:2", (), 60, 100, True)
@example(['{"a": 1, "a": 2}', '{"a": {"b": 1, "b": 2}, "c": 1}', '{"a": {"b": 1, "d": 2}}'], None, (), 60, 100, False)
def test_a_batch_makes_the_files_that_each_message_by_itself_makes(payloads, key, columns, interval, size, escape):
    asked = {"key": key, "columns": columns, "interval": interval, "size": size, "escape": escape}
    assert _files(payloads, by_batch=True, **asked) == _files(payloads, by_batch=False, **asked)


def test_fields_that_a_spreadsheet_would_run_are_escaped_and_numbers_are_not():
    values = ['"=1+1"', '"=a,b"', '"-5"', '"+5.5e3"', "-7.5", '"@x"', '"-a"', '"\\t=1"', '"a=1"', "null", '["=1"]']
    payloads = [f'{{"a": {value}, "=n": 1}}' for value in values]
    for by_batch in (True, False):
        ((data, *_),) = _files(payloads, by_batch=by_batch, key=None, escape=True)[0].values()
        rows = [row[0] for row in csv.reader(io.StringIO(data.decode(), newline=""))]
        assert rows == ["a", "'=1+1", "'=a,b", "-5", "+5.5e3", "-7.5", "'@x", "'-a", "'\t=1", "a=1", "", '["=1"]']
        assert data.startswith(b"a,'=n\n")
        ((plain, *_),) = _files(payloads, by_batch=by_batch, key=None)[0].values()
        assert plain.startswith(b'a,=n\n=1+1,1\n"=a,b",1\n')
    with pytest.raises(OperatorError, match="ndjson have no formulas"):
        ExportSpec("files", "file:///nowhere", escape_formulas=True)


@pytest.mark.parametrize("depth", [5, 99, 101, 900, 3000])
def test_nested_deeply(depth):
    payloads = [f'{{"a": {"[" * depth}1{"]" * depth}}}', '{"a": 2}']
    assert _files(payloads, by_batch=True, key=None) == _files(payloads, by_batch=False, key=None)


def test_what_is_plain_is_not_decoded_one_by_one():
    """Orders of two shapes, as machines write them: all of them are taken as a batch."""
    payloads = [b'{"order": %d, "price": 8.50, "store": "a, b", "tags": ["x", {"y": null}]}' % n for n in range(50)]
    payloads += [b'{"order":%d,"paid":true}' % n for n in range(50)]
    lines, valid = json_lines(pa.array(payloads, pa.binary()))
    first, second = fields_of(lines)
    assert (valid.all(), first.rows.tolist(), second.rows.tolist()) == (True, [*range(50)], [*range(50, 100)])
    assert [text[1].as_py() for text in first.texts] == [b"1", b"8.50", b'"a, b"', b'"[""x"",{""y"":null}]"']


def test_a_row_without_fields_and_a_carriage_return_stay_one_row_each():
    """Both are in the file when a column comes later; a reader of CSV takes a bare carriage return for a line end."""
    payloads = ["{}", '{"a": "x\\ry"}', f'{{"a": "{"z" * 200_000}", "b": 3}}']
    for by_batch in (True, False):
        ((data, messages, *_),) = _files(payloads, by_batch=by_batch, key=None)[0].values()
        assert (data[:14], messages) == (b'a,b\n,\n"x\ry",\nz', 3)
        assert data.endswith(b"z,3\n")
