"""What the processes of keep_faults do: expiries, holds, repairs, adoptions, and catalogs that are made again."""

from nats3_dagster.archive.keep import holds, retention
from nats3_dagster.archive.proof import unlisted
from nats3_dagster.archive.recovery import moving
from nats3_dagster.archive.recovery import rebuild as rebuilding
from nats3_dagster.model import Selection, SeqRange
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace


def expire(archive: str) -> int:
    """As `nats3 store expire`; the hours."""
    with Workspace(Settings.load()) as workspace:
        found = retention.expire(workspace, archive)
        if found.problem:
            raise found.problem
        return found.hours


def hold(archive: str, name: str, first: int, last: int) -> None:
    """Hold these sequences."""
    with Workspace(Settings.load()) as workspace:
        holds.place(workspace, archive, name, Selection(sequences=SeqRange(first, last)), "a trial")


def release(archive: str, name: str) -> None:
    """End a hold."""
    with Workspace(Settings.load()) as workspace:
        holds.release(workspace, archive, name, "the trial goes on")


def adopt(archive: str) -> int:
    """As `nats3 chunk adopt`; the messages."""
    with Workspace(Settings.load()) as workspace:
        return unlisted.adopt_unlisted(workspace, workspace.catalog.archives.get(archive))


def rebuild(bucket: str, prefix: str) -> int:
    """As `nats3 catalog rebuild`; the chunks of the archives that were made again."""
    with Workspace(Settings.load()) as workspace:
        found = list(rebuilding.rebuild(workspace, bucket, prefix))
        for one in found:
            if one.error:
                raise one.error
        return sum(one.chunks for one in found)


def dump(path: str) -> int:
    """As `nats3 catalog dump`; the rows."""
    return sum(moving.dump(Settings.load(), path).rows.values())


def load(path: str) -> int:
    """As `nats3 catalog load`; the rows."""
    return sum(moving.load(Settings.load(), path).rows.values())
