"""Tables of `nats3 load`: columns and lines, made from documents (documents.replays)."""

from datetime import timedelta
from pathlib import Path
from typing import Any

from nats3_dagster.cli.terminal.output import Columns, Size, counted, text_of, when
from nats3_dagster.steps import Next

LIST: Columns = {
    "ID": lambda r: r["replay"],
    "STATE": lambda r: r["state"],
    "ARCHIVE": lambda r: r["archive"],
    # Replay.acknowledged: at least these while it runs, and after it was stopped.
    "PUBLISHED": lambda r: r["published"],
    "CREATED": lambda r: when(r["created"]),
    "CHUNKS": lambda r: f"{r['chunks_done']:,} of {r['chunks']:,}",
    # For a replay that follows its archive: its lag.
    "INTO": lambda r: r["targets"],
    "SUBJECTS": lambda r: f"{r['read_subject']} to {r['write_subject']}",
    "ATTEMPT": lambda r: r["attempt"],
    "WAITING": lambda r: "" if r["chunks_waiting"] is None else r["chunks_waiting"],
}


def lines(view: dict[str, Any], log: Path | None = None) -> dict[str, object]:
    """One replay as a table has it; what was not asked for is left out. `log`: of what ran it in the background."""
    return {
        "replay": view["replay"],
        "archive": view["archive"],
        "state": _state(view),
        "error": view["error"],
        "subjects": f"{view['read_subject']} to {view['write_subject']}",
        "hours": view["hours"] or None,
        "from": view["from_time"],
        "to": view["to_time"],
        "sequences": "-".join(map(str, view["sequences"])) if view["sequences"] else None,
        "order": view["order"],
        "messages a second": view["rate"],
        "bytes a second": view["byte_rate"],
        "speed": view["speed"],
        "headers": headers_of(view),
        "into": view["targets"],
        "attempt": view["attempt"],
        "chunks done": f"{view['chunks_done']:,} of {view['chunks']:,}",
        "chunks waiting": view["chunks_waiting"],
        "looks for chunks every": _seconds(view["poll_interval"]),
        "selected": view["selected"] if view["state"] == "succeeded" else None,
        "published": _least(view, "published"),
        "found by a later attempt": view["found"] or None,
        "duplicates": view["duplicates"],
        "expired": view["expired"] or None,
        "dagster runs": view["dagster_runs"] or None,
        "created": when(view["created"]),
        "started": when(view["started"]),
        "finished": when(view["finished"]),
        "log": str(log) if log and log.exists() else None,
    }


def progress_lines(view: dict[str, Any]) -> dict[str, object]:
    """Returns the progress of a load job (documents.replays) as a table has it."""
    eta, most = view["eta_seconds"], "" if view["state"] == "succeeded" else "at most "
    return {
        "state": _state(view),
        "error": view["error"],
        "messages": f"{_least(view, 'messages_done')} of {most}{view['messages']:,}",
        "chunks done": f"{view['chunks_done']:,} of {view['chunks']:,}",
        "published": _least(view, "published"),
        "found by a later attempt": view["found"] or None,
        "expired": view["expired"] or None,
        "behind": _behind(view) if view["follows"] else None,
        "attempt": view["attempt"],
        "seconds": view["seconds"] if view["attempt"] else None,
        "messages a second": view["rate"],
        "ends in": None if eta is None else str(timedelta(seconds=round(eta))),
        "updated": when(view["updated"]),
    }


def _least(view: dict[str, Any], name: str) -> str:
    """A count of messages, a lower bound until the replay has succeeded. What tasks published last, before or after a
    Ctrl-C, is known when a later attempt has asked the targets."""
    return f"{'' if view['state'] == 'succeeded' else 'at least '}{view[name]:,}"


def _state(view: dict[str, Any]) -> str:
    """The state, and how to go on. A run of Dagster that was interrupted or failed is re-executed by itself."""
    state = view["state"]
    if state not in _RESUMABLE:
        return state
    resume = f"to go on: {Next.RESUME_REPLAY(replay=view['replay']).command}"
    if state in ("interrupted", "failed") and view.get("dagster_runs"):
        return f"{state}; Dagster re-executes it as its run retries say, and if it does not, {resume}"
    return f"{state}; {resume}"


def _seconds(interval: dict[str, int] | None) -> str | None:
    return f"{interval['secs'] + interval['nanos'] / 1e9:g} s" if interval else None


def _behind(view: dict[str, Any]) -> str:
    return f"{counted(view['behind_messages'], 'message')}, {counted(view['behind_chunks'], 'chunk')}"


def headers_of(view: dict[str, Any]) -> str | None:
    """Returns a note on the treatment of headers, if it is not the usual one."""
    return ("live" if view["marks"] else "live, without marks") if view["live"] else None


# States that `nats3 load resume` goes on from.
_RESUMABLE = ("planned", "interrupted", "failed", "canceled", "paused")


def plan_lines(view: dict[str, Any]) -> dict[str, object]:
    """A plan (documents.replay_plans) as a table has it."""
    most = "" if view["messages_exact"] else "at most "
    created = view["creates_stream"]
    lines: dict[str, object] = {
        "archive": view["archive"],
        "chunks": view["chunks"],
        "messages": f"{most}{view['messages']:,}",
        "size": f"{'' if view['payload_bytes_exact'] else 'at most '}{text_of(Size(view['payload_bytes']))}",
        "first": _end(view["first_seq"], view["first_time"]),
        "last": _end(view["last_seq"], view["last_time"]),
        "subjects": f"{view['read_subject']} to {view['write_subject']}",
        "into": f"{created} (to be created)" if created else view["targets"],
        "without": view["creates_without"] or None,
        "headers": headers_of(view),
        "order": view["order"],
        "mode": view["mode"],
        "for example": [f"{pair['from']} to {pair['to']}" for pair in view["sample_subjects"]],
        "note": view["notes"] or None,
    }
    if view["timing_seconds"] is not None:
        lines["timing"] = f"at most {timedelta(seconds=round(view['timing_seconds']))}"
    if view["deletes_chunks"]:
        chunks, messages = counted(view["deletes_chunks"], "chunk"), counted(view["deletes_messages"], "message")
        lines["deletes"] = f"{most}{chunks} with {messages}"
    return lines


def _end(seq: int | None, time: str | None) -> str | None:
    """Returns the beginning or the end of the selection; a time that the catalog does not know is left out."""
    return None if seq is None else f"sequence {seq}" + (f" at {time}" if time else "")


def result_lines(view: dict[str, Any]) -> dict[str, object]:
    """A replay after an attempt; of one that had only chunks left to delete that number."""
    attempt = view["this_attempt"]
    if attempt is None:
        return {name: view[name] for name in ("replay", "archive", "state")} | {
            "chunks deleted": view["chunks_deleted"]
        }
    lines = {
        "replay": view["replay"],
        "archive": view["archive"],
        "state": view["state"],
        "chunks": view["chunks_done"],
        "selected": view["selected"],
        "published": view["published"],
        "duplicates": view["duplicates"],
        "expired": view["expired"] or None,
    }
    if view["attempt"] > 1 or attempt["found"]:
        lines["this attempt"] = f"published {attempt['published']:,}, found {attempt['found']:,} there already"
    return lines | {
        "seconds": attempt["seconds"],
        "messages a second": attempt["messages_per_s"],
        "chunks deleted": view["chunks_deleted"],
    }
