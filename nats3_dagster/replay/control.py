"""Stop a replay from anywhere: its publishers hear of it over NATS, its driver then ends by itself.

The rule kept here: the replay counts as canceled only when its driver has let go of it (a Postgres lock).
"""

import time
from contextlib import suppress

from nats3_dagster.catalog import Catalog
from nats3_dagster.errors import Conflict, EngineError, TargetError
from nats3_dagster.jetstream.fence import CANCEL, raise_fence
from nats3_dagster.jetstream.link import Link

# A driver that waits for Spark to start its tasks hears nothing yet.
PATIENCE_S = 60.0


def cancel(catalog: Catalog, link: Link, replay_id: str, reason: str) -> None:
    """Return when nobody drives the replay any more. Raises EngineError when somebody still does after PATIENCE_S."""
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        with suppress(TargetError):  # a publisher that ends just now may owe the answer; asked again, nobody is there
            raise_fence(link, replay_id, CANCEL)
        try:
            with catalog.replays.lock(replay_id):
                if catalog.replays.get(replay_id).state != "succeeded":
                    catalog.replays.finish(replay_id, "canceled", reason)
                return
        except Conflict:
            time.sleep(0.2)
    raise EngineError(
        f"Replay {replay_id} does not publish any more, and its driver has not ended within {PATIENCE_S:.0f} s",
        "End its Spark job or process",
    )
