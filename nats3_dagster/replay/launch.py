"""Launch: which of the runs and processes that were started for a replay may run it.

Invariant: the newest one, and none after a pause. Its attempt is then the only one by the replay's lock. The lock of
its launch shows that it lives, before its attempt too.
"""

from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager, suppress

from nats3_dagster.errors import Nats3Error
from nats3_dagster.fault_points import fault_point
from nats3_dagster.model import Replay
from nats3_dagster.replay.status import status
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace

# Called with the number of an attempt that has begun.
OnAttempt = Callable[[int], None]


def reserve(workspace: Workspace, replay: Replay, *, queued: bool = False) -> int:
    """The number of a run or process that the caller is about to start. The replay is planned from now on. `replay`:
    what the caller knows of it. `queued`: it waits until there is room for it; any other one that has not begun within
    60 s is lost. Raises Conflict if another one was started since, or an attempt has begun."""
    return workspace.catalog.launches.reserve(replay, queued=queued)


def fail(workspace: Workspace, replay_id: str, launch: int, error: Exception) -> None:
    """Records that the process started under this number, or to be started, failed before an attempt began."""
    # If the catalog is down too, its error is not the one to show.
    with suppress(Nats3Error):
        workspace.catalog.launches.fail(replay_id, launch, str(error) or type(error).__name__)


@contextmanager
def launched(settings: Settings, replay_id: str, launch: int | None = None) -> Generator[OnAttempt]:
    """Surrounds the run of a replay, before Spark starts: no earlier start begins any more, this run has the lock of
    its launch, and an error before its attempt begins becomes that of the replay, which would otherwise be lost. Gives
    what to call when the attempt has begun: the lock of its launch then goes, with its connection.

    `launch`: the number under which this run or process was started; None for one that starts itself. Raises Conflict
    if another one was started since, or the replay was paused; OperatorError if there is no such replay."""
    with ExitStack() as begun:
        with Workspace(settings) as workspace:
            number = _number(workspace, replay_id) if launch is None else launch
            begun.enter_context(workspace.catalog.launches.begun(replay_id, number))
        fault_point("replay.launched")
        try:
            yield lambda number: begun.close()
        except Exception as error:
            with suppress(Nats3Error), Workspace(settings) as workspace:
                fail(workspace, replay_id, number, error)
            raise


def _number(workspace: Workspace, replay_id: str) -> int:
    current = status(workspace, replay_id)
    if current.state in ("running", "succeeded"):
        return current.replay.launch  # the lock, or start_attempt, refuses the caller
    return reserve(workspace, current.replay)
