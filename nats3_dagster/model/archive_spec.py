"""An archive as asked for, and as code declares it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from nats3_dagster.errors import OperatorError, blaming
from nats3_dagster.model.archive_options import BUCKET, MOST_AGE_S, MOST_BYTES, PLACE, ArchiveOptions
from nats3_dagster.model.export_spec import ExportSpec
from nats3_dagster.model.pattern import Pattern
from nats3_dagster.model.spec_table import Kind, check_settings, setting
from nats3_dagster.model.stream import STREAM_NAME
from nats3_dagster.subjects import check_filter

Mode = Literal["stream", "consumer"]

# Bytes. S3 takes keys of 1,024, and what a key has beside the prefix and the archive's name are 121.
_MAX_PREFIX, MAX_NAME = 512, 200
# Captures that a message should live through: one may fail, and the next one come late.
CAPTURES = 3
_BUFFERED = "what it has was read from its buffer, which has these limits"
# Of a part, where the store is a folder.
_MAX_PART = 255
_FOLDER = re.compile(r"(?:.*/)?archive=([A-Za-z0-9_]+)(?=/)")


@dataclass(frozen=True, slots=True)
class ArchiveSpec(ArchiveOptions):
    """An archive as asked for (`nats3 store create`). Raises OperatorError if a field is invalid."""

    # Letters, digits and _: a part of asset keys and object keys.
    name: str = field(
        metadata=setting(
            Kind.TEXT,
            "Name of the archive: letters, digits and _; commands and the HTTP API write _ for any other character.",
            metavar="NAME",
            pattern=Pattern(r"[A-Za-z0-9_]+", "an archive name", "Use letters, digits and _ only", longest=MAX_NAME),
            fixed="its objects and its assets are named by it",
        )
    )
    stream: str = field(
        metadata=setting(
            Kind.TEXT,
            "The JetStream stream to archive.",
            metavar="STREAM",
            pattern=STREAM_NAME,
            fixed="what it has is counted by the sequences of its stream",
        )
    )
    bucket: str = field(metadata=BUCKET)
    # Of the object keys: parts joined by slashes, or empty.
    prefix: str = field(
        default="",
        metadata=setting(
            Kind.TEXT, "Key prefix of the chunks in the bucket, like team/logs.", metavar="PREFIX", fixed=PLACE
        ),
    )
    # Empty for every subject of the stream, also where `>` is given.
    subjects: tuple[str, ...] = field(
        default=(), metadata=setting(Kind.FILTERS, "Archive only these subjects (NATS filters).", metavar="FILTER")
    )
    mode: Mode = field(
        default="stream",
        metadata=setting(
            Kind.CHOICE,
            "stream: read it. consumer: take the messages through a durable consumer, and acknowledge them once they "
            "are in a chunk; for workqueue and interest retention. With a consumer of yours it is consumer.",
            metavar="MODE",
            fixed="what it has was read, or taken and acknowledged, in this way",
        ),
    )
    # None in a new archive that is to make its own.
    durable: str | None = field(
        default=None,
        metadata=setting(
            Kind.TEXT,
            "Take the messages through this durable consumer of yours (mode consumer). Without it the archive makes "
            "one: nats3-<archive>.",
            metavar="NAME",
            body_key="consumer",
            pattern=Pattern(r"[^\s.*>/\\]{1,255}", "a consumer name", "It has no white space nor . * > / \\"),
            fixed="what it has is counted by what its consumer delivered",
        ),
    )

    # 0: the stream itself is read.
    buffer_s: int = field(
        default=0,
        metadata=setting(
            Kind.DURATION,
            "Keep what is not archived yet for this long in a mirror of the stream that the archive makes, "
            "NATS3-BUFFER-<archive>: for a stream that removes messages before a capture sees them. 0: none.",
            metavar="DURATION",
            least=0,
            most=MOST_AGE_S,
            empty="none",
            fixed=_BUFFERED,
        ),
    )
    # As the server counts them; 0: any number.
    buffer_bytes: int = field(
        default=0,
        metadata=setting(
            Kind.SIZE,
            "The buffer has this many bytes at most, and removes its oldest messages then. 0: any number. Without a "
            "buffer it says nothing.",
            metavar="SIZE",
            least=0,
            most=MOST_BYTES,
            empty="any number",
            fixed=_BUFFERED,
        ),
    )

    def __post_init__(self) -> None:
        check_settings(self)
        self.check_assets()
        self._check_buffer()
        if self.durable is not None and self.mode != "consumer":
            raise OperatorError(
                f"An archive of the mode {self.mode} has no consumer", "Use the mode consumer", field="durable"
            )
        check_prefix(self.prefix)
        self.check_copies(self.bucket)
        with blaming("subjects"):
            for subject in self.subjects:
                check_filter(subject)
        if ">" in self.subjects:
            object.__setattr__(self, "subjects", ())

    def _check_buffer(self) -> None:
        if not self.buffer_s:
            return
        if self.mode != "stream":
            raise OperatorError(
                f"An archive of the mode {self.mode} has no buffer: its consumer keeps what is not archived",
                "Leave the buffer out",
                field="buffer_s",
            )
        if self.subjects:
            # A sequence that the buffer did not get has no subject that a filter could take.
            raise OperatorError(
                "An archive with a buffer has all subjects of its stream", "Leave subjects out", field="subjects"
            )
        if self.buffer_s < CAPTURES * self.max_age_s:
            raise OperatorError(
                f"The buffer keeps a message for {self.buffer_s:,} s, and a capture is due after {self.max_age_s:,} s",
                f"Let it keep {CAPTURES} times that, or choose a smaller max_age",
                field="buffer_s",
            )

    @property
    def buffer(self) -> str | None:
        """The name of the stream that the archive is read from; None where it has no buffer."""
        return own_buffer(self.name) if self.buffer_s else None

    @property
    def buckets(self) -> tuple[str, ...]:
        """The archive's own bucket, and those of its copies."""
        return (self.bucket, *self.copies)

    @property
    def own_durable(self) -> str:
        """The name of the durable that the archive makes for itself."""
        return own_durable(self.name)

    @property
    def owns_durable(self) -> bool:
        """True if the archive created its durable, and so deletes it."""
        return self.durable == self.own_durable


