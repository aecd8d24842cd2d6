"""The embedded stack: where its servers are, what Dagster was told again, and the result of a demo."""

from typing import Self

from pydantic import Field

from nats3_dagster.documents.base import Document


class Addresses(Document):
    """The addresses of the embedded servers, without secrets."""

    nats: str
    nats_monitor: str | None = Field(description="Null for a server without monitoring.")
    postgres: str
    s3: str
    settings: str = Field(description="The file that tells nats3 where the servers are, with the secrets.")


class AddressesWithUi(Addresses):
    """The addresses of the embedded servers and of the Dagster UI."""

    ui: str
    spark: str | None = Field(description="The address of Spark Connect; null where runs start a JVM each.")
    log: str = Field(description="The file with Dagster's log.")


class EmbeddedServer(Document):
    """A server of the embedded stack."""

    server: str = Field(description="nats, postgres, s3, spark or dagster.")
    running: bool
    address: str | None = Field(description="Null where it does not run, or does not answer.")

    @classmethod
    def of(cls, server: str, address: str | None) -> Self:
        return cls(server=server, running=address is not None, address=address)


class StoppedServers(Document):
    """The servers that a command has stopped."""

    stopped: list[str]


class ResyncedArchive(Document):
    """The events that were reported to Dagster for an archive."""

    archive: str
    chunks: int = Field(description="Hours of this asset that were reported.")
    sealed: int = Field(description="Hours of this asset that were reported.")
    replay: int = Field(description="Hours of this asset that were reported.")
    exports: int = Field(description="Hours that were reported, of all exports together.")
    wiped: list[str] = Field(description="Assets that were wiped first: they had hours that the catalog does not have.")


class Demo(Document):
    """The result of a demo. Times of steps are wall times, process starts included, in seconds."""

    stream: str
    archive: str
    target: str = Field(description="The stream of the replayed messages.")
    server: str = Field(description="The version of nats-server.")
    messages: int = Field(description="In the stream.")
    distinct_lines: int
    hours: int = Field(description="With messages.")
    chunks: int
    payload_bytes: int
    stored_bytes: int
    replayed: int = Field(description="Messages in the target.")
    mismatches: int = Field(description="Messages that differ, or that only one of the streams has.")
    publish_s: float
    capture_s: float
    replay_s: float
    compare_s: float
    replay_messages_s: float = Field(description="From the first replayed message to the last one, by the target.")
    capture_dagster_s: float | None = Field(description="Dagster's share; null where Dagster has not kept it.")
    capture_spark_s: float | None = Field(description="Spark's start.")
    capture_work_s: float | None = Field(description="The capture itself.")
    replay_dagster_s: float | None = Field(description="Dagster's share; null where Dagster has not kept it.")
    replay_spark_s: float | None = Field(description="Spark's start.")
    replay_work_s: float | None = Field(description="The replay itself.")
    ok: bool = Field(description="True if what came back is what went in.")
