"""The plan of an export: chunks, groups and job."""

import secrets
from dataclasses import dataclass

from nats3_dagster.archive.proof import seal
from nats3_dagster.archive.source.clocks import ask_clocks
from nats3_dagster.errors import OperatorError
from nats3_dagster.exports.checks import check_export
from nats3_dagster.exports.decoding.schemas import read_schema
from nats3_dagster.exports.hours import retired_error
from nats3_dagster.exports.job import ExportJob, Group, groups_of, own_folder
from nats3_dagster.exports.paths import hour_name
from nats3_dagster.hours import hour_start
from nats3_dagster.model import Archive, ExportSpec
from nats3_dagster.objects import OutletOptions, StoreOptions
from nats3_dagster.workspace import Workspace


@dataclass(frozen=True, slots=True)
class ExportPlan:
    """The plan of a run of an hour."""

    job: ExportJob
    groups: tuple[Group, ...]
    # Of all chunks, before the export's subjects are looked at.
    messages: int


def plan(
    workspace: Workspace, archive: Archive, spec: ExportSpec, hour: str, *, over_retired: bool = False
) -> ExportPlan:
    """Raises OperatorError for an export that cannot run, for an hour that is neither sealed nor complete, and unless
    `over_retired` for one that had chunks which were deleted after a replay."""
    hour_start(hour)
    check_export(workspace, archive, spec)
    _check_complete(workspace, archive, hour)
    chunks = workspace.catalog.chunks.of_hour(archive, hour)
    # Asked after the chunks were read: one that a replay deleted before that shows here.
    if not over_retired and (messages := workspace.catalog.exports.retired_messages(archive, hour)):
        raise retired_error(archive, spec.name, hour, messages)
    token = secrets.token_hex(8)
    job = ExportJob(
        archive=archive.name,
        archive_id=str(archive.job_id),
        stream=archive.spec.stream,
        hour=hour,
        spec=spec,
        schema=read_schema(spec),
        store=workspace.settings.store,
        outlet=outlet_options(workspace.settings.store, archive, spec),
        staging=f"{staging_folder(archive.name, spec.name, hour)}/{token}",
    )
    return ExportPlan(job, groups_of(chunks), sum(chunk.meta.messages for chunk in chunks))


def staging_folder(archive: str, export: str, hour: str) -> str:
    """Returns the folder, below the place, into which runs of the hour put files on their way."""
    return f"{own_folder(archive, export)}/staging/{hour_name(hour)}"


def outlet_options(store: StoreOptions, archive: Archive, spec: ExportSpec) -> OutletOptions:
    """Returns the options to reach the export's place. S3 is that of the settings for this bucket; if it is a folder,
    the AWS SDK finds endpoint and credentials in its environment."""
    place = spec.place_of(archive.name, archive.spec.stream)
    if place.scheme != "s3":
        return OutletOptions(place.scheme, place.bucket, place.prefix)
    there = store.of(place.bucket)
    return OutletOptions("s3", place.bucket, place.prefix, there if there.folder is None else _plain_s3(there))


def _plain_s3(store: StoreOptions) -> StoreOptions:
    return StoreOptions(
        endpoint=store.endpoint,
        region=store.region,
        access_key_id=store.access_key_id,
        secret_access_key=store.secret_access_key,
        session_token=store.session_token,
        profile=store.profile,
        patience_s=store.patience_s,
    )


def _check_complete(workspace: Workspace, archive: Archive, hour: str) -> None:
    """Raises OperatorError unless the hour has a valid seal, or could be sealed now. The stream is asked only where
    there is no seal."""
    if any(s.valid for s in workspace.catalog.seals.select(archive, hours=[hour])):
        return
    first, _ = seal.ended_hours(workspace, archive)
    if hour < first:
        raise OperatorError(f"Archive {archive.name} begins at {first}, after {hour}", "Choose a later hour")
    complete, _ = seal.complete_hours(workspace, archive, [hour])
    clocks = ask_clocks(workspace)
    seal.check_sealed([hour], complete, archive.name, seal.newest_closed(clocks.earliest_ns), clocks.difference)
