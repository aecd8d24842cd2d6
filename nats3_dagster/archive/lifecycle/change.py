"""Changing an archive: which of its settings may change, and why the others may not.

Invariant: a change is for what comes. What the archive has stays as it is, and counts as it did.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from nats3_dagster import objects
from nats3_dagster.archive.source.durables import check_durable
from nats3_dagster.archive.source.observe import checked_source
from nats3_dagster.archive.source.requirements import check_source
from nats3_dagster.archive.stored import kept_settings
from nats3_dagster.archive.stored.archive_folder import folder_of
from nats3_dagster.archive.stored.buckets import missing_buckets
from nats3_dagster.errors import OperatorError
from nats3_dagster.jetstream.streams import same_stream
from nats3_dagster.model import Archive, ArchiveSpec, FormerFilter
from nats3_dagster.model.spec_table import settings_of
from nats3_dagster.subjects import check_filter, covers
from nats3_dagster.workspace import Workspace

# Why a field cannot change, for those that cannot.
_FIXED = {one.name: one.fixed for one in settings_of(ArchiveSpec) if one.fixed}
# What an archive has beside its spec, by its key in files, as Archive names it.
_OF_ARCHIVE = {"paused": "paused", "replays": "presets"}
# Fields of an archive that may change, by their keys.
CHANGEABLE = (*(one.name for one in settings_of(ArchiveSpec) if one.name not in _FIXED), *_OF_ARCHIVE)
_DELIVERED = "its consumer delivers them, and what it delivered cannot be told from what it did not"
# Fields that let messages expire, or leave copies that still have them.
_KEPT = frozenset({"keep_s", "keep_bytes", "copies"})
# Of an earlier incarnation: every sequence.
_ALL = 2**62
_INSTEAD = "Make another archive for it under another name; pause or delete this one, whose objects stay"


@dataclass(frozen=True, slots=True)
class Difference:
    """A field of an archive that is to have another value."""

    # As ArchiveSpec and Archive name it.
    field: str
    old: Any
    new: Any
    # Why it may not change; None if it may.
    refusal: OperatorError | None = None


@dataclass(frozen=True, slots=True)
class Changed:
    """An archive before and after a change; they are the same where there was nothing to change."""

    before: Archive
    after: Archive
    differences: tuple[Difference, ...]


def change(workspace: Workspace, name: str, wanted: Mapping[str, Any], *, create_bucket: bool = False) -> Changed:
    """Give the archive other values of these fields: all of them, or none. A value that it has already is no change.
    With `create_bucket` missing buckets of copies are made.

    Raises OperatorError when there is no such archive, a field may not change or a value is invalid; Conflict when
    another process changed one of these fields, or deleted the archive, meanwhile."""
    archive = workspace.catalog.archives.get(name)
    found = differences(archive, wanted)
    return Changed(archive, make(workspace, archive, found, create_bucket=create_bucket), found)


def make(
    workspace: Workspace, archive: Archive, found: tuple[Difference, ...], *, create_bucket: bool = False
) -> Archive:
    """The archive with these differences made. Raises as `change` does."""
    missing = check(workspace, archive, found, create_bucket=create_bucket)
    if not found:
        return archive
    for name in missing:
        objects.create_bucket(workspace.settings.store, name)
    values = {one.field: one.new for one in found}
    changed = workspace.catalog.archives.change(
        archive,
        changed_spec(archive, found),
        paused=values.get("paused", archive.paused),
        presets=values.get("replays"),
        ended=lambda: _ended_filters(workspace, archive),
    )
    if values.keys() & _KEPT:
        # A catalog that is made again from the bucket must not let go what is kept now.
        kept_settings.write_settings(workspace, folder_of(workspace, changed))
    return changed


def check(
    workspace: Workspace, archive: Archive, found: tuple[Difference, ...], *, create_bucket: bool = False
) -> tuple[str, ...]:
    """The buckets of copies that are to be made. Raises OperatorError unless these differences may be made."""
    for one in found:
        if one.refusal:
            raise one.refusal
    spec = changed_spec(archive, found)
    if spec.mode == "consumer" and spec.max_messages != archive.spec.max_messages:
        check_durable(workspace, spec)
    if spec.subjects != archive.spec.subjects:
        check_source(workspace, spec)
        # What is captured by the new subjects must be of the stream that the old ones end in.
        checked_source(workspace, archive)
    new = [name for name in spec.copies if name not in archive.spec.copies]
    return missing_buckets(workspace, spec, new, create_bucket=create_bucket)


def _ended_filters(workspace: Workspace, archive: Archive) -> tuple[FormerFilter, ...]:
    """Returns the range that the present subjects apply to: all that the stream has had by now. Raises StreamChanged,
    SourceError."""
    coverage = workspace.catalog.coverage
    incarnations = coverage.incarnations(archive)
    state = same_stream(workspace.link, incarnations[-1])
    ended = {one.created_ns for one in archive.former_filters if one.last_seq == _ALL}
    earlier = [
        FormerFilter(one.created_ns, _ALL, archive.spec.subjects)
        for one in incarnations[:-1]
        if one.created_ns not in ended
    ]
    return *earlier, FormerFilter(state.incarnation.created_ns, state.last_seq, archive.spec.subjects)


def differences(archive: Archive, wanted: Mapping[str, Any]) -> tuple[Difference, ...]:
    """Returns the wanted values that the archive does not have. Raises OperatorError for a field that archives do not
    have, and for an invalid filter."""
    found: list[Difference] = []
    for field, new in wanted.items():
        if field not in _FIXED and field not in CHANGEABLE:
            raise OperatorError(f"An archive has no field {field!r}", f"It has {', '.join((*_FIXED, *CHANGEABLE))}")
        if field == "subjects":
            for filter_ in new:
                check_filter(filter_)
        old = getattr(archive, _OF_ARCHIVE[field]) if field in _OF_ARCHIVE else getattr(archive.spec, field)
        if _canonical(field, old) != _canonical(field, new):
            found.append(Difference(field, old, new, _refusal(archive, field, old, new)))
    return tuple(found)


def changed_spec(archive: Archive, found: tuple[Difference, ...]) -> ArchiveSpec:
    """Returns the archive with these differences. Raises OperatorError if a value is invalid."""
    return replace(archive.spec, **{one.field: one.new for one in found if one.field not in _OF_ARCHIVE})


def _canonical(field: str, value: Any) -> Any:
    """Filters are a set, in which one that another one covers says nothing; `>` is every subject."""
    if field != "subjects":
        return value
    distinct: set[str] = set(value)
    least = {one for one in distinct if not any(covers(other, one) for other in distinct - {one})}
    return least - {">"}


def _refusal(archive: Archive, field: str, old: Any, new: Any) -> OperatorError | None:
    reason = _DELIVERED if field == "subjects" and archive.spec.mode == "consumer" else _FIXED.get(field)
    if reason is None:
        return None
    return OperatorError(
        f"{field} of archive {archive.name} cannot change from {_text(old)} to {_text(new)}: {reason}",
        _INSTEAD,
    )


def _text(value: Any) -> str:
    """A value of a field in an error."""
    if isinstance(value, tuple):
        return ", ".join(str(part) for part in value) or "all subjects"  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    return "none" if value in (None, "") else str(value)
