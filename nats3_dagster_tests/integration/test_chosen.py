"""The chunks of a plan: Postgres adds up the same that a walk through all of them does, and none comes after a hole."""

import random
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, cast

import pytest

from nats3_dagster.archive.selected.archive_selection import ArchiveSelection
from nats3_dagster.archive.selected.chosen import choose, choose_next, chosen_of
from nats3_dagster.archive.selected.held import Held
from nats3_dagster.archive.selected.next_chunks import next_chunks
from nats3_dagster.archive.selected.uncovered import OfIncarnation, uncovered, whole_chunks, whole_hours
from nats3_dagster.chunks.bloom import bloom_of, hashes_of
from nats3_dagster.errors import OperatorError
from nats3_dagster.hours import HOUR_NS, MINUTE_NS, hour_of
from nats3_dagster.model import Archive, ChunkMeta, Gap, Incarnation, Selection, SeqRange
from nats3_dagster.steps import Next
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.catalog import HOUR_NS as BEGIN
from nats3_dagster_tests.support.catalog import LOGS, chunk, ranges, spec, state

HOURS = [hour_of(BEGIN + n * HOUR_NS) for n in range(4)]
AGAIN = Incarnation("LOGS", LOGS.created_ns + 3 * HOUR_NS)
EACH = 20
LAST = Incarnation("LOGS", LOGS.created_ns + 1)


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


@pytest.mark.parametrize(
    ("subjects", "chosen"),
    [
        ((), [1, 2, 3, 4]),
        ((">",), [1, 2, 3, 4]),
        (("a.5",), [2, 4]),
        (("b",), [1, 4]),
        (("a.1", "c.7"), [1, 2, 3, 4]),
        (("c.7",), [3, 4]),
        (("none",), [4]),
        # By a wildcard a filter of subjects leaves none out.
        (("a.*",), [1, 2, 3, 4]),
        (("c.*",), [2, 3, 4]),
        (("a.5", "b.*"), [2, 3, 4]),
    ],
)
def test_chunks_without_counts_are_left_out_by_their_filters(
    workspace: Workspace, subjects: tuple[str, ...], chosen: list[int]
) -> None:
    """The first has counts, the next two a filter of a hundred subjects each, the last one neither."""
    archive = workspace.catalog.archives.create(spec(), state())
    blooms = [bloom_of(hashes_of(b"%s.%d" % (letter, n) for n in range(100))) for letter in (b"a", b"c")]
    metas = [replace(chunk(1, 2), subjects={"a.1": 1, "b": 1}), *(chunk(n, n) for n in (3, 4, 5))]
    metas[1:3] = [replace(meta, bloom=bloom) for meta, bloom in zip(metas[1:3], blooms, strict=True)]
    workspace.catalog.chunks.commit(archive, metas)
    selected = ArchiveSelection(workspace, archive, Selection(subjects=subjects))
    assert [one.meta.covers.last - 1 for one in selected.with_subjects(selected.chunks())] == chosen


@pytest.mark.parametrize(
    ("seqs", "messages"), [((1, 10), 8), ((1, 5), 4), ((3, 3), 0), ((3, 7), 3), ((8, 10), 3), ((10, 20), 1)]
)
def test_messages_of_a_chunk_that_sequences_cut_are_counted(
    workspace: Workspace, seqs: tuple[int, int], messages: int
) -> None:
    """The chunk has no message of 3 and 7, as its own row says."""
    archive = workspace.catalog.archives.create(spec(), state())
    workspace.catalog.chunks.commit(archive, [chunk(1, 10, 8, deleted=ranges((3, 3), (7, 7)))])
    selected = ArchiveSelection(workspace, archive, Selection(sequences=SeqRange(*seqs)))
    (part,) = selected.parts(selected.chunks())
    assert (part.messages, part.is_exact) == (messages, True)


