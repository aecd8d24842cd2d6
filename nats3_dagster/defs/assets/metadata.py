"""Metadata of events: what the UI shows of an hour, a seal, a replay and a stream.

Invariant: pure functions of what the catalog says now, so that an event that is reported again shows the same.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dagster import AssetKey, MetadataValue, TableColumn, TableRecord, TableSchema

from nats3_dagster.archive.status import HourReport
from nats3_dagster.defs.assets.columns import COLUMNS, export_lineage, lineage
from nats3_dagster.defs.assets.markdown import cell, messages_per_minute
from nats3_dagster.hours import SECOND_NS
from nats3_dagster.model import Archive, ArchiveSpec, Chunk, ReplayChunk, ReplayHour, Seal, StreamState
from nats3_dagster.model.dagster_settings import DAGSTER_SETTINGS
from nats3_dagster.model.export import Export, ExportHour
from nats3_dagster.model.spec_table import settings_of
from nats3_dagster.settings import Settings
from nats3_dagster.steps import Next

if TYPE_CHECKING:
    from nats3_dagster.archive.captures.commit import CaptureResult

# Rows of a table, and runs. An open hour is materialized with each capture: Dagster keeps all of them each time.
TABLE_ROWS, SHOWN_RUNS = 10, 3

Metadata = dict[str, Any]
# When a capture is due, as metadata calls it.
_KEYS = {f"max_{of}": f"capture_at_{of}" for of in ("messages", "bytes", "age_s")}


def archive_metadata(spec: ArchiveSpec) -> Metadata:
    """Returns the metadata of the asset definitions of an archive. Its settings of assets have places of their own."""
    settings = [one for one in settings_of(ArchiveSpec) if one.name not in {"name", *DAGSTER_SETTINGS}]
    values = {one.name: getattr(spec, one.name) for one in settings}
    shown = {one.name: values[one.name] if one.kind.is_number else one.shown(values[one.name]) for one in settings}
    return {_KEYS.get(name, name): value for name, value in shown.items()}


def hour_metadata(report: HourReport, settings: Settings) -> Metadata:
    """An hour of an archive: all its chunks, and its gaps."""
    metas = [c.meta for c in report.chunks]
    messages, payload = sum(m.messages for m in metas), sum(m.payload_bytes for m in metas)
    stored = sum(m.stored_bytes for m in metas)
    absent: Counter[str] = Counter()
    for gap in report.gaps:
        absent[gap.reason] += gap.seqs.size
    for meta in metas:
        if meta.absent_reason and meta.missing:
            absent[meta.absent_reason] += meta.missing
    metadata: Metadata = {
        "dagster/row_count": report.total,
        "dagster/partition_row_count": messages,
        "messages": messages,
        "payload_bytes": payload,
        "stored_bytes": stored,
        "ratio": round(payload / stored, 2) if stored else 0.0,
        "chunks": len(metas),
        "gaps": report.missing,
        "in_the_shell": f"{Next.LIST_CHUNKS(archive=report.archive.name).command} --hour {report.hour}",
    }
    for reason, count in sorted(absent.items()):
        if count:
            metadata[f"sequences_{reason}"] = count
    marks = report.marks
    # Most hours have none of them: Dagster keeps an event for each capture.
    metadata |= {"compacted": True} if marks.compacted else {}
    metadata |= {"holds": ", ".join(marks.holds)} if marks.holds else {}
    metadata |= {} if marks.missing_in_copies is None else {"missing_in_copies": marks.missing_in_copies}
    if plot := messages_per_minute(report.hour, [m.minutes for m in metas if m.minutes]):
        metadata["plot"] = MetadataValue.md(plot)
    if metas:
        metadata |= {
            "first_sequence": metas[0].covers.first,
            "last_sequence": metas[-1].covers.last,
            "first_time": _time(min(m.first_ns for m in metas)),
            "last_time": _time(max(m.last_ns for m in metas)),
            "dagster/uri": settings.object_url(metas[0].bucket, metas[0].key.rpartition("/")[0] + "/"),
            "captured_by": run_links(c.dagster_run_id for c in report.chunks),
            "chunk_table": chunk_table(report.chunks),
        }
    # Marks: by them the catalog sensor knows what it said (marks.py).
    return metadata | {"archive_id": str(report.archive.id), "revision": report.revision}


def seal_metadata(archive: Archive, seal: Seal, total: int, settings: Settings, chunks: AssetKey) -> Metadata:
    """An hour that was sealed; `total`: the messages of all sealed hours; `chunks`: the asset that its columns come
    from."""
    return {
        "dagster/column_lineage": lineage(COLUMNS, chunks),
        "dagster/row_count": total,
        "dagster/partition_row_count": seal.messages,
        "messages": seal.messages,
        "chunks": seal.chunks,
        "missing_in_gaps": seal.losses,
        "sequences_in_gaps": seal.gaps,
        "seal": seal.number,
        "dagster/uri": settings.object_url(seal.bucket, seal.key),
        "sha256": seal.sha256,
        "stored_bytes": seal.stored_bytes,
        "archive_id": str(archive.id),
    }


def export_metadata(archive: Archive, export: Export, hour: ExportHour, total: int, sealed: AssetKey) -> Metadata:
    """An hour that was exported; `total`: the messages of all exported hours; `sealed`: the asset that its columns come
    from."""
    made = hour.made
    assert made is not None
    columns = export_lineage(export.spec, sealed)
    return {
        **({"dagster/column_lineage": columns} if columns else {}),
        "dagster/row_count": total,
        "dagster/partition_row_count": made.messages,
        "messages": made.messages,
        "dropped": made.dropped,
        "undecoded": made.undecoded,
        "files": made.files,
        "bytes": made.bytes,
        "made_at": MetadataValue.timestamp(made.made_at),
        "dagster/uri": made.manifest,
        "spec_version": made.version,
        "exported_by": run_links([hour.dagster_run_id]),
        "in_the_shell": f"nats3 export get {archive.name} {export.name}",
        "archive_id": str(archive.id),
        "change": hour.change,
    }


def run_metadata(result: "CaptureResult") -> Metadata:
    """Returns the additions of one capture to the hour, and its rate."""
    return {
        "messages_added": result.messages,
        "chunks_added": len(result.chunks),
        "sequences_lost": result.lost,
        "seconds": round(result.seconds, 3),
        "messages_per_s": round(result.messages / result.seconds, 1) if result.seconds else 0.0,
    }


def replay_metadata(
    hours: Sequence[ReplayHour], last: Sequence[ReplayChunk], replay_id: str, targets: Iterable[str], subjects: str
) -> Metadata:
    """Returns the results of a replay for these hours; all counts are messages. `last`: their last chunks."""
    return {
        "replay": replay_id,
        "targets": ", ".join(targets),
        "subjects": subjects,
        "chunks": sum(h.chunks for h in hours),
        "messages": sum(h.selected for h in hours),
        "published": sum(h.published for h in hours),
        "found_in_target": sum(h.found for h in hours),
        "duplicates_refused": sum(h.duplicates for h in hours),
        "expired": sum(h.expired for h in hours),
        "dagster/partition_row_count": sum(h.selected for h in hours),
        "published_by": run_links(run for h in hours for run in h.runs),
        "chunk_table": replay_table(last),
        "in_the_shell": Next.GET_REPLAY(replay=replay_id).command,
    }


def stream_metadata(state: StreamState) -> Metadata:
    """A stream as the server described it."""
    return {
        "messages": state.messages,
        "bytes": state.bytes,
        "first_sequence": state.first_seq,
        "last_sequence": state.last_seq,
        "first_time": _time(state.first_ns),
        "last_time": _time(state.last_ns),
        "created": _time(state.incarnation.created_ns),
    }


def plan_table(plan: Mapping[str, object]) -> str:
    """A plan (documents.replay_plans) as Markdown."""
    return "\n".join(["| what | |", "|---|---|", *(f"| {k.replace('_', ' ')} | {cell(v)} |" for k, v in plan.items())])


def chunk_table(chunks: Sequence[Chunk]) -> MetadataValue:
    """The newest chunks, TABLE_ROWS of them at most."""
    rows = [
        {
            "chunk": c.id,
            "sequences": str(m.covers),
            "messages": m.messages,
            "payload_bytes": m.payload_bytes,
            "stored_bytes": m.stored_bytes,
        }
        for c in chunks[-TABLE_ROWS:]
        for m in [c.meta]
    ]
    return _table(rows, {"sequences": "string"})


def replay_table(chunks: Sequence[ReplayChunk]) -> MetadataValue:
    """The results of the last of these chunks, TABLE_ROWS of them at most."""
    rows = [
        {
            "chunk": c.chunk_id,
            "selected": c.selected,
            "published": c.published,
            "found": c.found,
            "duplicates": c.duplicates,
        }
        for c in chunks[-TABLE_ROWS:]
    ]
    return _table(rows, {})


def _table(rows: Sequence[Mapping[str, int | str]], types: Mapping[str, str]) -> MetadataValue:
    names = [*rows[0]] if rows else []
    schema = TableSchema(columns=[TableColumn(name, types.get(name, "integer")) for name in names])
    return MetadataValue.table([TableRecord(dict(row)) for row in rows], schema)


def run_links(run_ids: Iterable[str | None]) -> MetadataValue:
    """Links of the Dagster UI to the runs, each once; words where no run did it: `-` alone is a bullet in Markdown."""
    links = [f"[{run_id[:8]}](/runs/{run_id})" for run_id in dict.fromkeys(run_ids) if run_id]
    shown = links[:SHOWN_RUNS] + (["…"] if len(links) > SHOWN_RUNS else [])
    return MetadataValue.md(", ".join(shown) or "no run of Dagster")


def _time(ns: int) -> MetadataValue:
    """Seconds alone: nanoseconds are in the chunks."""
    return MetadataValue.timestamp(ns / SECOND_NS)


def rate(messages: int, seconds: float) -> str:
    return f"{messages / seconds:,.0f} messages/s" if seconds > 0 else "at once"
