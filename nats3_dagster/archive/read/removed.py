"""Removed: the messages of a selection that were taken out of the archive on purpose, so that no read gives them."""

from dataclasses import dataclass

from nats3_dagster.hours import LAST_NS
from nats3_dagster.model import Archive, Selection, SeqRange
from nats3_dagster.model.stream import MAX_SEQUENCE
from nats3_dagster.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Removed:
    """Messages that a replay with `--delete-chunks` published, and whose chunks were retired then."""

    archive: str
    # None where no replay published them.
    replay_id: str | None
    # The most that the selection may take of them, unless `is_exact`.
    messages: int
    is_exact: bool


def removed(workspace: Workspace, archive: Archive, selection: Selection) -> tuple[Removed, ...]:
    """The removed messages of the selection, by replay. Asks the catalog alone. What was captured or adopted again
    since does not count."""
    rows = workspace.catalog.gaps.removed(
        archive,
        selection.sequences or SeqRange(1, MAX_SEQUENCE),
        [selection.times or (-LAST_NS, LAST_NS)],
        selection.hours or None,
    )
    takes_all = not selection.subjects or ">" in selection.subjects
    return tuple(Removed(archive.name, r.replay_id, r.messages, r.is_exact and takes_all) for r in rows)
