"""Stay: a run that has captured an archive waits for the next capture that is due, and does it too.

To start a run costs 3 to 6 s of processor time, a capture in a run that is there a tenth of that
(docs/performance.md). So an archive with steady messages has one run for many captures.

Invariant: the thresholds alone decide when a capture is due (`due`), for a run that stays as for the sensor. Whatever
is out of the ordinary ends the stay, and is the sensor's: another hour, a pause, a stream that changed, NATS not there.
"""

import logging
import time
from collections.abc import Callable

from nats3_dagster.archive.captures.due import due
from nats3_dagster.archive.captures.open import open_source
from nats3_dagster.archive.source.loss import outlook
from nats3_dagster.errors import Nats3Error
from nats3_dagster.hours import hour_of
from nats3_dagster.model import Archive
from nats3_dagster.workspace import Workspace

log = logging.getLogger(__name__)
# A run stays so long at most: after that it runs the code and the settings of a new process.
LONGEST_S = 600.0
# An archive that captures less often pays for a run of each capture: its process would hold memory for nothing.
MOST_AGE_S = 60
# Between two looks at the stream: a quarter of the threshold of age, within these bounds.
LOOK_S = (0.5, 5.0)
# A run that waits so long keeps no connection to Postgres: another one takes 5 ms, and a server has some hundred.
_REST_S = 2.0
# Without a new message a run stays for the threshold of age, and so long at least.
IDLE_S = 5.0


class Stay:
    """The stay of one run, for one archive and its open hour."""

    def __init__(self, archive: Archive, hour: str, gives_way: Callable[[], bool]) -> None:
        """`gives_way`: returns True when another run waits for the place of this one. It is asked at each look."""
        self.name, self.hour = archive.name, hour
        self._gives_way = gives_way
        self._ends_at = time.monotonic() + LONGEST_S

    def is_due(self, workspace: Workspace) -> bool:
        """Waits until the next capture of the hour is due, and returns True; False when the run is to end."""
        try:
            return self._wait(workspace)
        except Nats3Error as error:
            log.warning("%s: the run ends, and the sensor goes on: %s", self.name, error)
            return False

    def _wait(self, workspace: Workspace) -> bool:
        idle_since = time.monotonic()
        while (now := time.monotonic()) < self._ends_at and not self._gives_way():
            archive = workspace.catalog.archives.find(self.name)
            if archive is None or not stays(archive, self.hour):
                return False
            waiting = outlook(workspace, open_source(workspace, archive)).waiting
            if waiting.ended:
                return False
            if due(archive.spec, waiting, 1).hours:
                return True
            if waiting.open:
                idle_since = now
            elif now - idle_since > max(archive.spec.max_age_s, IDLE_S):
                return False
            pause_s = min(max(archive.spec.max_age_s / 4, LOOK_S[0]), LOOK_S[1])
            if pause_s >= _REST_S:
                workspace.catalog.rest()
            time.sleep(pause_s)
        return False


def stays(archive: Archive, hour: str) -> bool:
    """True for a run that may wait for the next capture of the hour, because the hour is open and one is due soon."""
    return not archive.paused and archive.spec.max_age_s <= MOST_AGE_S and hour == hour_of(time.time_ns())