def own_buffer(archive: str) -> str:
    """The name of the mirror that an archive of this name makes of its stream."""
    return f"NATS3-BUFFER-{archive}"


def own_durable(archive: str) -> str:
    """The name of the durable that an archive of this name makes for itself."""
    return f"nats3-{archive}"


def with_mode(values: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of an archive, with the mode `consumer` where a consumer is named and no mode."""
    return ({"mode": "consumer"} if values.get("durable") else {}) | dict(values)


def check_prefix(prefix: str) -> None:
    """Raises OperatorError if no object can be put under the prefix, or none be found there again."""
    parts = prefix.split("/") if prefix else []
    hint = "Write it like team/logs"
    if "" in parts:
        raise OperatorError(f"The prefix {prefix!r} has an empty part", hint, field="prefix")
    if {".", ".."} & set(parts):
        raise OperatorError(f"The parts . and .. cannot be in the prefix {prefix!r}", hint, field="prefix")
    if re.search("[\0-\x1f\x7f-\x9f\ud800-\udfff]", prefix):
        raise OperatorError(f"The prefix {prefix!r} has a character that no key may have", hint, field="prefix")
    if any(part.startswith(("archive=", "date=", "hour=")) for part in parts):
        raise OperatorError(
            f"The prefix {prefix!r} has a part archive=, date= or hour=",
            "Engines find partitions by these parts of a key; choose another word",
            field="prefix",
        )
    if len(prefix.encode()) > _MAX_PREFIX or any(len(part.encode()) > _MAX_PART for part in parts):
        raise OperatorError(
            f"The prefix {prefix[:30]!r}... is too long: {len(prefix.encode())} bytes",
            f"Use at most {_MAX_PREFIX} bytes, and {_MAX_PART} between two slashes",
            field="prefix",
        )


@dataclass(frozen=True, slots=True)
class Declaration:
    """An archive as code has it."""

    # With the defaults of a new archive for what was not written.
    spec: ArchiveSpec
    # The fields of the spec that were written: only they are compared with the catalog.
    given: frozenset[str]
    # Whether a missing bucket is made with the archive.
    create_bucket: bool = False
    # What it exports.
    exports: tuple[ExportSpec, ...] = ()


def archive_prefix(prefix: str, archive: str) -> str:
    """The folder in which all objects of an archive lie; no slash at the end."""
    return f"{prefix}/archive={archive}" if prefix else f"archive={archive}"


def archive_folder(key: str) -> tuple[str, str] | None:
    """The folder of an archive in which the object lies, and the archive's name; None for an object elsewhere."""
    match = _FOLDER.match(key)
    return (match[0], match[1]) if match else None
