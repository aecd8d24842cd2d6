"""A pace holds over every second, and the original timing comes back scaled."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nats3_dagster.errors import OperatorError
from nats3_dagster.hours import SECOND_NS
from nats3_dagster.model import Pace
from nats3_dagster.replay.messages.pace import SLICE_S, Pacer


class Clock:
    """Time that passes only when somebody sleeps."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def run(
    pace: Pace, sizes: list[int], times_ns: list[int], origin: tuple[float, int] | None = None
) -> list[tuple[float, int, int]]:
    """When each slice went out, and which."""
    clock = Clock()
    pacer = Pacer(pace, clock, clock.sleep, origin)
    slices = pacer.slices(np.array(sizes, np.int64), np.array(times_ns, np.int64))
    return [(clock.now - 100.0, s.start, s.stop) for s in slices]


@given(st.integers(1, 5000), st.integers(1, 400))
def test_a_message_limit_holds_and_nothing_is_left_out(limit: int, count: int) -> None:
    sent = run(Pace(rate=limit), [10] * count, [0] * count)
    assert [at for _, at, _ in sent] == [0, *(end for _, _, end in sent)][: len(sent)]
    assert sent[-1][2] == count
    for when, at, _ in sent:
        assert at <= limit * (when + 2 * SLICE_S) + 1
        assert when <= at / limit + 1e-6


@given(st.integers(100, 100_000), st.lists(st.integers(1, 3000), min_size=1, max_size=200))
def test_a_byte_limit_holds(limit: int, sizes: list[int]) -> None:
    sent = run(Pace(byte_rate=limit), sizes, [0] * len(sizes))
    assert sent[-1][2] == len(sizes)
    for when, at, _ in sent:
        assert when == pytest.approx(sum(sizes[:at]) / limit, abs=1e-6)


def test_the_original_timing_comes_back_scaled() -> None:
    times = [0, 1 * SECOND_NS, 1 * SECOND_NS, 5 * SECOND_NS]
    assert [(round(when, 3), at) for when, at, _ in run(Pace(speed=2), [1] * 4, times)] == [(0, 0), (0.5, 1), (2.5, 3)]


def test_the_original_timing_goes_on_where_it_was() -> None:
    """A message of the time 1 s went out at 99: that of 5 s is due at 101, at twice the speed."""
    times = [5 * SECOND_NS, 6 * SECOND_NS]
    assert [(when, at) for when, at, _ in run(Pace(speed=2), [1] * 2, times, (99.0, SECOND_NS))] == [(1, 0), (1.5, 1)]
    assert run(Pace(speed=2), [1], times[:1], (90.0, SECOND_NS)) == [(0, 0, 1)]


def test_without_a_pace_a_batch_goes_out_at_once() -> None:
    assert run(Pace(), [1] * 9, list(range(9))) == [(0, 0, 9)]


@pytest.mark.parametrize("field", ["rate", "byte_rate", "speed"])
def test_a_pace_of_nothing_is_refused(field: str) -> None:
    with pytest.raises(OperatorError, match=field):
        Pace(**{field: 0})


@pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf")])
@pytest.mark.parametrize("name", ["rate", "byte_rate", "speed"])
def test_a_pace_that_is_no_number_above_0_is_refused(name: str, value: float) -> None:
    with pytest.raises(OperatorError, match=f"{name} is"):
        Pace(**{name: value})
