"""Service: what `nats micro` finds of this process (ADR-32): its name, its endpoint, requests and latencies."""

import json
import secrets
import threading
from datetime import UTC, datetime
from typing import Any

from nats3_dagster.documents.domain_metrics import DomainCounts
from nats3_dagster.nats import replies
from nats3_dagster.version import __version__

NAME = "nats3-archive"
_TYPE = "io.nats.micro.v1."
VERBS = ("PING", "INFO", "STATS")


class Service:
    """Counts requests. Any thread may use it."""

    def __init__(self, subject: str, queue: str, metadata: dict[str, str]) -> None:
        self.id = secrets.token_hex(11)
        self._subject, self._queue, self._metadata = subject, queue, metadata
        self._started = datetime.now(UTC)
        self._lock = threading.Lock()
        self._requests = self._errors = self._busy_ns = 0
        self._last_error = ""

    @property
    def subjects(self) -> list[tuple[str, str]]:
        """The subjects of discovery, each with its verb."""
        return [
            (subject, verb)
            for verb in VERBS
            for subject in (f"$SRV.{verb}", f"$SRV.{verb}.{NAME}", f"$SRV.{verb}.{NAME}.{self.id}")
        ]

    def count(self, busy_ns: int, error: str) -> None:
        """Count a request that took so long; `error`: empty if it was answered."""
        with self._lock:
            self._requests += 1
            self._busy_ns += busy_ns
            if error:
                self._errors += 1
                self._last_error = error

    def counts(self, domain: str) -> DomainCounts:
        """The same for Prometheus."""
        with self._lock:
            return DomainCounts(domain, self.id, self._requests, self._errors, self._busy_ns / 1e9)

    def answer(self, verb: str) -> bytes:
        """The answer to a request of discovery."""
        own: dict[str, Any] = {"name": NAME, "id": self.id, "version": __version__, "metadata": self._metadata}
        endpoint: dict[str, Any] = {"name": "api", "subject": self._subject, "queue_group": self._queue}
        if verb == "INFO":
            own |= {
                "description": "Archives of nats3 as a JetStream domain",
                "endpoints": [endpoint | {"metadata": None}],
            }
        if verb == "STATS":
            with self._lock:
                endpoint |= {
                    "num_requests": self._requests,
                    "num_errors": self._errors,
                    "last_error": self._last_error,
                    "processing_time": self._busy_ns,
                    "average_processing_time": self._busy_ns // max(1, self._requests),
                }
            started = replies.shown_time(int(self._started.timestamp() * 1e6) * 1000)
            own |= {"started": started, "endpoints": [endpoint]}
        return json.dumps({"type": f"{_TYPE}{verb.lower()}_response", **own}).encode()
