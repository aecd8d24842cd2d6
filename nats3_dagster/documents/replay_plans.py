"""Plans of replays, as a dry run shows them."""

from typing import Literal, Self

from pydantic import Field

from nats3_dagster.documents.base import Document, time_of
from nats3_dagster.model import Order
from nats3_dagster.replay.planning.plan import ReplayPlan as Planned


class SampleSubject(Document):
    """A subject of the archive, and where its messages go."""

    from_: str = Field(alias="from")
    to: str


class ReplayPlan(Document):
    """The plan of a replay. No selected message lies outside of the sequences and times; what the catalog does not
    know of them is null."""

    archive: str
    chunks: int
    messages: int = Field(description="Upper bound; exact if messages_exact.")
    messages_exact: bool
    payload_bytes: int
    payload_bytes_exact: bool
    first_seq: int | None
    last_seq: int | None
    first_time: str | None
    last_time: str | None
    read_subject: str
    write_subject: str
    sample_subjects: list[SampleSubject]
    targets: list[str]
    creates_stream: str | None
    creates_without: list[str] = Field(description="Settings of the archived stream that the new one does not get.")
    live: bool
    marks: bool
    notes: list[str]
    order: Order
    timing_seconds: float | None = Field(description="How long the original timing takes, at most.")
    mode: Literal["batch", "window"]
    deletes_chunks: int
    deletes_messages: int

    @classmethod
    def of(cls, planned: Planned) -> Self:
        extent, spec, creation = planned.extent, planned.spec, planned.creation
        limits = extent.bounds
        return cls(
            archive=planned.archive.name,
            chunks=extent.chunks,
            messages=extent.messages,
            messages_exact=extent.is_exact,
            payload_bytes=extent.payload_bytes,
            payload_bytes_exact=extent.is_size_exact,
            first_seq=limits.first_seq,
            last_seq=limits.last_seq,
            first_time=time_of(limits.first_ns),
            last_time=time_of(limits.last_ns),
            read_subject=spec.read_subject,
            write_subject=spec.write_subject,
            sample_subjects=[SampleSubject(**{"from": source, "to": target}) for source, target in planned.samples],
            targets=[target.incarnation.stream for target in planned.targets],
            creates_stream=creation and creation.name,
            creates_without=list(creation.left_out) if creation else [],
            live=spec.live,
            marks=spec.marks,
            notes=list(planned.notes),
            order=spec.order,
            timing_seconds=None if planned.timing_s is None else round(planned.timing_s, 3),
            mode="batch" if planned.batched else "window",
            deletes_chunks=planned.deletes_chunks,
            deletes_messages=extent.whole_messages if planned.deletes_chunks else 0,
        )