def test_what_is_refused_is_named(workspace: Workspace, logs: Archive) -> None:
    def selected(**conditions: Any) -> ArchiveSelection:
        return ArchiveSelection(workspace, logs, Selection(**conditions))

    def refused(one: ArchiveSelection, *, over_gaps: bool = True) -> OperatorError:
        with pytest.raises(OperatorError) as caught:
            choose(one, over_gaps=over_gaps)
        return caught.value

    nothing = refused(selected(hours=(hour_of(BEGIN - HOUR_NS),)))
    assert (nothing.what, nothing.hint) == (
        "Archive logs holds nothing of this selection",
        Next.LIST_CHUNKS(archive="logs"),
    )
    one = refused(selected(sequences=SeqRange(21, 60), subjects=("none", "logs.x")))
    first = next(one for one in workspace.catalog.chunks.select(logs) if one.meta.hour == HOURS[0])
    assert one.what == "No subject of archive logs in this selection matches 'none' or 'logs.x'"
    assert one.hint == Next.GET_CHUNK(archive="logs", chunk=first.id)
    # Every fifth chunk lost a message.
    lost = refused(selected(sequences=SeqRange(1, 40)), over_gaps=False)
    assert lost.what.startswith("Sequences of the selection are not in archive logs: 4")
    assert choose(selected(sequences=SeqRange(5, 40)), over_gaps=False).ids
    with pytest.raises(OperatorError, match="not in archive logs: 4"):
        choose_next(selected(sequences=SeqRange(1, 40)), over_gaps=False)
    found = choose_next(selected(sequences=SeqRange(1, 40), subjects=("logs.1",)), over_gaps=True)
    assert [one.meta.covers.first for one in found.chunks or ()] == [1, 21, 1, 21]
    assert [*found.ids] == [one.id for one in found.chunks or ()]
    assert [*found.pages()] == [found.chunks]


@pytest.mark.parametrize("most_asked", [1, 20, 10_000])
def test_losses_beside_the_runs_of_many_hours(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, most_asked: int
) -> None:
    """Every second hour is selected. A loss counts where it is right before or after a run, also of those of another
    hour, and not where a message lies between."""
    monkeypatch.setattr("nats3_dagster.archive.selected.uncovered.MOST_ASKED", most_asked)
    archive = workspace.catalog.archives.create(spec(), state(last=1000))
    hours = [hour_of(BEGIN + n * HOUR_NS) for n in range(46)]
    # The n-th hour: 10 n + 1 to 10 n + 10, of which the chunk has 2 to 6, and 9 and 10.
    metas, gaps = list[ChunkMeta](), list[Gap]()
    for number, hour in enumerate(hours):
        first, start = 10 * number + 1, BEGIN + number * HOUR_NS
        times = {"hour": hour, "first_ns": start, "last_ns": start + MINUTE_NS}
        metas += [chunk(first + 1, first + 5, **times), chunk(first + 8, first + 9, **times)]
        gaps.append(Gap(LOGS, ranges((first, first)), "expired" if number in {6, 15} else "deleted"))
        gaps.append(Gap(LOGS, ranges((first + 6, first + 7)), "expired" if number in {4, 9} else "deleted"))
    workspace.catalog.chunks.commit(archive, metas, gaps)
    workspace.catalog.coverage.begin(archive, state(LAST, last=60))
    workspace.catalog.chunks.commit(archive, [], [Gap(LAST, ranges((42, 44)), "expired")])
    selected = ArchiveSelection(workspace, archive, Selection(hours=tuple(hours[::2])))
    for held in (Held.of_hours(selected.hours()), Held.of_chunks(selected.chunks())):
        found = uncovered(selected, held)
        # Of the 9th hour nothing is beside a selected one; the first sequence of the 15th is, after the 14th.
        assert [tuple(part) for part in found if cast("OfIncarnation", part).incarnation == LOGS] == [
            (47, 48),
            (61, 61),
            (151, 151),
        ]


