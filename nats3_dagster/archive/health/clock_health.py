"""Clocks: do this machine, Postgres and NATS tell the same time? An hour has ended when all say so."""

from collections.abc import Iterator

from nats3_dagster.archive.clocks import ask_clocks
from nats3_dagster.archive.health.finding import Finding
from nats3_dagster.errors import Nats3Error
from nats3_dagster.jetstream.streams import find_stream
from nats3_dagster.workspace import Workspace

AREA = "clocks"


def check(workspace: Workspace) -> Iterator[Finding]:
    """A finding if clocks differ by more than they may. NATS is asked by a stream that is archived, if there is one."""
    try:
        archives = workspace.catalog.archives.all()
        state = find_stream(workspace.link, archives[0].spec.stream) if archives else None
    except Nats3Error:
        state = None  # which is a finding of its own
    try:
        difference = ask_clocks(workspace, state).difference
    except Nats3Error:
        return
    if difference:
        yield Finding("warn", AREA, difference, "Set the clocks right: until then hours are sealed late")
