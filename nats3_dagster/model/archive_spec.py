"""An archive as asked for, and as code declares it."""

import re
from dataclasses import dataclass
from typing import Literal, get_args

from nats3_dagster.errors import OperatorError
from nats3_dagster.model.export import ExportSpec
from nats3_dagster.model.stream import check_stream_name
from nats3_dagster.plausible import check_field

Mode = Literal["stream", "consumer"]

# Bytes. S3 takes keys of 1,024, and what a key has beside the prefix and the archive's name are 121.
_MAX_PREFIX, MAX_NAME = 512, 200
# The largest thresholds: what is beyond would be none, and overflow where it is added to sequences and times.
MOST_MESSAGES, MOST_BYTES, MOST_AGE_S = 1 << 48, 1 << 48, 3650 * 86_400
# Of a part, where the store is a folder.
_MAX_PART = 255


@dataclass(frozen=True, slots=True)
class ArchiveSpec:
    """An archive as asked for (`nats3 store create`). Raises OperatorError if a field is invalid."""

    # Letters, digits and _: a part of asset keys and object keys.
    name: str
    stream: str
    bucket: str
    # Of the object keys: parts joined by slashes, or empty.
    prefix: str = ""
    # NATS filters; empty for every subject of the stream.
    subjects: tuple[str, ...] = ()
    # `stream` reads sequences and takes nothing from anybody; `consumer` takes messages through a durable and
    # acknowledges them when they are in a chunk.
    mode: Mode = "stream"
    # The durable of the mode `consumer`; None in a new archive that is to make its own.
    durable: str | None = None
    # A capture is due when so many messages, or bytes of them, wait, or when the oldest has waited so many seconds.
    max_messages: int = 1_000_000
    max_bytes: int = 64 << 20
    max_age_s: int = 60
    # 1 (fast) to 22 (small).
    zstd_level: int = 3

    def __post_init__(self) -> None:
        for name in ("name", "stream", "bucket", "prefix", "mode", "durable"):
            check_field(name, getattr(self, name))
        if not re.fullmatch(r"[A-Za-z0-9_]+", self.name):
            raise OperatorError(f"{self.name!r} is not an archive name", "Use letters, digits and _ only", field="name")
        if len(self.name) > MAX_NAME:
            raise OperatorError(
                f"{self.name[:30]!r}... is not an archive name", f"Use at most {MAX_NAME} characters", field="name"
            )
        check_stream_name(self.stream)
        if self.mode not in get_args(Mode):
            raise OperatorError(f"There is no mode {self.mode!r}", f"Use {' or '.join(get_args(Mode))}", field="mode")
        if self.durable is not None:
            if self.mode != "consumer":
                raise OperatorError(
                    f"An archive of the mode {self.mode} has no consumer", "Use the mode consumer", field="durable"
                )
            if not re.fullmatch(r"[^\s.*>/\\]{1,255}", self.durable):
                raise OperatorError(
                    f"{self.durable!r} is not a consumer name", "It has no white space nor . * > / \\", field="durable"
                )
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{1,61}[A-Za-z0-9]", self.bucket):
            raise OperatorError(
                f"{self.bucket!r} is not a bucket name", "Use 3 to 63 letters, digits, dots and hyphens", field="bucket"
            )
        _check_prefix(self.prefix)
        for name, most in (("max_messages", MOST_MESSAGES), ("max_bytes", MOST_BYTES), ("max_age_s", MOST_AGE_S)):
            if getattr(self, name) <= 0:
                raise OperatorError(f"{name} is {getattr(self, name)}", "A threshold must be above 0", field=name)
            if getattr(self, name) > most:
                raise OperatorError(f"{name} is {getattr(self, name)}", f"Use {most} at most", field=name)
        if not 1 <= self.zstd_level <= 22:
            raise OperatorError(f"zstd level {self.zstd_level} does not exist", "Use 1 to 22", field="zstd_level")

    @property
    def own_durable(self) -> str:
        """The name of the durable that the archive makes for itself."""
        return own_durable(self.name)

    @property
    def owns_durable(self) -> bool:
        """Whether the archive made its durable, and so deletes it."""
        return self.durable == self.own_durable


def own_durable(archive: str) -> str:
    """The name of the durable that an archive of this name makes for itself."""
    return f"nats3-{archive}"


def _check_prefix(prefix: str) -> None:
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
            "Keys go on with these parts after it, by which engines find partitions; choose another word",
            field="prefix",
        )
    if len(prefix.encode()) > _MAX_PREFIX or any(len(part.encode()) > _MAX_PART for part in parts):
        raise OperatorError(
            f"The prefix {prefix[:30]!r}... is too long: {len(prefix.encode())} bytes",
            f"Use at most {_MAX_PREFIX} bytes, and {_MAX_PART} between two slashes", field="prefix",
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
