"""The values that move between the layers: frozen, checked when made, without I/O.

Sequences are JetStream stream sequences (from 1). Ranges include both ends. Times are nanoseconds since 1970 in UTC.
Sizes are bytes.
"""

from nats3_dagster.model.archive import (
    Archive,
    ArchiveTotals,
    ArchiveVersion,
    CaptureEnd,
    Count,
    Coverage,
    CoverageNow,
    FormerFilter,
    HourSummary,
    Seal,
    SealedHour,
)
from nats3_dagster.model.archive_spec import ArchiveSpec, Declaration, Mode
from nats3_dagster.model.chunk import (
    LOSSES,
    LOST_IN_CHUNKS,
    MAX_SUBJECTS,
    NOT_MISSING,
    REMOVED,
    Chunk,
    ChunkMeta,
    DeadObject,
    Gap,
    HourPart,
    OtherHour,
    PlacedGap,
    Reason,
    Unswept,
)
from nats3_dagster.model.deliveries import Deliveries
from nats3_dagster.model.destination import Destination
from nats3_dagster.model.export_spec import OWN_FOLDER, ExportResult, ExportSpec
from nats3_dagster.model.happening import Happening
from nats3_dagster.model.hold import Hold
from nats3_dagster.model.preset import ReplayPreset
from nats3_dagster.model.progress import OnProgress, Progress
from nats3_dagster.model.replay import (
    ChunkResult,
    DonePart,
    Replay,
    ReplayChunk,
    ReplayHour,
    ReplayProgress,
    ReplayState,
    ReplayTarget,
)
from nats3_dagster.model.replay_spec import ORDERS, Order, Pace, ReplaySpec
from nats3_dagster.model.selection import Selection
from nats3_dagster.model.stream import (
    Incarnation,
    Message,
    SeqRange,
    StreamState,
    Witness,
    clipped,
    listed_ranges,
    parse_sequences,
    shared,
    without,
)

__all__ = [
    "LOSSES",
    "LOST_IN_CHUNKS",
    "MAX_SUBJECTS",
    "NOT_MISSING",
    "ORDERS",
    "OWN_FOLDER",
    "REMOVED",
    "Archive",
    "ArchiveSpec",
    "ArchiveTotals",
    "ArchiveVersion",
    "CaptureEnd",
    "Chunk",
    "ChunkMeta",
    "ChunkResult",
    "Count",
    "Coverage",
    "CoverageNow",
    "DeadObject",
    "Declaration",
    "Deliveries",
    "Destination",
    "DonePart",
    "ExportResult",
    "ExportSpec",
    "FormerFilter",
    "Gap",
    "Happening",
    "Hold",
    "HourPart",
    "HourSummary",
    "Incarnation",
    "Message",
    "Mode",
    "OnProgress",
    "Order",
    "OtherHour",
    "Pace",
    "PlacedGap",
    "Progress",
    "Reason",
    "Replay",
    "ReplayChunk",
    "ReplayHour",
    "ReplayPreset",
    "ReplayProgress",
    "ReplaySpec",
    "ReplayState",
    "ReplayTarget",
    "Seal",
    "SealedHour",
    "Selection",
    "SeqRange",
    "StreamState",
    "Unswept",
    "Witness",
    "clipped",
    "listed_ranges",
    "parse_sequences",
    "shared",
    "without",
]
