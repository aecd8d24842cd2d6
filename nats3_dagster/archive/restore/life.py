"""The incarnation of an archived stream that a restore makes again, with the messages of a selection that are its."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from nats3_dagster.archive.read.cursor import Cursor
from nats3_dagster.archive.selected.archive_selection import ArchiveSelection
from nats3_dagster.archive.selected.chosen import Chosen, choose
from nats3_dagster.errors import OperatorError, Unknown, WrongState
from nats3_dagster.model import Archive, Incarnation, Selection, SeqRange
from nats3_dagster.workspace import Workspace


@dataclass(frozen=True, slots=True)
class SelectedLife:
    """One incarnation, and what the selection has of it."""

    incarnation: Incarnation
    selection: Selection
    # Messages at most, and bytes of their subjects, header blocks and payloads.
    messages: int
    payload_bytes: int
    # Header block and payload of the largest message, in bytes.
    largest_bytes: int
    # The last sequence that the stream has given at the end of the selection, as far as its messages tell.
    last_seq: int

    def sequences(self, workspace: Workspace, archive: Archive, within: SeqRange) -> Iterator[list[int]]:
        """The sequences of the selection's messages within a range, ascending."""
        return _sequences(workspace, archive, self.incarnation, self.selection, within)


def selected_life(
    workspace: Workspace,
    archive: Archive,
    selection: Selection,
    *,
    token: str | None,
    over_gaps: bool,
    empty: bool,
) -> SelectedLife:
    """The incarnation to restore. `token`: of the one that was asked for; without it the selection may have messages of
    one only. `empty`: one without a message in the selection is an answer too.

    Raises OperatorError if nothing is selected, or unless `over_gaps` if messages between were lost; WrongState,
    Unknown."""
    selected = ArchiveSelection(workspace, archive, selection)
    messages, sizes = dict[Incarnation, int](), dict[Incarnation, int]()
    for hour in selected.hours():
        messages[hour.incarnation] = messages.get(hour.incarnation, 0) + hour.messages
        sizes[hour.incarnation] = sizes.get(hour.incarnation, 0) + hour.payload_bytes
    life = None if token is None else _named(workspace, archive, token, messages, empty=empty)
    lives = [one for one, count in messages.items() if count]
    if life is None and len(lives) > 1:
        raise WrongState(
            f"Stream {archive.spec.stream} was deleted and made again, and archive {archive.name} has messages of "
            f"{len(lives)} incarnations in this selection: {_listed(messages)}",
            "Say which one is to be restored",
        )
    if life is not None and empty and not messages.get(life):
        return SelectedLife(life, selection, 0, 0, 0, _last_of_empty(workspace, archive, life, selection))
    chosen = choose(selected, over_gaps=over_gaps, incarnation=life)
    life = life or chosen.newest
    assert life is not None
    one = len(lives) < 2
    return SelectedLife(
        life,
        selection,
        chosen.extent.messages if one else messages[life],
        chosen.extent.payload_bytes if one else sizes[life],
        chosen.extent.largest_bytes,
        _last_sequence(workspace, archive, life, chosen),
    )


def _named(
    workspace: Workspace, archive: Archive, token: str, messages: dict[Incarnation, int], *, empty: bool
) -> Incarnation:
    """The incarnation with this token. Raises Unknown."""
    every = workspace.catalog.coverage.incarnations(archive) if empty else [one for one in messages if messages[one]]
    found = next((one for one in every if one.token == token), None)
    if found is None:
        raise Unknown(
            f"Archive {archive.name} has no messages of the incarnation {token} in this selection",
            f"There are {_listed(messages)}",
            field="incarnation",
        )
    return found


def _listed(messages: dict[Incarnation, int]) -> str:
    return ", ".join(f"{one.token} ({count:,} messages)" for one, count in messages.items() if count)


def _last_of_empty(workspace: Workspace, archive: Archive, life: Incarnation, selection: Selection) -> int:
    """The last sequence that a stream without a message had given: that before the next archived message."""
    catalog = workspace.catalog
    coverage = catalog.coverage.of(archive, life)
    if selection.to_ns is None:
        return max(coverage.last, coverage.start - 1)
    later = _first_after(workspace, archive, life, selection.to_ns)
    return max(coverage.last, coverage.start - 1) if later is None else later - 1


def _last_sequence(workspace: Workspace, archive: Archive, life: Incarnation, chosen: Chosen) -> int:
    """The last sequence that the stream may have given at the end of the selection: that before the next archived
    message, which no message of after the restore may get again; without one that of the archive. Raises OperatorError
    if the selection has no message; StoreError."""
    selection = chosen.selected.selection
    last = workspace.catalog.coverage.of(archive, life).last
    if selection.sequences:
        last = min(last, selection.sequences.last)
    if selection.to_ns is None:
        return last
    found = _last_message(workspace, archive, life, chosen)
    later = _first_after(workspace, archive, life, selection.to_ns)
    return max(found, last if later is None else min(last, later - 1))


def _first_after(workspace: Workspace, archive: Archive, life: Incarnation, to_ns: int) -> int | None:
    """The sequence of the first message from this time on; None where the archive has none."""
    after = (to_ns, None)
    for chunk in workspace.catalog.chunks.select(archive, incarnation=life, time_range=after, limit=1):
        for seqs in _sequences(workspace, archive, life, Selection(from_ns=to_ns), chunk.meta.covers):
            if seqs:
                return seqs[0]
    return None


def _last_message(workspace: Workspace, archive: Archive, life: Incarnation, chosen: Chosen) -> int:
    selection = chosen.selected.selection
    for chunk_id in reversed(chosen.ids):
        chunk = workspace.catalog.chunks.get(chunk_id)
        if chunk.meta.incarnation != life:
            continue
        last = 0
        for seqs in _sequences(workspace, archive, life, selection, chunk.meta.covers):
            last = max(last, *seqs)
        if last:
            return last
    raise OperatorError("The selection has no message to restore", "Select others, or create the stream yourself")


def _sequences(
    workspace: Workspace, archive: Archive, life: Incarnation, selection: Selection, within: SeqRange
) -> Iterator[list[int]]:
    asked = selection.sequences or within
    within = SeqRange(max(within.first, asked.first), min(within.last, asked.last))
    if within.size < 1:
        return
    cursor = Cursor.begin(workspace, archive, replace(selection, sequences=within), over_gaps=True)
    cursor.begin_at(life, within.first - 1)
    for batch in cursor.batches():
        if cursor.incarnation != life:
            return
        yield batch.column("seq").to_pylist()
