"""The streams of the account: their limits, whether each can be archived, and which archives have it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from nats3_dagster.archive.source.absence import early_removal
from nats3_dagster.archive.source.requirements import check_no_buffer, check_retention, check_sequences
from nats3_dagster.errors import Nats3Error, OperatorError
from nats3_dagster.hours import SECOND_NS
from nats3_dagster.jetstream import streams
from nats3_dagster.model import ArchiveSpec, StreamState
from nats3_dagster.model.archive_spec import Mode
from nats3_dagster.model.stream import check_stream_name
from nats3_dagster.subjects import check_filter
from nats3_dagster.workspace import Workspace

Retention = Literal["limits", "interest", "workqueue"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer whether a stream can be archived, and how."""

    # The mode of an archive that keeps every message; None where no archive can.
    mode: Mode | None
    # Why it is not the mode `stream`, or why none; None where nothing is in the way.
    error: Nats3Error | None = None
    # What the stream may remove before a capture sees it; empty where nothing.
    early: str = ""


@dataclass(frozen=True, slots=True)
class StreamReport:
    """A stream as it is now."""

    state: StreamState
    verdict: Verdict
    # Names of its archives; None where the catalog cannot be asked.
    archives: tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class StreamRequest:
    """A stream to create. Raises OperatorError if a field is invalid. None and 0 are no limit."""

    name: str
    subjects: tuple[str, ...]
    storage: Literal["file", "memory"] = "file"
    retention: Retention = "limits"
    replicas: int = 1
    # Messages, bytes, and seconds.
    max_msgs: int | None = None
    max_bytes: int | None = None
    max_age_s: int | None = None
    max_msgs_per_subject: int | None = None
    # Bytes of one message.
    max_msg_size: int | None = None
    # How long the server knows a message by its id, in seconds; None: its default, 2 minutes.
    duplicate_window_s: int | None = None
    discard: Literal["old", "new"] = "old"
    description: str = ""

    def __post_init__(self) -> None:
        check_stream_name(self.name)
        for subject in self.subjects:
            check_filter(subject)
        if not self.subjects:
            raise OperatorError(f"Stream {self.name} would capture no subject", "Name one at least")
        if not 1 <= self.replicas <= 5:
            raise OperatorError(f"A stream cannot have {self.replicas} replicas", "Use 1, 3 or 5")
        for name in ("max_msgs", "max_bytes", "max_age_s", "max_msgs_per_subject", "max_msg_size"):
            if (value := getattr(self, name)) is not None and value < 0:
                raise OperatorError(f"{name} is {value}", "A limit is above 0; leave it out for none")
        window, age = self.duplicate_window_s, self.max_age_s
        if window is not None and (window < 1 or (age and window > age)):
            raise OperatorError(
                f"A duplicate window of {window} s does not fit", "It is at least 1 s, and not above the limit on age"
            )

    @property
    def config(self) -> dict[str, Any]:
        """The configuration, as STREAM.CREATE takes it."""
        age_s, window_s = self.max_age_s or 0, self.duplicate_window_s
        # The server's own default, which a limit on age below it would make invalid.
        window_s = min(120, age_s or 120) if window_s is None else window_s
        return {
            "name": self.name,
            "subjects": list(self.subjects),
            "storage": self.storage,
            "retention": self.retention,
            "num_replicas": self.replicas,
            "max_msgs": self.max_msgs or -1,
            "max_bytes": self.max_bytes or -1,
            "max_age": age_s * SECOND_NS,
            "max_msgs_per_subject": self.max_msgs_per_subject or -1,
            "max_msg_size": self.max_msg_size or -1,
            "duplicate_window": window_s * SECOND_NS,
            "discard": self.discard,
            "description": self.description,
        }


def report(workspace: Workspace) -> tuple[StreamReport, ...]:
    """All streams of the account by name. Raises SourceError."""
    archives = _archives(workspace)
    states = streams.all_streams(workspace.link)
    return tuple(_report(state, archives) for state in states)


def find(workspace: Workspace, name: str) -> StreamReport:
    """One stream. Raises UnknownStream with names that are near, SourceError."""
    return _report(streams.stream_state(workspace.link, name), _archives(workspace))


def subjects(workspace: Workspace, name: str, filter_: str = ">") -> dict[str, int]:
    """Returns the number of messages of each subject that the stream has now, the most first. Raises UnknownStream,
    SourceError."""
    check_filter(filter_)
    counts = streams.subject_counts(workspace.link, name, filter_)
    return dict(sorted(counts.items(), key=lambda one: (-one[1], one[0])))


def create(workspace: Workspace, request: StreamRequest) -> StreamReport:
    """Make the stream, or find it with this very configuration. Raises OperatorError if the name is taken by another
    one, SourceError if the server refuses it."""
    return _report(streams.create_stream(workspace.link, request.config), _archives(workspace))


def verdict(state: StreamState) -> Verdict:
    """Uses the same rules as `store create`."""
    reading, early = ArchiveSpec("any", state.name, "any"), early_removal(state.config)
    try:
        check_no_buffer(state)
        check_sequences(state)
    except OperatorError as error:
        return Verdict(None, error, early)
    try:
        check_retention(reading, state)
    except OperatorError as error:
        return Verdict("consumer", error, early)
    return Verdict("stream", None, early)


def _report(state: StreamState, archives: Mapping[str, list[str]] | None) -> StreamReport:
    names = None if archives is None else tuple(archives.get(state.name, ()))
    return StreamReport(state, verdict(state), names)


def _archives(workspace: Workspace) -> dict[str, list[str]] | None:
    """The names of archives by their stream. None without a catalog: a stream can be looked at all the same."""
    try:
        archives = workspace.catalog.archives.all()
    except Nats3Error:
        return None
    by_stream: dict[str, list[str]] = {}
    for archive in archives:
        by_stream.setdefault(archive.spec.stream, []).append(archive.name)
    return by_stream
