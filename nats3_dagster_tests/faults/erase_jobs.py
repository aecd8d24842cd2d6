"""What the processes of erase_faults do: erasures, also beside others, and what would bring messages back."""

from nats3_dagster.archive.keep import erasure
from nats3_dagster.archive.proof import source_check, unlisted
from nats3_dagster.errors import Conflict
from nats3_dagster.model import SeqRange
from nats3_dagster.settings import Settings
from nats3_dagster.tables.follow import followed
from nats3_dagster.workspace import Workspace


def erase(archive: str, ranges: list[tuple[int, int]]) -> int:
    """As `nats3 message erase --sequences`, of the newest incarnation; the messages."""
    with Workspace(Settings.load()) as workspace:
        row = workspace.catalog.archives.get(archive)
        life = workspace.catalog.coverage.all(row)[-1].incarnation
        # As the command does: what an earlier one left undone comes first.
        erasure.carry_out(workspace, row)
        wanted = {life: tuple(SeqRange(*part) for part in ranges)}
        with followed(workspace, archive):
            done = erasure.erase(workspace, row, wanted, reason="a trial", chosen_by=["sequences"])
        if done.problem:
            raise done.problem
        return done.messages


def try_erase(archive: str, ranges: list[tuple[int, int]]) -> str:
    """The same beside others; what it was told, if it lost."""
    try:
        erase(archive, ranges)
    except Conflict as error:
        return str(error)
    return ""


def sweep() -> int:
    """As the sensor: objects of erasures that died."""
    with Workspace(Settings.load()) as workspace:
        removed, problem = erasure.carry_out_each(workspace)
        if problem:
            raise problem
        return removed


def bring_back(archive: str) -> int:
    """What would fill absent sequences: adoption, and a comparison with the stream that repairs; the messages."""
    with Workspace(Settings.load()) as workspace:
        row = workspace.catalog.archives.get(archive)
        adopted = unlisted.adopt_unlisted(workspace, row)
        found = list(source_check.compare(workspace, row, None))
        return adopted + sum(source_check.correct(workspace, row, one) for one in found)


def prove(archive: str) -> list[str]:
    """As `nats3 message erase --prove`; what it finds."""
    with Workspace(Settings.load()) as workspace:
        return [str(trace) for trace in erasure.prove(workspace, workspace.catalog.archives.get(archive)).traces]
