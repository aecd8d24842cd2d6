"""Whether a curve of a soak grows: the rule, and what has to grow.

A curve grows when the median of its last quarter is above that of its third quarter by more than a tolerance. Medians
stand still while a process is killed and starts again, which a slope does not. An hour that ends brings seals, exports
and compactions, which take the processors for minutes: so the longest stretch without such an end is judged.
"""

import statistics
from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

Verdict = Literal["steady", "grows", "grows with the data", "too short"]
# What a curve may rise from the third to the last quarter: this part, and this much in its own unit.
TOLERANCE = 0.15
_FLOOR = {"memory": 40.0, "open files": 20.0, "processes": 6.0, "NATS": 6.0, "Postgres": 6.0, "consumers": 4.0,
          "files": 20.0, "rows": 20.0, "age of the newest archived message": 60.0, "scrape": 40.0}  # fmt: skip
# A quarter has fewer samples in a shorter run: what starts is still warming up then.
SHORTEST_S = 600.0
# What has a row or an object for each chunk, hour, run, tick or replayed chunk, until its retention ends.
_WITH_DATA = {
    "rows": {
        *("nats3.chunk", "nats3.chunk_subject", "nats3.chunk_bloom", "nats3.gap", "nats3.seal", "nats3.hour"),
        *("nats3.capture", "nats3.event", "nats3.replay_chunk", "nats3.removal", "nats3.merged_chunk"),
        *("nats3.replay_attempt", "nats3.export_hour", "nats3.kept_consumers", "nats3.copy_task"),
        *("public.event_logs", "public.runs", "public.run_tags", "public.job_ticks", "public.asset_keys"),
        *(
            "public.dynamic_partitions",
            "public.asset_event_tags",
            "public.asset_check_executions",
            "public.instigators",
        ),
    },
    "files": {"dagster", "logs"},
    "stored": {"messages of all streams"},
}


def judged_stretch(began: float, length_s: float) -> tuple[float, float]:
    """From when to when curves are judged, seconds of the soak. `began`: its time, seconds since 1970."""
    first_end = -began % 3600
    ends = [0.0, *(first_end + 3600 * n for n in range(int(length_s // 3600) + 1)), length_s]
    inside = sorted({min(end, length_s) for end in ends})
    return max(pairwise(inside), key=lambda stretch: stretch[1] - stretch[0])


def judge(group: str, name: str, points: Sequence[tuple[float, float]], stretch: tuple[float, float]) -> Verdict:
    """The verdict on one curve in this stretch of a soak."""
    if name in _WITH_DATA.get(group, ()):
        return "grows with the data"
    begin, length_s = stretch[0], stretch[1] - stretch[0]
    third = [value for at, value in points if length_s / 2 <= at - begin < length_s * 3 / 4]
    last = [value for at, value in points if length_s * 3 / 4 <= at - begin <= length_s]
    if length_s < SHORTEST_S or len(third) < 4 or len(last) < 4:
        return "too short"
    before, after = statistics.median(third), statistics.median(last)
    rise = after - before
    return "grows" if rise > TOLERANCE * before and rise > _FLOOR.get(group, 0.0) else "steady"
