"""Applying declared rules for the account: what differs from the catalog, whether all of it can be done, and doing it.

Invariants: as apply. A rule that ends leaves its archives, and a rule that no file names is left alone, unless it is to
be pruned.
"""

from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from nats3_dagster.archive.account import rules
from nats3_dagster.archive.account.plan import StreamPlan
from nats3_dagster.archive.account.plan import plan as streams_of
from nats3_dagster.archive.declared.accounts import DeclaredRule
from nats3_dagster.archive.declared.apply import Action, Planned
from nats3_dagster.archive.lifecycle.change import Difference
from nats3_dagster.errors import Conflict, Nats3Error, OperatorError
from nats3_dagster.model.account_rule import AccountArchive, KeptRule
from nats3_dagster.workspace import Workspace


@dataclass(frozen=True, slots=True)
class RuleStep:
    """The planned action for one rule."""

    action: Action
    name: str
    # What the file says; None where the rule is to end.
    declared: DeclaredRule | None = None
    # What the catalog has; None where it is to be created.
    kept: KeptRule | None = None
    differences: tuple[Difference, ...] = ()
    # What the rule will say of each stream, once all of the plan is done; empty where nothing changes or it ends.
    streams: tuple[StreamPlan, ...] = ()
    # The number of archives that it has.
    archives: int = 0
    # Why it cannot be done; None if it can.
    refusal: Nats3Error | None = None


@dataclass(frozen=True, slots=True)
class AppliedRule:
    """The result of one step of a plan."""

    planned: RuleStep
    # Whether the rule was made, changed or ended. If not, nothing of it was.
    done: bool
    error: Nats3Error | None = field(default=None, compare=False)
    # By the archive of the rule that did not get its settings: why.
    failed: Mapping[str, Nats3Error] = field(default_factory=dict[str, Nats3Error], compare=False)


def plan(
    workspace: Workspace, declared: Sequence[DeclaredRule], archives: Sequence[Planned] = (), *, prune: bool = False
) -> tuple[RuleStep, ...]:
    """Returns the planned actions, in the order of the files, and the refused ones. `archives`: the plan for them,
    which is done first. With `prune` the rules that are not declared are to end. Raises SourceError where a rule is new
    or changes and NATS does not answer."""
    kept = {one.name: one for one in workspace.catalog.accounts.rules()}
    every = workspace.catalog.accounts.archives() if declared or kept else []
    counts = Counter(one.rule_id for one in every if one.deleted_at is None)
    planned = [_checked(workspace, _compared(kept.get(one.name), one)) for one in declared]
    if prune:
        wanted = {one.name for one in declared}
        planned += [RuleStep("remove", name, kept=one) for name, one in kept.items() if name not in wanted]
    planned = [replace(one, archives=counts[one.kept.id]) if one.kept else one for one in planned]
    return tuple(_with_streams(workspace, planned, list(kept.values()), _after(every, archives)))


def check(planned: Sequence[RuleStep]) -> None:
    """Raises OperatorError if a step is refused: it says why of the first."""
    refused = [one for one in planned if one.refusal]
    if not refused:
        return
    first = refused[0]
    assert first.refusal
    assert first.declared
    many = f"{len(refused)} of {len(planned)} rules are refused" if len(refused) > 1 else "One rule is refused"
    text = f"{many}, and nothing was changed. {first.declared.place}: {first.refusal.what}"
    raise OperatorError(text, first.refusal.hint)


def perform(workspace: Workspace, planned: Sequence[RuleStep]) -> Generator[AppliedRule]:
    """Do it step by step, once the archives are there: what is created first, in the order of the files, and what ends
    last. A step that another process prevents does not stop the others; a server that fails does. Raises OperatorError,
    and does nothing, if a step is refused."""
    check(planned)
    order: Mapping[Action, int] = {"create": 0, "change": 1, "remove": 2, "unchanged": 3}
    for one in sorted(planned, key=lambda one: order[one.action]):
        if one.action == "unchanged":
            continue
        try:
            yield _done(workspace, one)
        except (OperatorError, Conflict) as error:
            yield AppliedRule(one, done=_is_done(workspace, one), error=error)


