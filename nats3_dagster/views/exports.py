"""Exports as JSON documents: what is declared, what was made, and the state of each hour."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from nats3_dagster.exports.status import Listed
from nats3_dagster.model import ExportResult
from nats3_dagster.model.exported import ExportHour
from nats3_dagster.model.spec_table import to_document
from nats3_dagster.views.values import stamp_of


def export(one: Listed) -> dict[str, Any]:
    """An export and what it has made."""
    totals = one.totals
    return {"archive": one.archive.name} | to_document(one.export.spec) | {
        "version": one.export.version, "created_at": stamp_of(one.export.created_at),
        "updated_at": stamp_of(one.export.updated_at),
        "hours_exported": totals.hours, "hours_failed": totals.failed, "last_hour": totals.last_hour,
        "files": totals.files, "messages": totals.messages, "undecoded": totals.undecoded, "bytes": totals.bytes,
    }  # fmt: skip


def state(one: Listed, hours: Sequence[ExportHour]) -> dict[str, Any]:
    """An export with how many of its hours are in which state, and when one was last tried."""
    states = Counter(found.state for found in hours)
    counts = {f"hours_{state}": states[state] for state in ("done", "due", "failed", "changed", "retired")}
    tries = [one.made.made_at for one in hours if one.made] + [one.failed.at for one in hours if one.failed]
    return export(one) | counts | {"last_run_at": stamp_of(max(tries)) if tries else None}


def status(one: Listed, hours: Sequence[ExportHour], newest: int | None = None) -> dict[str, Any]:
    """An export with the state of each of its hours, or of the newest, oldest first."""
    listed = hours if newest is None else hours[max(len(hours) - newest, 0) :]
    return state(one, hours) | {"hours": [hour(found) for found in listed]}


def hour(one: ExportHour) -> dict[str, Any]:
    """`done`, `due`, `failed`, `changed` or `retired`; what was made is null where nothing was, and so is the error."""
    made, failed = one.made, one.failed
    return {
        "hour": one.hour, "state": one.state, "files": made and made.files, "messages": made and made.messages,
        "dropped": made and made.dropped, "undecoded": made and made.undecoded, "bytes": made and made.bytes,
        "version": made and made.version, "manifest": made and made.manifest,
        "made_at": stamp_of(made.made_at) if made else None, "error": failed and failed.error,
        "retired_messages": one.retired_messages,
        "failures": failed.times if failed else 0, "failed_at": stamp_of(failed.at) if failed else None,
        "run_id": one.dagster_run_id,
    }  # fmt: skip


def planned(one: ExportHour) -> dict[str, Any]:
    """An hour that a run would export: its messages of all subjects."""
    return {"hour": one.hour, "state": one.state, "messages": one.sealed[2] if one.sealed else 0}


def exported(result: ExportResult) -> dict[str, Any]:
    """What a run made of an hour."""
    return {
        "archive": result.archive, "export": result.export, "hour": result.hour, "files": result.files,
        "messages": result.messages, "dropped": result.dropped, "undecoded": result.undecoded, "bytes": result.bytes,
        "written": result.written, "removed": result.removed,
        "seconds": round(result.seconds, 3),
        "messages_per_s": round(result.messages / result.seconds) if result.seconds else None,
    }  # fmt: skip
