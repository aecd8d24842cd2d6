"""An account of several streams, archived by one rule, without Spark and Dagster."""

import time
from typing import Any

from nats3_dagster.archive.account import rules
from nats3_dagster.archive.account.follow import follow
from nats3_dagster.archive.captures.consumers import record_consumers
from nats3_dagster.archive.captures.open import open_source
from nats3_dagster.model import Archive
from nats3_dagster.model.account_rule import AccountRule
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.replays import archived
from nats3_dagster_tests.support.taking import run
from nats3_dagster_tests.support.wire import Wire


def make_rule(workspace: Workspace, bucket: str, **options: Any) -> None:
    """A rule `all`, and a tick of it."""
    rules.create(workspace, AccountRule("all", bucket, prefix="{stream}", **options))
    tick(workspace)


def tick(workspace: Workspace) -> None:
    """One tick; raises what one of its streams failed with."""
    for found in follow(workspace):
        for error in found.problems.values():
            raise error


def capture_all(workspace: Workspace, wire: Wire) -> None:
    """Capture everything that the streams of all archives have now, and keep their consumers."""
    for archive in workspace.catalog.archives.all():
        capture_one(workspace, wire, archive)


def capture_one(workspace: Workspace, wire: Wire, archive: Archive) -> None:
    if archive.spec.mode == "consumer":
        run(workspace, archive)
    elif wire.state(archive.spec.stream)["messages"]:
        archived(workspace, wire, archive.spec.stream, archive.spec.bucket, archive.name)
    else:
        open_source(workspace, archive)
    record_consumers(workspace, archive)


def fields(wire: Wire, stream: str, before: str | None = None) -> list[dict[str, Any]]:
    """Every field that STREAM.MSG.GET gives of each message of a stream, or of those stored before a time."""
    state = wire.state(stream)
    if not state["messages"]:
        return []
    found: list[dict[str, Any]] = []
    for seq in range(state["first_seq"], state["last_seq"] + 1):
        answer = wire.try_api(f"STREAM.MSG.GET.{stream}", seq=seq)
        if "message" in answer and (before is None or answer["message"]["time"] < before):
            found.append(answer["message"])
    return found


def moment() -> tuple[int, str]:
    """A time that no message has: in nanoseconds since 1970, and as servers write it."""
    time.sleep(0.05)
    now_ns = time.time_ns()
    time.sleep(0.05)
    whole, rest = divmod(now_ns, 10**9)
    return now_ns, f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(whole))}.{rest:09d}Z"
