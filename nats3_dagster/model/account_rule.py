"""A rule that gives each stream of an account that it takes an archive of its own."""

import re
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any, Literal

from nats3_dagster.errors import OperatorError, blaming
from nats3_dagster.model.archive_names import archive_name_of
from nats3_dagster.model.archive_options import BUCKET, ArchiveOptions
from nats3_dagster.model.archive_spec import MAX_NAME, ArchiveSpec, check_prefix
from nats3_dagster.model.pattern import Pattern
from nats3_dagster.model.spec_table import Kind, check_length, check_settings, setting
from nats3_dagster.path_part import path_part

Remade = Literal["adopt", "ask"]

_MOST_PATTERNS = 256
_STREAM = "{stream}"
_PATTERN = Pattern(
    r"[^\s.>/\\]{1,255}", "a pattern of stream names", "Write the name of a stream; * stands for any characters"
)
# Why a setting cannot change.
_PLACE = "its archives are there"


@dataclass(frozen=True, slots=True)
class AccountRule(ArchiveOptions):
    """A rule as asked for (`nats3 account create`). Raises OperatorError if a field is invalid."""

    name: str = field(
        metadata=setting(
            Kind.TEXT,
            "Name of the rule: letters, digits and _.",
            metavar="NAME",
            pattern=Pattern(r"[A-Za-z0-9_]+", "a name of a rule", "Use letters, digits and _ only", longest=MAX_NAME),
            fixed="its archives are known by it",
        )
    )
    bucket: str = field(metadata=BUCKET)
    match: tuple[str, ...] = field(
        default=("*",),
        metadata=setting(
            Kind.TEXTS,
            "Take the streams whose names match: * stands for any characters.",
            metavar="PATTERN",
            pattern=_PATTERN,
            limit=_MOST_PATTERNS,
        ),
    )
    exclude: tuple[str, ...] = field(
        default=(),
        metadata=setting(
            Kind.TEXTS,
            "Leave out the streams whose names match, also those that another pattern takes.",
            metavar="PATTERN",
            pattern=_PATTERN,
            limit=_MOST_PATTERNS,
        ),
    )
    # Of the object keys, as ArchiveSpec has it.
    prefix: str = field(
        default="",
        metadata=setting(
            Kind.TEXT,
            "Key prefix of the chunks in the bucket, like nats/{stream}: {stream} stands for the name of the stream.",
            metavar="PREFIX",
            fixed=_PLACE,
        ),
    )
    take_queues: bool = field(
        default=False,
        metadata=setting(
            Kind.FLAG,
            "Archive work queues and interest streams too: the archive is then one of their consumers, and "
            "acknowledges what it has. Without it they are left out.",
        ),
    )
    take_mirrors: bool = field(
        default=False,
        metadata=setting(
            Kind.FLAG,
            "Archive mirrors too, and streams that only have what they source from archived ones. Without it they are "
            "left out.",
        ),
    )
    remade: Remade = field(
        default="adopt",
        metadata=setting(
            Kind.CHOICE,
            "What to do when a stream was deleted and made again. adopt: its archive goes on with the new one. ask: it "
            "waits until a person lets it adopt the new one.",
            metavar="WHAT",
        ),
    )

    def __post_init__(self) -> None:
        check_settings(self)
        self.check_assets()
        self.check_copies(self.bucket)
        for name in ("match", "exclude"):
            check_length(name, getattr(self, name), _MOST_PATTERNS)
        if not self.match:
            raise OperatorError("The rule takes no stream", "Name a pattern, or leave it out for all", field="match")
        with blaming("prefix"):
            check_prefix(self.prefix.replace(_STREAM, "stream"))

    def is_matched(self, stream: str) -> bool:
        """True if one of the patterns takes the stream."""
        return is_one_of(stream, self.match)

    def is_excluded(self, stream: str) -> bool:
        """True if the stream is to be left out by its name."""
        return is_one_of(stream, self.exclude)

    def archive(self, stream: str, *, taken: bool = False) -> ArchiveSpec:
        """Returns the archive of a stream. `taken`: its messages are taken through a durable. Raises OperatorError if
        there can be none, as where the prefix is too long with the stream's name."""
        options = {one.name: getattr(self, one.name) for one in fields(ArchiveOptions)}
        return ArchiveSpec(
            archive_name_of(stream),
            stream,
            self.bucket,
            self.prefix.replace(_STREAM, path_part(stream)),
            mode="consumer" if taken else "stream",
            **options,
        )


@dataclass(frozen=True, slots=True)
class RuleDeclaration:
    """A rule as code has it."""

    # With the defaults of a new rule for what was not written.
    rule: AccountRule
    # The fields of the rule that were written: only they are compared with the catalog.
    given: frozenset[str]
    # Whether missing buckets are made with the rule.
    create_bucket: bool = False


@dataclass(frozen=True, slots=True)
class KeptRule:
    """A rule of the catalog."""

    id: int
    rule: AccountRule
    created_at: datetime
    # When its settings last changed.
    updated_at: datetime

    @property
    def name(self) -> str:
        return self.rule.name

    def takes(self, stream: str) -> bool:
        """True if the rule takes a stream of this name."""
        return takes(stream, self.rule.match, self.rule.exclude)


@dataclass(slots=True, kw_only=True)
class AccountArchive:
    """An archive as rules see it."""

    archive_id: int
    name: str
    stream: str
    # Whether it takes every subject of the stream.
    is_whole: bool
    # The rule that made it; None for an archive of no rule.
    rule_id: int | None
    # When its stream was found to be deleted; None while it is not known to be.
    ended_at: datetime | None
    # When it was deleted; None for an archive that is there.
    deleted_at: datetime | None
    # When its newest incarnation was created, as the server told it, in nanoseconds; None before the first one.
    created_ns: int | None


@dataclass(slots=True, kw_only=True)
class DerivedStream:
    """A stream without an archive, because all that it has is of streams that have one."""

    stream: str
    # As the server told it first, in nanoseconds.
    created_ns: int
    config: dict[str, Any]
    # Their number.
    consumers: int
    # When it was found to be deleted; None while it is not known to be.
    gone_at: datetime | None


def takes(stream: str, match: tuple[str, ...], exclude: tuple[str, ...]) -> bool:
    """True if one of the patterns of `match` takes the stream, and none of `exclude`."""
    return is_one_of(stream, match) and not is_one_of(stream, exclude)


def is_one_of(stream: str, patterns: tuple[str, ...]) -> bool:
    """True if one of the patterns takes the stream: `*` stands for any characters, and nothing else is special."""
    return any(re.fullmatch(".*".join(map(re.escape, one.split("*"))), stream, re.DOTALL) for one in patterns)
