"""The run of Dagster that works here: inside its block, also that of a generator, and not after it."""

from collections.abc import Generator
from contextvars import copy_context

from nats3_dagster.actor import current_run, in_run


def work(run_id: str) -> Generator[str | None]:
    """A step of Dagster's: a generator that is left in the middle of its block."""
    with in_run(run_id):
        yield current_run()
        yield current_run()


def test_a_run_works_inside_its_block() -> None:
    assert current_run() is None
    with in_run("a"):
        assert current_run() == "a"
        with in_run("b"):
            assert current_run() == "b"
        assert current_run() == "a"
    assert current_run() is None


def test_a_generator_that_is_closed_ends_its_run() -> None:
    step = work("a")
    assert [next(step), next(step)] == ["a", "a"]
    step.close()
    assert current_run() is None


def test_a_generator_that_is_closed_late_ends_no_other_run() -> None:
    step = work("a")
    next(step)
    with in_run("b"):
        step.close()
        assert current_run() == "b"
    assert current_run() is None


def test_a_generator_may_be_closed_in_another_context() -> None:
    step = work("a")
    next(step)
    elsewhere = copy_context()
    elsewhere.run(step.close)
    assert (current_run(), elsewhere.run(current_run)) == (None, None)
