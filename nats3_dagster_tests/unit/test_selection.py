"""Selections as people write them, and what is refused."""

import pytest

from nats3_dagster.errors import OperatorError
from nats3_dagster.hours import HOUR_NS, hour_start
from nats3_dagster.model import Selection, SeqRange
from nats3_dagster.model.replay_spec import ReplaySpec

HOUR, NEXT = "2026-11-21-10:00", "2026-11-21-11:00"


def test_what_a_person_wrote() -> None:
    selection = Selection.parse(
        hours=[NEXT, HOUR, NEXT],
        from_time=HOUR,
        to_time="2026-11-21T12:00:00Z",
        sequences=" 10-20 ",
        subjects=["b.>", "a", "b.>"],
    )
    start = hour_start(HOUR)
    assert selection == Selection((HOUR, NEXT), start, start + 2 * HOUR_NS, SeqRange(10, 20), ("b.>", "a"))
    assert Selection.parse(sequences="7").sequences == (7, 7)
    assert Selection.parse() == Selection()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"hours": ["2026-11-21"]}, "'2026-11-21' is not an hour"),
        ({"from_time": "yesterday"}, "'yesterday' is not a time"),
        ({"to_time": "2026-13-01"}, "is not a time"),
        ({"from_time": HOUR, "to_time": HOUR}, "start is not before its end"),
        ({"sequences": "10-"}, "'10-' is not a sequence range"),
        ({"sequences": "0-5"}, "0-5 is not a sequence range"),
        ({"sequences": "5-4"}, "5-4 is not a sequence range"),
        ({"sequences": "1-9223372036854775808"}, "1-9223372036854775808 is not a sequence range"),
        ({"sequences": "1-99999999999999999999"}, "1-99999999999999999999 is not a sequence range"),
        ({"sequences": "1" * 5000}, "is not a sequence range"),
        ({"from_time": "2300-01-01"}, "'2300-01-01' is not a time"),
        ({"from_time": "1500-01-01"}, "is not a time"),
        ({"to_time": "-999999d"}, "'-999999d' is not a time"),
        ({"to_time": "-99999999999999999999s"}, "is not a time"),
        ({"subjects": ["a..b"]}, "'a..b' is not a subject filter: token 2 is empty"),
        ({"subjects": ["a.\udcff"]}, "is not a subject filter: it is not UTF-8"),
        ({"subjects": [""]}, "'' is not a subject filter"),
    ],
)
def test_what_cannot_be_right_is_refused(words: dict[str, object], message: str) -> None:
    with pytest.raises(OperatorError, match=message):
        Selection.parse(**words)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("selection", "times"),
    [
        (Selection(), None),
        (Selection(from_ns=5), (5, 2**63 - 1)),
        (Selection(to_ns=5), (0, 5)),
        (Selection(from_ns=0, to_ns=1), (0, 1)),
    ],
)
def test_its_times_as_a_reader_takes_them(selection: Selection, times: tuple[int, int] | None) -> None:
    assert selection.times == times


def test_the_first_and_the_last_that_can_be_selected() -> None:
    last_ns, last_seq = 2**63 - 1, 2**63 - 2
    assert Selection(from_ns=-last_ns, to_ns=last_ns).times == (-last_ns, last_ns)
    assert Selection(sequences=SeqRange(1, last_seq)).sequences == SeqRange(1, last_seq)
    assert Selection(sequences=SeqRange(3, 3)).sequences == SeqRange(3, 3)
    with pytest.raises(OperatorError, match="from_time is not a time that 64 bits hold"):
        Selection(from_ns=-last_ns - 1)
    with pytest.raises(OperatorError, match="to_time is not a time that 64 bits hold"):
        Selection(to_ns=last_ns + 1)
    with pytest.raises(OperatorError, match="not a sequence range"):
        Selection(sequences=SeqRange(1, last_seq + 1))
    with pytest.raises(OperatorError, match="not before its end"):
        Selection(from_ns=5, to_ns=5)
    assert Selection(from_ns=5, to_ns=6).times == (5, 6)


def test_its_subjects() -> None:
    assert Selection().selects_subject("a.b")
    some = Selection(subjects=("a.*", "c.>"))
    assert [some.selects_subject(s) for s in ("a.b", "c.d.e", "a.b.c", "c")] == [True, True, False, False]


def test_a_replay_maps_one_subject_filter() -> None:
    assert ReplaySpec("a").read_subject == ">"
    assert ReplaySpec("a", selection=Selection(subjects=("b.*",))).read_subject == "b.*"
    with pytest.raises(OperatorError, match="maps one subject filter, and there are 2"):
        ReplaySpec("a", selection=Selection(subjects=("b", "c")))
