"""Metrics as a monitoring system reads them."""

from typing import Any

from fastapi.testclient import TestClient
from prometheus_client.openmetrics.parser import text_string_to_metric_families

OPENMETRICS = "application/openmetrics-text;version=1.0.0"


class Scraped:
    """An answer in OpenMetrics, parsed by the strict parser of prometheus_client."""

    def __init__(self, text: str) -> None:
        self.families = {family.name: family for family in text_string_to_metric_families(text)}
        every = [(s.name, tuple(sorted(s.labels.items())), s.value) for f in self.families.values() for s in f.samples]
        self.samples = {(name, labels): value for name, labels, value in every}
        assert len(self.samples) == len(every), "a series is there twice"

    def __call__(self, name: str, **labels: str) -> float | None:
        """The value of a series; None where it is absent."""
        return self.samples.get((name, tuple(sorted(labels.items()))))

    def by(self, label: str, name: str, **labels: str) -> dict[str, float]:
        """The values of a metric that are not 0, by one of its labels."""
        of = {n: dict(pairs) for n, pairs in ((key, key[1]) for key in self.samples) if n[0] == name}
        return {
            pairs[label]: self.samples[key]
            for key, pairs in of.items()
            if labels.items() <= pairs.items() and self.samples[key]
        }

    @property
    def counters(self) -> dict[Any, float]:
        """All series that may only grow."""
        return {key: value for key, value in self.samples.items() if key[0].endswith(("_total", "_bucket", "_sum"))}

    @property
    def steady(self) -> dict[Any, float]:
        """All but what differs with each look at it."""
        passing = ("nats3_scrape_", "nats3_archive_lag_seconds", "nats3_archive_time_to_loss_ratio")
        return {key: value for key, value in self.samples.items() if not key[0].startswith(passing)}


def scraped(client: TestClient) -> Scraped:
    answer = client.get("/metrics", headers={"accept": OPENMETRICS})
    assert (answer.status_code, answer.headers["content-type"].split(";")[0]) == (200, OPENMETRICS.split(";")[0])
    return Scraped(answer.text)
