"""Tables of `nats3 export`: columns and lines, made from documents (documents.exports)."""

from typing import Any

from nats3_dagster.cli.terminal.output import Columns, Prose, Size, counted, text_of, when
from nats3_dagster.model import ExportSpec
from nats3_dagster.model.spec_table import settings_of

LIST: Columns = {
    "ARCHIVE": lambda e: e["archive"],
    "EXPORT": lambda e: e["name"],
    "HOURS": lambda e: e["hours_exported"],
    "DUE": lambda e: e["hours_due"],
    "FAILED": lambda e: e["hours_failed"],
    "LAST HOUR": lambda e: e["last_hour"],
    "MESSAGES": lambda e: e["messages"],
    "UNDECODED": lambda e: e["undecoded"],
    "FILES": lambda e: e["files"],
    "SIZE": lambda e: Size(e["bytes"]),
    "FORMAT": lambda e: e["format"],
    "TO": lambda e: e["to"],
}

HOURS: Columns = {
    "HOUR": lambda h: h["hour"],
    "STATE": lambda h: h["state"],
    "MESSAGES": lambda h: h["messages"],
    "UNDECODED": lambda h: h["undecoded"],
    "FILES": lambda h: h["files"],
    "SIZE": lambda h: None if h["bytes"] is None else Size(h["bytes"]),
    "EXPORTED": lambda h: when(h["made_at"]),
    "ERROR": lambda h: Prose(h["error"] or ""),
}

PLANNED: Columns = {
    "HOUR": lambda h: h["hour"],
    "STATE": lambda h: h["state"],
    "MESSAGES": lambda h: h["messages"],
}

RUN: Columns = {
    "HOUR": lambda r: r["hour"],
    "MESSAGES": lambda r: r["messages"],
    "UNDECODED": lambda r: r["undecoded"],
    "FILES": lambda r: r["files"],
    "WRITTEN": lambda r: r["written"],
    "REMOVED": lambda r: r["removed"],
    "SIZE": lambda r: Size(r["bytes"]),
    "SECONDS": lambda r: r["seconds"],
    "MSG/S": lambda r: r["messages_per_s"],
}


def export_lines(view: dict[str, Any]) -> dict[str, object]:
    """An export: what is declared, and where its hours are in the document, how far it is."""
    lines: dict[str, object] = {"export": f"{view['archive']}/{view['name']}"}
    lines |= {one.label: one.shown(view[one.key]) for one in settings_of(ExportSpec) if one.key != "name"}
    if "hours" not in view:
        return lines
    lines |= {
        "hours": f"{view['hours_done']:,} done, {view['hours_due']:,} due, {view['hours_failed']:,} failed",
        "messages": view["messages"],
        "undecoded": view["undecoded"],
        "files": view["files"],
        "size": Size(view["bytes"]),
    }
    if retired := view["hours_retired"]:
        lines["not complete"] = f"{counted(retired, 'hour')}: chunks were deleted after a replay, before their export"
    if changed := view["hours_changed"]:
        lines["not sealed again"] = f"{counted(changed, 'hour')} changed since the export"
    if earlier := sum(h["version"] not in (None, view["version"]) for h in view["hours"]):
        lines["earlier settings"] = f"{counted(earlier, 'hour')} were exported with them"
    for one in [h for h in view["hours"] if h["state"] == "failed"][:5]:
        lines[one["hour"]] = Prose(f"failed {counted(one['failures'], 'time')}: {text_of(one['error'])}")
    return lines
