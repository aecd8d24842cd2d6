"""Proofs: what sealing, verifying, repairing and adopting have found and done in an archive."""

from collections.abc import Sequence
from typing import Self

from pydantic import Field

from nats3_dagster.archive.proof.manifests import StrayManifest as Stray
from nats3_dagster.archive.proof.repair import Repaired
from nats3_dagster.archive.proof.unlisted import Unlisted
from nats3_dagster.archive.proof.verify import Verified
from nats3_dagster.documents.base import Document, Words
from nats3_dagster.errors import Nats3Error
from nats3_dagster.model import Chunk, Seal


class SealedArchive(Document):
    """The seals of an archive, and those that were made now."""

    archive: str
    sealed_now: int = Field(description="Hours.")
    sealed: int = Field(description="Hours with a valid seal.")
    not_sealed: int = Field(description="Hours that have ended and are not sealed.")
    with_losses: int = Field(description="Sealed hours that lost or retired messages may belong to.")
    messages: int = Field(description="In sealed hours.")
    manifest_bytes: int
    last_sealed: str | None = Field(description="The last hour with a seal.", examples=["2026-11-21-07:00"])

    @classmethod
    def of(cls, name: str, sealed_now: int, seals: Sequence[Seal], ended: int) -> Self:
        """`seals`: all that are valid. `ended`: hours of the archive that have ended."""
        return cls(
            archive=name,
            sealed_now=sealed_now,
            sealed=len(seals),
            not_sealed=ended - len(seals),
            with_losses=sum(seal.losses > 0 for seal in seals),
            messages=sum(seal.messages for seal in seals),
            manifest_bytes=sum(seal.stored_bytes for seal in seals),
            last_sealed=seals[-1].hour if seals else None,
        )


class BadObject(Document):
    """A chunk or a manifest that is not what was written."""

    id: int | None = Field(description="Of the chunk; null for a manifest.")
    hour: str
    key: str
    error: str
    hint: str

    @classmethod
    def of_chunk(cls, chunk: Chunk, error: Nats3Error, words: Words) -> Self:
        meta = chunk.meta
        return cls(id=chunk.id, hour=meta.hour, key=meta.key, error=error.what, hint=error.hint_in(words))

    @classmethod
    def of_seal(cls, seal: Seal, error: Nats3Error, words: Words) -> Self:
        return cls(id=None, hour=seal.hour, key=seal.key, error=error.what, hint=error.hint_in(words))


class UnlistedObjects(Document):
    """The objects of the archive's folder that no chunk lists."""

    objects: int
    stored_bytes: int
    messages: int = Field(description="Of the archive's selection, in objects that can be read.")
    missing: int = Field(description="Messages among them that no chunk of the archive has.")

    @classmethod
    def of(cls, unlisted: Sequence[Unlisted]) -> Self:
        return cls(
            objects=len(unlisted),
            stored_bytes=sum(item.stored_bytes for item in unlisted),
            messages=sum(item.messages for item in unlisted),
            missing=sum(item.missing for item in unlisted),
        )


class StrayManifest(Document):
    """A manifest in the bucket that the catalog does not know."""

    hour: str
    number: int = Field(description="Counts the seals of the hour, from 1.")
    key: str


class ComparedSource(Document):
    """Chunks and gaps compared with what the stream still has, in messages."""

    messages: int = Field(default=0, description="That were compared.")
    wrongly_absent: int = Field(default=0, description="That the stream has, and the archive says are absent.")
    different: int = Field(default=0, description="That are others in the stream.")
    repaired: int = Field(default=0, description="That were put into the archive.")


class VerifiedArchive(Document):
    """The objects of an archive compared with the catalog."""

    archive: str
    chunks: int
    manifests: int
    messages: int = Field(description="In the chunks.")
    stored_bytes: int = Field(description="Of the chunks.")
    bad: list[BadObject]
    unlisted: UnlistedObjects = Field(description="Zeros where single hours were verified.")
    stray_manifests: list[StrayManifest]
    source: ComparedSource | None = Field(description="Null unless the stream was asked.")

    @classmethod
    def of(
        cls,
        name: str,
        chunks: Sequence[Chunk],
        seals: Sequence[Seal],
        bad: Sequence[BadObject],
        unlisted: Sequence[Unlisted],
        strays: Sequence[Stray],
        source: ComparedSource | None,
    ) -> Self:
        return cls(
            archive=name,
            chunks=len(chunks),
            manifests=len(seals),
            messages=sum(chunk.meta.messages for chunk in chunks),
            stored_bytes=sum(chunk.meta.stored_bytes for chunk in chunks),
            bad=list(bad),
            unlisted=UnlistedObjects.of(unlisted),
            stray_manifests=[StrayManifest.by_name(stray) for stray in strays],
            source=source,
        )


class RepairedArchive(Document):
    """The bad objects of an archive, and what was repaired."""

    archive: str
    chunks: int = Field(description="That were verified.")
    bad: int = Field(description="Chunks among them.")
    repaired: int = Field(description="Chunks.")
    manifests_repaired: int
    messages: int = Field(description="Of the repaired chunks, that the archive has in good objects now.")
    lost: int = Field(description="Messages of the repaired chunks that are lost for good.")

    @classmethod
    def of(
        cls,
        name: str,
        chunks: Sequence[Chunk],
        bad: Sequence[Verified],
        repaired: Sequence[Repaired],
        manifests: Sequence[str],
    ) -> Self:
        """`repaired`: the chunks that were. `manifests`: the hours whose manifests were."""
        return cls(
            archive=name,
            chunks=len(chunks),
            bad=len(bad),
            repaired=len(repaired),
            manifests_repaired=len(manifests),
            messages=sum(one.messages for one in repaired),
            lost=sum(one.lost for one in repaired),
        )


class AdoptedMessages(Document):
    """The messages that an archive has taken from objects that no chunk lists, and what is left of those."""

    archive: str
    adopted: int = Field(description="Messages.")
    unlisted: int = Field(description="Objects that no chunk lists now.")
    refused: int = Field(description="Objects among them that are not adopted.")
    missing: int = Field(description="Messages of unlisted objects that the archive does not have.")

    @classmethod
    def of(cls, name: str, adopted: int, unlisted: Sequence[Unlisted]) -> Self:
        """`unlisted`: the objects that are left."""
        return cls(
            archive=name,
            adopted=adopted,
            unlisted=len(unlisted),
            refused=sum(bool(item.reason) for item in unlisted),
            missing=sum(item.missing for item in unlisted),
        )
