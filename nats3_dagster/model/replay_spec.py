"""A replay as asked for: what is published, where, in which order, and how fast."""

import math
from dataclasses import dataclass, field
from typing import Literal, get_args

from nats3_dagster.errors import OperatorError, blaming
from nats3_dagster.model.selection import Selection
from nats3_dagster.model.spec_table import Kind, setting, settings
from nats3_dagster.model.stream import STREAM_NAME, check_stream_name
from nats3_dagster.subjects import Transform, overlap

Order = Literal["stream", "subject", "none"]
ORDERS: tuple[Order, ...] = get_args(Order)
_EVERYTHING = Selection()
# A pace beyond them is none: one message in 30 years, or no limit at all.
LEAST_PACE, MOST_PACE = 1e-9, 1e12
# Seconds. More often a replay that follows its archive would only ask the catalog.
LEAST_POLL_S = 0.01


@dataclass(frozen=True, slots=True)
class Pace:
    """The pace of a replay; None for no limit. Raises OperatorError if a field is invalid."""

    rate: float | None = field(
        default=None, metadata=setting(Kind.RATE, "Maximum number of messages per second.", metavar="MSG/S")
    )
    byte_rate: float | None = field(
        default=None, metadata=setting(Kind.BYTE_RATE, "Maximum number of bytes per second.", metavar="SIZE")
    )
    speed: float | None = field(
        default=None,
        metadata=setting(
            Kind.RATE,
            "The original timing: 1 as it was, 10 ten times as fast. Needs the order stream. Without it no waiting.",
            metavar="FACTOR",
        ),
    )

    def __post_init__(self) -> None:
        for name in ("rate", "byte_rate", "speed"):
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:
                hint = "A pace must be above 0; leave it out for no limit"
                raise OperatorError(f"{name} is {value}", hint, field=name)
            if value is not None and not LEAST_PACE <= value <= MOST_PACE:
                raise OperatorError(
                    f"{name} is {value}", f"Use {LEAST_PACE:g} to {MOST_PACE:g}; leave it out for no limit", field=name
                )
        if self.speed is not None and (self.rate is not None or self.byte_rate is not None):
            raise OperatorError(
                "The original timing cannot be kept under a limit of messages or bytes a second",
                "Give a speed, or a rate and byte rate",
                field="speed",
            )


