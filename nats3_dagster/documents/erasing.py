"""Documents of erasures."""

from collections.abc import Sequence
from typing import Self

from pydantic import Field

from nats3_dagster.archive.keep import erasure
from nats3_dagster.documents.base import Document
from nats3_dagster.hours import format_time
from nats3_dagster.model import Archive
from nats3_dagster.model.erasure import Trace
from nats3_dagster.workspace import Workspace


class ErasedLife(Document):
    """The erased messages of one life of the stream."""

    created: str = Field(description="When the stream was created, UTC.")
    messages: int


class ErasedMessages(Document):
    """Messages that left an archive for good."""

    archive: str
    reason: str
    chosen_by: list[str] = Field(description="Kinds of conditions: subject, sequences, hours, times, header, where.")
    messages: int
    lives: list[ErasedLife] = Field(
        description="The messages by life of the stream: one that was deleted and made again counts from 1 again."
    )
    chunks: int = Field(description="That had them.")
    hours: list[str] = Field(description="Of these chunks.")
    objects_removed: int | None = Field(
        description="In the archive's own bucket, older objects with these messages too. Null for a dry run."
    )
    finished_before: int = Field(
        description="Earlier erasures of the archive that this call finished. Their messages are in no other number."
    )
    objects_left: list[str] = Field(description="Objects, and versions of them, that have them and are still there.")
    exports: list[str] = Field(description="Exports that have files of these hours.")
    other_archives: list[str] = Field(description="Other archives of the stream that may have them.")
    in_stream: bool | None = Field(description="Whether the stream may still have some; null where it cannot be asked.")
    dry_run: bool = Field(description="True if nothing was erased: these messages would be.")

    @classmethod
    def of(
        cls,
        workspace: Workspace,
        archive: Archive,
        wanted: erasure.Wanted,
        done: erasure.Erased,
        reason: str,
        chosen_by: Sequence[str],
        *,
        dry_run: bool,
        finished_before: int,
    ) -> Self:
        return cls(
            archive=done.archive,
            reason=reason,
            chosen_by=list(chosen_by),
            messages=done.messages,
            lives=[
                ErasedLife(created=format_time(life.created_ns), messages=sum(part.size for part in ranges))
                for life, ranges in wanted.items()
            ],
            chunks=done.chunks,
            hours=list(done.hours),
            objects_removed=done.objects,
            finished_before=finished_before,
            objects_left=[str(trace) for trace in done.left],
            exports=erasure.exports_of(workspace, archive, done.hours),
            other_archives=erasure.other_archives(workspace, archive, wanted),
            in_stream=erasure.stream_may_have(workspace, archive, wanted),
            dry_run=dry_run,
        )


class FoundTrace(Document):
    """An object that has an erased message, or may have one."""

    bucket: str
    key: str
    version: str | None = Field(description="Its id; null where the store keeps no versions.")
    why: str | None = Field(description="Why it is there; null where that is not known.")

    @classmethod
    def of(cls, trace: Trace) -> Self:
        return cls(bucket=trace.bucket, key=trace.key, version=trace.version or None, why=trace.why or None)


class ProvenErasures(Document):
    """The result of a search for all erased messages of an archive."""

    archive: str
    erasures: int
    messages: int = Field(description="That were erased.")
    buckets: list[str] = Field(description="That were searched: the archive's own, its copies, and former ones.")
    found: list[FoundTrace] = Field(description="Empty if no object, version or copy has an erased message.")

    @classmethod
    def of(cls, proof: erasure.Proof) -> Self:
        return cls(
            archive=proof.archive,
            erasures=proof.erasures,
            messages=proof.messages,
            buckets=list(proof.buckets),
            found=[FoundTrace.of(trace) for trace in proof.traces],
        )
