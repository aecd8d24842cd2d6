"""Captures by the command line: hour after hour, with a bar for each.

The rule kept here: what was captured is told as soon as it is committed, whatever comes after it.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from nats3_dagster.cli import store_views as views
from nats3_dagster.cli.progress import bar
from nats3_dagster.cli.spark import spark_for

if TYPE_CHECKING:
    from nats3_dagster.settings import Settings


def capture_hours(
    settings: "Settings", name: str, hours: Sequence[str], results: list[dict[str, object]], *, adopt: bool = False
) -> None:
    """Capture the hours one after the other; each result is in `results` as soon as it is committed."""
    with spark_for(settings) as spark:
        from nats3_dagster.pipeline.capture_run import run_capture

        for at, hour in enumerate(hours, 1):
            with bar(f"{name} {hour} ({at} of {len(hours)})") as told:
                done = run_capture(spark, settings, name, hour, adopt=adopt, on_progress=told)
            results.append(views.captured(done))