@dataclass(frozen=True, slots=True)
class ReplaySpec:
    """A replay as asked for. Raises OperatorError if a field is invalid; `write_subject` is checked by `transform`, and
    here only where the replay follows its archive."""

    # Name of the archive.
    archive: str
    # Destination of the subject transform.
    write_subject: str = field(
        default=">",
        metadata=setting(
            Kind.TEXT,
            "Where messages go: one subject, or a pattern that takes over wildcards of read_subject, as "
            "replay.orders.> or replay.{{wildcard(1)}}.",
            metavar="SUBJECT",
            required=True,
        ),
    )
    # What is replayed. Its one subject filter, or `>`, is the source of the subject transform.
    selection: Selection = field(default=_EVERYTHING, metadata=settings())
    order: Order = field(
        default="stream",
        metadata=setting(
            Kind.CHOICE,
            "The order that is kept: stream, of all messages by one publisher; subject, of those of each subject; or "
            "none.",
            metavar="|".join(ORDERS),
        ),
    )
    pace: Pace = field(default=Pace(), metadata=settings())
    create_stream: str | None = field(
        default=None,
        metadata=setting(
            Kind.TEXT,
            "Create a stream of this name on the target subjects if none listens on them.",
            metavar="NAME",
            pattern=STREAM_NAME,
        ),
    )
    into_own_stream: bool = field(
        default=False,
        metadata=setting(
            Kind.FLAG,
            "Publish even into the stream that the archive captures: what is replayed is archived again.",
        ),
    )
    over_gaps: bool = field(
        default=False,
        metadata=setting(Kind.FLAG, "Replay what is archived, even if messages in between were lost."),
    )
    delete_chunks: bool = field(
        default=False,
        metadata=setting(Kind.FLAG, "After success, delete the archived chunks that were replayed whole."),
    )
    delete_unexported: bool = field(
        default=False,
        metadata=setting(Kind.FLAG, "Delete also chunks of hours that an export of the archive has not exported."),
    )
    live: bool = field(
        default=False,
        metadata=setting(
            Kind.FLAG,
            "Let rollup, TTL, counter and schedule headers act again; messages whose TTL has ended are left out. Needs "
            "the order stream.",
        ),
    )
    # A resumed replay knows its messages by them.
    marks: bool = field(
        default=True,
        metadata=setting(
            Kind.FLAG,
            "Headers that say where a message comes from. Only a live replay may go without them; it cannot be resumed "
            "then.",
        ),
    )
    like_source: bool = field(
        default=False,
        metadata=setting(Kind.FLAG, "Create the stream, or key-value bucket, with the settings of the archived one."),
    )
    # Seconds; None: it takes what there is, and ends.
    poll_interval_s: float | None = field(
        default=None,
        metadata=setting(
            Kind.INTERVAL,
            "Follow the archive, until it is paused: look for new chunks this often.",
            metavar="DURATION",
            key="poll_interval",
        ),
    )

    def __post_init__(self) -> None:
        if len(self.selection.subjects) > 1:
            raise OperatorError(
                f"A replay maps one subject filter, and there are {len(self.selection.subjects)}",
                "Create a replay of each",
                field="subjects",
            )
        if self.create_stream is not None:
            check_stream_name(self.create_stream, "create_stream")
        if self.order not in ORDERS:
            raise OperatorError(f"{self.order!r} is not an order", "Use stream, subject or none", field="order")
        if self.order != "stream" and self.pace.speed is not None:
            hint = "Use the order stream with a speed"
            raise OperatorError("The original timing needs one publisher", hint, field="speed")
        if self.live and self.order != "stream":
            raise OperatorError(
                f"A live replay cannot have the order {self.order}: what rollups, TTLs and counters do depends on all "
                "messages before them",
                "Use the order stream",
                field="live",
            )
        if not self.live and not self.marks:
            raise OperatorError(
                "Only a live replay may leave out the headers that say where a message comes from",
                "Make it live, or keep them",
                field="marks",
            )
        if self.poll_interval_s is not None:
            with blaming("poll_interval_s"):
                self._check_follow(self.poll_interval_s)
            self._check_no_loop()

    def _check_follow(self, poll_interval_s: float) -> None:
        if not LEAST_POLL_S <= poll_interval_s < math.inf:
            raise OperatorError(f"The poll interval is {poll_interval_s} s", f"Give {LEAST_POLL_S:g} s or more, as 5s")
        if self.order != "stream":
            raise OperatorError(
                f"A replay that follows its archive cannot have the order {self.order}: new messages come in the order "
                "of the stream",
                "Use the order stream",
            )
        if self.pace.speed is not None:
            raise OperatorError(
                "A replay that follows its archive cannot keep the original timing: messages come as they are captured",
                "Leave out the speed, or the poll interval",
            )
        if self.selection.hours:
            raise OperatorError(
                "A replay that follows its archive takes no hours: they are what there is now",
                "Give the time from which on it follows, and the one at which it ends",
            )
        if not self.marks:
            raise OperatorError(
                "A replay that follows its archive needs the headers that say where a message comes from: without them "
                "it could not be resumed",
                "Keep them",
            )

    def _check_no_loop(self) -> None:
        """Raises OperatorError if a replay that follows its archive would take again what it published."""
        pattern = self.transform().pattern
        if self.into_own_stream and overlap(pattern, self.read_subject):
            raise OperatorError(
                f"What is published to {pattern} is archived again, and the replay takes {self.read_subject}: it would "
                "follow itself without end",
                "Choose a read subject that does not take what it publishes, or leave out the poll interval",
                field="write_subject",
            )

    @property
    def read_subject(self) -> str:
        """The source of the subject transform: the filter of the archived subjects that are replayed."""
        return self.selection.subjects[0] if self.selection.subjects else ">"

    def transform(self) -> Transform:
        """Returns the transform of archived subjects to those of the target. Raises OperatorError if there is none."""
        with blaming("write_subject"):
            return Transform(self.read_subject, self.write_subject)
