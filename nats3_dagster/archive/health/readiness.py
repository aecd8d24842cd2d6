"""Readiness: whether NATS, Postgres and the store answer now. Quick, and it writes nothing: doctor looks closer."""

from nats3_dagster.jetstream.link import Link
from nats3_dagster.jetstream.server import check_jetstream
from nats3_dagster.workspace import Workspace

# How long NATS may take for each answer, in seconds.
PATIENCE_S = 2.0
# No object has such a key: a store that lists it answers, and grants read access.
_NOTHING = ".nats3-ready"


def nats_answers(workspace: Workspace) -> None:
    """Raises Nats3Error unless NATS takes our login and JetStream answers."""
    with Link(workspace.settings.nats, reconnect=False, patience_s=PATIENCE_S) as link:
        check_jetstream(link)


def postgres_answers(workspace: Workspace) -> None:
    """Raises Nats3Error unless Postgres answers, with a catalog of this release."""
    workspace.catalog.now()


def store_answers(workspace: Workspace) -> None:
    """Raises Nats3Error unless the store answers for a bucket of an archive. Without an archive there is nothing to ask
    for."""
    archive = next(iter(workspace.catalog.archives.all()), None)
    if archive is not None:
        next(iter(workspace.bucket(archive.spec.bucket).list(_NOTHING)), None)
