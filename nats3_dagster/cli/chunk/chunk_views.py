"""Tables of `nats3 chunk`: columns and lines, made from documents (documents.chunks)."""

from typing import Any

from nats3_dagster.cli.terminal.output import Columns, Size, when

LIST: Columns = {
    "ID": lambda c: str(c["id"]),
    "HOUR": lambda c: c["hour"],
    "SEQUENCES": lambda c: f"{c['first_seq']}-{c['last_seq']}",
    "MESSAGES": lambda c: c["messages"],
    "STORED": lambda c: Size(c["stored_bytes"]),
    "SIZE": lambda c: Size(c["payload_bytes"]),
    "FIRST": lambda c: when(c["first_time"]),
    "LAST": lambda c: when(c["last_time"]),
    "RATIO": lambda c: c["ratio"],
}


def lines(view: dict[str, Any]) -> dict[str, object]:
    some = [f"{subject} ({count:,})" for subject, count in list((view["subjects"] or {}).items())[:10]]
    more = len(view["subjects"] or {}) - len(some)
    lines: dict[str, object] = {
        "chunk": str(view["id"]),
        "archive": view["archive"],
        "hour": view["hour"],
        "stream": f"{view['stream']}, created {view['stream_created']}",
        "sequences": f"{view['first_seq']}-{view['last_seq']}",
        "messages": view["messages"],
        "absent": f"{view['absent']:,} {view['absent_reason']}" if view["absent"] else 0,
        "size": Size(view["payload_bytes"]),
        "stored": Size(view["stored_bytes"]),
        "ratio": view["ratio"],
        "first": view["first_time"],
        "last": view["last_time"],
        "object": f"{view['bucket']}/{view['key']}",
        "sha256": view["sha256"],
        "committed": when(view["committed_at"]),
        "dagster run": view["dagster_run_url"] or view["dagster_run"],
        "partition": view["dagster_partition_url"],
        "subjects": ", ".join(some) + (f" and {more:,} more" if more else "") or None,
    }
    for replay in view["replays"]:
        lines[f"replay {replay['replay']}"] = (
            f"{replay['state']}: {replay['published']:,} published, {replay['found']:,} found there, "
            f"{replay['duplicates']:,} duplicates; run {replay['dagster_run_url'] or replay['dagster_run'] or '-'}"
        )
    return lines
