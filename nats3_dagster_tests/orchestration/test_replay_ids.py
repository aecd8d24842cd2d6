"""The id of a replay: runs that continue one find it again, in this release and in the next."""

import pytest
from dagster import DagsterInstance, DagsterRun, DagsterRunStatus
from dagster._core.test_utils import create_run_for_test

from nats3_dagster.defs.runs import replay_id_for
from nats3_dagster.model import Pace, ReplaySpec, Selection, SeqRange

SPEC = ReplaySpec("events", "back.>")
HOURS = ("2026-11-21-07:00", "2026-11-21-08:00")


@pytest.mark.parametrize(
    ("spec", "replay_id"),
    [
        (SPEC, "016db1e291f68b01"),
        (
            ReplaySpec(
                "events", "back.>", Selection(HOURS, 5, 9, SeqRange(1, 7), ("ev.>",)), pace=Pace(speed=2.0),
                create_stream="BACK",
            ),
            "7cf45f28dff5b719",
        ),
    ],
)  # fmt: skip
def test_it_stays_when_the_code_changes(instance: DagsterInstance, spec: ReplaySpec, replay_id: str) -> None:
    """A release with other ids would publish once more what the one before it had begun: a new field of the spec must
    not change the ids of replays that do not use it."""
    run = DagsterRun(job_name="events_replay", run_id="11111111-1111-1111-1111-111111111111")
    assert replay_id_for(instance, run, spec) == replay_id


def test_a_run_continues_what_failed_and_begins_anew_what_succeeded(instance: DagsterInstance) -> None:
    def run(status: DagsterRunStatus, parent: DagsterRun | None = None) -> DagsterRun:
        parent_id = parent.run_id if parent else None
        return create_run_for_test(
            instance, job_name="events_replay", status=status, parent_run_id=parent_id, root_run_id=parent_id
        )

    first = run(DagsterRunStatus.FAILURE)
    second = run(DagsterRunStatus.CANCELED, first)
    third = run(DagsterRunStatus.SUCCESS, second)
    fourth = run(DagsterRunStatus.STARTED, third)
    first_id = replay_id_for(instance, first, SPEC)
    assert [replay_id_for(instance, r, SPEC) for r in (second, third)] == [first_id, first_id]
    assert replay_id_for(instance, fourth, SPEC) != first_id
    # Another selection is another replay.
    assert replay_id_for(instance, second, ReplaySpec("events", "back.>", Selection(HOURS))) != first_id
