"""Capture hours of an archive without Dagster:

    spark/submit.sh [--master spark://HOST:7077] spark/capture.py ARCHIVE --hour 2026-11-21-07:00 [--hour ...] [--adopt]

Settings come from the environment of the driver, as for the command line; executors get theirs with the tasks.
Prints one line of JSON for each hour. Exit status 0, 1 (it failed), 2 (it cannot be right) or 130 (interrupted).
"""

import argparse
import json
import sys

from nats3_dagster.archive.captures.hour_run import HourRun
from nats3_dagster.cli import exit_status
from nats3_dagster.cli.wording import WORDS
from nats3_dagster.pipeline.capture_run import run_captures
from nats3_dagster.pipeline.session import session
from nats3_dagster.settings import Settings
from nats3_dagster.steps import Next

# What this script has an option for.
_WORDS = {
    code: f"{code.text}: --adopt" for code in (Next.ADOPT_RESTORED, Next.ADOPT_STREAM, Next.ADOPT_INCARNATION)
} | {
    Next.CAPTURE_HOUR: f"{Next.CAPTURE_HOUR.text}: --hour {{hour}}",
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="capture.py", description="Capture hours of an archive")
    parser.add_argument("archive")
    parser.add_argument("--hour", action="append", required=True, help="UTC, YYYY-MM-DD-HH:00; may be given again")
    parser.add_argument("--adopt", action="store_true", help="go on with a stream that was made again")
    arguments = parser.parse_args()
    settings = Settings.load()
    with session(settings.spark_master) as spark:
        run = HourRun(sorted(set(arguments.hour)))
        jobs = run_captures(spark, settings, arguments.archive, run, lambda *_: None, adopt=arguments.adopt)
        for done in (result for job in jobs for result in job):
            line = {
                "archive": done.archive,
                "hour": done.hour,
                "messages": done.messages,
                "chunks": len(done.chunks),
                "payload_bytes": done.payload_bytes,
                "stored_bytes": done.stored_bytes,
                "lost": done.lost,
                "seconds": round(done.seconds, 3),
            }
            print(json.dumps(line), flush=True)
    run.raise_errors()


if __name__ == "__main__":
    sys.exit(exit_status.run(main, words=WORDS | _WORDS))
