"""An archive as a whole: its job, what it holds, and how much of it was replayed."""

from dataclasses import dataclass

from nats3_dagster.archive import status
from nats3_dagster.archive.lifecycle import jobs
from nats3_dagster.archive.lifecycle.jobs import StoreJob
from nats3_dagster.archive.status import Holdings
from nats3_dagster.replay.status import replayed_hours
from nats3_dagster.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Overview:
    """An archive with its job, its holdings and the number of its replayed hours."""

    # The condition of its source has the age of the oldest message that is not captured.
    job: StoreJob
    holdings: Holdings
    # How many hours were replayed.
    replayed: int


def overview(workspace: Workspace, name: str) -> Overview:
    """Returns the overview of the archive of this name, id or name of its job. Raises OperatorError when there is
    none."""
    job = jobs.aged(workspace, jobs.named(workspace, name))
    report = status.holdings(workspace, job.archive.name)
    return Overview(job, report, len(replayed_hours(workspace, report.archive)))
