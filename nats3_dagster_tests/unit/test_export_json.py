"""JSON payloads as lines: a batch decides as message by message does, and no byte of a value changes."""

import json
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nats3_dagster.exports.formats import json_scan
from nats3_dagster.exports.formats.json_lines import json_lines

VALID = [
    b"{}",
    b'{"a": 1}',
    b' {"a":\r\n [1, {"b": null}]} \n',
    b'{"a": 1e308}',
    b'{"a": 0.1e-999, "b": "1e999 E+999"}',
    b'{"a": 1, "a": 2}',
    b'{"": -0.10}',
    b'{"a": 123456789012345678901234567890}',
    '{"ü": "€ NaN Inf \\\\ud800"}'.encode(),
    b'{"a":"\\ud83d\\uDE00\\u0000"}',
    b'{"a":"\\\\ud800"}',
    b'{"a":%b1%b}' % (b"[" * 99, b"]" * 99),
    b'{"a":%b}' % (b"9" * 308),
    b'{"a":1.7e308}',
    b'{"a":0.1e309}',
    b'{"a":%be99}' % (b"9" * 209),
    b'{"a":"%b"}' % (b"[" * 300),
]
INVALID = [
    b"",
    b" ",
    b"[1]",
    b"1",
    b'"}',
    b"{}{}",
    b"{} x {}",
    b"{},{}",
    b'{"a":"\n"}',
    b'{"a":"\r"}',
    b'{"a":"\t"}',
    b'{"a":NaN}',
    b'{"a":-Infinity}',
    b'{"a":Inf}',
    b'{"a":01}',
    b'{"a":1.}',
    b'{"a":+1}',
    b'{"a":1,}',
    b"{'a':1}",
    b"{a:1}",
    b'{"a":"\xff"}',
    b'{"a":"\xed\xa0\x80"}',
    b'{"a":1}\0}',
    b'{"a":{}',
    b"}",
    b"{",
    b'\xef\xbb\xbf{"a":1}',
    b'{"a":\n"b\n"}',
    b'{"a":nul}',
    b"\xff",
    b'{"a":1e309}',
    b'{"a":[-1.5E+0400]}',
    b'{"a":%b}' % (b"9" * 310),
    b'{"a":%be110}' % (b"9" * 210),
    # These Arrow takes: beyond every double by their digits, not by their exponents alone.
    b'{"a":1.8e308}',
    b'{"a":2E+308 }',
    b'{"a":[10e308]}',
    b'{"a":123456e305}',
    b'{"a":%be99}' % (b"9" * 210),
    b'{"a":"\\ud800"}',
    b'{"\\uDC00":1}',
    b'{"a":%b1%b}' % (b"[" * 100, b"]" * 100),
]


@given(st.lists(st.sampled_from([*VALID, *INVALID]), max_size=30))
def test_a_payload_is_judged_alike_in_any_company(payloads):
    lines, valid = json_lines(pa.array(payloads, pa.binary()))
    assert valid.tolist() == [payload in VALID for payload in payloads]
    good = [payload for payload in payloads if payload in VALID]
    assert lines.to_pylist() == [f"{p.decode().strip().replace(chr(10), ' ').replace(chr(13), ' ')}\n" for p in good]


@given(st.lists(st.binary(max_size=12) | st.text(max_size=12).map(str.encode), max_size=8), st.binary(max_size=20))
def test_what_goes_out_is_json_of_the_same_value(payloads, noise):
    wrapped = [b'{"k": ' + payload + b"}" for payload in payloads] + [b'{"k": "' + noise + b'"}']
    lines, valid = json_lines(pa.array(wrapped, pa.binary()))
    for line, payload in zip(lines.to_pylist(), [p for p, v in zip(wrapped, valid, strict=True) if v], strict=True):
        assert line.endswith("\n")
        assert "\n" not in line[:-1]
        assert json.loads(line, parse_float=Decimal) == json.loads(payload, parse_float=Decimal)


@pytest.mark.parametrize("payload", VALID)
def test_valid_alone(payload):
    assert json_lines(pa.array([payload], pa.binary()))[1].tolist() == [True]


@pytest.mark.parametrize(
    "payload", [p for p in INVALID if any(c in p for c in (b"NaN", b"Inf", b"1e", b"e3", b"E+", b"99"))]
)
def test_what_two_blocks_share_is_found(payload):
    # Every byte of the payload is once the first of a block.
    for place in range(len(payload)):
        filler = b'{"a":"%b"}' % (b"x" * (json_scan._BLOCK - place - 8))
        assert json_lines(pa.array([filler, payload], pa.binary()))[1].tolist() == [True, False]
