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
from nats3_dagster.model import ORDERS, Pace, ReplaySpec, Selection
from nats3_dagster.pipeline.replay_run import run_replay
from nats3_dagster.pipeline.session import session
from nats3_dagster.replay.begin import begin
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace


def spec_of(arguments: argparse.Namespace) -> ReplaySpec:
    if not arguments.archive or not arguments.write_subject:
        raise OperatorError("Nothing says what to replay", "Give ARCHIVE and --write-subject, or --resume ID")
    selection = Selection.parse(
        hours=arguments.hour, from_time=arguments.from_time, to_time=arguments.to_time,
        subjects=[arguments.read_subject],
    )  # fmt: skip
    return ReplaySpec(
        arguments.archive, arguments.write_subject, selection, arguments.order, Pace(rate=arguments.rate)
    )


def begun(settings: Settings, spec: ReplaySpec) -> str:
    with Workspace(settings) as ws:
        return begin(ws, spec)[0].id


def main() -> int:
    parser = argparse.ArgumentParser(prog="republish.py", description="Publish archived messages into NATS")
    parser.add_argument("archive", nargs="?")
    parser.add_argument("--write-subject")
    parser.add_argument("--read-subject", default=">")
    parser.add_argument("--hour", action="append", default=[], help="UTC, YYYY-MM-DD-HH:00; may be given again")
    parser.add_argument("--from-time", help="RFC 3339; messages stored then or later")
    parser.add_argument("--to-time", help="RFC 3339; messages stored before")
    parser.add_argument("--rate", type=float, metavar="N", help="at most so many messages a second")
    parser.add_argument("--order", default="stream", choices=ORDERS)
    parser.add_argument("--resume", metavar="ID")
    arguments = parser.parse_args()
    try:
        settings = Settings.load()
        replay_id = arguments.resume or begun(settings, spec_of(arguments))
        print(json.dumps({"replay": replay_id}), flush=True)
        with session(settings.spark_master) as spark:
            print(json.dumps(asdict(run_replay(spark, settings, replay_id))), flush=True)
    except Nats3Error as error:
        print(f"republish.py: {error}", file=sys.stderr)
        return error.exit_status
    return 0


if __name__ == "__main__":
    sys.exit(main())
