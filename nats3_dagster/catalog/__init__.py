"""The only place that speaks SQL: what exists, and the proof that it is complete."""

from nats3_dagster.catalog.catalog import Catalog
from nats3_dagster.catalog.schema import migrate
from nats3_dagster.model import ArchiveTotals, Coverage, DeadObject, HourSummary, Replay, ReplayChunk, Seal

__all__ = [
    "ArchiveTotals", "Catalog", "Coverage", "DeadObject", "HourSummary", "Replay", "ReplayChunk", "Seal", "migrate",
]  # fmt: skip
