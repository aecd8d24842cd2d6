"""An account of 1,000 streams whose archives one rule made, and what Dagster takes beside it."""

from functools import cache
from typing import Any

import psycopg
from dagster import DagsterInstance, Definitions, build_sensor_context
from dagster._core.remote_representation.external_data import RepositorySnap
from dagster._serdes import serialize_value

from nats3_dagster.archive.account import rules
from nats3_dagster.archive.account.follow import follow
from nats3_dagster.defs.project.project import load
from nats3_dagster.model.account_rule import AccountRule
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.wire import Wire

STREAMS, CHANGED = 1000, 50


def fill_account(workspace: Workspace, nats_url: str, bucket: str) -> None:
    """Streams with archives of a rule; some of them have messages that a threshold takes."""
    with Wire(nats_url) as wire:
        for n in range(STREAMS):
            wire.create_stream(f"ACC{n:04}", f"acc{n:04}.>")
    rules.create(workspace, AccountRule("account", bucket, match=("ACC*",), max_messages=10))
    while any(found.left for found in follow(workspace)):
        pass
    # Another connection: the server ends one that has not answered it for minutes.
    with Wire(nats_url) as wire:
        for n in range(CHANGED):
            wire.publish([(f"acc{n * STREAMS // CHANGED:04}.a", b"", b"x" * 256)] * 10)
    with psycopg.connect(workspace.settings.postgres, autocommit=True) as connection:
        # What the other rows are about has jobs and sensors of its own, and is no part of this account.
        connection.execute("update nats3.archive set deleted_at = now() where name not like 'ACC%'")
        # Three hours have ended since, and none of them is sealed.
        connection.execute("update nats3.archive set created_at = now() - interval '3 hours' where name like 'ACC%'")


def load_location(_: Workspace) -> None:
    """What a code server does when it begins, up to the bytes of its answer."""
    repository = load().get_repository_def()
    assert len(serialize_value(RepositorySnap.from_def(repository, defer_snapshots=True))) > 1_000_000


def captures_tick(_: Workspace) -> None:
    (request,) = _tick("account_captures_sensor").run_requests
    assert len(request.asset_selection) == CHANGED


def seals_tick(_: Workspace) -> None:
    """A tick when an hour of every archive has ended, with nothing known of the tick before."""
    requests = _tick("account_seals_sensor").run_requests
    assert sum(len(request.asset_selection) for request in requests) > 100


def _tick(name: str) -> Any:
    sensor: Any = _definitions().resolve_sensor_def(name)
    return sensor(build_sensor_context(instance=_instance(), definitions=_definitions()))


@cache
def _definitions() -> Definitions:
    """Loaded once, as in a code server."""
    return load()


@cache
def _instance() -> DagsterInstance:
    return DagsterInstance.ephemeral()