def test_the_first_sequence_may_be_lost(workspace: Workspace) -> None:
    archive = workspace.catalog.archives.create(spec(), state())
    gaps = [Gap(LOGS, ranges((1, 1)), "expired"), Gap(LOGS, ranges((2, 3)), "deleted")]
    workspace.catalog.chunks.commit(archive, [chunk(4, 10)], gaps)
    selected = ArchiveSelection(workspace, archive, Selection())
    assert uncovered(selected, Held.of_chunks(selected.chunks())) == [SeqRange(1, 1)]


# What comes next

LIVES = (LOGS, LAST)


@dataclass
class World:
    """Two incarnations, each as what became of its sequences: "chunk", "lost", "deleted" or "retired". Others are in no
    chunk and no gap."""

    kinds: tuple[dict[int, str], dict[int, str]]
    # The incarnation's number, first and last sequence, ascending.
    chunks: list[tuple[int, int, int]]
    # The last sequence of each that was ever seen, and the last one that is accounted for.
    seen: tuple[int, int]
    last: tuple[int, int]

    def following(
        self, seqs: SeqRange | None, after: tuple[int, int] | None, *, over_gaps: bool, limit: int | None
    ) -> tuple[list[tuple[int, int, int]], list[int], bool]:
        """The next chunks; the lost sequences in their way, if there are none; or whether a capture may bring some."""
        found = [
            one
            for one in self.chunks
            if (after is None or (one[0], one[2]) > after)
            and (seqs is None or (one[1] <= seqs.last and seqs.first <= one[2]))
        ][:limit]
        way: list[tuple[int, int, bool]] = []
        for life in range(2):
            first = after[1] + 1 if after and after[0] == life else 1
            is_last = len(found) == limit and found[-1][0] == life  # there may be more
            last = found[-1][2] if is_last else self.last[1] if life else max(self.last[0], self.seen[0])
            for seq in range(max(first, seqs.first if seqs else 1), min(last, seqs.last if seqs else last) + 1):
                kind = self.kinds[life].get(seq, "")
                is_lost = kind == "lost" or (kind == "retired" and after is not None)
                if (after is None or life >= after[0]) and (not kind or (is_lost and not over_gaps)):
                    way.append((life, seq, not kind))
            if is_last:
                break
        if not way:
            return found, [], False
        taken = [one for one in found if (one[0], one[2]) < way[0][:2]]
        if taken or way[0][2]:
            return taken, [], not taken
        return [], [seq for _, seq, is_open in way if not is_open], False

    def lacking(self, seqs: SeqRange | None) -> list[tuple[int, int]]:
        """What was lost of the sequences, or of all; and what no capture took, up to the last one that was seen, or of
        all, between chunks."""
        found: list[tuple[int, int]] = []
        for life in range(2):
            chunks = [
                one
                for one in self.chunks
                if one[0] == life and (seqs is None or (one[1] <= seqs.last and seqs.first <= one[2]))
            ]
            for seq in range(seqs.first if seqs else 1, (seqs.last if seqs else 99) + 1):
                kind = self.kinds[life].get(seq, "")
                is_between = any(one[1] < seq for one in chunks) and any(seq < one[2] for one in chunks)
                if kind == "lost" or (not kind and (is_between or (seqs and seq <= self.seen[life]))):
                    found.append((life, seq))
        return found


