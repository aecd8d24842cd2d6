"""A cursor's position: what counts as read, to the message, and a text that is never another position."""

import base64
import json
import zlib
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nats3_dagster.archive.read.cursor_state import CursorState
from nats3_dagster.errors import OperatorError
from nats3_dagster.model import Chunk, Incarnation, Selection, SeqRange, Witness
from nats3_dagster_tests.support.catalog import LOGS, archive, chunk
from nats3_dagster_tests.support.chunks import batch_of

BEFORE, AFTER = Incarnation("LOGS", LOGS.created_ns - 1), Incarnation("LOGS", LOGS.created_ns + 1)
ALL = Selection()
SELECTION = Selection(hours=("2026-11-21-07:00",), from_ns=5, to_ns=9, sequences=SeqRange(2, 7), subjects=("a.>", "b"))


def begun(selection: Selection = ALL, *, over_gaps: bool = False) -> CursorState:
    return CursorState.begin(archive(), selection, over_gaps=over_gaps)


def at(seq: int, life: Incarnation = LOGS, selection: Selection = ALL) -> CursorState:
    state = begun(selection)
    state.move(life, seq)
    return state


@pytest.mark.parametrize("selection", [Selection(), SELECTION, Selection(subjects=("a",)), Selection(from_ns=1)])
@pytest.mark.parametrize("over_gaps", [False, True])
@pytest.mark.parametrize("witness", [None, Witness(7, 99)])
@pytest.mark.parametrize("position", [None, (LOGS, 7)])
def test_a_token_is_the_whole_state(selection: Selection, over_gaps: bool, position: Any, witness: Any) -> None:
    state = begun(selection, over_gaps=over_gaps)
    state.position, state.witness = position, witness
    assert CursorState.parse(state.token()) == state
    assert (state.archive, state.job_id) == ("logs", "00000000-0000-0000-0000-000000000001")


@given(st.data())
def test_a_text_that_was_changed_is_refused(data: st.DataObject) -> None:
    token = at(7, selection=SELECTION).token()
    place = data.draw(st.integers(0, len(token) - 2))
    letter = data.draw(st.sampled_from([one for one in "Ab0-_" if one != token[place]]))
    for text in (token[:place], token[:place] + letter + token[place + 1 :], token[:place] + token[place + 1 :]):
        with pytest.raises(OperatorError, match="is not a cursor"):
            CursorState.parse(text)


@pytest.mark.parametrize("more", [" ", "\n", "!", "+", "\u00e9"])
def test_a_text_with_another_character_is_refused(more: str) -> None:
    token = at(7, selection=SELECTION).token()
    for text in (more + token, token[:9] + more + token[9:], token + more):
        with pytest.raises(OperatorError, match="is not a cursor"):
            CursorState.parse(text)


def text_of(value: Any) -> str:
    """Any document as a token, with a checksum that is right."""
    text = json.dumps(value).encode()
    return base64.urlsafe_b64encode(zlib.crc32(text).to_bytes(4, "big") + text).decode().rstrip("=")


@pytest.mark.parametrize(
    "value",
    [
        [],
        1,
        None,
        {},
        {"format": 1},
        {"format": 1, "archive": "a"},
        {"format": 1, "archive": "a", "id": "b", "position": [1]},
    ],
)
def test_another_document_is_refused(value: Any) -> None:
    with pytest.raises(OperatorError, match="is not a cursor"):
        CursorState.parse(text_of(value))


def test_another_format_is_named() -> None:
    whole = {"archive": "a", "id": "b"}
    assert CursorState.parse(text_of({"format": 1, **whole})).archive == "a"
    with pytest.raises(OperatorError, match="has format 2, and this release reads 1"):
        CursorState.parse(text_of({"format": 2, **whole}))


def test_what_lies_ahead_of_a_position() -> None:
    state = at(7)
    assert [last for last in (6, 7, 8) if state.is_ahead(LOGS, SeqRange(1, last))] == [8]
    assert not state.is_ahead(BEFORE, SeqRange(1, 99))
    assert state.is_ahead(AFTER, SeqRange(1, 1))
    assert begun().is_ahead(BEFORE, SeqRange(1, 1))
    assert [state.has_ahead(Chunk(1, chunk(1, last), datetime.now(UTC), None)) for last in (7, 8)] == [False, True]
    assert (state.done_of(LOGS), state.done_of(AFTER), begun().done_of(LOGS)) == (7, None, None)


@pytest.mark.parametrize(("seq", "last", "is_at_end"), [(6, 7, False), (7, 7, True), (8, 7, True), (0, 7, False)])
def test_the_end_of_a_selection(seq: int, last: int, is_at_end: bool) -> None:
    selection = Selection(sequences=SeqRange(1, last))
    assert at(seq, selection=selection).is_at_end == is_at_end
    assert not begun(selection).is_at_end
    assert not at(seq).is_at_end


ROWS = [(5, 50, "a.x", None, b""), (6, 60, "b", None, b""), (8, 80, "a.y", None, b"")]


def test_a_batch_counts_as_read_after_it_was_handed_over() -> None:
    state = at(4)
    batches = state.hand_over(batch_of(ROWS), LOGS, 9)
    assert next(batches).column("seq").to_pylist() == [5, 6, 8]
    assert (state.position, state.witness, state.incarnation) == ((LOGS, 4), None, LOGS)
    assert list(batches) == []
    assert (state.position, state.witness) == ((LOGS, 9), Witness(8, 80))


def test_a_batch_counts_up_to_a_message_of_it() -> None:
    state = at(4)
    next(state.hand_over(batch_of(ROWS), LOGS, 9))
    state.advance((6, 60))
    assert (state.position, state.witness) == ((LOGS, 6), Witness(6, 60))
    state.advance()
    assert (state.position, state.witness) == ((LOGS, 9), Witness(8, 80))
    state.advance((99, 990))  # no batch is under way
    assert state.position == (LOGS, 9)


def test_a_batch_that_is_given_up_is_read_again() -> None:
    state = at(4)
    next(state.hand_over(batch_of(ROWS), AFTER, 9))
    assert state.incarnation == AFTER
    state.forget()
    state.advance()
    assert (state.position, state.witness, state.incarnation) == ((LOGS, 4), None, LOGS)


def test_messages_of_other_subjects_count_as_read_and_are_not_handed_over() -> None:
    state = at(4, selection=Selection(subjects=("b",)))
    (batch,) = state.hand_over(batch_of(ROWS), LOGS, 9)
    assert batch.column("seq").to_pylist() == [6]
    assert (state.position, state.witness) == ((LOGS, 9), Witness(6, 60))
    state = at(4, selection=Selection(subjects=("c",)))
    assert list(state.hand_over(batch_of(ROWS), LOGS, 9)) == []
    assert (state.position, state.witness) == ((LOGS, 9), None)


def test_a_subject_that_is_not_utf8_is_handed_over_by_the_text_that_people_see() -> None:
    rows = [(5, 50, "a.\udcff", None, b""), (6, 60, "a.%FF", None, b""), (7, 70, "a.\udcfe", None, b"")]
    state = at(4, selection=Selection(subjects=("a.%FF",)))
    (batch,) = state.hand_over(batch_of(rows), LOGS, 9)
    assert batch.column("seq").to_pylist() == [5, 6]


def test_a_witness_is_of_the_incarnation_of_the_position() -> None:
    state = at(4)
    state.witness = Witness(4, 40)
    state.move(LOGS, 9)
    assert state.witness == Witness(4, 40)
    state.move(AFTER, 1)
    assert (state.position, state.witness) == ((AFTER, 1), None)
