"""Exports of made-up chunks into a folder, without servers and without Spark."""

import gzip
import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

from nats3_dagster.chunks import ChunkWriter
from nats3_dagster.exports.decoding.schemas import read_schema
from nats3_dagster.exports.group_export import GroupExport
from nats3_dagster.exports.hour_export import export_hour
from nats3_dagster.exports.hours import attempt
from nats3_dagster.exports.job import ExportJob, groups_of
from nats3_dagster.exports.places import claim
from nats3_dagster.exports.plan import ExportPlan, staging_folder
from nats3_dagster.exports.replace import clear_staging, replace
from nats3_dagster.exports.status import find
from nats3_dagster.hours import MINUTE_NS
from nats3_dagster.model import Chunk, ExportResult, ExportSpec, Incarnation, SeqRange
from nats3_dagster.model.messages import MESSAGES, subject_columns
from nats3_dagster.objects import Bucket, OutletOptions, StoreOptions
from nats3_dagster.pipeline.worker import export_group
from nats3_dagster.subjects import encoded
from nats3_dagster_tests.support.catalog import HOUR, HOUR_NS, LOGS

OWN = "_exports/logs/files"
ARCHIVE_ID = "8d0d7a4e-3f0c-4a39-9d52-0e5a3f6d2a11"


def block(**headers: str) -> bytes:
    """A header block; `Log_File` is the header Log-File."""
    lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    return f"NATS/1.0\r\n{lines}\r\n".encode()


class Case:
    """A store with the chunks of one hour, and a folder that files are exported to."""

    def __init__(self, folder: Path, store: StoreOptions | None = None, bucket: str = "archive") -> None:
        """By default the store is a folder too."""
        (folder / "store" / "archive").mkdir(parents=True)
        self.store = store or StoreOptions(url=f"file://{folder / 'store'}")
        self.bucket = bucket
        self.out = folder / "out"
        self.chunks: list[Chunk] = []

    def chunk(self, *messages: Any, first: int | None = None, life: Incarnation = LOGS) -> None:
        """A chunk more, of (subject, data), (subject, data, headers) or (subject, data, headers, minute).

        A minute may lie outside of the hour: hours are ranges of sequences."""
        seq = first or (self.chunks[-1].meta.covers.last + 1 if self.chunks else 1)
        rows: list[Any] = [(*m, *(None, 0)[len(m) - 2 :]) for m in messages]
        raw = pa.array([encoded(subject) for subject, *_ in rows], pa.binary())
        batch = pa.record_batch(
            [
                range(seq, seq + len(rows)),
                [HOUR_NS + at + int(row[3] * MINUTE_NS) for at, row in enumerate(rows)],
                *subject_columns(raw),
                [row[2] for row in rows],
                [row[1] for row in rows],
            ],
            schema=MESSAGES,
        )
        writer = ChunkWriter("logs", life, HOUR, self.bucket, "", 3, {})
        writer.write(batch)
        data, meta = writer.finish(SeqRange(seq, seq + len(rows) - 1), "deleted")
        Bucket(self.store, self.bucket).put_new(meta.key, data.to_pybytes(), meta.sha256)
        self.chunks.append(Chunk(len(self.chunks), meta, datetime.now(UTC), None))

    def spec(self, **fields: Any) -> ExportSpec:
        return ExportSpec("files", f"file://{self.out}", **fields)

    def plan(self, **fields: Any) -> ExportPlan:
        spec = self.spec(**fields)
        job = ExportJob(
            "logs",
            ARCHIVE_ID,
            "LOGS",
            HOUR,
            spec,
            read_schema(spec),
            self.store,
            OutletOptions("file", "", str(self.out)),
            f"{staging_folder('logs', 'files', HOUR)}/run",
        )
        groups = groups_of(self.chunks)
        return ExportPlan(job, groups, sum(c.meta.messages for c in self.chunks))

    def run(self, check_alone: Callable[[], None] = lambda: None, **fields: Any) -> ExportResult:
        plan = self.plan(**fields)
        clear_staging(plan)
        return replace(plan, [GroupExport(plan.job, group).run() for group in plan.groups], claim(plan), check_alone)

    def files(self) -> dict[str, bytes]:
        """The files at the destination but the export's own, decompressed where gzip did it."""
        return {path: data for path, data in self.everything().items() if not path.startswith("_exports/")}

    def everything(self) -> dict[str, bytes]:
        paths = sorted(path for path in self.out.rglob("*") if path.is_file())
        return {
            str(p.relative_to(self.out)): gzip.decompress(p.read_bytes()) if p.suffix == ".gz" else p.read_bytes()
            for p in paths
        }

    def by_key(self) -> dict[str, bytes]:
        """The files by the first part of their paths, without key=; there is one of each."""
        named = {path.split("/")[0].removeprefix("key="): data for path, data in self.files().items()}
        assert len(named) == len(self.files())
        return named

    def lines(self) -> list[Any]:
        """The documents of all files."""
        return [json.loads(line) for data in self.files().values() for line in data.splitlines()]

    def undecoded(self) -> list[Any]:
        """The undecoded messages, with the reason of each."""
        texts = [data for path, data in self.everything().items() if path.startswith(f"{OWN}/undecoded/")]
        return [json.loads(line) for data in texts for line in data.splitlines()]


def perform(tasks):
    return [result for task in tasks for result in export_group(task)], None


def run_declared(workspace, over_retired=False):
    """Export the hour as the catalog declares it, and record it: what a run does, with its tasks in this process."""
    archive, made = find(workspace, "logs", "files")
    return attempt(
        workspace,
        archive,
        made,
        HOUR,
        lambda: export_hour(workspace, archive, made.spec, HOUR, perform, over_retired=over_retired),
        over_retired=over_retired,
    )
