"""Holds: hours and sequences of an archive that nothing removes until the hold is deleted.

Invariant: the catalog has the hold first, then the settings beside the chunks, from which a rebuild takes it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from nats3_dagster.archive.keep.reasons import reason_of
from nats3_dagster.archive.selected.removed import removed
from nats3_dagster.archive.stored import kept_settings
from nats3_dagster.archive.stored.archive_folder import folder_of
from nats3_dagster.errors import OperatorError, StoreError
from nats3_dagster.hours import hour_of, hour_start, hours_between
from nats3_dagster.model import Hold, Selection
from nats3_dagster.model.hold import HOLD_NAME, REBUILT
from nats3_dagster.plausible import check_field
from nats3_dagster.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Placed:
    """A hold that was placed."""

    archive: str
    hold: Hold
    # Live chunks that all holds of the archive cover, and their bytes.
    chunks: int
    bytes: int
    # Messages of the selection that had been removed before: no hold brings them back.
    removed: int


def place(workspace: Workspace, archive_name: str, name: str, selection: Selection, reason: str) -> Placed:
    """Hold what the selection takes: whole hours, sequences of every incarnation, or the whole archive. Raises
    OperatorError for what cannot be a hold, Conflict if there is one of this name; StoreError if the settings beside
    the chunks could not be written: the hold is in force then."""
    HOLD_NAME.check(name, "name")
    check_field("name", name)
    if name == REBUILT:
        raise OperatorError(f"The hold {name} is that of a rebuild", "Choose another name", field="name")
    reason = reason_of(reason, "A hold", "Say why these messages must stay")
    if selection.subjects:
        raise OperatorError(
            "A hold is on hours or sequences, not on subjects", "Hold the hours that have them", field="subjects"
        )
    archive = workspace.catalog.archives.get(archive_name)
    hold = workspace.catalog.holds.create(archive, name, reason, hours=_hours(selection), seqs=selection.sequences)
    try:
        kept_settings.write_settings(workspace, folder_of(workspace, archive))
    except StoreError as error:
        raise StoreError(
            f"The hold {name} is in force, and was not written beside the chunks, from which a rebuild takes it: "
            f"{error.what}",
            "The next capture or seal writes it",
        ) from error
    held = workspace.catalog.holds.held(archive)
    gone = sum(part.messages for part in removed(workspace, archive, selection))
    return Placed(archive.name, hold, held.chunks, held.bytes, gone)


def release(workspace: Workspace, archive_name: str, name: str, reason: str) -> None:
    """End a hold. `reason`: why it ends, for the history. What should have expired then expires, and objects that
    waited are swept. Raises OperatorError when there is none, or without a reason; StoreError as `place` does."""
    reason = reason_of(reason, "The end of a hold", "Say why these messages need not stay any longer")
    archive = workspace.catalog.archives.get(archive_name)
    workspace.catalog.holds.release(archive, name, reason)
    kept_settings.write_settings(workspace, folder_of(workspace, archive))


def _hours(selection: Selection) -> tuple[str | None, str | None]:
    """The first and the last hour: None for no bound. Raises OperatorError for hours with others between them."""
    if selection.hours:
        return _contiguous(selection.hours)
    first = None if selection.from_ns is None else hour_of(selection.from_ns)
    return first, None if selection.to_ns is None else hour_of(selection.to_ns - 1)


def _contiguous(hours: Sequence[str]) -> tuple[str, str]:
    if list(hours) != list(hours_between(hour_start(hours[0]), hour_start(hours[-1]))):
        raise OperatorError(
            "A hold is on hours that follow one another",
            "Place a hold for each part, or give a time from and to",
            field="hours",
        )
    return hours[0], hours[-1]
