"""The export of an hour: plan, let tasks stage the files, put them in their places.

Invariant: no file of an earlier run is touched before every task has staged its own.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace as changed

from nats3_dagster.errors import Nats3Error
from nats3_dagster.exports.job import ExportJob, Group, GroupResult
from nats3_dagster.exports.places import claim
from nats3_dagster.exports.plan import plan
from nats3_dagster.exports.progress import watching
from nats3_dagster.exports.replace import clear_staging, replace
from nats3_dagster.fault_points import fault_point
from nats3_dagster.model import Archive, ExportResult, ExportSpec, OnProgress, Progress
from nats3_dagster.workspace import Workspace

# How long a run waits for another one of the same hour.
PATIENCE_S = 10.0
# Does each task (GroupExport), wherever: what they brought back, and the error of the first that failed.
Perform = Callable[[Sequence[tuple[ExportJob, Group]]], tuple[Sequence[GroupResult], Nats3Error | None]]


def export_hour(
    workspace: Workspace,
    archive: Archive,
    spec: ExportSpec,
    hour: str,
    perform: Perform,
    *,
    on_progress: OnProgress | None = None,
    over_retired: bool = False,
) -> ExportResult:
    """Make the files of the hour be what the archive has of it. Running it again changes nothing.

    `on_progress` is called with the messages that were read and the messages of the hour, by a thread. With
    `over_retired` the hour may have had chunks that were deleted after a replay. Raises Nats3Error; Conflict if another
    process exports the hour."""
    began = time.monotonic()
    with workspace.catalog.locks.exporting(archive, spec.name, hour, PATIENCE_S) as check_alone:
        planned = plan(workspace, archive, spec, hour, over_retired=over_retired)
        owner = claim(planned)
        fault_point("export.claimed")
        clear_staging(planned)
        fault_point("export.planned")
        with watching(planned.job, planned.messages, on_progress):
            results, error = perform([(planned.job, group) for group in planned.groups])
        if error:
            raise error
        result = replace(planned, results, owner, check_alone)
    if on_progress:
        on_progress(Progress(planned.messages, planned.messages))
    return changed(result, seconds=time.monotonic() - began)
