"""What the processes of change_faults do: changes of settings, files that declare archives, take-overs, sweeps."""

from collections.abc import Mapping
from typing import Any

from nats3_dagster.archive.declared import apply as applying
from nats3_dagster.archive.declared import entries
from nats3_dagster.archive.lifecycle import change as changing
from nats3_dagster.archive.lifecycle import create as creating
from nats3_dagster.archive.lifecycle import remove
from nats3_dagster.archive.stored import removal
from nats3_dagster.model import ArchiveSpec
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace


def change(archive: str, wanted: Mapping[str, Any]) -> None:
    """As `nats3 store set`."""
    with Workspace(Settings.load()) as workspace:
        changing.change(workspace, archive, wanted)


def apply(text: str, prune: bool = False) -> list[str]:
    """As `nats3 store apply` of a JSON file; what was done."""
    with Workspace(Settings.load()) as workspace:
        planned = applying.plan(workspace, entries.read([("archives.json", text)]).archives, prune=prune)
        actions: list[str] = []
        for applied in applying.perform(workspace, planned):
            if applied.error and not applied.done:
                raise applied.error
            actions.append(applied.planned.action)
        return actions


def take_over(spec: ArchiveSpec) -> None:
    """Create the archive in a folder that another catalog owns."""
    with Workspace(Settings.load()) as workspace:
        creating.create(workspace, spec, take_over=True)


def delete(archive: str) -> int:
    """Delete without the objects; its chunks."""
    with Workspace(Settings.load()) as workspace:
        return remove.delete(workspace, archive).chunks


def retire(archive: str, numbers: list[int], recapture: bool) -> list[tuple[int, int]]:
    """Retire the chunks of these places in the order of the stream; their sequences, the last one included."""
    with Workspace(Settings.load()) as workspace:
        row = workspace.catalog.archives.get(archive)
        chunks = [chunk for at, chunk in enumerate(workspace.catalog.chunks.select(row)) if at in numbers]
        workspace.catalog.chunks.retire(row, [chunk.id for chunk in chunks], recapture=recapture)
        return [(chunk.meta.covers.first, chunk.meta.covers.last) for chunk in chunks]


def sweep() -> int:
    """Remove what was retired; the objects."""
    with Workspace(Settings.load()) as workspace:
        return removal.sweep(workspace).objects
