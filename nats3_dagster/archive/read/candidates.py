"""Candidates: the chunks of one incarnation that have, or may have, a message of a subject filter.

Invariant: the catalog alone is asked, and no chunk that has such a message is left out.
"""

from collections.abc import Iterator, Set
from heapq import heappop, heappush

from nats3_dagster.catalog import Catalog
from nats3_dagster.catalog.contents.subjects import ChunkPlace, Probe
from nats3_dagster.chunks.bloom import probe
from nats3_dagster.model import Archive, Incarnation
from nats3_dagster.subjects import is_one_subject, literal_prefix, matches_shown

# For a filter with wildcards this number of chunks is looked at before all of its subjects are: usually the first one
# has one.
_NEAR = 4


class Candidates:
    """The candidates of one read: it keeps what it has asked."""

    def __init__(
        self,
        catalog: Catalog,
        archive: Archive,
        incarnation: Incarnation,
        subject_filter: str,
        *,
        at_ns: int | None = None,
        is_cut: bool = False,
    ) -> None:
        """`at_ns`: only chunks with a message stored at this time or before. `is_cut`: a chunk may have messages that
        do not count, so that of a subject an older chunk may have the last one."""
        self._subjects, self._archive, self._life = catalog.subjects, archive, incarnation
        self._filter, self._at_ns = subject_filter, at_ns
        self._is_cut = is_cut or at_ns is not None
        self._exact = is_one_subject(subject_filter)
        self._prefix = literal_prefix(subject_filter)
        self._probe = Probe(*probe(subject_filter)) if self._exact else None
        self._names: dict[str, ChunkPlace] | None = None
        self._heap: list[tuple[int, ChunkPlace, str | None]] = []
        self._upto = 0
        # The nearest chunk that counts a subject of the filter, while a nearer one without counts is read.
        self._counted: ChunkPlace | None = None
        self._near_done = False

    def next(self, after: int) -> ChunkPlace | None:
        """Returns the first candidate that may have a message after sequence `after`."""
        since = self._subjects.begin_of(self._archive, self._life, after + 1)
        if not self._exact and not self._near_done:
            self._near_done = True
            near = self._subjects.near(self._archive, self._life, since, _NEAR)
            for first_seq, chunk_id, subjects in near:
                if subjects is None or any(matches_shown(self._filter, subject) for subject in subjects):
                    return ChunkPlace(first_seq, chunk_id)
            if len(near) < _NEAR:
                return None
            since = near[-1].first_seq + 1
        if self._counted is None or self._counted.first_seq < since:
            names = [self._filter] if self._exact else list(self._matching())
            self._counted = min(
                self._subjects.next(self._archive, self._life, names, since).values(), default=None, key=_first
            )
        uncounted = self._subjects.next_uncounted(self._archive, self._life, since, self._probe)
        return min((place for place in (self._counted, uncounted) if place), default=None, key=_first)

    def newest(self, upto: int, seen: Set[str], *, only_one: bool) -> Iterator[tuple[ChunkPlace, Set[str] | None]]:
        """The candidates that begin at `upto` or before, the newest first, until each subject of the filter is in
        `seen` or has none any more. With each the subjects for which it is read, which the caller puts into `seen` when
        it meets them; None for all that it may have. `only_one`: any one message ends this."""
        self._upto = upto
        if not self._exact and only_one:
            near = self._subjects.near_back(self._archive, self._life, upto, self._at_ns, _NEAR)
            for first_seq, chunk_id, subjects in near:
                if subjects is None or any(matches_shown(self._filter, subject) for subject in subjects):
                    yield ChunkPlace(first_seq, chunk_id), None
            if len(near) < _NEAR:
                return
            upto = near[-1].first_seq - 1
        if self._exact or self._is_cut:
            names = [self._filter] if self._exact else self._matching()
            self._push({name: upto for name in names if name not in seen})
        else:
            for name, place in self._matching().items():
                heappush(self._heap, (-place.first_seq, place, name))
        self._push_uncounted(upto)
        while self._heap:
            _, place, name = heappop(self._heap)
            wanted = {name}
            while self._heap and self._heap[0][1].chunk_id == place.chunk_id:
                wanted.add(heappop(self._heap)[2])
            if None in wanted:
                if self._exact and self._filter in seen:
                    continue
                yield place, None
                self._push_uncounted(place.first_seq - 1)
                continue
            subjects = {name for name in wanted if name is not None and name not in seen}
            if not subjects:
                continue
            yield place._replace(messages=max(len(subjects), place.messages or 0)), subjects
            # It had the subject after the time, or the sequence, alone.
            self._push({name: place.first_seq - 1 for name in subjects if name not in seen})

    def again(self, subjects: Set[str] | None) -> None:
        """A candidate was replaced before it could be read: look for these subjects again."""
        if subjects is None:
            self._push_uncounted(self._upto)
            names = [self._filter] if self._exact else list(self._matching(anew=True))
        else:
            names = list(subjects)
        self._push(dict.fromkeys(names, self._upto))

    def _push(self, upto: dict[str, int]) -> None:
        if upto:
            for name, place in self._subjects.newest(self._archive, self._life, upto, self._at_ns).items():
                heappush(self._heap, (-place.first_seq, place, name))

    def _push_uncounted(self, upto: int) -> None:
        place = self._subjects.newest_uncounted(self._archive, self._life, upto, self._probe, self._at_ns)
        if place:
            heappush(self._heap, (-place.first_seq, place, None))

    def _matching(self, *, anew: bool = False) -> dict[str, ChunkPlace]:
        """The counted subjects that the filter takes, each with its newest chunk."""
        if self._names is None or anew:
            every = self._subjects.like(self._archive, self._life, self._prefix)
            self._names = {name: place for name, place in every.items() if matches_shown(self._filter, name)}
        return self._names


def _first(place: ChunkPlace) -> int:
    return place.first_seq
