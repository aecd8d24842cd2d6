"""Rules: made, looked at, changed and ended.

Invariant: what is refused of a rule is refused before anything is written, and a rule that ends leaves its archives.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from nats3_dagster import objects
from nats3_dagster.archive.account.plan import StreamPlan, plan
from nats3_dagster.archive.lifecycle import change as lifecycle
from nats3_dagster.archive.stored.buckets import missing_buckets
from nats3_dagster.catalog.archives.accounts import rule_taken
from nats3_dagster.errors import Conflict, Nats3Error, OperatorError
from nats3_dagster.jetstream.server import check_version, server_info
from nats3_dagster.jetstream.streams import all_streams
from nats3_dagster.model import StreamState
from nats3_dagster.model.account_rule import AccountRule, KeptRule
from nats3_dagster.model.archive_options import ArchiveOptions
from nats3_dagster.model.spec_table import settings_of
from nats3_dagster.workspace import Workspace

# Settings that an archive of a rule has by the rule.
_OF_ARCHIVES = frozenset(one.name for one in fields(ArchiveOptions))
_FIXED = {one.name: one.fixed for one in settings_of(AccountRule) if one.fixed}
_INSTEAD = "Make another rule for what comes, and end this one: its archives stay"


@dataclass(frozen=True, slots=True)
class ChangedRule:
    """A rule after a change."""

    after: KeptRule
    # What the rule says of the streams now.
    streams: tuple[StreamPlan, ...]
    # The archives that got other settings.
    archives: tuple[str, ...]
    # By the archive that did not: why.
    failed: Mapping[str, Nats3Error]


def account_states(workspace: Workspace) -> list[StreamState]:
    """The streams of the account, by name: one request for 256 of them. Raises SourceError; OperatorError for a server
    that is too old."""
    check_version(server_info(workspace.link))
    return all_streams(workspace.link)


def planned(workspace: Workspace, kept: KeptRule) -> tuple[StreamPlan, ...]:
    """Returns what a rule says of each stream now. Raises SourceError."""
    states, rules = account_states(workspace), workspace.catalog.accounts.rules()
    return plan_of(kept, states, workspace, rules)


def plan_of(
    kept: KeptRule, states: Sequence[StreamState], workspace: Workspace, rules: Sequence[KeptRule]
) -> tuple[StreamPlan, ...]:
    """Returns what a rule says of these streams. `rules`: all of the catalog."""
    older = [one for one in rules if one.id < kept.id]
    return plan(kept.rule, states, workspace.catalog.accounts.archives(), rule_id=kept.id, older=older)


def preview(workspace: Workspace, rule: AccountRule, *, create_bucket: bool = False) -> tuple[StreamPlan, ...]:
    """Returns what a new rule would do with each stream. Raises as `create` does; nothing is written."""
    accounts = workspace.catalog.accounts
    rules = accounts.rules()
    if any(one.name == rule.name for one in rules):
        raise rule_taken(rule.name)
    check_new(workspace, rule, create_bucket=create_bucket)
    return plan(rule, account_states(workspace), accounts.archives(), older=rules)


def check_new(workspace: Workspace, rule: AccountRule, *, create_bucket: bool = False) -> None:
    """Raises OperatorError for a bucket that is missing and is not to be made."""
    _missing(workspace, rule, rule.copies, create_bucket)


def create(
    workspace: Workspace, rule: AccountRule, *, create_bucket: bool = False
) -> tuple[KeptRule, tuple[StreamPlan, ...]]:
    """The new rule, and what it will do with each stream: the next tick of `account_sensor` makes its archives. With
    `create_bucket` missing buckets are made. Raises Conflict when the name is taken, OperatorError for a missing
    bucket, SourceError where NATS does not answer."""
    streams = preview(workspace, rule, create_bucket=create_bucket)
    for name in _missing(workspace, rule, rule.copies, create_bucket):
        objects.create_bucket(workspace.settings.store, name)
    return workspace.catalog.accounts.create(rule), streams


def preview_change(
    workspace: Workspace, name: str, wanted: Mapping[str, Any], *, create_bucket: bool = False
) -> tuple[KeptRule, tuple[StreamPlan, ...]]:
    """Returns the rule as it would be, and what it would do with each stream. Raises as `change` does; nothing is
    written."""
    kept = workspace.catalog.accounts.get(name)
    changed = replace(kept, rule=changed_rule(workspace, kept, wanted, create_bucket=create_bucket))
    return changed, plan_of(changed, account_states(workspace), workspace, workspace.catalog.accounts.rules())


def change(
    workspace: Workspace,
    name: str,
    wanted: Mapping[str, Any],
    *,
    create_bucket: bool = False,
) -> ChangedRule:
    """Give a rule other values of these settings. Its archives get them too, also those that have another value by now;
    their other settings stay. Raises Unknown, OperatorError for what cannot change, Conflict when
    another process changed the rule meanwhile, SourceError."""
    accounts = workspace.catalog.accounts
    kept = accounts.get(name)
    rule = changed_rule(workspace, kept, wanted, create_bucket=create_bucket)
    states = account_states(workspace)
    for bucket in _missing(workspace, rule, _new_copies(kept.rule, rule), create_bucket):
        objects.create_bucket(workspace.settings.store, bucket)
    after = accounts.change(kept, rule)
    streams = plan_of(after, states, workspace, accounts.rules())
    given = {field: getattr(rule, field) for field in wanted if field in _OF_ARCHIVES}
    mine = [one.archive_name for one in streams if one.archive and one.action != "released"] if given else []
    done, failed = list[str](), dict[str, Nats3Error]()
    for archive in mine:
        try:
            if lifecycle.change(workspace, archive, given).differences:
                done.append(archive)
        except (OperatorError, Conflict) as error:
            failed[archive] = error
    return ChangedRule(after, streams, tuple(done), failed)


def end(workspace: Workspace, name: str) -> int:
    """End a rule; the number of archives that it had, which go on as they are. Raises Unknown."""
    accounts = workspace.catalog.accounts
    kept = accounts.get(name)
    archives = [one for one in accounts.archives() if one.rule_id == kept.id and one.deleted_at is None]
    accounts.end(kept)
    return len(archives)


def differences(rule: AccountRule, wanted: Mapping[str, Any]) -> tuple[lifecycle.Difference, ...]:
    """Returns the wanted settings that the rule does not have, by field; those that cannot change are refused."""
    found: list[lifecycle.Difference] = []
    for field, new in wanted.items():
        if _canonical(field, old := getattr(rule, field)) != _canonical(field, new):
            found.append(lifecycle.Difference(field, old, new, _refusal(rule, field)))
    return tuple(found)


def changed_rule(
    workspace: Workspace, kept: KeptRule, wanted: Mapping[str, Any], *, create_bucket: bool = False
) -> AccountRule:
    """The rule with other settings. Raises OperatorError for one that cannot change, or a missing bucket."""
    for one in differences(kept.rule, wanted):
        if one.refusal:
            raise one.refusal
    rule = replace(kept.rule, **wanted)
    _missing(workspace, rule, _new_copies(kept.rule, rule), create_bucket)
    return rule


def _canonical(field: str, value: Any) -> Any:
    """Patterns are a set: one of them has to take a stream."""
    return frozenset(value) if field in ("match", "exclude") else value


def _refusal(rule: AccountRule, field: str) -> OperatorError | None:
    if field not in _FIXED:
        return None
    return OperatorError(f"{field} of rule {rule.name} cannot change: {_FIXED[field]}", _INSTEAD, field=field)


def _new_copies(before: AccountRule, after: AccountRule) -> tuple[str, ...]:
    return tuple(name for name in after.copies if name not in before.copies)


def _missing(workspace: Workspace, rule: AccountRule, copies: Sequence[str], create_bucket: bool) -> tuple[str, ...]:
    """The buckets that are to be made. Raises OperatorError where they are not to be."""
    return missing_buckets(workspace, rule.archive("any"), (rule.bucket, *copies), create_bucket=create_bucket)
