"""What an archived batch becomes when it is replayed: each message once, in one share, under its new subject."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from nats3_dagster.replay.messages.headers import message_id
from nats3_dagster.replay.messages.mapping import Mapper, Outgoing
from nats3_dagster.subjects import Transform
from nats3_dagster_tests.support.catalog import LOGS
from nats3_dagster_tests.support.chunks import batch_of

REPLAY = "00ff00ff00ff00ff"
ROWS = [
    (1, 10, "a.x", None, b"1"),
    (2, 20, "b.y", b"NATS/1.0\r\nA: b\r\n\r\n", b"22"),
    (4, 40, "a.z", None, b""),
    (5, 50, "a.x", None, b"55555"),
]


def mapper(source: str = ">", destination: str = ">", **fields: Any) -> Mapper:
    return Mapper(Transform(source, destination), REPLAY, **{"with_ids": False, **fields})


def encoded_batch() -> pa.RecordBatch:
    """The batch as a chunk's reader gives it for a replay, its subjects as a dictionary."""
    batch = batch_of(ROWS)
    at = batch.schema.get_field_index("subject")
    return batch.set_column(at, "subject", batch.column("subject").dictionary_encode())


def selected(one: Mapper, are_stored: Any = None) -> tuple[list[tuple[int, bytes]], int]:
    batch, there = one.select(encoded_batch(), are_stored)
    return list(zip(batch.column("seq").to_pylist(), batch.column("subject").to_pylist(), strict=True)), there


def test_each_message_has_its_new_subject() -> None:
    assert selected(mapper()) == ([(1, b"a.x"), (2, b"b.y"), (4, b"a.z"), (5, b"a.x")], 0)
    assert selected(mapper("a.*", "c.{{wildcard(1)}}")) == ([(1, b"c.x"), (4, b"c.z"), (5, b"c.x")], 0)
    assert selected(mapper("c.>", "d.>")) == ([], 0)


def test_what_the_target_has_is_left_out_and_counted() -> None:
    asked: list[tuple[list[bytes], list[int]]] = []

    def are_stored(subjects: pa.Array, seqs: Any) -> Any:
        asked.append((subjects.to_pylist(), seqs.tolist()))
        return np.array([seq in (1, 5) for seq in seqs])

    assert selected(mapper("a.*", "c.{{wildcard(1)}}"), are_stored) == ([(4, b"c.z")], 2)
    assert asked == [([b"c.x", b"c.z", b"c.x"], [1, 4, 5])]
    assert selected(mapper("c.>", "d.>"), are_stored) == ([], 0)
    assert len(asked) == 1  # nothing is asked of no message


@pytest.mark.parametrize("shares", [1, 2, 3])
def test_shares_have_each_subject_once(shares: int) -> None:
    parts = [selected(mapper(share=share, shares=shares))[0] for share in range(shares)]
    assert sorted(row for part in parts for row in part) == selected(mapper())[0]
    for subject in (b"a.x", b"b.y", b"a.z"):
        assert len([part for part in parts if any(name == subject for _, name in part)]) == 1
    assert shares == 1 or sum(map(bool, parts)) > 1


def outgoing(one: Mapper) -> Outgoing:
    batch, _ = one.select(encoded_batch())
    return one.outgoing(batch, LOGS)


def test_what_goes_out_is_the_payload_and_a_marked_header_block() -> None:
    messages = outgoing(mapper())
    assert len(messages) == 4
    assert messages.data.to_pylist() == [b"1", b"22", b"", b"55555"]
    assert messages.times_ns.tolist() == [10, 20, 40, 50]
    blocks = messages.headers.to_pylist()
    assert all(REPLAY.encode() in block for block in blocks)
    assert b"\r\nA: b\r\n" in blocks[1]
    lengths = [
        len(s) + len(b) + len(d)
        for s, b, d in zip(messages.subjects.to_pylist(), blocks, messages.data.to_pylist(), strict=True)
    ]
    assert messages.sizes.tolist() == lengths
    plain = outgoing(mapper(live=True, marks=False))
    assert plain.headers.to_pylist() == [None, b"NATS/1.0\r\nA: b\r\n\r\n", None, None]
    assert plain.sizes.tolist() == [4, 3 + 2 + len(ROWS[1][3] or b""), 3, 8]


def test_a_slice_is_of_all_columns() -> None:
    whole = outgoing(mapper())
    part = whole.slice(slice(1, 3))
    assert (len(part), part.subjects.to_pylist(), part.data.to_pylist()) == (2, [b"b.y", b"a.z"], [b"22", b""])
    assert part.times_ns.tolist() == [20, 40]
    assert part.headers.to_pylist() == whole.headers.to_pylist()[1:3]


def test_a_chain_goes_on_after_the_last_message_of_each_batch() -> None:
    chain = mapper(with_ids=True)
    chain.begin(after="")
    first = [block.decode() for block in outgoing(chain).headers.to_pylist()]
    second = [block.decode() for block in outgoing(chain).headers.to_pylist()]
    expects = "Nats-Expected-Last-Msg-Id: "
    assert expects + message_id(REPLAY, LOGS, 1) in first[1]
    assert expects + message_id(REPLAY, LOGS, 5) in second[0]
    chain.begin(after=None)
    assert not any(expects in block.decode() for block in outgoing(chain).headers.to_pylist())
    assert not any(expects in block.decode() for block in outgoing(chain).headers.to_pylist())
