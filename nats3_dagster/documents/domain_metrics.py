"""Metrics of the domain: what this process has answered to NATS clients. Others of the installation have their own."""

from dataclasses import dataclass

from nats3_dagster.documents.metric_table import COUNTER, Row, Table


@dataclass(frozen=True, slots=True)
class DomainCounts:
    """Requests that one process has answered since it was started."""

    # The name of the domain, and the process's id as a service (ADR-32).
    domain: str
    server: str
    requests: int
    errors: int
    busy_s: float


DOMAIN: Table[DomainCounts] = Table(
    ("domain", "server"),
    lambda one: (one.domain, one.server),
    (
        Row("nats3_domain_requests", "Requests of NATS clients that were answered.", COUNTER, lambda n: n.requests),
        Row("nats3_domain_errors", "Requests that it could not answer.", COUNTER, lambda n: n.errors),
        Row("nats3_domain_seconds", "Seconds that its requests took in all.", COUNTER, lambda n: n.busy_s),
    ),
)