def made_up(workspace: Workspace, chance: random.Random) -> tuple[Archive, World]:
    archive = workspace.catalog.archives.create(spec(), state(last=chance.randint(30, 45)))
    workspace.catalog.coverage.begin(archive, state(LAST, last=60))
    kinds: tuple[dict[int, str], dict[int, str]] = ({}, {})
    chunks: list[tuple[int, int, int]] = []
    for life, incarnation in enumerate(LIVES):
        seq = 1
        while seq < 35:
            last = seq + chance.randint(0, 3)
            kind = chance.choices(
                ["chunk", "lossy", "holes", "open", "expired", "deleted", "retired"], [9, 1, 2, 1, 1, 2, 1]
            )[0]
            covers = SeqRange(seq, last)
            own = dict.fromkeys(range(seq, last + 1), kind)
            if kind in {"lossy", "holes"} and seq < last:
                absent, reason = SeqRange(seq, last - 1), "expired" if kind == "lossy" else "deleted"
                made = chunk(seq, last, 1, incarnation=incarnation, deleted=(absent,), absent_reason=reason)
                own = dict.fromkeys(own, "lost" if kind == "lossy" else "deleted") | {last: "chunk"}
            else:
                made = chunk(seq, last, incarnation=incarnation)
            if kind in {"chunk", "retired", "lossy", "holes"}:
                workspace.catalog.chunks.commit(archive, [made])
                own = own if kind in {"lossy", "holes"} and seq < last else dict.fromkeys(own, "chunk")
            if kind == "retired":
                (new,) = workspace.catalog.chunks.select(archive, incarnation=incarnation, seqs=covers)
                workspace.catalog.chunks.retire(archive, [new.id])
                own = dict.fromkeys(own, "retired")
            elif kind in {"chunk", "lossy", "holes"}:
                chunks.append((life, seq, last))
            elif kind in {"expired", "deleted"}:
                workspace.catalog.chunks.commit(archive, [], [Gap(incarnation, (covers,), kind)])  # pyright: ignore
                own = dict.fromkeys(own, "lost" if kind == "expired" else "deleted")
            if kind != "open":
                kinds[life].update(own)
            seq = last + 1
    seen = workspace.catalog.coverage.last_state(LOGS)
    assert seen
    return archive, World(kinds, chunks, (seen.last_seq, 60), (max(kinds[0]), max(kinds[1])))


@pytest.mark.parametrize("seed", range(4))
def test_nothing_is_passed_over_and_what_is_in_the_way_is_named(workspace: Workspace, seed: int) -> None:
    """After any position, of any sequences, page by page: chunks up to the first sequence that is missing or lost."""
    chance = random.Random(seed)
    archive, world = made_up(workspace, chance)
    ends = set[tuple[bool, bool, bool]]()
    for _ in range(60):
        first = chance.randint(1, 40)
        seqs = chance.choice([None, SeqRange(first, first + chance.randint(0, 20))])
        after = chance.choice([None, (chance.randint(0, 1), chance.randint(0, 38))])
        over_gaps, limit = chance.random() < 0.4, chance.choice([None, 1, 2, 4])
        selected = ArchiveSelection(workspace, archive, Selection(sequences=seqs))
        position = after and (LIVES[after[0]], after[1])
        found = next_chunks(selected, position, over_gaps=over_gaps, limit=limit)
        chunks = [(LIVES.index(one.meta.incarnation), *one.meta.covers) for one in found.chunks]
        lost = [seq for part in found.lost for seq in range(part.first, part.last + 1)]
        assert (chunks, lost, found.is_open) == world.following(seqs, after, over_gaps=over_gaps, limit=limit)
        ends.add((bool(chunks), bool(lost), found.is_open))
    assert len(ends) >= 3


@pytest.mark.parametrize("seed", range(4))
def test_what_a_selection_lacks(workspace: Workspace, seed: int) -> None:
    """Of a stream that is gone: what was lost, and what was seen and never captured; as a plan and as a read ask it."""
    chance = random.Random(seed)
    archive, world = made_up(workspace, chance)
    for number in range(12):
        first = chance.randint(1, 40)
        seqs = SeqRange(first, first + chance.randint(0, 20)) if number else None
        selected = ArchiveSelection(workspace, archive, Selection(sequences=seqs))
        for held in (Held.of_hours(selected.hours()), Held.of_chunks(selected.chunks())):
            found = uncovered(selected, held)
            assert all(isinstance(part, OfIncarnation) for part in found)
            assert [
                (LIVES.index(part.incarnation), seq)
                for part in found
                if isinstance(part, OfIncarnation)
                for seq in range(part.first, part.last + 1)
            ] == world.lacking(seqs)
        assert whole_chunks(selected) == (selected.chunks(), found)
        assert whole_hours(selected) == (selected.hours(), found)
