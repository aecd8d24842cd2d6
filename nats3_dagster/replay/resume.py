"""Finds an existing replay by its id, or begins it.

Invariant: a replay that was begun is never begun again under its id, even if the catalog has forgotten it: a new row
would not know the messages in the targets.
"""

from dataclasses import dataclass, replace
from datetime import timedelta

from nats3_dagster.errors import Conflict, OperatorError
from nats3_dagster.model import Replay, ReplaySpec
from nats3_dagster.replay.begin import begin
from nats3_dagster.replay.planning.forgotten import forgotten
from nats3_dagster.replay.status import find
from nats3_dagster.steps import Next
from nats3_dagster.workspace import Workspace


@dataclass(frozen=True, slots=True)
class RunEvidence:
    """The evidence of a replay outside of the catalog."""

    # Whether the catalog had it once.
    recorded: bool = False
    # The newest attempt that began, 0 for none.
    attempt: int = 0


@dataclass(frozen=True, slots=True)
class ReplayToRun:
    """A replay to run."""

    replay: Replay
    # Sentences for a log: what there is to publish, or what of the request does not hold for a replay that goes on.
    notes: tuple[str, ...]


def begin_or_resume(workspace: Workspace, spec: ReplaySpec, replay_id: str, evidence: RunEvidence) -> ReplayToRun:
    """The replay of this id: as it was begun, now at the pace of `spec`, or begun now. Raises as `begin`; OperatorError
    if it was deleted, CatalogError if the catalog had it and no longer has it."""
    replays = workspace.catalog.replays
    replay = find(workspace, replay_id)
    if replay is None and replays.was_deleted(replay_id):
        raise OperatorError(f"Replay {replay_id} was deleted, and what it published stays", Next.BEGIN_NEW_REPLAY())
    if replay is None and evidence.recorded:
        raise forgotten(replay_id)
    if replay is None:
        try:
            begun, plan = begin(workspace, spec, replay_id=replay_id)
        except (OperatorError, Conflict):
            # Another process may have begun this very replay meanwhile.
            replay = find(workspace, replay_id)
            if replay is None:
                raise
        else:
            notes = (f"at most {plan.extent.messages:,} messages in {plan.extent.chunks} chunks",)
            if plan.timing_s is not None:
                notes += (f"its original timing takes at most {timedelta(seconds=round(plan.timing_s))}",)
            return ReplayToRun(begun, notes + plan.notes)
    if replay.state == "succeeded":
        return ReplayToRun(replay, ("had succeeded before this run: nothing is left to publish",))
    notes = _remember(workspace, replay, evidence)
    if spec.order != replay.spec.order:
        # What an earlier attempt published in another order cannot be put in order any more.
        notes.append(f"keeps the order {replay.spec.order} with which it began")
    if spec.pace != replay.spec.pace:
        replace(replay.spec, pace=spec.pace)  # raises OperatorError if the order does not go with it
        replays.change_pace(replay_id, spec.pace)
        notes.append("has another pace from now on")
    return ReplayToRun(replays.get(replay_id), tuple(notes))


def resume(workspace: Workspace, replay_id: str, evidence: RunEvidence) -> ReplayToRun:
    """A replay that was begun, as it was begun. Raises Unknown if there is none, or it was deleted."""
    replay = workspace.catalog.replays.get(replay_id)
    if replay.state == "succeeded":
        return ReplayToRun(replay, ("had succeeded before this run: nothing is left to publish",))
    notes = _remember(workspace, replay, evidence)
    return ReplayToRun(workspace.catalog.replays.get(replay_id), tuple(notes))


def _remember(workspace: Workspace, replay: Replay, evidence: RunEvidence) -> list[str]:
    notes = [f"goes on: {replay.chunks_done} of {replay.chunks} chunks are done"]
    if replay.attempt < evidence.attempt:
        # The next attempt is then no first one, and asks the targets what they have.
        workspace.catalog.replays.raise_attempt(replay.id, evidence.attempt)
        notes.append(
            f"the catalog has forgotten attempt {evidence.attempt}: Postgres is a restored backup, or a standby that "
            "took over before it had every commit. The targets are asked what they have"
        )
    return notes
