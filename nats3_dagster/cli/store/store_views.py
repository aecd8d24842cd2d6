"""Tables of `nats3 store`: columns and lines, made from documents (documents.archives and holdings)."""

from collections.abc import Iterable, Sequence
from typing import Any

from nats3_dagster.cli.terminal.output import Columns, Prose, Size, text_of, when
from nats3_dagster.model import ArchiveSpec
from nats3_dagster.model.archive_spec import own_buffer, own_durable
from nats3_dagster.model.dagster_settings import DAGSTER_SETTINGS
from nats3_dagster.model.spec_table import Setting, settings_of

# Hours that the table of a run has a row for each of.
LISTED = 12
# The state of an archive where its source is not ok.
_SOURCE_STATES = {
    "missing": "stream missing",
    "recreated": "stream was made again",
    "shrunk": "stream lost its end",
    "unreachable": "NATS not reachable",
    "consumer_missing": "consumer missing",
    "buffer_missing": "buffer missing",
}


def _state(view: dict[str, Any]) -> str:
    """Returns the problem of an archive's source, else the state that was asked for."""
    wanted = "paused" if view["paused"] else "active"
    return _SOURCE_STATES.get(view["source"], wanted)


def consumer_to_delete(archive: str, stream: str, durable: str | None, keep: bool) -> str:
    """Returns the end of a sentence about the consumer of an archive that is to be deleted."""
    if durable is None:
        return ""
    if durable != own_durable(archive):
        return f". Its consumer {durable} stays"
    if keep:
        return f". Its consumer {durable} stays: stream {stream} goes on keeping messages for it"
    return (
        f". It also deletes consumer {durable} of stream {stream}; of a stream with interest retention, "
        "messages that only it waits for go with it"
    )


def buffer_to_delete(archive: str, buffer_s: int, keep: bool) -> str:
    """Returns the end of a sentence about the buffer of an archive that is to be deleted."""
    if not buffer_s:
        return ""
    return (
        f". Its buffer {own_buffer(archive)} stays" if keep else f". It also deletes its buffer {own_buffer(archive)}"
    )


def change_lines(spec: type[Any], changes: Iterable[dict[str, Any]]) -> dict[str, str]:
    """The old and the new value of each changed setting of a spec, by the name that lists have for it."""
    settings = {one.name: one for one in settings_of(spec)}
    lines: dict[str, str] = {}
    for change in changes:
        one = settings.get(change["field"])
        old, new = (_value(one, change[which]) for which in ("old", "new"))
        lines[one.label if one else change["field"]] = f"{old} -> {new}"
    return lines


def _value(setting: Setting | None, value: Any) -> str:
    if setting is None:  # the replays by name
        return "; ".join(map(_preset, value)) or "none"
    return text_of(setting.shown(value))


def _preset(preset: dict[str, Any]) -> str:
    """A replay by name with its settings."""
    settings = ", ".join(f"{key} {text_of(value)}" for key, value in preset.items() if key != "name")
    return f"{preset['name']} ({settings})"


def _bucket(view: dict[str, Any]) -> str:
    return "/".join(part for part in (view["bucket"], view["prefix"]) if part)


LIST: Columns = {
    "NAME": lambda a: a["archive"],
    "STATE": _state,
    "LAG": lambda a: a["lag"],
    "STREAM": lambda a: a["stream"],
    "MESSAGES": lambda a: a["messages"],
    "LAST MESSAGE": lambda a: when(a["last_time"]),
    "STORED": lambda a: Size(a["stored_bytes"]),
    "SIZE": lambda a: Size(a["payload_bytes"]),
    "CHUNKS": lambda a: a["chunks"],
    "SUBJECTS": lambda a: a["subjects"] or ">",
    "BUCKET": _bucket,
}


def archive_lines(view: dict[str, Any]) -> dict[str, object]:
    """An archive, with its source and holdings where they are in it."""
    lines: dict[str, object] = {
        "archive": view["archive"],
        "state": _state(view),
        **_source_lines(view),
        **_setting_lines(view),
        "created": when(view["created"]),
    }
    if "coverage" not in view:
        lines |= {
            "messages": view["messages"],
            "size": Size(view["payload_bytes"]),
            "stored": Size(view["stored_bytes"]),
            "ratio": view["ratio"],
            "chunks": view["chunks"],
        }
        return lines
    proven = f"{view['hours_covered']:,} covered, {view['hours_sealed']:,} sealed, {view['hours_replayed']:,} replayed"
    lines |= {
        "lost": _losses(view) or "nothing",
        "removed": [f"{count:,} {reason}" for reason, count in view["removed"].items()] or None,
        "messages": view["messages"],
        "size": Size(view["payload_bytes"]),
        "stored": Size(view["stored_bytes"]),
        "ratio": view["ratio"],
        "chunks": view["chunks"],
        "hours": f"{view['hours']:,} with messages, {proven}",
    }
    for c in view["coverage"]:
        lines[f"stream of {text_of(when(c['stream_created']))}"] = _coverage_line(c)
    if (left := view["unswept"])["objects"]:
        size = text_of(Size(left["bytes"]))
        lines["deleted"] = f"{left['objects']:,} objects ({size}), kept until {text_of(when(left['until']))}"
    incomplete = {copy["bucket"] for copy in view["incomplete_copies"]}
    for bucket in view["copies"]:
        if bucket not in incomplete:
            lines[f"copy in {bucket}"] = "has every object, by the catalog"
    for copy in view["incomplete_copies"]:
        size = text_of(Size(copy["bytes"]))
        since = f" since {text_of(when(copy['since']))}" if copy["since"] else ""
        lines[f"copy in {copy['bucket']}"] = f"{copy['objects']:,} objects ({size}) are missing{since}"
    if view["drill"]:
        lines["drill"] = _drill_line(view["drill"])
    if view["holds"]:
        lines["holds"] = ", ".join(f"{hold['name']} ({hold['reason']})" for hold in view["holds"])
    for number, g in enumerate(view["gaps"]):
        some = ", ".join(f"{a}-{b}" for a, b in g["ranges"][:5]) + (" ..." if len(g["ranges"]) > 5 else "")
        lines[f"gap {number + 1}"] = f"{g['sequences']:,} {g['reason']}: {some}"
    return lines


