"""Entries of a backup, many at once, against the form that ADR-63 gives, written out one by one."""

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from nats3_dagster.jetstream.restore.entries import end, entry, message_entries
from nats3_dagster.model.messages import MESSAGES, subject_columns

EDGES = [0, 1, 127, 128, 16_383, 16_384, 2**21 - 1, 2**53 + 1, 2**62, 2**63 - 2]
numbers = st.one_of(st.sampled_from(EDGES), st.integers(0, 2**63 - 2))
message = st.tuples(
    st.sampled_from(EDGES[1:]) | st.integers(1, 2**63 - 2),
    st.sampled_from([0, 1, -1, 63, 64, -64, -65, 2**63 - 1, -(2**63)]) | st.integers(-(2**63), 2**63 - 1),
    st.sampled_from([b"a", b"a." * 63 + b"a", b"a." * 64 + b"a", b"\xff\xfe", "größe".encode()]),
    st.sampled_from([None, b"NATS/1.0\r\n\r\n", b"NATS/1.0\r\nA: " + b"b" * 200 + b"\r\n\r\n"]),
    st.binary(max_size=300),
)


Row = tuple[int, int, bytes, bytes | None, bytes]


def uvarint(number: int) -> bytes:
    out = b""
    while number > 127:
        out, number = out + bytes([number % 128 + 128]), number // 128
    return out + bytes([number])


def written(name: bytes, time_ns: int, seq: int, headers: bytes, body: bytes) -> bytes:
    zigzag = 2 * time_ns if time_ns >= 0 else -2 * time_ns - 1
    sizes = [len(name), zigzag, seq, len(headers), len(body)]
    return b"".join(map(uvarint, sizes)) + name + headers + body


@given(st.lists(message, min_size=1, max_size=8), st.integers(0, 3))
def test_a_batch_is_its_entries_one_after_another(
    rows: list[tuple[int, int, bytes, bytes | None, bytes]], cut: int
) -> None:
    seqs, times, subjects, headers, data = zip(*rows, strict=True)
    text, exact = subject_columns(pa.array(subjects, pa.binary()))
    columns = [
        pa.array(seqs),
        pa.array(times),
        text,
        exact,
        pa.array(headers, pa.binary()),
        pa.array(data, pa.binary()),
    ]
    batch = pa.RecordBatch.from_arrays(columns, schema=MESSAGES)
    expected = [written(subject, time, seq, block or b"", body) for seq, time, subject, block, body in rows]
    assert bytes(message_entries(batch)) == b"".join(expected)
    assert b"".join(entry(s, t, q, h or b"", d) for q, t, s, h, d in rows) == b"".join(expected)
    if cut < len(rows):  # a slice has offsets of its own
        assert bytes(message_entries(batch.slice(cut))) == b"".join(expected[cut:])


def test_the_end_is_an_entry_of_zeros() -> None:
    assert end() == bytes(5)
