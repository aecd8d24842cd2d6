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
    "SIZE": lambda c: Size(c["payload_bytes"]),
    "STORED": lambda c: Size(c["stored_bytes"]),
    "RATIO": lambda c: c["ratio"],
    "FIRST": lambda c: when(c["first_time"]),
    "LAST": lambda c: when(c["last_time"]),
}


def chunk(report: ChunkReport, dagster_url: str | None) -> dict[str, Any]:
    """All of a chunk: the run that captured it, the partition it is in, the replays that published it and their runs;
    with the address of each in the Dagster UI where that is known."""
    of = report.chunk
    subjects, deleted = of.meta.subjects, of.meta.deleted
    partition = f"{dagster_url}/assets/{of.meta.archive}/chunks?view=partitions&partition={of.meta.hour}"
    return summary(of) | {
        "dagster_run_url": _run_url(dagster_url, of.dagster_run_id),
        "dagster_partition_url": partition if dagster_url else None,
        "subjects": None if subjects is None else dict(sorted(subjects.items(), key=lambda s: (-s[1], s[0]))),
        "deleted": None if deleted is None else [list(r) for r in deleted],
        "replays": [_replay(r) | {"dagster_run_url": _run_url(dagster_url, r.dagster_run_id)} for r in report.replays],
    }


def _run_url(dagster_url: str | None, run_id: str | None) -> str | None:
    return f"{dagster_url}/runs/{run_id}" if dagster_url and run_id else None


def _replay(of: ReplayChunk) -> dict[str, Any]:
    return {
        "replay": of.replay_id, "state": of.state, "selected": of.selected, "published": of.published,
        "found": of.found, "duplicates": of.duplicates, "attempt": of.attempt, "dagster_run": of.dagster_run_id,
        "finished_at": stamp_of(of.finished_at),
    }  # fmt: skip


def lines(of: dict[str, Any]) -> dict[str, object]:
    some = [f"{subject} ({count:,})" for subject, count in list((of["subjects"] or {}).items())[:10]]
    more = len(of["subjects"] or {}) - len(some)
    lines: dict[str, object] = {
        "chunk": str(of["id"]), "archive": of["archive"], "hour": of["hour"],
        "stream": f"{of['stream']}, created {of['stream_created']}", "sequences": f"{of['first_seq']}-{of['last_seq']}",
        "messages": of["messages"], "absent": of["absent"], "size": Size(of["payload_bytes"]),
        "stored": Size(of["stored_bytes"]), "ratio": of["ratio"], "first": of["first_time"], "last": of["last_time"],
        "object": f"{of['bucket']}/{of['key']}", "sha256": of["sha256"], "committed": when(of["committed_at"]),
        "dagster run": of["dagster_run_url"] or of["dagster_run"], "partition": of["dagster_partition_url"],
        "subjects": ", ".join(some) + (f" and {more:,} more" if more else "") or None,
    }  # fmt: skip
    for replay in of["replays"]:
        lines[f"replay {replay['replay']}"] = (
            f"{replay['state']}: {replay['published']:,} published, {replay['found']:,} found there, "
            f"{replay['duplicates']:,} duplicates; run {replay['dagster_run_url'] or replay['dagster_run'] or '-'}"
        )
    return lines
