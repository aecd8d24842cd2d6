"""Following an account: streams that appear get their archives, those that go end theirs.

Invariant: one stream that fails does not stop the others, and what a call leaves undone the next one does. An archive
ends only when the stream's own server says that there is no such stream, and goes on when there is one again.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from nats3_dagster.archive.account.plan import StreamPlan
from nats3_dagster.archive.account.rules import account_states, plan_of
from nats3_dagster.archive.captures.open import open_source
from nats3_dagster.archive.lifecycle import create
from nats3_dagster.archive.take.open import open_with_durable
from nats3_dagster.catalog.contents.coverage import storable
from nats3_dagster.errors import Nats3Error
from nats3_dagster.fault_points import fault_point
from nats3_dagster.jetstream.streams import find_stream
from nats3_dagster.model import StreamState
from nats3_dagster.model.account_rule import DerivedStream, KeptRule
from nats3_dagster.model.stream import is_unfinished
from nats3_dagster.workspace import Workspace

# Seconds after which a call begins no other stream: Dagster gives a tick 60.
BUDGET_S = 25.0


@dataclass(slots=True)
class Followed:
    """The findings of one call for one rule: names of archives, and of streams where that is said."""

    rule: KeptRule
    # What the rule said of each stream before.
    streams: tuple[StreamPlan, ...]
    created: list[str] = field(default_factory=list[str])
    # Their streams are gone.
    ended: list[str] = field(default_factory=list[str])
    # Their streams were made again, and they go on with the new ones.
    adopted: list[str] = field(default_factory=list[str])
    # The rule does not take their streams any longer.
    released: list[str] = field(default_factory=list[str])
    # By stream.
    problems: dict[str, Nats3Error] = field(default_factory=dict[str, Nats3Error])
    # Streams that are left for the next call.
    left: int = 0


def follow(workspace: Workspace, *, budget_s: float = BUDGET_S) -> list[Followed]:
    """Do what the rules say of the streams that the account has now. Raises SourceError where NATS does not answer,
    CatalogError."""
    rules = workspace.catalog.accounts.rules()
    if not rules:
        return []
    until = time.monotonic() + budget_s
    states = account_states(workspace)
    return [_follow(workspace, kept, plan_of(kept, states, workspace, rules), until) for kept in rules]


def _follow(workspace: Workspace, kept: KeptRule, streams: Sequence[StreamPlan], until: float) -> Followed:
    found = Followed(kept, tuple(streams))
    _mark(workspace, found)
    _keep_derived(workspace, found)
    for one in streams:
        if one.action != "create" and (one.action != "remade" or kept.rule.remade != "adopt"):
            continue
        if time.monotonic() > until:
            found.left += 1
            continue
        try:
            _one(workspace, kept, one, found)
        except Nats3Error as error:
            if error.ends_all:
                raise
            found.problems[one.stream] = error
    return found


def _one(workspace: Workspace, kept: KeptRule, one: StreamPlan, found: Followed) -> None:
    if one.spec:
        fault_point("account.create")
        found.created.append(create.create(workspace, one.spec, rule=kept).name)
    elif one.archive:
        archive = workspace.catalog.archives.get(one.archive.name)
        if not archive.paused:
            # A durable went with the stream before.
            opener = open_with_durable if archive.spec.mode == "consumer" else open_source
            opener(workspace, archive, adopt=True)
            found.adopted.append(archive.name)


def _mark(workspace: Workspace, found: Followed) -> None:
    """Note which archives of the rule have no stream any more, which have one again, and which are not the rule's."""
    accounts = workspace.catalog.accounts
    own = [(one, one.archive) for one in found.streams if one.archive]
    # A listing may be partial: the stream itself is asked for.
    gone = [
        archive
        for one, archive in own
        if one.action == "ended" and archive.ended_at is None and find_stream(workspace.link, one.stream) is None
    ]
    back = [archive.archive_id for one, archive in own if one.action != "ended" and archive.ended_at is not None]
    released = [archive for one, archive in own if one.action == "released"]
    if gone:
        accounts.mark_ended([archive.archive_id for archive in gone])
    if back:
        accounts.mark_present(back)
    if released:
        accounts.release([archive.archive_id for archive in released])
    found.ended += [archive.name for archive in gone]
    found.released += [archive.name for archive in released]


def _keep_derived(workspace: Workspace, found: Followed) -> None:
    """Keep how the streams are made again that have no archive because all that they have is of others."""
    restores, kept = workspace.catalog.account_restores, found.rule
    known = {one.stream: one for one in restores.derived(kept)}
    present = {one.stream: one for one in found.streams if one.state}
    derived = [one.state for one in present.values() if one.is_derived and one.state]
    changed = [state for state in derived if _is_new(state, known.get(state.name))]
    gone = [
        one.stream
        for one in known.values()
        if one.gone_at is None and one.stream not in present and find_stream(workspace.link, one.stream) is None
    ]
    dropped = [
        one.stream
        for one in present.values()
        if one.stream in known and not one.is_derived and one.state and not is_unfinished(one.state.config)
    ]
    if changed:
        restores.keep_derived(kept, changed)
    if gone:
        restores.mark_gone(kept, gone)
    if dropped:
        restores.drop(kept, dropped)


def _is_new(state: StreamState, known: DerivedStream | None) -> bool:
    """True if the catalog does not have the stream as it is. One that is being restored is not looked at."""
    if is_unfinished(state.config):
        return False
    if known is None or known.gone_at is not None:
        return True
    return (known.config, known.consumers) != (storable(state.config), state.consumers)
