"""Recovery: archives that were made again from their bucket, and dumps of a catalog."""

from typing import Self

from pydantic import Field

from nats3_dagster.archive.recovery import moving, rebuild
from nats3_dagster.documents.base import Document, Words
from nats3_dagster.model.hold import REBUILT


class LeftOut(Document):
    """An object of an archive's folder that is no chunk of the archive."""

    key: str
    reason: str


class FoundHold(Document):
    """A hold that the settings beside the chunks have."""

    name: str
    reason: str
    placed_by: str
    first_hour: str | None = Field(description="Null for no bound.")
    last_hour: str | None
    first_seq: int | None
    last_seq: int | None


class RebuiltArchive(Document):
    """An archive that was made again from its objects, or would be."""

    archive: str
    state: str = Field(description="rebuilt; kept, if the catalog had it already; refused.", examples=["rebuilt"])
    chunks: int
    messages: int
    gaps: int = Field(description="Sequences that no chunk holds, by manifests.")
    sealed: int = Field(description="Hours for which the catalog would write the same manifest again.")
    changed: int = Field(description="Hours that changed after they were sealed: they are sealed once more.")
    unlisted: int = Field(description="Objects that are not chunks of the archive now.")
    refused: list[LeftOut] = Field(description="Those of them that were opened and not taken.")
    missing: list[LeftOut] = Field(description="Chunks that manifests name and that cannot be had.")
    keep_s: int | None = Field(description="By the settings in its folder: how long it keeps an hour; 0: for ever.")
    keep_bytes: int | None = Field(description="And how much it keeps; 0: all.")
    copies: list[str] = Field(description="The buckets that are to have copies of it.")
    holds: list[FoundHold] = Field(description="The holds that are in the settings.")
    settings: str | None = Field(description="What is not known of its settings; null where they are.")
    stream: str | None = Field(description="What differs from the stream; null where it is the archived one.")
    erasures: str | None = Field(description="Why erasures may be unknown; null where every bucket was asked.")
    error: str | None = Field(description="Why it was refused.")
    hint: str | None

    @classmethod
    def of(cls, one: rebuild.Rebuilt, words: Words) -> Self:
        return cls.by_name(
            one,
            state="refused" if one.error else "kept" if one.is_kept else "rebuilt",
            refused=[LeftOut(key=key, reason=reason) for key, reason in one.refused.items()],
            missing=[LeftOut(key=key, reason=reason) for key, reason in one.missing.items()],
            settings=one.settings or None,
            keep_s=one.spec and one.spec.keep_s,
            keep_bytes=one.spec and one.spec.keep_bytes,
            copies=list(one.spec.copies) if one.spec else [],
            holds=[FoundHold.by_name(hold, placed_by=hold.actor) for hold in one.holds if hold.name != REBUILT],
            stream=one.stream or None,
            erasures=one.erasures or None,
            error=one.error and one.error.what,
            hint=one.error and (one.error.hint_in(words) or None),
        )


class RebuiltCatalog(Document):
    """The archives of a bucket in the catalog, made again, and what no object says."""

    archives: list[RebuiltArchive]
    unknown: list[str]
    dry_run: bool


class DumpedCatalog(Document):
    """A catalog that was written into a file, or loaded from one."""

    rows: dict[str, int] = Field(description="Rows by table.")
    sha256: str = Field(description="Of the content.")

    @classmethod
    def of(cls, dumped: moving.Dumped) -> Self:
        return cls(rows=dumped.rows, sha256=dumped.digest)
