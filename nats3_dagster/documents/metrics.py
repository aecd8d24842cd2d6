"""Metrics: a measurement in the formats of Prometheus and OpenMetrics.

Invariant: a counter whose labels are known begins at 0, so that its first increase is seen.
"""

from collections.abc import Iterable, Iterator

from prometheus_client.core import InfoMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from nats3_dagster.archive.status import Outputs
from nats3_dagster.documents.archive_metrics import ARCHIVES
from nats3_dagster.documents.domain_metrics import DOMAIN, DomainCounts
from nats3_dagster.documents.job_metrics import JOBS, SCRAPE
from nats3_dagster.documents.metric_scopes import Jobs, OfArchive, Scrape, Totals
from nats3_dagster.documents.output_metrics import EXPORTS, TABLES
from nats3_dagster.replay.metrics_snapshot import Measurement
from nats3_dagster.version import __version__


class Exposition(Collector):
    """A measurement that is `age_s` seconds old, as metric families. `domains`: what this process serves."""

    def __init__(self, measured: Measurement, age_s: float = 0.0, domains: Iterable[DomainCounts] = ()) -> None:
        self._measured, self._age_s, self._domains = measured, age_s, domains

    def encode(self, accept: str = "") -> tuple[bytes, str]:
        """The text and its media type: OpenMetrics where `accept`, a request's header, asks for it, else Prometheus'
        text format."""
        try:
            encoder, media_type = choose_encoder(accept)
        except TypeError:  # of a version that is no number
            encoder, media_type = choose_encoder("")
        return encoder(self), media_type

    def collect(self) -> Iterator[Metric]:
        measured = self._measured
        yield InfoMetricFamily("nats3_build", "The release that answers.", {"version": __version__})
        yield from SCRAPE.families([Scrape(measured, self._age_s)])
        yield from DOMAIN.families(self._domains)
        if measured.archives is None:
            return
        archives = measured.archives.archives
        totals = Totals([*measured.archives.grown, *measured.replays])
        yield from JOBS.families([Jobs(archives, totals)])
        yield from ARCHIVES.families(OfArchive(each, each.loss, totals) for each in archives)
        yield from output_metrics(measured.archives.outputs)


def output_metrics(outputs: Outputs) -> Iterator[Metric]:
    """The families of tables and exports. Those of deleted archives are left out: another archive may have the name."""
    yield from TABLES.families(known for known in outputs.tables if not known.archive_deleted)
    yield from EXPORTS.families(outputs.exports)
