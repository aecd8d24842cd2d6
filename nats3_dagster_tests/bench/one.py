"""One row in a process of its own: prints `[seconds, peak MB]`. Started by `__main__`, with its environment."""

import json
import sys

from nats3_dagster.settings import Settings
from nats3_dagster_tests.bench.memory import own_peak_mb
from nats3_dagster_tests.bench.rows import ROWS, Case

name, messages, size, batched, replicas = sys.argv[1:]
seconds = ROWS[name](Case(Settings.load(), int(messages), int(size), batched == "1", int(replicas)))
print(json.dumps([seconds, own_peak_mb()]))
