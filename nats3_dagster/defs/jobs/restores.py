"""`restore_stream`: a run that makes a stream again from its archive."""

import time
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from dagster import (
    AssetObservation,
    JobDefinition,
    MetadataValue,
    OpExecutionContext,
    ResourceParam,
    job,
    op,
)
from pydantic import Field

from nats3_dagster.bodies.base import validated
from nats3_dagster.bodies.restores import RestoreStream
from nats3_dagster.defs.assets.metadata import Metadata, rate
from nats3_dagster.defs.executor import run_executor
from nats3_dagster.defs.instance.resources import with_store
from nats3_dagster.defs.jobs.checked_config import CheckedConfig, schema_of
from nats3_dagster.defs.jobs.failures import step_failures
from nats3_dagster.defs.jobs.runs import progress_log
from nats3_dagster.defs.keys import Naming
from nats3_dagster.defs.wording import STOPPED_RESTORE
from nats3_dagster.errors import OperatorError
from nats3_dagster.model import Progress
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace

if TYPE_CHECKING:
    from nats3_dagster.documents.restores import RestoredStream


def _text(field: str) -> str:
    return RestoreStream.model_fields[field].description or ""


class RestoreConfig(CheckedConfig):
    """The fields of a restore, as the HTTP API has them."""

    archive: str = Field(description=_text("archive"))
    name: str | None = Field(default=None, description=_text("name"))
    from_time: str | None = Field(default=None, description=_text("from_time"))
    to_time: str | None = Field(default=None, description=_text("to_time"))
    sequences: list[int] | None = Field(default=None, description=_text("sequences"))
    subjects: list[str] = Field(default=[], description=_text("subjects"))
    replicas: int | None = Field(default=None, description=_text("replicas"))
    storage: str | None = Field(default=None, description=f"file or memory. {_text('storage')}")
    limits: bool = Field(default=False, description=_text("limits"))
    over_gaps: bool = Field(default=False, description=_text("over_gaps"))
    consumers: list[str] = Field(default=[], description=_text("consumers"))
    incarnation: str | None = Field(default=None, description=_text("incarnation"))
    verify: bool = Field(default=True, description=_text("verify"))

    if TYPE_CHECKING:

        def __init__(self, **settings: Any) -> None: ...

    def body(self) -> RestoreStream:
        """The restore that these fields ask for. Raises OperatorError if one is invalid."""
        return validated(RestoreStream, self.model_dump(), "The config")

    def check(self) -> None:
        self.body().spec()


def restore_job(naming: Naming, chosen: Collection[str] | None = None) -> JobDefinition:
    """`restore_stream`; of the `chosen` archives, or of any."""

    @op(
        name=naming.name("restore_archived_stream"),
        tags={"kind": "nats"},
        description="Make a stream again from its archive, and compare each message.",
        config_schema=schema_of(RestoreConfig),
    )
    def restore_archived_stream(
        context: OpExecutionContext, nats3_settings: ResourceParam[Settings], nats3_s3: ResourceParam[Any]
    ) -> None:
        with step_failures(context, naming, STOPPED_RESTORE):
            body = RestoreConfig(**context.op_config).body()
            if chosen is not None and body.archive not in chosen:
                raise OperatorError(
                    f"This code location does not have the archive {body.archive!r}",
                    f"It has {', '.join(sorted(chosen))}; restore another one where it is defined",
                )
            metadata = _restored(context, with_store(nats3_settings, nats3_s3), body)
        # Not a materialization: no hour of the archive has changed.
        context.log_event(
            AssetObservation(naming.replay_key(body.archive), description="Restore of a stream", metadata=metadata)
        )

    @job(
        name=naming.name("restore_stream"),
        executor_def=run_executor,
        description="Make a stream again from its archive, with the sequences, times, subjects and headers that it "
        "had.",
    )
    def restore_stream_job() -> None:
        restore_archived_stream()

    return restore_stream_job


def _restored(context: OpExecutionContext, settings: Settings, body: RestoreStream) -> Metadata:
    """Restores the stream; the result. Raises Nats3Error."""
    from nats3_dagster.archive.restore.plan import plan
    from nats3_dagster.archive.restore.run import restore
    from nats3_dagster.documents.restores import RestoredStream

    began = time.monotonic()
    with Workspace(settings) as workspace:
        planned = plan(workspace, body.spec())
        document = RestoredStream.of(planned, None)
        context.log.info(f"Stream {planned.stream}: up to {planned.messages:,} messages{_without(document)}")
        report = progress_log(context, f"Stream {planned.stream}")
        done = restore(
            workspace,
            planned,
            verify=body.verify,
            on_progress=lambda sent: report(Progress(sent, planned.messages)),
        )
    document, seconds = RestoredStream.of(planned, done), time.monotonic() - began
    compared = f"{document.proven:,} compared" if document.proven is not None else "not compared"
    context.log.info(
        f"Stream {document.stream}: {document.messages:,} messages restored in {seconds:.1f} s "
        f"({rate(document.messages, seconds)}), {compared}"
    )
    return {
        "stream": document.stream,
        "messages": document.messages,
        **({"compared": document.proven} if document.proven is not None else {}),
        "ended": document.ended or 0,
        "seconds": round(seconds, 3),
        "left_out": MetadataValue.json(document.left_out),
        "consumers": MetadataValue.json([one.name for one in document.consumers]),
        "removed": MetadataValue.json(document.removed),
    }


def _without(document: "RestoredStream") -> str:
    return f". Not as in the archived stream: {', '.join(document.left_out)}" if document.left_out else ""
