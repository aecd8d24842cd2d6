"""What processes of the compaction faults do: hours, open ones too, are sealed, compacted and swept; the cleaning."""

import os

from nats3_dagster.archive.proof import seal
from nats3_dagster.archive.recovery import orphan_sweep
from nats3_dagster.archive.stored import removal
from nats3_dagster.errors import Conflict, OperatorError
from nats3_dagster.pipeline import compact_run
from nats3_dagster.settings import Settings
from nats3_dagster.tables.follow import followed
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.faults.jobs import MERGE_IN_TASKS, SESSION


def seal_each(archive: str) -> int:
    """Seal each hour with messages that is not sealed as it is, also the open one; how many."""
    with Workspace(Settings.load()) as workspace:
        row = workspace.catalog.archives.get(archive)
        sealed = {one.hour for one in workspace.catalog.seals.select(row) if one.valid}
        hours = [hour for hour in workspace.catalog.hours.revisions(row) if hour not in sealed]
        return len(list(seal.seal_hours(workspace, row, hours)))


def compact(archive: str) -> int:
    """Compact all sealed hours, also the open one; the chunks that are fewer now."""
    with Workspace(Settings.load()) as workspace:
        row = workspace.catalog.archives.get(archive)
        hours = [one.hour for one in workspace.catalog.seals.select(row) if one.valid]
        with followed(workspace, archive):
            # From how many hours on tasks merge them: this process has no other archive.
            compact_run.SPARK_FROM_HOURS = 1 if os.environ.get(MERGE_IN_TASKS) else len(hours) + 1
            done = compact_run.run_compaction(lambda: SESSION, workspace, row, hours)
            return sum(one.before - one.after for one in done)


def try_compact(archive: str) -> str:
    """The same beside others; what it was told, if it lost."""
    try:
        compact(archive)
    except (Conflict, OperatorError) as error:
        return str(error)
    return ""


def sweep() -> int:
    """Remove the objects that are not needed; how many."""
    with Workspace(Settings.load()) as workspace:
        return removal.sweep(workspace).objects


def sweep_orphans() -> int:
    """Remove the objects that no chunk has and no archive needs, however new they are; how many."""
    with Workspace(Settings.load()) as workspace:
        return len([one for one in orphan_sweep.sweep_each(workspace, -5, dry_run=False).orphans if not one.kept])


def clean() -> int:
    """Let the catalog forget all that it may, however new it is; the rows."""
    with Workspace(Settings.load()) as workspace:
        rows = 0
        while (done := workspace.catalog.cleaning.clean(0, limit=20)).is_full:
            rows += done.rows
        return rows + done.rows
