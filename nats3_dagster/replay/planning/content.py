"""Content: the messages that a replay is to publish, as the archive has them, and the subjects that they go to."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from nats3_dagster.archive.selected.chosen import Chosen
from nats3_dagster.model import Archive, Chunk, ReplaySpec
from nats3_dagster.subjects import Transform
from nats3_dagster.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Content:
    """The content of a replay: what every check of its plan looks at."""

    spec: ReplaySpec
    # Makes the subjects that are published to.
    transform: Transform
    chosen: Chosen

    @property
    def workspace(self) -> Workspace:
        return self.chosen.selected.workspace

    @property
    def archive(self) -> Archive:
        return self.chosen.selected.archive

    def chunks(self) -> Iterator[Chunk]:
        """The chosen chunks as they are now, one by one."""
        for page in self.chosen.pages():
            yield from page

    def subjects(self) -> Iterator[tuple[str, str]]:
        """The archived subjects that are published, each once and with the one that it goes to."""
        for source in self._archived_subjects():
            if (target := self.transform(source)) is not None:
                yield source, target

    def counts(self) -> Mapping[str, int]:
        """The counted messages of the chunks, by the subject that they go to."""
        counts: Counter[str] = Counter()
        for source, count in self.chosen.subjects.items():
            if (target := self.transform(source)) is not None:
                counts[target] += count
        return counts

    def _archived_subjects(self) -> Iterator[str]:
        """The subjects of the chunks. Where a chunk has very many, the catalog does not have them, and the object is
        asked."""
        yield from sorted(self.chosen.subjects)
        if not self.chosen.extent.uncounted:
            return
        # It imports pyarrow, 0.1 s: the commands that only look at replays, and every help, do without.
        from nats3_dagster.replay.planning.measured import archived_subjects

        known = set(self.chosen.subjects)
        for chunk in self.chunks():
            for subject in archived_subjects(self, chunk) if chunk.meta.subjects is None else ():
                if subject not in known:
                    known.add(subject)
                    yield subject
