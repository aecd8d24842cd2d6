"""The account sensor: each tick does what the rules for the account say of the streams that it has now."""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from dagster import DefaultSensorStatus, SensorDefinition, SensorEvaluationContext, SensorResult, sensor

from nats3_dagster.defs.assets.accounts import account_event, digest
from nats3_dagster.defs.jobs.failures import CannotTick, tick_failures
from nats3_dagster.defs.keys import PROJECT, Naming
from nats3_dagster.model.account_rule import RuleDeclaration
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace

if TYPE_CHECKING:
    from nats3_dagster.archive.account.follow import Followed

INTERVAL_S = 20
# Names in the summary of a tick.
_SHOWN = 5


def account_sensor(naming: Naming = PROJECT, declared: Sequence[RuleDeclaration] = ()) -> SensorDefinition:
    """`account_sensor`: one for all rules, on unless switched off in the UI. `declared`: those that the code location
    declares, which it creates and compares."""

    @sensor(
        name=naming.name("account_sensor"),
        minimum_interval_seconds=INTERVAL_S,
        default_status=DefaultSensorStatus.RUNNING,
        description="Gives each stream that a rule for the account takes an archive, ends the archives of streams that "
        "were deleted, and goes on with those that were made again. Rules are made in a shell: nats3 account create",
    )
    def evaluate(context: SensorEvaluationContext) -> SensorResult:
        # It imports nats, 0.1 s of each load of the definitions.
        from nats3_dagster.archive.account.declaration import ensure_declared
        from nats3_dagster.archive.account.follow import follow

        with tick_failures(naming), Workspace(Settings.load()) as workspace:
            undeclared = ensure_declared(workspace, declared)
            every = follow(workspace)
        known: dict[str, str] = json.loads(context.cursor or "{}")
        pages = {found.rule.name: digest(found) for found in every}
        events = [
            account_event(naming, found) for found in every if pages[found.rule.name] != known.get(found.rule.name)
        ]
        problems = [(found.rule.name, stream, error) for found in every for stream, error in found.problems.items()]
        for rule, stream, error in problems:
            context.log.warning(f"Rule {rule}, stream {stream}: {error.text_in(naming.words)}")
        for error in undeclared.values():
            context.log.warning(error.text_in(naming.words))
        failures = [*undeclared.values(), *(error for _, _, error in problems)]
        if failures and not events:
            raise CannotTick(failures[0], naming)
        said = [text for found in every for text in _said(found)]
        said += [f"not as declared: {_counted([*undeclared])}"] if undeclared else []
        said += [f"not archived: {_counted([stream for _, stream, _ in problems])}"] if problems else []
        nothing = "Each stream is as its rule says" if every else "There is no rule for the account"
        return SensorResult(asset_events=events, cursor=json.dumps(pages), skip_reason="; ".join(said) or nothing)

    return evaluate


def _said(found: "Followed") -> list[str]:
    """Returns what a tick did for one rule."""
    done = {
        "created": found.created,
        "ended, their streams are gone": found.ended,
        "gone on with streams that were made again": found.adopted,
        "not of the rule any longer, they go on": found.released,
    }
    texts = [f"{what}: {_counted(names)}" for what, names in done.items() if names]
    return texts + ([f"{found.left:,} streams wait for the next tick"] if found.left else [])


def _counted(names: Sequence[str]) -> str:
    """Returns the first names and the number of the others."""
    more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    return f"{', '.join(names[:_SHOWN])}{more}"
