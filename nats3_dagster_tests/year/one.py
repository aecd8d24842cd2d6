"""One row in a process of its own: prints `[least seconds, peak MB]`. Started by `__main__`, with its environment."""

import json
import sys
import time

from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.bench.memory import own_peak_mb
from nats3_dagster_tests.year.rows import ROWS

row = ROWS[sys.argv[1]]
took: list[float] = []
with Workspace(Settings.load()) as workspace:
    for _ in range(row.times):
        began = time.perf_counter()
        row.call(workspace)
        took.append(time.perf_counter() - began)
print(json.dumps([min(took), own_peak_mb()]))
