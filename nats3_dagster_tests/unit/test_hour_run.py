"""An hour that fails does not stop the others, and its error is the end of the run."""

from collections.abc import Mapping

import pytest

from nats3_dagster.archive.captures.hour_run import HourRun
from nats3_dagster.errors import SourceError, StoreError

HOURS = ["2026-11-21-03:00", "2026-11-21-04:00", "2026-11-21-05:00", "2026-11-21-06:00", "2026-11-21-07:00"]


def go(run: HourRun, errors: Mapping[str, BaseException]) -> list[str]:
    """The hours that were tried."""
    tried, failed = list[str](), list[str]()

    def perform(hour: str) -> str:
        tried.append(hour)
        if hour in errors:
            raise errors[hour]
        return f"files of {hour}"

    done = dict(run.results(perform, lambda hour, _: failed.append(hour)))
    assert done == {hour: f"files of {hour}" for hour in tried if hour not in errors}
    assert failed == list(run.errors)
    return tried


def test_all_hours_are_tried_and_the_first_error_is_raised_with_the_others_beside_it() -> None:
    run = HourRun(HOURS)
    assert go(run, {HOURS[1]: StoreError("a foreign object", "Move it"), HOURS[3]: SourceError("broke off")}) == HOURS
    with pytest.raises(StoreError) as caught:
        run.raise_errors()
    assert caught.value.what == f"2 of 5 hours failed. {HOURS[1]}: a foreign object; {HOURS[3]}: broke off"
    assert caught.value.hint == "Move it"
    assert not run.is_general


@pytest.mark.parametrize(("count", "more"), [(2, ""), (3, ""), (4, "; and 1 more"), (5, "; and 2 more")])
def test_an_error_names_three_hours_and_counts_the_others(count: int, more: str) -> None:
    errors = {hour: StoreError(f"reason {number}", "Move it") for number, hour in enumerate(HOURS[:count])}
    run = HourRun(HOURS)
    go(run, errors)
    with pytest.raises(StoreError) as caught:
        run.raise_errors()
    named = "; ".join(f"{hour}: {error.what}" for hour, error in list(errors.items())[:3])
    assert caught.value.what == f"{count} of 5 hours failed. {named}{more}"


def test_the_error_of_a_single_hour_is_raised_as_it_is() -> None:
    run, error = HourRun(HOURS[:1]), StoreError("a foreign object", "Move it")
    go(run, {HOURS[0]: error})
    with pytest.raises(StoreError) as caught:
        run.raise_errors()
    assert caught.value is error


def test_what_fails_alike_twice_in_a_row_ends_the_run() -> None:
    run = HourRun(HOURS)
    down = {hour: SourceError("NATS does not answer") for hour in HOURS[1:]}
    assert go(run, down) == HOURS[:3]
    assert run.is_general
    with pytest.raises(SourceError) as caught:
        run.raise_errors()
    said = f"2 of 5 hours failed. {HOURS[1]}, {HOURS[2]}: NATS does not answer; 2 were not tried"
    assert caught.value.what == said


def test_anything_else_goes_through_at_once() -> None:
    run = HourRun(HOURS)
    with pytest.raises(KeyboardInterrupt):
        go(run, {HOURS[0]: KeyboardInterrupt()})
    run.raise_errors()
    assert go(HourRun(HOURS), {}) == HOURS
