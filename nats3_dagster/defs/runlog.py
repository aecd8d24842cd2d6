"""Progress in a run's log.

The rule kept here: a line every ten seconds, whatever the rate, because every line is a row in Dagster's storage.
"""

import time
from collections.abc import Callable

from dagster import AssetExecutionContext, OpExecutionContext

INTERVAL_S = 10.0


def logged(context: AssetExecutionContext | OpExecutionContext, what: str) -> Callable[[int, int], None]:
    """A callback `(done, total)` in messages for the pipeline. It is called from a thread of the connection's."""
    began = told = time.monotonic()

    def report(done: int, total: int) -> None:
        nonlocal told
        now = time.monotonic()
        if now - told >= INTERVAL_S:
            told = now
            share = f"{done / total:.0%} of {total:,}" if total else f"{done:,}"
            context.log.info(f"{what}: {share} messages, {done / (now - began):,.0f}/s")

    return report
