"""Tables of `nats3 table`: columns and lines, made from documents (documents.tables)."""

from typing import Any

from nats3_dagster.cli.terminal.output import Columns, when

LIST: Columns = {
    "ARCHIVE": lambda t: t["archive"],
    "CATALOG": lambda t: t["catalog"],
    "TABLE": lambda t: t["table"],
    "CHUNKS": lambda t: t["chunks"],
    "LAG": lambda t: "changed" if t["changed"] else t["lacking"] + t["surplus"],
    "SYNCED": lambda t: when(t["synced_at"]),
    "ERROR": lambda t: t["error"] or (t["changed"] and f"Changed by another program: {t['changed']}"),
}


def lines(view: dict[str, Any]) -> dict[str, object]:
    deleted = " (deleted)" if view["archive_deleted"] else ""
    return {
        "archive": f"{view['archive']}{deleted}",
        "catalog": view["catalog"],
        "table": view["table"],
        "location": view["location"],
        "chunks": view["chunks"],
        "lacking": view["lacking"],
        "surplus": view["surplus"],
        "synced": when(view["synced_at"]),
        "snapshot": view["snapshot_id"] and str(view["snapshot_id"]),
        "changed by another program": view["changed"],
        "asked": when(view["seen_at"]),
        "error": view["error"],
        "failed": when(view["failed_at"]),
    }


def synced_lines(view: dict[str, Any]) -> dict[str, object]:
    names = ("archive", "catalog", "table", "added", "removed", "commits", "chunks")
    snapshot = view["snapshot_id"] and str(view["snapshot_id"])
    return {**{name: view[name] for name in names}, "snapshot": snapshot}


def verified_lines(view: dict[str, Any]) -> dict[str, object]:
    return {name: value for name, value in view.items() if name not in ("faults", "revision", "was_unguarded")}
