"""The scopes of metrics: one look, all jobs, an archive."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from prometheus_client.utils import floatToGoString

from nats3_dagster.archive.metrics_snapshot import ArchiveMeasure
from nats3_dagster.archive.source.backlog import Backlog
from nats3_dagster.archive.source.loss import Loss
from nats3_dagster.documents.metric_table import Buckets, Values, by_label
from nats3_dagster.model import Count
from nats3_dagster.replay.metrics_snapshot import Measurement

# Upper bounds of the sizes of objects, as nats3.size_class has them.
_SIZES = [*(str(4**n) for n in range(8, 16)), "+Inf"]


class Totals:
    """Sums that only grow, by archive, what is counted, and label."""

    def __init__(self, counts: Iterable[Count]) -> None:
        self._counts = {(count.archive, count.what, count.label): count.value for count in counts}
        self._all = Counter[tuple[str, str]]()
        for (_, what, label), value in self._counts.items():
            self._all[what, label] += value
            self._all[what, "*"] += value

    def of(self, archive: str, what: str, label: str = "") -> int:
        return self._counts.get((archive, what, label), 0)

    def all(self, what: str, *labels: str) -> int:
        """Returns the total of all archives, deleted ones too; without labels of all labels."""
        return sum(self._all[what, label] for label in labels or ("*",))


@dataclass(frozen=True, slots=True)
class Scrape:
    """One look at everything."""

    measured: Measurement
    # Seconds since then.
    age_s: float


@dataclass(frozen=True, slots=True)
class Jobs:
    """All archives and replays together."""

    # Those that are not deleted.
    archives: tuple[ArchiveMeasure, ...]
    totals: Totals


@dataclass(frozen=True, slots=True)
class OfArchive:
    """An archive: as it is now, and its sums."""

    now: ArchiveMeasure
    loss: Loss | None
    totals: Totals

    @property
    def name(self) -> str:
        return self.now.archive.name

    @property
    def waiting(self) -> Backlog | None:
        return self.now.condition.waiting

    @property
    def restore_s(self) -> float | None:
        """Seconds that a restore of all messages would take; None where no drill says it."""
        sums, drill = self.now.totals, self.now.drill
        return drill.rto_s(sums.messages, sums.payload_bytes) if drill else None

    def sum(self, what: str) -> int:
        return self.totals.of(self.name, what)

    def sums(self, what: str, labels: Iterable[str]) -> Values:
        return by_label(labels, lambda label: self.totals.of(self.name, what, label))

    def sizes(self) -> Buckets:
        """Chunks by the sizes of their objects."""
        up_to, buckets = 0, list[tuple[str, float]]()
        for size in _SIZES:
            up_to += self.totals.of(self.name, "chunks", size)
            buckets.append((floatToGoString(size), up_to))
        return Buckets(buckets, self.sum("stored_bytes"))
