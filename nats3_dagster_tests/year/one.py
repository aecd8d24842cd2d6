"""One row in a process of its own: prints `[least seconds, least processor seconds, peak MB]`."""

import json
import os
import sys
import time

from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.bench.memory import own_peak_mb
from nats3_dagster_tests.year.rows import ROWS

row = ROWS[sys.argv[1]]
took: list[float] = []
cpu: list[float] = []
with Workspace(Settings.load()) as workspace:
    for _ in range(row.times):
        began, used = time.perf_counter(), time.process_time()
        row.call(workspace)
        took.append(time.perf_counter() - began)
        cpu.append(time.process_time() - used)
print(json.dumps([min(took), min(cpu), own_peak_mb()]), flush=True)
# Without waiting for the threads of a server that answered.
os._exit(0)
