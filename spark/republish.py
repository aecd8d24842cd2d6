"""Replay without Dagster:

    spark/submit.sh [--master spark://HOST:7077] spark/republish.py ARCHIVE --write-subject 'replay.orders.>' [options]
    spark/submit.sh [--master spark://HOST:7077] spark/republish.py --resume ID

Its options are those of `nats3 load create`; --help lists them. Settings come from the environment of the driver, as
for the command line. Prints the replay's id as soon as it is recorded, and one line of JSON at the end: what this
attempt did, and how many messages of the replay the target has by all attempts. Exit status 0, 1 (it failed: resume
it), 2 (it cannot be right) or 130 (interrupted: resume it).
"""

import argparse
import json
import sys

from nats3_dagster.cli import exit_status
from nats3_dagster.cli.terminal.options import parse_size
from nats3_dagster.errors import OperatorError
from nats3_dagster.model import ORDERS, Pace, ReplaySpec, Selection
from nats3_dagster.pipeline.replay_run import run_replay
from nats3_dagster.pipeline.session import session
from nats3_dagster.replay.begin import begin
from nats3_dagster.replay.launch import launched
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace


def spec_of(arguments: argparse.Namespace) -> ReplaySpec:
    if not arguments.archive or not arguments.write_subject:
        raise OperatorError("No archive or replay is named", "Give ARCHIVE and --write-subject, or --resume ID")
    selection = Selection.parse(
        hours=arguments.hour,
        from_time=arguments.from_time,
        to_time=arguments.to_time,
        sequences=arguments.sequences,
        subjects=[arguments.read_subject],
    )
    byte_rate = parse_size(arguments.byte_rate) if arguments.byte_rate else None
    return ReplaySpec(
        arguments.archive,
        arguments.write_subject,
        selection,
        arguments.order,
        Pace(arguments.rate, byte_rate, arguments.speed),
        create_stream=arguments.create_stream,
        into_own_stream=arguments.into_own_stream,
        over_gaps=arguments.over_gaps,
        poll_interval_s=arguments.poll_interval,
        live=arguments.live,
        marks=not arguments.no_marks,
        like_source=arguments.like_source,
    )


def begun(settings: Settings, spec: ReplaySpec) -> str:
    with Workspace(settings) as ws:
        return begin(ws, spec)[0].id


def options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="republish.py", description="Publish archived messages into NATS")
    add = parser.add_argument
    add("archive", nargs="?")
    add("--resume", metavar="ID", help="go on with this replay")
    add("--poll-interval", type=float, metavar="SECONDS", help="follow the archive: look for new chunks this often")
    add("--write-subject", help="where messages go: replay.orders.>, replay.{{wildcard(1)}}, or one subject")
    add("--read-subject", default=">", help="only these subjects (NATS filter)")
    add("--hour", action="append", default=[], help="UTC, YYYY-MM-DD-HH:00; may be given again")
    add("--from-time", metavar="TIME", help="messages stored then or later: 2026-11-21T07:00:00Z or -2h")
    add("--to-time", metavar="TIME", help="messages stored before")
    add("--sequences", metavar="A-B", help="sequences, both included")
    add("--order", default="stream", choices=ORDERS, help="order kept: total, of each subject, or none")
    add("--rate", type=float, metavar="MSG/S", help="at most so many messages a second")
    add("--byte-rate", metavar="SIZE", help="at most so many bytes a second")
    add("--speed", type=float, metavar="FACTOR", help="the original timing: 1 as it was, 10 ten times as fast")
    add("--create-stream", metavar="NAME", help="make a stream for the target subjects if none listens")
    add("--into-own-stream", action="store_true", help="publish even into subjects that the archived stream captures")
    add("--over-gaps", action="store_true", help="replay what there is, though messages were lost")
    add("--live", action="store_true", help="let rollup, TTL, counter and schedule headers act again")
    add("--no-marks", action="store_true", help="with --live: add no headers; it cannot be resumed then")
    add("--like-source", action="store_true", help="create the stream, or bucket, like the archived one")
    return parser


def main(arguments: argparse.Namespace) -> None:
    settings = Settings.load()
    replay_id = arguments.resume or begun(settings, spec_of(arguments))
    print(json.dumps({"replay": replay_id}), flush=True)
    with launched(settings, replay_id) as on_attempt, session(settings.spark_master) as spark:
        done = run_replay(spark, settings, replay_id, on_attempt=on_attempt)
    line = {
        "replay": done.id,
        "archive": done.archive,
        "attempt": done.attempt,
        "chunks": done.chunks,
        "selected": done.selected,
        "published": done.published,
        "found": done.found,
        "duplicates": done.duplicates,
        "seconds": round(done.seconds, 3),
        "published_by_all_attempts": done.replay.acknowledged,
    }
    print(json.dumps(line), flush=True)


if __name__ == "__main__":
    arguments = options().parse_args()
    sys.exit(exit_status.run(lambda: main(arguments)))
