"""Sums of selected chunks by hour, against the chunks themselves: at each first and last sequence and nanosecond."""

from itertools import groupby

from nats3_dagster.catalog import Catalog
from nats3_dagster.catalog.contents.chunk_sums import HourOfChunks
from nats3_dagster.model import LOSSES, Chunk, Selection, SeqRange
from nats3_dagster_tests.support.catalog import LOGS, ranges, spec, state
from nats3_dagster_tests.support.sealed import AGAIN, H6, H7, H8, H9, H10, of


def is_chosen(chunk: Chunk, selection: Selection) -> bool:
    meta, seqs, times = chunk.meta, selection.sequences, selection.times
    return (
        (not selection.hours or meta.hour in selection.hours)
        and (seqs is None or (meta.covers.first <= seqs.last and meta.covers.last >= seqs.first))
        and (times is None or (meta.first_ns < times[1] and meta.last_ns >= times[0]))
    )


def is_cut(chunk: Chunk, selection: Selection) -> bool:
    meta, seqs, times = chunk.meta, selection.sequences, selection.times
    return (seqs is not None and not (seqs.first <= meta.covers.first and meta.covers.last <= seqs.last)) or (
        times is not None and not (times[0] <= meta.first_ns and meta.last_ns < times[1])
    )


def added_up(chunks: list[Chunk], *, cut: bool) -> HourOfChunks:
    metas = [chunk.meta for chunk in chunks]
    return HourOfChunks(
        metas[0].incarnation,
        metas[0].hour,
        cut,
        len(metas),
        sum(meta.messages for meta in metas),
        sum(meta.covers.size - meta.messages for meta in metas),
        sum(meta.payload_bytes for meta in metas),
        max(meta.largest_bytes for meta in metas),
        sum(meta.subjects is None for meta in metas),
        SeqRange(min(meta.covers.first for meta in metas), max(meta.covers.last for meta in metas)),
        min(meta.first_ns for meta in metas),
        max(meta.last_ns for meta in metas),
        tuple(chunk.id for chunk in chunks if chunk.meta.absent_reason in LOSSES),
    )


def test_selected_chunks_are_added_up(catalog: Catalog) -> None:
    logs = catalog.archives.create(spec(), state())
    # They were not captured in the order of the stream.
    catalog.chunks.commit(logs, [of(H9, 41, 50, subjects={"a": 10})])
    catalog.chunks.commit(
        logs,
        [
            of(H7, 1, 10, subjects={"a": 4, "b": 6}, largest_bytes=7),
            of(H7, 11, 20, 8, largest_bytes=9, absent_reason="expired", deleted=ranges((12, 13))),
            of(H8, 21, 30, 9, subjects={"b": 9}, absent_reason="deleted", deleted=ranges((25, 25))),
            of(H8, 31, 40, 9, absent_reason="expired", deleted=ranges((40, 40))),
            of(H10, 51, 60),
        ],
    )
    catalog.coverage.begin(logs, state(AGAIN, first=1, last=30))
    catalog.chunks.commit(
        logs, [of(H10, 1, 10, incarnation=AGAIN), of(H10, 11, 20, incarnation=AGAIN, subjects={"c": 10})]
    )
    other = catalog.archives.create(spec("other"), state())
    catalog.chunks.commit(other, [of(H8, 1, 100, archive="other")])
    gone = [
        chunk.id for chunk in catalog.chunks.select(logs) if chunk.meta.hour == H10 and chunk.meta.covers.first == 51
    ]
    catalog.chunks.retire(logs, gone)
    chunks = list(catalog.chunks.select(logs, with_subjects=True))
    assert len(chunks) == 7

    edges = [1, 10, 11, 20, 21, 30, 40, 41, 50, 51]
    seqs = [SeqRange(first, last) for first in edges for last in edges if first <= last]
    moments = sorted({ns + more for c in chunks for ns in (c.meta.first_ns, c.meta.last_ns) for more in (0, 1)})
    times = [(first, last) for n, first in enumerate(moments[::2]) for last in moments[n * 2 + 1 :: 3]]
    selections = [
        Selection(),
        *(Selection(hours=hours) for hours in ((H6,), (H7,), (H8, H9), (H10,))),
        *(Selection(sequences=one) for one in seqs),
        *(Selection(hours=(H7, H9), sequences=one) for one in seqs[::4]),
        *(Selection(from_ns=first, to_ns=last) for first, last in times),
        *(Selection(from_ns=first) for first in moments),
        *(Selection(to_ns=last) for last in moments),
    ]
    for selection in selections:
        own = [chunk for chunk in chunks if is_chosen(chunk, selection)]
        assert [*catalog.chunk_sums.ids(logs, selection)] == [chunk.id for chunk in own], selection
        subjects: dict[str, int] = {}
        for chunk in own:
            for subject, count in (chunk.meta.subjects or {}).items():
                subjects[subject] = subjects.get(subject, 0) + count
        assert catalog.chunk_sums.subjects(logs, selection) == subjects, selection
        expected: list[HourOfChunks] = []
        for _, group in groupby(own, key=lambda chunk: (chunk.meta.incarnation, chunk.meta.hour)):
            of_hour = list(group)
            for cut in (False, True):
                if some := [chunk for chunk in of_hour if is_cut(chunk, selection) == cut]:
                    expected.append(added_up(some, cut=cut))
        expected.sort(key=lambda one: (one.incarnation.created_ns, one.covers))
        assert list(catalog.chunk_sums.hours(logs, selection)) == expected, selection
    assert {chunk.meta.incarnation for chunk in chunks} == {LOGS, AGAIN}
