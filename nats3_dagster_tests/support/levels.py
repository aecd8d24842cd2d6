"""Messages with a level, and how many of them are errors: what readers of chunks are asked."""

import json

from nats3_dagster_tests.support.stored import Made

LEVELS = ("info", "error", "debug", "error")
# What the messages 1 to 100 have in the hour 10.
ERRORS = [("logs.a", 25), ("logs.b", 25)]


def message(seq: int) -> Made:
    data = json.dumps({"level": LEVELS[seq % 4], "seq": seq}).encode()
    return Made(seq, "logs.a" if seq % 4 == 1 else "logs.b", data)
