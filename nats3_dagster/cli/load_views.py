"""What `nats3 load` shows of a replay: the JSON, and the table's columns.

The rule kept here: JSON keys are snake case, numbers are plain, times are RFC 3339 in UTC; they are an interface.
"""

from typing import TYPE_CHECKING, Any

from nats3_dagster.cli.terminal import Columns, stamp_of, time_of, when

if TYPE_CHECKING:
    from nats3_dagster.model import Replay
    from nats3_dagster.replay.job import ReplayResult


def replay(of: "Replay", state: str) -> dict[str, Any]:
    spec, selection = of.spec, of.spec.selection
    return {
        "id": of.id, "archive": spec.archive, "state": state, "error": of.error, "read_subject": spec.read_subject,
        "write_subject": spec.write_subject, "hours": list(selection.hours), "from_time": time_of(selection.from_ns),
        "to_time": time_of(selection.to_ns),
        "seqs": list(selection.sequences) if selection.sequences else None, "order": spec.order,
        "rate": spec.pace.messages_per_s, "byte_rate": spec.pace.bytes_per_s, "speed": spec.pace.speed,
        "over_gaps": spec.over_gaps, "delete_chunks": spec.delete_chunks,
        "targets": [t.incarnation.stream for t in of.targets], "attempt": of.attempt, "chunks": of.chunks,
        "chunks_done": of.chunks_done, "selected": of.selected, "published": of.published, "found": of.found,
        "duplicates": of.duplicates, "dagster_runs": list(of.run_ids), "created_at": stamp_of(of.created_at),
        "started_at": stamp_of(of.started_at), "finished_at": stamp_of(of.finished_at),
    }  # fmt: skip


LIST: Columns = {
    "ID": lambda r: r["id"],
    "ARCHIVE": lambda r: r["archive"],
    "STATE": lambda r: r["state"],
    "SUBJECTS": lambda r: f"{r['read_subject']} to {r['write_subject']}",
    "INTO": lambda r: r["targets"],
    "CHUNKS": lambda r: f"{r['chunks_done']:,} of {r['chunks']:,}",
    "PUBLISHED": lambda r: r["published"],
    "ATTEMPT": lambda r: r["attempt"],
    "CREATED": lambda r: when(r["created_at"]),
}


def lines(of: dict[str, Any]) -> dict[str, object]:
    """One replay as a table has it; what was not asked for is left out."""
    state = of["state"]
    return {
        "replay": of["id"], "archive": of["archive"],
        "state": f"{state}; to go on: nats3 load resume {of['id']}" if state in _RESUMABLE else state,
        "error": of["error"], "subjects": f"{of['read_subject']} to {of['write_subject']}",
        "hours": of["hours"] or None, "from": of["from_time"], "to": of["to_time"], "sequences": of["seqs"],
        "order": of["order"], "messages a second": of["rate"], "bytes a second": of["byte_rate"], "speed": of["speed"],
        "into": of["targets"], "attempt": of["attempt"], "chunks done": f"{of['chunks_done']:,} of {of['chunks']:,}",
        "selected": of["selected"], "published": of["published"], "found there": of["found"],
        "duplicates": of["duplicates"], "dagster runs": of["dagster_runs"] or None, "created": when(of["created_at"]),
        "started": when(of["started_at"]), "finished": when(of["finished_at"]), "log": of["log"],
    }  # fmt: skip


_RESUMABLE = ("interrupted", "failed", "canceled", "planned")


def result(of: "ReplayResult") -> dict[str, Any]:
    return {
        "id": of.id, "archive": of.archive, "state": "succeeded", "attempt": of.attempt, "chunks": of.chunks,
        "selected": of.selected, "published": of.published, "found": of.found, "duplicates": of.duplicates,
        "seconds": round(of.seconds, 3), "messages_per_s": round(of.published / of.seconds) if of.seconds else None,
    }  # fmt: skip


def result_lines(of: dict[str, Any]) -> dict[str, object]:
    return {
        "replay": of["id"], "archive": of["archive"], "state": of["state"], "chunks": of["chunks"],
        "selected": of["selected"], "published": of["published"], "found there": of["found"],
        "duplicates": of["duplicates"], "seconds": of["seconds"], "messages a second": of["messages_per_s"],
        "chunks deleted": of.get("chunks_deleted"),
    }  # fmt: skip

