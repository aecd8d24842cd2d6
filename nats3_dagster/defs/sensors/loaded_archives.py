"""Reloading the code location when the catalog has other archives than Dagster has loaded.

Who creates or deletes an archive asks the webserver for a reload, and that request may be lost: the webserver was away
or had not loaded the location itself. Nothing would capture the archive then, and nothing would say so.
"""

from collections.abc import Mapping

from nats3_dagster.runs.reload import reload_locations
from nats3_dagster.settings import Settings

# Seconds that a tick waits for each of two answers of the webserver, which goes on without it. Dagster ends a tick
# after 60 s, and the tables of Iceberg may take 25 of them.
PATIENCE_S = 10.0
# Reloads that this process asks for. A code server that is still the same then is of a kind that does not load again:
# `dagster api grpc`. One that a daemon starts itself is another one after 60 s.
_MOST_ASKED = 5
# Names in the sentence.
_SHOWN = 5


class LoadedArchives:
    """The archives that a process of Dagster has loaded: name and id of each."""

    def __init__(self, archives: Mapping[str, int]) -> None:
        self._archives = archives
        self._asked = 0

    def reload_if_changed(self, settings: Settings, present: Mapping[str, int]) -> str:
        """Has the webserver at NATS3_DAGSTER_URL reload our code locations if archives were created or deleted since
        they were loaded. `present`: name and id of each that the catalog has now. Returns a sentence; an empty one if
        nothing changed."""
        both = present.keys() | self._archives.keys()
        changed = sorted(name for name in both if present.get(name) != self._archives.get(name))
        if not changed:
            return ""
        more = f" and {len(changed) - _SHOWN:,} more" if len(changed) > _SHOWN else ""
        what = f"Created or deleted since Dagster loaded the archives: {', '.join(changed[:_SHOWN])}{more}"
        if not settings.dagster_url:
            return f"{what}. Reload the code location; with NATS3_DAGSTER_URL set, this sensor does it"
        if self._asked == _MOST_ASKED:
            return f"{what}. Dagster reloaded {_MOST_ASKED} times, and this code server did not: start it again"
        done = reload_locations(settings.dagster_url, PATIENCE_S)
        problem = done.failure or "; ".join(done.refused) or ("" if done.names else "it has not loaded them itself")
        if problem:
            return f"{what}. The Dagster at NATS3_DAGSTER_URL did not reload ({problem}); the next tick asks it again"
        self._asked += 1
        return f"{what}. Dagster reloads {', '.join(done.names)}"