def _compared(kept: KeptRule | None, declared: DeclaredRule) -> RuleStep:
    if kept is None:
        return RuleStep("create", declared.name, declared)
    found = rules.differences(kept.rule, declared.wanted)
    return RuleStep("change" if found else "unchanged", declared.name, declared, kept, found)


def _checked(workspace: Workspace, one: RuleStep) -> RuleStep:
    """The step, refused if what it needs is not there."""
    assert one.declared
    create_bucket = one.declared.create_bucket
    try:
        if one.kept is None:
            rules.check_new(workspace, one.declared.rule, create_bucket=create_bucket)
        elif one.differences:
            rules.changed_rule(workspace, one.kept, _wanted(one), create_bucket=create_bucket)
    except (OperatorError, Conflict) as error:
        return replace(one, refusal=error)
    return one


def _with_streams(
    workspace: Workspace, planned: Sequence[RuleStep], kept: Sequence[KeptRule], archives: Sequence[AccountArchive]
) -> list[RuleStep]:
    """The steps, each with what its rule will say of the streams beside the rules that are older then."""
    if not any(one.declared and one.action != "unchanged" and not one.refusal for one in planned):
        return list(planned)
    states = rules.account_states(workspace)
    by_name = {one.name: one for one in planned}
    older = list[KeptRule]()
    found = dict[str, tuple[StreamPlan, ...]]()
    now = datetime.now(UTC)
    new = [KeptRule(0, one.declared.rule, now, now) for one in planned if one.declared and one.kept is None]
    for rule in (*kept, *new):
        step = by_name.get(rule.name)
        if step and step.action == "remove":
            continue
        if step and step.declared:
            rule = replace(rule, rule=step.declared.rule)
            if step.action != "unchanged":
                rule_id = step.kept.id if step.kept else None
                found[step.name] = streams_of(rule.rule, states, archives, rule_id=rule_id, older=older)
        older.append(rule)
    return [replace(one, streams=found.get(one.name, ())) for one in planned]


def _after(every: Sequence[AccountArchive], archives: Sequence[Planned]) -> list[AccountArchive]:
    """The archives as rules will see them, once the plan for archives is done."""
    gone = {one.archive.id for one in archives if one.action == "remove" and one.archive}
    made = [
        AccountArchive(
            archive_id=0,
            name=one.declared.spec.name,
            stream=one.declared.spec.stream,
            is_whole=not one.declared.spec.subjects,
            rule_id=None,
            ended_at=None,
            deleted_at=None,
            created_ns=None,
        )
        for one in archives
        if one.action == "create" and one.declared
    ]
    return [one for one in every if one.archive_id not in gone] + made


def _wanted(one: RuleStep) -> Mapping[str, object]:
    return {difference.field: difference.new for difference in one.differences}


def _done(workspace: Workspace, one: RuleStep) -> AppliedRule:
    if one.declared and one.kept:
        _check_same(workspace, one.kept)
        create_bucket = one.declared.create_bucket
        done = rules.change(workspace, one.name, _wanted(one), create_bucket=create_bucket)
        return AppliedRule(one, done=True, failed=done.failed)
    if one.declared:
        rules.create(workspace, one.declared.rule, create_bucket=one.declared.create_bucket)
        return AppliedRule(one, done=True)
    assert one.kept
    _check_same(workspace, one.kept)
    rules.end(workspace, one.name)
    return AppliedRule(one, done=True)


def _check_same(workspace: Workspace, kept: KeptRule) -> None:
    """Raises Conflict where another process ended the rule and made it again, Unknown where it ended it."""
    if workspace.catalog.accounts.get(kept.name).id != kept.id:
        raise Conflict(f"Another process ended rule {kept.name} and made it again", "Apply the file again")


def _is_done(workspace: Workspace, one: RuleStep) -> bool:
    """True if the rule is now as declared, also by another process."""
    found = next((kept for kept in workspace.catalog.accounts.rules() if kept.name == one.name), None)
    if one.declared is None:
        return found is None
    return found is not None and not rules.differences(found.rule, one.declared.wanted)