def _drill_line(drill: dict[str, Any]) -> str:
    """Returns when restoring was tried, and what a loss of the stream would have cost then."""
    at = text_of(when(drill["at"]))
    if drill["error"]:
        proven = f"; it did at {text_of(when(drill['proven_at']))}" if drill["proven_at"] else ""
        return f"at {at} restoring did not work{proven}: {drill['error']}"
    whole = f", all of them would take {drill['rto_s']:,} s" if drill["rto_s"] is not None else ""
    point = f"; archived up to {_age(drill['rpo_s'])} before" if drill["rpo_s"] is not None else ""
    return f"at {at} {drill['messages']:,} messages came back in {drill['seconds']:,} s{whole}{point}"


def _setting_lines(view: dict[str, Any]) -> dict[str, object]:
    """The settings of an archive, without texts that are empty, and without those of its assets that have no value."""
    values = {one: view[one.body_key] for one in settings_of(ArchiveSpec) if one.name != "name"}
    return {
        one.label: one.shown(value)
        for one, value in values.items()
        if value or (value not in (None, "") and one.name not in DAGSTER_SETTINGS)
    }


def _losses(view: dict[str, Any]) -> list[str]:
    """Returns the losses by reason, and the place after which a removed stream may have had more messages."""
    unknown = (c for c in view["coverage"] if c.get("unknown_after_seq") is not None)
    return [f"{count:,} {reason}" for reason, count in view["losses"].items()] + [
        f"unknown end: what the stream of {text_of(when(c['stream_created']))} had after sequence "
        f"{c['unknown_after_seq']:,}"
        for c in unknown
    ]


def _source_lines(view: dict[str, Any]) -> dict[str, object]:
    """Returns the problem of the source and the fix; else the lag, and how near a loss is."""
    lag, loss = view["lag"], view.get("time_to_loss")
    if view["error"]:
        paused = "It is paused as well. " if view["paused"] else ""
        return {"problem": f"{paused}{'. '.join(filter(None, (view['error'], view['next'])))}"}
    if loss is None:  # asked for one archive at a time
        return {"lag": lag}
    if not lag:
        early = f". {loss['early']}" if loss["early"] else ""
        if unmatched := view.get("unmatched_subjects"):
            return {"lag": f"0: no subject of the stream matches {', '.join(unmatched)} any more{early}"}
        return {"lag": loss["text"] if loss["gone"] else f"0: everything is captured{early}"}
    return {
        "lag": f"{lag:,} sequences are not captured, the oldest is {_age(view['oldest_uncaptured_s'])} old",
        "time to loss": loss["text"],
    }


def _age(seconds: float) -> str:
    for unit, size in (("days", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def _coverage_line(view: dict[str, Any]) -> str:
    restored = view.get("stream_restored")
    return _covered(view) + (f"; restored from a backup at {text_of(when(restored))}, and goes on" if restored else "")


def _covered(view: dict[str, Any]) -> str:
    if view["last_seq"] < view["first_seq"]:
        return "nothing captured yet"
    first, complete, last = view["first_seq"], view["complete_to_seq"], view["last_seq"]
    if complete < first:
        whole = f"holes from sequence {first} to {last}"
    else:
        whole = f"complete from sequence {first} to {complete}" + (f", holes up to {last}" if complete < last else "")
    if not view["first_time"]:
        return f"{whole}; no messages"
    return f"{whole}; {text_of(when(view['first_time']))} to {text_of(when(view['last_time']))}"


RUN: Columns = {
    "HOUR": lambda r: r["hour"],
    "MESSAGES": lambda r: r["messages"],
    "GAPS": lambda r: Prose(", ".join(f"{g['sequences']:,} {g['reason']}" for g in r["gaps"]) or "none"),
    "LOST": lambda r: r["lost"],
    "CHUNKS": lambda r: len(r["chunks"]),
    "STORED": lambda r: Size(r["stored_bytes"]),
    "SIZE": lambda r: Size(r["payload_bytes"]),
    "RATIO": lambda r: r["ratio"],
    "SECONDS": lambda r: r["seconds"],
    "MSG/S": lambda r: r["messages_per_s"],
    "CAPTURED BEFORE": lambda r: r["already_captured"],
}


def run_rows(hours: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows of a run's table: its hours, or of more than LISTED hours those with gaps and the sum of the others."""
    without = [hour for hour in hours if not hour["gaps"]]
    if len(without) <= LISTED:
        return list(hours)
    sums = {
        name: sum(hour[name] for hour in without)
        for name in ("messages", "lost", "stored_bytes", "payload_bytes", "seconds", "already_captured")
    }
    seconds, stored = sums["seconds"], sums["stored_bytes"]
    whole = sums | {
        "hour": f"{len(without)} hours, {without[0]['hour']} to {without[-1]['hour']}",
        "gaps": [],
        "chunks": [chunk for hour in without for chunk in hour["chunks"]],
        "ratio": round(sums["payload_bytes"] / stored, 2) if stored else 0.0,
        "messages_per_s": round(sums["messages"] / seconds, 1) if seconds else 0.0,
    }
    return [whole, *(hour for hour in hours if hour["gaps"])]
