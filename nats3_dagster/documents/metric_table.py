"""The form of the table of metrics: a row for each metric, made into families of Prometheus and OpenMetrics."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

Of = TypeVar("Of")
Type = type[GaugeMetricFamily] | type[CounterMetricFamily] | type[HistogramMetricFamily]
GAUGE, COUNTER, HISTOGRAM = GaugeMetricFamily, CounterMetricFamily, HistogramMetricFamily
# The last word of a name that is the unit of its family, by the type.
_UNITS: Mapping[Type, tuple[str, ...]] = {
    GAUGE: ("seconds", "bytes", "ratio", "messages"),
    COUNTER: ("bytes", "seconds"),
    HISTOGRAM: ("bytes",),
}


class Buckets(NamedTuple):
    """The values of a histogram."""

    # How many there are up to each bound.
    buckets: list[tuple[str, float]]
    total: float


# A number; numbers by the values of the row's labels; or None where nothing says it: then there is no sample.
Values = float | Mapping[tuple[str, ...], float] | Buckets | None


class Row(NamedTuple, Generic[Of]):
    """A metric."""

    # The name of the family: that of a counter is without `_total`.
    name: str
    help: str
    type: Type
    values: Callable[[Of], Values]
    # Those that its table does not have.
    labels: tuple[str, ...] = ()


@dataclass(frozen=True)
class Table(Generic[Of]):
    """Metrics of the same kind of thing."""

    # The labels of every row, and their values for one thing.
    labels: tuple[str, ...]
    label_values: Callable[[Of], tuple[str, ...]]
    rows: tuple[Row[Of], ...]

    def families(self, things: Iterable[Of]) -> Iterator[Metric]:
        """A family for each row, with the samples of all things."""
        every = list(things)
        for row in self.rows:
            unit = row.name.rpartition("_")[2]
            unit = unit if unit in _UNITS[row.type] else ""
            family: Any = row.type(row.name, row.help, labels=[*self.labels, *row.labels], unit=unit)
            for one in every:
                for labels, sample in _samples(row.values(one)):
                    family.add_metric([*self.label_values(one), *labels], *sample)
            yield family


def by_label(labels: Iterable[str], value: Callable[[str], float]) -> Values:
    """The values of a row with one label."""
    return {(label,): value(label) for label in labels}


def _samples(values: Values) -> Iterator[tuple[tuple[str, ...], tuple[Any, ...]]]:
    """The values of a row's own labels, and what its family is given for them."""
    match values:
        case None:
            return
        case Buckets():
            yield (), tuple(values)
        case Mapping():
            yield from ((labels, (value,)) for labels, value in values.items())
        case _:
            yield (), (values,)
