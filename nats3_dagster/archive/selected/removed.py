"""Removed: the messages of a selection that were taken out of the archive on purpose, so that no read gives them: after
a replay, or because the archive does not keep them any longer."""

from dataclasses import dataclass

from nats3_dagster.archive.selected.archive_selection import ArchiveSelection
from nats3_dagster.hours import LAST_NS
from nats3_dagster.model import Archive, Reason, Selection, SeqRange
from nats3_dagster.model.stream import MAX_SEQUENCE
from nats3_dagster.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Removed:
    """Messages whose chunks were retired, for one reason and after one replay."""

    archive: str
    reason: Reason
    # The one that published them before; None where no replay published them.
    replay_id: str | None
    # The most that the selection may take of them, unless `is_exact`.
    messages: int
    is_exact: bool

    @property
    def text(self) -> str:
        """The messages, and why they are gone."""
        count = f"{'' if self.is_exact else 'up to '}{self.messages:,} message{'' if self.messages == 1 else 's'}"
        if self.reason == "expired_by_policy":
            return f"{count} of the selection, which it does not keep any longer"
        if self.reason == "erased":
            return f"{count} of the selection, which were erased"
        by = f"after replay {self.replay_id} had published them" if self.replay_id else "on purpose"
        return f"{count} of the selection, removed {by}"


def removed(workspace: Workspace, archive: Archive, selection: Selection) -> tuple[Removed, ...]:
    """The removed messages of the selection, by reason and replay. Asks the catalog alone. What was captured or
    adopted again since does not count."""
    rows = workspace.catalog.gaps.removed(
        archive,
        selection.sequences or SeqRange(1, MAX_SEQUENCE),
        [selection.times or (-LAST_NS, LAST_NS)],
        selection.hours or None,
    )
    exact = selection.selects_all_subjects
    return tuple(Removed(archive.name, r.reason, r.replay_id, r.messages, r.is_exact and exact) for r in rows)


def removed_notes(selected: ArchiveSelection) -> tuple[str, ...]:
    """Notes on messages of the selection that were taken out of the archive on purpose."""
    parts = removed(selected.workspace, selected.archive, selected.selection)
    return tuple(f"Not in archive {part.archive} any more: {part.text}" for part in parts)
