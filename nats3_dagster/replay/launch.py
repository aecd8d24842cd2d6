"""Launch: which of the runs and processes that were started for a replay may run it.

Invariant: the newest one, and none after a pause. Its attempt is then the only one by the lock (attempt.lock).
"""

from collections.abc import Generator
from contextlib import contextmanager, suppress

from nats3_dagster.errors import Nats3Error
from nats3_dagster.model import Replay
from nats3_dagster.replay.status import status
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace


def claim(workspace: Workspace, known: Replay) -> int:
    """The number of a run or process that the caller is about to start. The replay is planned from now on. `known`:
    what the caller knows of it. Raises Conflict if another one was started since, or an attempt has begun."""
    return workspace.catalog.launches.claim(known)


def fail(workspace: Workspace, replay_id: str, launch: int, error: Exception) -> None:
    """What was started under this number, or was to be, failed before an attempt began."""
    # If the catalog is down too, its error is not the one to show.
    with suppress(Nats3Error):
        workspace.catalog.launches.fail(replay_id, launch, str(error) or type(error).__name__)


@contextmanager
def launched(settings: Settings, replay_id: str, launch: int | None = None) -> Generator[None]:
    """Around the run of a replay, before Spark starts: nothing that was started before it begins any more, and an error
    before its attempt begins becomes that of the replay, or nobody would know it.

    `launch`: the number under which this run or process was started; None for one that starts itself. Raises Conflict
    if another one was started since, or the replay was paused; OperatorError if there is no such replay."""
    with Workspace(settings) as workspace:
        number = _take_up(workspace, replay_id, launch)
    try:
        yield
    except Exception as error:
        with suppress(Nats3Error), Workspace(settings) as workspace:
            fail(workspace, replay_id, number, error)
        raise


def _take_up(workspace: Workspace, replay_id: str, launch: int | None) -> int:
    if launch is not None:
        workspace.catalog.launches.check(replay_id, launch)
        return launch
    current = status(workspace, replay_id)
    if current.state in ("running", "succeeded"):
        return current.replay.launch  # the lock, or start_attempt, refuses the caller
    return claim(workspace, current.replay)
