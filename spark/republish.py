"""Replay without Dagster:

    spark-submit --master spark://HOST:7077 spark/republish.py ARCHIVE --write-subject 'replay.orders.>' \
        [--read-subject 'orders.>'] [--hour H ...] [--from-time T] [--to-time T] [--order stream|subject|none]
    spark-submit --master spark://HOST:7077 spark/republish.py --resume ID

Settings come from the environment of the driver, as for the command line. Prints the replay's id as soon as it is
recorded, and one line of JSON at the end. Exit status 0, 1 (it failed: resume it) or 2 (it cannot be right).
"""

import argparse
import json
import sys
from dataclasses import asdict

from nats3_dagster.errors import Nats3Error, OperatorError
from nats3_dagster.hours import parse_time
from nats3_dagster.model import Pace, ReplaySpec
from nats3_dagster.pipeline.replay_run import create_replay, run_replay
from nats3_dagster.pipeline.session import session
from nats3_dagster.settings import Settings


def spec_of(arguments: argparse.Namespace) -> ReplaySpec:
    if not arguments.archive or not arguments.write_subject:
        raise OperatorError("Nothing says what to replay", "Give ARCHIVE and --write-subject, or --resume ID")
    return ReplaySpec(
        archive=arguments.archive, read_subject=arguments.read_subject, write_subject=arguments.write_subject,
        hours=tuple(arguments.hour), order=arguments.order, pace=Pace(messages_per_s=arguments.rate),
        from_ns=parse_time(arguments.from_time) if arguments.from_time else None,
        to_ns=parse_time(arguments.to_time) if arguments.to_time else None,
    )  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(prog="republish.py", description="Publish archived messages into NATS")
    parser.add_argument("archive", nargs="?")
    parser.add_argument("--write-subject")
    parser.add_argument("--read-subject", default=">")
    parser.add_argument("--hour", action="append", default=[], help="UTC, YYYY-MM-DD-HH:00; may be given again")
    parser.add_argument("--from-time", help="RFC 3339; messages stored then or later")
    parser.add_argument("--to-time", help="RFC 3339; messages stored before")
    parser.add_argument("--rate", type=float, metavar="N", help="at most so many messages a second")
    parser.add_argument("--order", default="stream", choices=("stream", "subject", "none"))
    parser.add_argument("--resume", metavar="ID")
    arguments = parser.parse_args()
    try:
        settings = Settings.load()
        replay_id = arguments.resume or create_replay(settings, spec_of(arguments))
        print(json.dumps({"replay": replay_id}), flush=True)
        with session(settings.spark_master) as spark:
            print(json.dumps(asdict(run_replay(spark, settings, replay_id))), flush=True)
    except Nats3Error as error:
        print(f"republish.py: {error}", file=sys.stderr)
        return error.exit_status
    return 0


if __name__ == "__main__":
    sys.exit(main())
