"""A process that was connected before a migration, and captures until it is refused: `python -m ... SCHEMA NATS_URL`.

It is of this release, and takes the schema before it for its own. Each line on stdout is a capture, the last the error.
"""

import sys

from nats3_dagster.archive.captures.commit import commit
from nats3_dagster.archive.source.windows import hours_to_capture
from nats3_dagster.catalog.session import pool, schema
from nats3_dagster.errors import Nats3Error
from nats3_dagster.jetstream.streams import stream_state
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.captures import plan_hours, read
from nats3_dagster_tests.support.wire import Wire


def capture(workspace: Workspace) -> None:
    """Capture what the archive lacks, without Spark."""
    archive = workspace.catalog.archives.get("events")
    hours = hours_to_capture(workspace, archive, stream_state(workspace.link, archive.spec.stream))
    if hours:  # none where the process before took the last message
        planned = plan_hours(workspace, archive, hours)
        commit(workspace, planned, read(workspace, planned))


def main(earlier: str, nats_url: str) -> None:
    schema.VERSION = pool.VERSION = earlier
    with Workspace(Settings.load()) as workspace, Wire(nats_url) as wire:
        try:
            while True:
                wire.publish([("ev.during", b"", b"during")])
                capture(workspace)
                print("captured", flush=True)
        except Nats3Error as error:
            print(error, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
