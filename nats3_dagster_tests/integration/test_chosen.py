"""The chunks of a plan: Postgres adds up the same that a walk through all of them does."""

from dataclasses import replace
from itertools import product

import pytest

from nats3_dagster.archive.selected.archive_selection import ArchiveSelection
from nats3_dagster.archive.selected.chosen import choose, chosen_of
from nats3_dagster.hours import HOUR_NS, MINUTE_NS, hour_of
from nats3_dagster.model import Archive, ChunkMeta, Incarnation, Selection, SeqRange
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.catalog import HOUR_NS as BEGIN
from nats3_dagster_tests.support.catalog import LOGS, chunk, spec, state

HOURS = [hour_of(BEGIN + n * HOUR_NS) for n in range(4)]
AGAIN = Incarnation("LOGS", LOGS.created_ns + 3 * HOUR_NS)
EACH = 20


@pytest.fixture
def logs(workspace: Workspace) -> Archive:
    """Six chunks in each of three hours, and two of a stream that was made again: every fourth has too many subjects to
    count, every fifth lost a message."""
    archive = workspace.catalog.archives.create(spec(), state(last=400))
    made = [of(n, n // 6, LOGS) for n in range(18)]
    workspace.catalog.chunks.commit(archive, made)
    workspace.catalog.coverage.begin(archive, state(AGAIN, last=40))
    workspace.catalog.chunks.commit(archive, [of(n, 3, AGAIN) for n in range(2)])
    return archive


def of(n: int, hour: int, life: Incarnation) -> ChunkMeta:
    """The n-th chunk of an incarnation."""
    first, start = n * EACH + 1, BEGIN + hour * HOUR_NS + n % 6 * 10 * MINUTE_NS
    absent = (SeqRange(first + 3, first + 3),) if n % 5 == 0 else ()
    messages = EACH - len(absent)
    minutes = [0] * 60
    minutes[n % 6 * 10], minutes[n % 6 * 10 + 9] = messages - 5, 5
    return replace(
        chunk(first, first + EACH - 1, messages, incarnation=life, hour=HOURS[hour], deleted=absent),
        first_ns=start,
        last_ns=start + 9 * MINUTE_NS + 1,
        subjects=None if n % 4 == 0 else {"logs.a": messages - n % 3 - 1, f"logs.{n % 3}": n % 3 + 1},
        minutes=tuple(minutes),
        largest_bytes=100 + n,
        absent_reason="expired" if absent else None,
        key=f"{life.created_ns}-{n}",
    )


TIMES = [
    (None, None),
    (BEGIN, BEGIN + HOUR_NS),
    (BEGIN + 15 * MINUTE_NS, None),
    (BEGIN + 25 * MINUTE_NS, BEGIN + HOUR_NS + 31 * MINUTE_NS),
    (BEGIN + HOUR_NS, BEGIN + 4 * HOUR_NS),
    (None, BEGIN + 2 * HOUR_NS + 1),
]
SEQUENCES = [None, SeqRange(1, 400), SeqRange(25, 333), SeqRange(4, 4), SeqRange(121, 130)]
SUBJECTS = [(), (">",), ("logs.*",), ("logs.1",), ("logs.a", "logs.2")]


@pytest.mark.parametrize("hours", [(), (HOURS[0], HOURS[1]), (HOURS[2], HOURS[3])])
def test_the_sums_are_those_of_all_chunks(workspace: Workspace, logs: Archive, hours: tuple[str, ...]) -> None:
    seen = 0
    for (from_ns, to_ns), sequences, subjects in product(TIMES, SEQUENCES, SUBJECTS):
        selection = Selection(hours, from_ns, to_ns, sequences, subjects)
        selected = ArchiveSelection(workspace, logs, selection)
        chunks = selected.with_subjects(selected.chunks())
        if not chunks:
            continue
        seen += 1
        each, found = chosen_of(selected, chunks), choose(selected, over_gaps=True)
        assert found.extent == each.extent, selection
        assert (found.extent.bounds, found.extent.times) == (each.extent.bounds, each.extent.times)
        assert (list(found.ids), found.subjects, found.newest) == (list(each.ids), each.subjects, each.newest)
        assert [one.id for page in found.pages() for one in page] == list(each.ids)
        assert found.has(chunks[0].meta.incarnation.token, chunks[0].meta.covers.first)
        assert not found.has("0" * 16, chunks[0].meta.covers.first)
    assert seen > 30
