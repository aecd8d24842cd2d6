"""What `nats3 chunk` shows of a chunk: the JSON, and its lines in a table.

JSON has every fact by itself, whole and unrounded; its keys are an interface. Lines are for eyes.
"""

from typing import Any

from nats3_dagster.archive.status import ChunkReport
from nats3_dagster.cli import store_views
from nats3_dagster.cli.output import Columns, Size, stamp_of, when
from nats3_dagster.model import Chunk, ReplayChunk


def summary(chunk: Chunk) -> dict[str, Any]:
    committed = {"committed_at": stamp_of(chunk.committed_at), "dagster_run": chunk.dagster_run_id}
    return {"id": chunk.id, "archive": chunk.meta.archive} | store_views.chunk_meta(chunk.meta) | committed


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


def chunk(report: ChunkReport, dagster_url: str | None) -> dict[str, Any]:
    """All of a chunk: the run that captured it, the partition it is in, the replays that published it and their runs;
    with the address of each in the Dagster UI where that is known."""
    chunk = report.chunk
    subjects, absent = chunk.meta.subjects, chunk.meta.deleted
    partition = f"{dagster_url}/assets/{chunk.meta.archive}/chunks?view=partitions&partition={chunk.meta.hour}"
    return summary(chunk) | {
        "dagster_run_url": _run_url(dagster_url, chunk.dagster_run_id),
        "dagster_partition_url": partition if dagster_url else None,
        "subjects": None if subjects is None else dict(sorted(subjects.items(), key=lambda s: (-s[1], s[0]))),
        "absent_ranges": None if absent is None else [list(r) for r in absent],
        "replays": [_replay(r) | {"dagster_run_url": _run_url(dagster_url, r.dagster_run_id)} for r in report.replays],
    }


def _run_url(dagster_url: str | None, run_id: str | None) -> str | None:
    return f"{dagster_url}/runs/{run_id}" if dagster_url and run_id else None


def _replay(replayed: ReplayChunk) -> dict[str, Any]:
    return {
        "replay": replayed.replay_id, "state": replayed.state, "selected": replayed.selected,
        "published": replayed.published,
        "found": replayed.found, "duplicates": replayed.duplicates, "expired": replayed.expired,
        "attempt": replayed.attempt,
        "dagster_run": replayed.dagster_run_id,
        "finished_at": stamp_of(replayed.finished_at),
    }  # fmt: skip


def lines(view: dict[str, Any]) -> dict[str, object]:
    some = [f"{subject} ({count:,})" for subject, count in list((view["subjects"] or {}).items())[:10]]
    more = len(view["subjects"] or {}) - len(some)
    lines: dict[str, object] = {
        "chunk": str(view["id"]), "archive": view["archive"], "hour": view["hour"],
        "stream": f"{view['stream']}, created {view['stream_created']}",
        "sequences": f"{view['first_seq']}-{view['last_seq']}",
        "messages": view["messages"],
        "absent": f"{view['absent']:,} {view['absent_reason']}" if view["absent"] else 0,
        "size": Size(view["payload_bytes"]),
        "stored": Size(view["stored_bytes"]), "ratio": view["ratio"], "first": view["first_time"],
        "last": view["last_time"],
        "object": f"{view['bucket']}/{view['key']}", "sha256": view["sha256"], "committed": when(view["committed_at"]),
        "dagster run": view["dagster_run_url"] or view["dagster_run"], "partition": view["dagster_partition_url"],
        "subjects": ", ".join(some) + (f" and {more:,} more" if more else "") or None,
    }  # fmt: skip
    for replay in view["replays"]:
        lines[f"replay {replay['replay']}"] = (
            f"{replay['state']}: {replay['published']:,} published, {replay['found']:,} found there, "
            f"{replay['duplicates']:,} duplicates; run {replay['dagster_run_url'] or replay['dagster_run'] or '-'}"
        )
    return lines
