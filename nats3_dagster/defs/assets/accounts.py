"""The asset of a rule for an account: the page that names each stream with its archive, or why it has none."""

import hashlib
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from dagster import AssetMaterialization, AssetSpec, MetadataValue

from nats3_dagster.defs.assets.markdown import cell, code
from nats3_dagster.defs.keys import Naming
from nats3_dagster.defs.project.platform import STREAM, Platform

if TYPE_CHECKING:
    from nats3_dagster.archive.account.follow import Followed
    from nats3_dagster.archive.account.plan import StreamPlan
    from nats3_dagster.documents.account_restores import AccountDrill

# Rows of a table: Dagster keeps each event with its tables.
_MOST_ROWS = 200


def account_asset(naming: Naming, platform: Platform, rule: str) -> AssetSpec:
    """`jetstream/account/<rule>`."""
    described: Any = platform.of(STREAM, None, group="jetstream", kinds={"nats"})
    return AssetSpec(
        naming.account_key(rule),
        description=f"Streams of the account by the rule {code(rule)}: which has an archive, and why the others have "
        f"none. `account_sensor` reports each change here. In a shell: nats3 account get {rule}",
        **described,
    )


def account_event(naming: Naming, found: "Followed") -> AssetMaterialization:
    """The state of an account after a tick."""
    counts = Counter(one.action for one in found.streams)
    left_out = [one for one in found.streams if one.action == "left_out"]
    return AssetMaterialization(
        naming.account_key(found.rule.name),
        metadata={
            "streams": len(found.streams) - counts["ended"],
            "archived": counts["archived"] + counts["remade"] + counts["restoring"] + len(found.created),
            "left_out": len(left_out),
            "ended": counts["ended"],
            "failed": len(found.problems),
            **({"failures": MetadataValue.md(_failures(naming, found))} if found.problems else {}),
            **({"streams_left_out": MetadataValue.md(_table(naming, left_out))} if left_out else {}),
            "in_the_shell": f"nats3 account get {found.rule.name}",
        },
    )


def drill_metadata(found: "AccountDrill") -> dict[str, Any]:
    """The result of a drill, for the rule's page."""
    failures = [f"| {cell(one.archive)} | {cell(one.error)} |" for one in found.archives if one.error]
    points = [one.rpo_s for one in found.archives if one.rpo_s is not None]
    return {
        "messages": found.messages,
        "seconds": found.seconds,
        "failed": found.failed,
        **({"oldest_recovery_point_s": max(points)} if points else {}),
        **({"failures": MetadataValue.md(_cut(["| archive | failure |", "|---|---|"], failures))} if failures else {}),
        "in_the_shell": f"nats3 account drill {found.rule}",
    }


def digest(found: "Followed") -> str:
    """Returns a text that another one differs from if the page would: an event for each tick would fill Dagster's
    tables."""
    said = [
        (one.stream, "archived" if one.action == "create" else one.action, one.reason.what if one.reason else "")
        for one in found.streams
    ]
    problems = sorted((stream, error.what) for stream, error in found.problems.items())
    return hashlib.sha256(repr((said, problems)).encode()).hexdigest()[:16]


def _table(naming: Naming, streams: Iterable["StreamPlan"]) -> str:
    rows = [
        f"| {cell(one.stream)} | {cell(one.reason.what)} | {cell(one.reason.hint_in(naming.words))} |"
        for one in streams
        if one.reason
    ]
    return _cut(["| stream | why | to archive it |", "|---|---|---|"], rows)


def _failures(naming: Naming, found: "Followed") -> str:
    failures = sorted(found.problems.items())
    rows = [f"| {cell(stream)} | {cell(error.text_in(naming.words))} |" for stream, error in failures]
    return _cut(["| stream | failure |", "|---|---|"], rows)


def _cut(head: list[str], rows: list[str]) -> str:
    more = [f"| and {len(rows) - _MOST_ROWS:,} more |"] if len(rows) > _MOST_ROWS else []
    return "\n".join([*head, *rows[:_MOST_ROWS], *more])
