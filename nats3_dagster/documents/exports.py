"""Exports: what is declared, what was made, and the state of each hour."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import Field

from nats3_dagster.archive.lifecycle.change import Difference as ChangedField
from nats3_dagster.documents.base import Document, rate, stamp, stamp_of, with_settings
from nats3_dagster.documents.changes import Difference
from nats3_dagster.exports.status import Listed
from nats3_dagster.model import ExportResult, ExportSpec
from nats3_dagster.model.export import Export as Declared
from nats3_dagster.model.export import ExportHour as Hour
from nats3_dagster.model.spec_table import to_body

if TYPE_CHECKING:
    from nats3_dagster.exports.places import TakenOver

State = Literal["done", "due", "failed", "changed", "retired"]
_Settings = with_settings("ExportSettings", ExportSpec)


class DeclaredExport(_Settings):
    """An export as it is declared, and what it has made."""

    archive: str
    version: int
    created_at: str
    updated_at: str
    hours_exported: int
    hours_failed: int = Field(description="Due, and the newest attempt failed.")
    last_hour: str | None = Field(examples=["2026-11-21-07:00"])
    files: int
    messages: int
    undecoded: int = Field(description="In the files of undecoded messages.")
    bytes: int

    @classmethod
    def of_listed(cls, one: Listed) -> "DeclaredExport":
        return DeclaredExport(**_declared(one))


class Export(DeclaredExport):
    """The declaration, the results and the progress of an export."""

    hours_done: int = Field(description="Exported as they are sealed.")
    hours_due: int = Field(description="Sealed, and not exported as they are.")
    hours_changed: int = Field(description="Exported, and not sealed again since they changed.")
    hours_retired: int = Field(
        description="Chunks of them were deleted after a replay, and the files do not have their messages."
    )
    last_run_at: str | None = Field(description="When an hour was last exported, or failed.")

    @classmethod
    def of(cls, one: Listed, hours: Sequence[Hour]) -> "Export":
        return Export(**_followed(one, hours))


class ExportList(Document):
    """The exports of an archive, by name."""

    exports: list[Export]


class ExportHour(Document):
    """An hour that is sealed, or was exported; what was made is null where nothing was, and so is the error."""

    hour: str = Field(examples=["2026-11-21-07:00"])
    state: State
    files: int | None
    messages: int | None
    dropped: int | None
    undecoded: int | None
    bytes: int | None
    version: int | None = Field(description="Of the settings that it was made with.")
    manifest: str | None = Field(description="URL of the object that lists its files.")
    made_at: str | None
    retired_messages: int = Field(description="Of the hour, deleted from the archive after a replay.")
    error: str | None
    failures: int
    failed_at: str | None
    run_id: str | None

    @classmethod
    def of(cls, one: Hour) -> Self:
        made, failed = one.made, one.failed
        return cls(
            hour=one.hour,
            state=one.state,
            files=made and made.files,
            messages=made and made.messages,
            dropped=made and made.dropped,
            undecoded=made and made.undecoded,
            bytes=made and made.bytes,
            version=made and made.version,
            manifest=made and made.manifest,
            made_at=stamp_of(made and made.made_at),
            error=failed and failed.error,
            retired_messages=one.retired_messages,
            failures=failed.times if failed else 0,
            failed_at=stamp_of(failed and failed.at),
            run_id=one.dagster_run_id,
        )


class ExportDetail(Export):
    """An export with its hours, oldest first."""

    hours: list[ExportHour]

    @classmethod
    def of_hours(cls, one: Listed, hours: Sequence[Hour], newest: int | None = None) -> Self:
        """Returns the export with all hours listed, or the newest."""
        listed = hours if newest is None else hours[max(len(hours) - newest, 0) :]
        return cls(**_followed(one, hours), hours=[ExportHour.of(hour) for hour in listed])


class ChangedExport(_Settings):
    """An export whose settings were changed."""

    archive: str
    version: int
    changes: list[Difference]

    @classmethod
    def of(cls, archive: str, export: Declared, changes: Iterable[ChangedField]) -> Self:
        differences = [Difference.of(one) for one in changes]
        return cls(archive=archive, version=export.version, changes=differences, **to_body(export.spec))


class DeletedExport(Document):
    """An export whose declaration was deleted. Its files stay."""

    archive: str
    name: str
    deleted: Literal[True]
    hours_exported: int
    files_kept: int

    @classmethod
    def of(cls, gone: Listed) -> Self:
        totals = gone.totals
        return cls(
            archive=gone.archive.name,
            name=gone.export.name,
            deleted=True,
            hours_exported=totals.hours,
            files_kept=totals.files,
        )


class FormerOwner(Document):
    """The export that a place belonged to before."""

    archive: str
    name: str
    id: str = Field(description="Of the archive's store job.")


class ClaimedPlace(Document):
    """The place of an export that owns it now."""

    archive: str
    name: str
    former: FormerOwner | None = Field(description="Null where no other export owned the place.")
    former_hours: int = Field(description="Hours that the former owner has files of.")

    @classmethod
    def of(cls, archive: str, name: str, taken: "TakenOver | None") -> Self:
        owner = taken.former if taken else None
        former = FormerOwner(archive=owner.archive, name=owner.export, id=owner.archive_id) if owner else None
        return cls(archive=archive, name=name, former=former, former_hours=taken.hours if taken else 0)


class PlannedHour(Document):
    """An hour that a run would export."""

    hour: str
    state: State
    messages: int = Field(description="Of all subjects.")

    @classmethod
    def of(cls, one: Hour) -> Self:
        return cls(hour=one.hour, state=one.state, messages=one.sealed[2] if one.sealed else 0)


class ExportedHour(Document):
    """The result of a run for an hour."""

    archive: str
    export: str
    hour: str
    files: int
    messages: int
    dropped: int
    undecoded: int
    bytes: int
    written: int
    removed: int
    seconds: float
    messages_per_s: int | None

    @classmethod
    def of(cls, result: ExportResult) -> Self:
        return cls.by_name(
            result,
            seconds=round(result.seconds, 3),
            messages_per_s=rate(result.messages, result.seconds),
        )


def _declared(one: Listed) -> dict[str, Any]:
    totals = one.totals
    return {
        "archive": one.archive.name,
        **to_body(one.export.spec),
        "version": one.export.version,
        "created_at": stamp(one.export.created_at),
        "updated_at": stamp(one.export.updated_at),
        "hours_exported": totals.hours,
        "hours_failed": totals.failed,
        "last_hour": totals.last_hour,
        "files": totals.files,
        "messages": totals.messages,
        "undecoded": totals.undecoded,
        "bytes": totals.bytes,
    }


def _followed(one: Listed, hours: Sequence[Hour]) -> dict[str, Any]:
    """Returns the fields of an export with the number of hours in each state, and the time of the last try."""
    states = Counter(found.state for found in hours)
    tries = [one.made.made_at for one in hours if one.made] + [one.failed.at for one in hours if one.failed]
    return {
        **_declared(one),
        "hours_done": states["done"],
        "hours_due": states["due"],
        "hours_failed": states["failed"],
        "hours_changed": states["changed"],
        "hours_retired": states["retired"],
        "last_run_at": stamp_of(max(tries)) if tries else None,
    }
