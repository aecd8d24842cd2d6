"""Creating an archive. Everything about it is checked before anything of it is written."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from nats3_dagster import objects
from nats3_dagster.archive.lifecycle import remove
from nats3_dagster.archive.lifecycle.job_names import naming
from nats3_dagster.archive.source.absence import early_removal
from nats3_dagster.archive.source.buffers import check_new_buffer, drop_buffer, make_buffer
from nats3_dagster.archive.source.durables import check_new_durable, drop, open_durable
from nats3_dagster.archive.source.requirements import CROWDED, check_source, has_all_consumers
from nats3_dagster.archive.source.retained import too_short
from nats3_dagster.archive.stored import folder
from nats3_dagster.archive.stored.buckets import missing_buckets
from nats3_dagster.archive.stored.folder import PATIENCE_S
from nats3_dagster.catalog.archives.archives import name_taken
from nats3_dagster.errors import Nats3Error
from nats3_dagster.fault_points import fault_point
from nats3_dagster.jetstream.streams import stream_state
from nats3_dagster.model import Archive, ArchiveSpec, Deliveries, ReplayPreset, StreamState
from nats3_dagster.model.account_rule import KeptRule
from nats3_dagster.model.imported import ImportedBackup
from nats3_dagster.workspace import Workspace


def create(
    workspace: Workspace,
    spec: ArchiveSpec,
    *,
    job_name: str | None = None,
    create_bucket: bool = False,
    take_over: bool = False,
    paused: bool = False,
    presets: Sequence[ReplayPreset] = (),
    rule: KeptRule | None = None,
    imported: ImportedBackup | None = None,
) -> Archive:
    """The new archive, with its pause and its replays by name; it begins with the oldest message that the stream has
    now, or that its durable has not yet delivered. With `job_name`, whose `archive_name` the spec has, its own name
    gets a number where another job had that name first. With `create_bucket` missing buckets are made, with `take_over`
    a folder is taken that an archive of another catalog owns. `rule`: the rule for an account that has it.
    `imported`: the backup that it is of.

    Raises Conflict when the name is taken, or the folder has another owner; OperatorError for a stream that cannot be
    archived so, or a missing bucket."""
    with naming(workspace, spec, job_name, PATIENCE_S) as named:
        state, missing = _check(workspace, named, create_bucket, take_over)
        for name in missing:
            objects.create_bucket(workspace.settings.store, name)
        archive = _create(
            workspace, named, state, job_name=job_name, paused=paused, presets=presets, rule=rule, imported=imported
        )
        fault_point("archive.created")
        try:
            folder.claim(workspace, archive, take_over=take_over)
            folder.check_create_only(workspace, archive)
        except BaseException:
            # Another catalog was first, or the store refused: the name is free for the next try. Where the catalog does
            # not answer either, the archive stays, and its first capture claims the folder.
            with suppress(Nats3Error):
                if rule:  # which makes no archive again that was deleted
                    workspace.catalog.accounts.release([archive.id])
                remove.delete(workspace, archive.name)
            raise
        return archive


def _create(workspace: Workspace, spec: ArchiveSpec, state: StreamState, **others: Any) -> Archive:
    """`others`: as `Archives.create` takes them."""
    if spec.buffer:
        return _create_buffered(workspace, spec, **others)
    if spec.mode == "stream":
        return workspace.catalog.archives.create(spec, state, **others)
    spec, durable = open_durable(workspace, spec, state)
    try:
        # From here on the durable keeps the messages. What it does not deliver is not the archive's.
        state = replace(stream_state(workspace.link, spec.stream), first_seq=durable.delivered_seq + 1)
        deliveries = Deliveries(durable.created_ns, durable.consumer_seq, session=durable.session)
        return workspace.catalog.archives.create(spec, state, deliveries=deliveries, **others)
    except BaseException:
        # Where the catalog does not answer, the archive may have been made. Without its durable the stream would keep
        # nothing for it; a durable without an archive stands in the way of the next try, which says so.
        if workspace.catalog.archives.find(spec.name) is None:
            drop(workspace, spec)
        raise


def _create_buffered(workspace: Workspace, spec: ArchiveSpec, **others: Any) -> Archive:
    """The archive with its buffer: it begins with the oldest message that this or the stream has. A stream may have
    messages that are older than what a buffer keeps."""
    if workspace.catalog.archives.find(spec.name):
        raise name_taken(spec.name)  # before the buffer that it is read from is touched
    state = make_buffer(workspace, spec)
    state = replace(state, first_seq=min(state.first_seq, state.own.first_seq))
    fault_point("archive.buffered")
    try:
        return workspace.catalog.archives.create(spec, state, **others)
    except BaseException:
        # As for a durable: the archive may have been made. A buffer that stays is taken by the next try.
        if workspace.catalog.archives.find(spec.name) is None:
            drop_buffer(workspace, spec)
        raise


def check(workspace: Workspace, spec: ArchiveSpec, *, create_bucket: bool = False) -> None:
    """Raises what `create` would, but for a name that is taken; nothing is written."""
    state, _ = _check(workspace, spec, create_bucket, take_over=False)
    if spec.mode == "consumer":
        check_new_durable(workspace, spec, state)


def _check(
    workspace: Workspace, spec: ArchiveSpec, create_bucket: bool, take_over: bool
) -> tuple[StreamState, tuple[str, ...]]:
    """The stream of a new archive, and those of its buckets that are to be made."""
    state = check_source(workspace, spec)
    check_new_buffer(workspace, spec, state)
    missing = missing_buckets(workspace, spec, spec.buckets, create_bucket=create_bucket)
    if spec.bucket not in missing and not take_over:
        folder.check_free(workspace, spec)
    return state, missing


def warning(workspace: Workspace, archive: Archive) -> str:
    """Returns the messages that the archive will not have, or may not have, and why it is slow, by the stream as it was
    last observed; empty if there is nothing to say."""
    coverage = workspace.catalog.coverage
    state = coverage.last_state(coverage.incarnations(archive)[-1])
    if state is None:
        return ""
    found: list[str] = []
    if early := early_removal(state.config):
        filtered = "The archive cannot count them: its subject filter leaves out sequences as well"
        found += [early, filtered if archive.spec.subjects else "They count as lost"]
    if archive.spec.mode == "stream" and not archive.spec.buffer:
        found += [text for text in (too_short(state, archive.spec.max_age_s), _crowded(workspace, archive)) if text]
    return ". ".join(found)


def _crowded(workspace: Workspace, archive: Archive) -> str:
    """A sentence where the stream has all the consumers that it may have; empty also where it does not answer."""
    with suppress(Nats3Error):
        state = stream_state(workspace.link, archive.spec.stream)
        if has_all_consumers(state):
            return f"The stream {CROWDED.format(state.consumers)}: raise max_consumers, or delete an unused consumer"
    return ""
