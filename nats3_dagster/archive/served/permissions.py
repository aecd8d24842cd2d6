"""Permissions: the subjects that a NATS user needs to serve the archives as a domain, and no other."""

from nats3_dagster.archive.permissions import Names, Need, Permissions, reads, to_look
from nats3_dagster.errors import OperatorError
from nats3_dagster.model.pattern import Pattern

_DOMAIN = Pattern(r"[A-Za-z0-9_-]{1,64}", "a domain", "Letters, digits, _ and - make one")
# What JetStream itself has after `$JS.`.
_TAKEN = ("API", "ACK", "EVENT", "FC", "SNAPSHOT")

# Where a discovery of services asks (ADR-32).
DISCOVERY = ("$SRV.PING", "$SRV.PING.>", "$SRV.INFO", "$SRV.INFO.>", "$SRV.STATS", "$SRV.STATS.>")


def check_domain(domain: str) -> str:
    """The domain, if it can be one. Raises OperatorError."""
    _DOMAIN.check(domain, "domain")
    if domain.upper() in _TAKEN:
        raise OperatorError(f"The domain {domain} would be a part of JetStream's own subjects", "Choose another name")
    return domain


def api_of(domain: str) -> str:
    """The prefix of the API of a domain, without a dot at its end."""
    return f"$JS.{domain}.API"


def to_serve(domain: str, names: Names) -> Permissions:
    """Returns the permissions to serve a domain: to answer any client that asks, and to ask streams for what is not
    archived yet."""
    publish = (
        Need("See that no other program has the domain.", (f"{api_of(domain)}.INFO",)),
        Need("Ask the streams for what is not archived yet.", reads(names.api, "*")),
    )
    subscribe = (
        Need("Requests of clients.", (f"{api_of(domain)}.>",)),
        Need("Discovery of services.", DISCOVERY),
    )
    return to_look(names) | Permissions(publish, subscribe, responds=True)
