"""Documents of erasures."""

from collections.abc import Sequence
from typing import Self

from pydantic import Field

from nats3_dagster.archive.keep.erasure import Erased
from nats3_dagster.documents.base import Document


class ErasedMessages(Document):
    """Messages that left an archive for good."""

    archive: str
    reason: str
    chosen_by: list[str] = Field(description="Kinds of conditions: subject, sequences, hours, times, header, where.")
    messages: int
    chunks: int = Field(description="That had them.")
    hours: list[str] = Field(description="Of these chunks.")
    objects_removed: int = Field(description="In the archive's own bucket, older objects with these messages too.")
    objects_left: list[str] = Field(description="Keys of objects that have them and are still there.")
    exports: list[str] = Field(description="Exports that have files of these hours.")
    in_stream: bool | None = Field(description="Whether the stream may still have some; null where it cannot be asked.")
    dry_run: bool = Field(description="True if nothing was erased: these messages would be.")

    @classmethod
    def of(
        cls,
        done: Erased,
        reason: str,
        chosen_by: Sequence[str],
        *,
        exports: Sequence[str],
        in_stream: bool | None,
        dry_run: bool,
    ) -> Self:
        return cls(
            archive=done.archive,
            reason=reason,
            chosen_by=list(chosen_by),
            messages=done.messages,
            chunks=done.chunks,
            hours=list(done.hours),
            objects_removed=done.objects,
            objects_left=[one.key for one in done.left],
            exports=list(exports),
            in_stream=in_stream,
            dry_run=dry_run,
        )
