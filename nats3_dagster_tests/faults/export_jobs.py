"""What processes of the fault tests do with exports: use cases of the faces, and the driver without a JVM."""

from typing import Any

from nats3_dagster.exports import declare, places
from nats3_dagster.exports import hours as export_hours
from nats3_dagster.exports.status import find
from nats3_dagster.model import ExportSpec
from nats3_dagster.pipeline import export_run
from nats3_dagster.replay import control
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.faults import jobs

_SESSION: Any = None


def create_export(archive: str, spec: ExportSpec) -> None:
    with Workspace(Settings.load()) as workspace:
        declare.create(workspace, archive, spec)


def change_export(archive: str, name: str, fields: dict[str, Any]) -> None:
    with Workspace(Settings.load()) as workspace:
        declare.change(workspace, archive, name, fields)


def delete_export(archive: str, name: str) -> None:
    with Workspace(Settings.load()) as workspace:
        declare.delete(workspace, archive, name)


def take_over(archive: str, name: str) -> None:
    with Workspace(Settings.load()) as workspace:
        places.take_over(workspace, *find(workspace, archive, name))


def export_all(archive: str, name: str, every: bool = False) -> int:
    """Export the hours that are due, or every one that is sealed; how many."""
    export_run.run_tasks = jobs.run_tasks  # type: ignore[assignment]
    with Workspace(Settings.load()) as workspace:
        row, export = find(workspace, archive, name)
        hours = workspace.catalog.exports.hours(row, export) if every else export_hours.due(workspace, row, export)
        for hour in hours:
            export_hours.attempt(
                workspace,
                row,
                export,
                hour.hour,
                lambda hour=hour.hour: export_run.run_export(_SESSION, workspace, row, export.spec, hour),
            )
        return len(hours)


def recapture(archive: str, hours: list[str]) -> int:
    """Take the chunks of these hours out of the archive, so that they are captured again; how many."""
    with Workspace(Settings.load()) as workspace:
        row = workspace.catalog.archives.get(archive)
        chunks = [chunk.id for hour in hours for chunk in workspace.catalog.chunks.of_hour(row, hour)]
        return workspace.catalog.chunks.retire(row, chunks, recapture=True)


def delete_chunks(replay_id: str) -> int:
    """Delete the chunks that the replay published whole; how many."""
    with Workspace(Settings.load()) as workspace:
        return control.delete_chunks(workspace, replay_id)
