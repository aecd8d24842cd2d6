"""The state of an account as a rule has it: which streams are archived, what of them is not yet and how near to loss
that is, and why the others are not.

Invariant: nothing is written.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from nats3_dagster.archive.account.plan import StreamPlan
from nats3_dagster.archive.account.rules import account_states, plan_of
from nats3_dagster.archive.lifecycle.create import check
from nats3_dagster.archive.source.condition import Condition, conditions
from nats3_dagster.archive.source.loss import Loss, time_to_loss
from nats3_dagster.errors import Nats3Error
from nats3_dagster.model import Archive
from nats3_dagster.model.account_rule import KeptRule
from nats3_dagster.workspace import Workspace

# Streams that are to get an archive whose reasons for having none are looked for, at most: each takes some requests.
_ASKED: Final = 20


@dataclass(frozen=True, slots=True)
class StreamStatus:
    """A stream of the account."""

    plan: StreamPlan
    # Of its archive; None without one.
    condition: Condition | None
    # How near it is to deleting what is not captured; None where that is not known.
    loss: Loss | None
    # Why its archive cannot be made; None where it has one, or can have one.
    problem: Nats3Error | None = None


@dataclass(frozen=True, slots=True)
class AccountStatus:
    """A rule, and the streams of the account by name."""

    kept: KeptRule
    streams: tuple[StreamStatus, ...]


def status(workspace: Workspace, names: Sequence[str] | None = None) -> tuple[AccountStatus, ...]:
    """The rules of these names, or all, the oldest first. Raises Unknown, SourceError, CatalogError."""
    accounts = workspace.catalog.accounts
    rules = accounts.rules()
    chosen = rules if names is None else [accounts.get(name) for name in names]
    if not chosen:
        return ()
    states = account_states(workspace)
    return tuple(_of_rule(workspace, kept, plan_of(kept, states, workspace, rules)) for kept in chosen)


def _of_rule(workspace: Workspace, kept: KeptRule, streams: Sequence[StreamPlan]) -> AccountStatus:
    ids = [one.archive.archive_id for one in streams if one.archive and one.action != "ended"]
    archives = {archive.id: archive for archive in workspace.catalog.archives.of(ids)}
    found = conditions(workspace, list(archives.values()), aged=True)
    waiting = [one for one in streams if one.action == "create"][:_ASKED]
    problems = {one.stream: problem for one in waiting if (problem := _problem(workspace, one))}
    every = (_stream(one, found, archives) for one in streams)
    return AccountStatus(kept, tuple(replace(one, problem=problems.get(one.plan.stream)) for one in every))


def _problem(workspace: Workspace, one: StreamPlan) -> Nats3Error | None:
    """The reason why the archive that a stream is to have cannot be made. Raises CatalogError."""
    assert one.spec
    try:
        check(workspace, one.spec)
    except Nats3Error as error:
        if error.ends_all:
            raise
        return error
    return None


def _stream(one: StreamPlan, found: dict[int, Condition], archives: dict[int, Archive]) -> StreamStatus:
    archive = archives.get(one.archive.archive_id) if one.archive else None
    condition = found.get(archive.id) if archive else None
    if archive is None or condition is None or condition.waiting is None:
        return StreamStatus(one, condition, None)
    loss = time_to_loss(condition.waiting, paused=archive.paused, max_age_s=archive.spec.max_age_s)
    return StreamStatus(one, condition, loss)
