"""Headers as a map: by Arrow's kernels the same as one by one."""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nats3_dagster.pipeline.sources import header_maps
from nats3_dagster.pipeline.sources.header_maps import as_maps, block_of, parsed

TYPE = pa.map_(pa.string(), pa.list_(pa.string()))
LINES = st.sampled_from(
    [
        b"A: 1",
        b"a:2",
        b"A: \t3 \t",
        b"B:",
        b": x",
        b"no colon",
        b"C: x:y",
        b"\xc3\xa9: \xc3\xa9",
        b"D: \xff",
        b"",
        b"E:\r",
    ]
)
BLOCKS = st.lists(LINES, max_size=5).map(lambda lines: b"\r\n".join([b"NATS/1.0", *lines, b"", b""]))
STRANGE = st.sampled_from([b"", b"A: 1", b"NATS/1.0 503 A: 1\r\n\r\n", b"\r\n\r\n", b"NATS/1.0\r\nA: 1"])


@given(st.lists(BLOCKS | STRANGE | st.none(), max_size=8))
@example([])
@example([None, None])
@example([b"NATS/1.0\r\n\r\n"])
def test_maps_are_what_each_block_says(blocks: list[bytes | None]) -> None:
    maps = as_maps(pa.array(blocks, pa.binary()), TYPE)
    assert maps.type == TYPE
    assert maps.to_pylist() == [None if block is None else list(parsed(block).items()) for block in blocks]


def test_plain_blocks_are_not_parsed_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = pa.array([b"NATS/1.0\r\nNats-Msg-Id: %d\r\nB: x\r\n\r\n" % n for n in range(1000)])
    monkeypatch.setattr(header_maps, "parsed", None)
    maps = as_maps(blocks, TYPE)
    assert maps[7].as_py() == [("Nats-Msg-Id", ["7"]), ("B", ["x"])]


@pytest.mark.parametrize("values", [None, [], [None], ["1", None]], ids=str)
def test_a_header_without_a_value_is_no_header(values: Any) -> None:
    """It would be left out, and nobody would know."""
    with pytest.raises(ValueError, match="the header N has no value"):
        block_of([("A", "1"), ("N", values)])
    assert block_of([("A", ""), ("B", ["", "1"])]) == b"NATS/1.0\r\nA: \r\nB: \r\nB: 1\r\n\r\n"
