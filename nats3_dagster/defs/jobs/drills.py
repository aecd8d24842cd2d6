"""`drill`: a run that restores messages of the archives of rules into a server of its own, and compares them."""

from typing import TYPE_CHECKING, Any

from dagster import (
    AssetObservation,
    Config,
    DefaultScheduleStatus,
    JobDefinition,
    MetadataValue,
    OpExecutionContext,
    ResourceParam,
    ScheduleDefinition,
    job,
    op,
)
from pydantic import Field

from nats3_dagster.defs.assets.accounts import drill_metadata
from nats3_dagster.defs.executor import run_executor
from nats3_dagster.defs.instance.resources import with_store
from nats3_dagster.defs.jobs.failures import step_failures
from nats3_dagster.defs.keys import Naming
from nats3_dagster.defs.wording import STOPPED_DRILL
from nats3_dagster.errors import WrongState
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace

if TYPE_CHECKING:
    from nats3_dagster.documents.account_restores import AccountDrill


class DrillConfig(Config):
    """The rules that are drilled, and how much of their archives."""

    rules: list[str] = Field(default=[], description="Names of rules for the account; none for all.")
    whole: bool = Field(default=False, description="All messages, and not only those of each stream's newest hour.")


def drill_job(naming: Naming) -> JobDefinition:
    """`drill`: of all rules, or of some."""

    @op(
        name=naming.name("drill_archives"),
        tags={"kind": "nats"},
        description="Restore messages of each archive of a rule into a nats-server of its own, and compare them with "
        "the archive and the live stream.",
    )
    def drill_archives(
        context: OpExecutionContext,
        config: DrillConfig,
        nats3_settings: ResourceParam[Settings],
        nats3_s3: ResourceParam[Any],
    ) -> None:
        with step_failures(context, naming, STOPPED_DRILL):
            failed: list[str] = []
            for rule in config.rules or _rules(nats3_settings):
                found = _drilled(context, with_store(nats3_settings, nats3_s3), rule, naming, whole=config.whole)
                context.log_event(
                    AssetObservation(
                        naming.account_key(rule),
                        description="Drill of a restore",
                        metadata={**drill_metadata(found), "archives": MetadataValue.int(len(found.archives))},
                    )
                )
                failed += [one.archive for one in found.archives if one.error]
            if failed:
                raise WrongState(
                    f"{len(failed):,} archives would not come back as they should: {', '.join(failed[:5])}",
                    "Each has its reason in the log",
                )

    @job(
        name=naming.name("drill"),
        executor_def=run_executor,
        description="Restore messages of the archives of rules into a nats-server of its own, to know that a restore "
        "works and how long it takes.",
    )
    def drill() -> None:
        drill_archives()

    return drill


def drill_schedule(naming: Naming, drill: JobDefinition) -> ScheduleDefinition:
    """`drill_schedule`: once a week, off until it is switched on in the UI."""
    return ScheduleDefinition(
        name=naming.name("drill_schedule"),
        job=drill,
        cron_schedule="37 3 * * 0",
        default_status=DefaultScheduleStatus.STOPPED,
        description="Restores the newest hour of each archive of a rule into a server of its own, once a week.",
    )


def _rules(settings: Settings) -> list[str]:
    with Workspace(settings) as workspace:
        return [kept.name for kept in workspace.catalog.accounts.rules()]


def _drilled(
    context: OpExecutionContext, settings: Settings, rule: str, naming: Naming, *, whole: bool
) -> "AccountDrill":
    """The drill of a rule. Raises Nats3Error."""
    from nats3_dagster.archive.account_restore.drill import ArchiveDrill, DrillSpec, drill
    from nats3_dagster.dev.own_server import drill_server
    from nats3_dagster.documents.account_restores import AccountDrill

    def tell(one: ArchiveDrill) -> None:
        if one.result.error:
            context.log.warning(f"{one.archive.name}: {one.result.error.text_in(naming.words)}")

    with (
        Workspace(settings) as workspace,
        drill_server(settings, workspace.catalog.accounts.get(rule).name) as server,
        Workspace(server.settings) as own,
    ):
        found = AccountDrill.of(rule, drill(workspace, own, DrillSpec(rule, whole=whole), tell), naming.words)
    context.log.info(
        f"Rule {rule}: {found.messages:,} messages of {len(found.archives):,} archives in {found.seconds:.1f} s, "
        f"{found.failed:,} failed"
    )
    return found
