"""The export of a group of chunks: decode, split, serialize, stage. Runs in a task.

Invariant: each message of the export's subjects is in the files of its keys, in the file of undecoded messages, or
counted as dropped; nothing is at its place in the destination yet.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

import numpy as np
import pyarrow as pa

from nats3_dagster.archive.stored.fetch import fetch_chunks
from nats3_dagster.exports.decoding.decoders import decoder_of
from nats3_dagster.exports.decoding.keys import ALL, escaped, key_of, tokens_of
from nats3_dagster.exports.decoding.message import Message, Row, Undecodable
from nats3_dagster.exports.formats.csv_files import CsvFile
from nats3_dagster.exports.formats.csv_table import CsvTable
from nats3_dagster.exports.formats.json_fields import Fields, fields_of
from nats3_dagster.exports.formats.json_lines import bytes_of, json_lines
from nats3_dagster.exports.formats.serializers import FileWriter, compressor_of, line_of, serializer_of
from nats3_dagster.exports.job import MAX_FILES, ExportFile, ExportJob, Group, GroupResult, StagedFile, own_folder
from nats3_dagster.exports.paths import file_path, hour_name
from nats3_dagster.exports.progress import GroupNotes
from nats3_dagster.fault_points import fault_point
from nats3_dagster.hours import MINUTE_NS, hour_start
from nats3_dagster.model.messages import exact_subjects, selected, subject_names
from nats3_dagster.model.numbers import Int64s
from nats3_dagster.objects import Bucket, Outlet
from nats3_dagster.subjects import decoded

# Why a message is not in a file of its key. It must not hold up the others of its hour.
TOO_MANY = "The hour has all the files that it may have, of other keys: choose a key with fewer values"


@dataclass(slots=True)
class _File:
    """A file of the group on its way."""

    writer: FileWriter
    first_seq: int
    last_seq: int
    messages: int = 0


class GroupExport:
    """One group. `run` does it once."""

    def __init__(self, job: ExportJob, group: Group) -> None:
        self._job, self._group = job, group
        spec = job.spec
        self._decoder = decoder_of(spec, job.schema)
        self._serializer = serializer_of(spec, job.stream, self._decoder)
        self._key_of = key_of(spec.key)
        self._start_ns, self._interval_ns = hour_start(job.hour), spec.interval_minutes * MINUTE_NS
        self._slots = 60 // spec.interval_minutes
        self._files: dict[tuple[str, int], _File] = {}
        self._keys: dict[str, str] = {}
        # Each with its sequence.
        self._undecoded: list[tuple[int, bytes]] = []
        self._first_reason = ""
        # Whether the filters take a subject, as far as one was met.
        self._taken: dict[str, bool] = {}
        self._messages = self._dropped = 0
        # Batch by batch, where no value is looked at by itself.
        by_batch = spec.decode == "json" and spec.schema is None and (spec.key or "subject:").startswith("subject:")
        self._is_lines, self._is_table = by_batch and spec.format == "ndjson", by_batch and spec.format == "csv"

    def run(self) -> GroupResult:
        """Raises Nats3Error."""
        buckets: dict[str, Bucket] = {}

        def bucket_of(name: str) -> Bucket:
            return buckets.setdefault(name, Bucket(self._job.store, name))

        outlet = Outlet(self._job.outlet)
        notes, read = GroupNotes(outlet, self._job, self._group.number), 0
        for _, reader in fetch_chunks(bucket_of, self._group.chunks, 1):
            for batch in reader.batches():
                self._add(batch)
                read += batch.num_rows
                notes.note(read)
        files = tuple(self._stage(outlet))
        return GroupResult(
            self._group.number,
            files,
            self._stage_undecoded(outlet),
            self._messages,
            self._dropped,
            len(self._undecoded),
            self._first_reason,
        )

    def _add(self, batch: pa.RecordBatch) -> None:
        batch = selected(batch, self._job.spec.subjects, self._taken, shown=True)
        if batch.num_rows and self._is_lines:
            self._add_lines(batch)
        elif batch.num_rows and self._is_table:
            self._add_table(batch)
        elif batch.num_rows:
            self._add_rows(list(_messages(batch)))

    def _add_rows(self, messages: list[Message]) -> None:
        """One by one."""
        for message, rows in zip(messages, self._decoder.rows(messages), strict=True):
            if isinstance(rows, Undecodable):
                self._add_undecoded(message, rows)
            elif not rows:
                self._dropped += 1
            else:
                self._add_message(message, rows)

    def _add_message(self, message: Message, rows: list[Row]) -> None:
        try:
            prepared = [(self._key(self._key_of(message, row)), self._serializer.prepare(message, row)) for row in rows]
            slot = min(max((message.time_ns - self._start_ns) // self._interval_ns, 0), self._slots - 1)
            if len(self._files) + len({key for key, _ in prepared if (key, slot) not in self._files}) > MAX_FILES:
                raise Undecodable(TOO_MANY)
        except Undecodable as reason:
            self._add_undecoded(message, reason)
            return
        for key, row in dict(prepared).items() if self._serializer.whole else prepared:
            file = self._files.get((key, slot)) or self._new_file(key, slot, message.seq)
            file.writer.add(row)
            if file.last_seq != message.seq or not file.messages:  # of several rows the first
                file.messages += 1
                file.last_seq = message.seq
        self._messages += 1

    def _add_lines(self, batch: pa.RecordBatch) -> None:
        """JSON payloads as lines: a batch at a time."""
        lines, valid = json_lines(batch.column("data"))
        keys, codes = self._subject_keys(batch)
        good = valid & (codes >= 0)
        for at in np.flatnonzero(~good).tolist():
            (message,) = _messages(batch.slice(at, 1))
            self._add_undecoded(message, self._why(message))
        lines = lines.filter(pa.array(good[valid]))
        numbers = np.cumsum(good) - 1  # of each good message, the number of its line
        for file, places in self._split(batch, np.flatnonzero(good), keys, codes):
            file.writer.add(bytes_of(lines.take(pa.array(numbers[places]))))

    def _add_table(self, batch: pa.RecordBatch) -> None:
        """JSON payloads as rows of CSV: a batch at a time, and one by one what `fields_of` leaves out."""
        lines, valid = json_lines(batch.column("data"))
        keys, codes = self._subject_keys(batch)
        usable = codes >= 0
        good = np.flatnonzero(valid)
        table = CsvTable(len(batch), escape_formulas=self._job.spec.escape_formulas)
        for fields in fields_of(lines, self._job.spec.columns):
            table.add(Fields(good[fields.rows], fields.names, fields.texts))
        rest = np.flatnonzero(~(table.has & usable))
        messages = list(_messages(batch.take(pa.array(rest)))) if len(rest) else []
        for at, message, rows in zip(rest.tolist(), messages, self._decoder.rows(messages), strict=True):
            try:
                if isinstance(rows, Undecodable):
                    raise rows
                self._key_of(message, rows[0])
                table.add_row(at, self._serializer.prepare(message, rows[0]))
            except Undecodable as reason:
                usable[at] = False
                self._add_undecoded(message, reason)
        parts = list(self._split(batch, np.flatnonzero(usable), keys, codes))
        table.write([(cast(CsvFile, file.writer), places) for file, places in parts])

    def _split(
        self, batch: pa.RecordBatch, places: Int64s, keys: list[str], codes: Int64s
    ) -> Iterator[tuple[_File, Int64s]]:
        """The files that the messages at these places go to, each with its own of the places. They count from here."""
        if not len(places):
            return
        seqs = batch.column("seq").to_numpy()
        # Hours are ranges of sequences: where a clock stepped, a message of the hour was stored before or after it.
        # Such a message belongs to the first or last interval.
        slots = (batch.column("time_ns").to_numpy()[places] - self._start_ns) // self._interval_ns
        both = codes[places] * self._slots + np.clip(slots, 0, self._slots - 1)
        if both.min() != both.max():
            order = np.argsort(both, kind="stable")
            places, both = places[order], both[order]
        starts = np.flatnonzero(np.diff(both, prepend=both[0] - 1))
        for first, end in zip(starts.tolist(), [*starts[1:].tolist(), len(both)], strict=True):
            code, slot = divmod(int(both[first]), self._slots)
            first_seq, last_seq = int(seqs[places[first]]), int(seqs[places[end - 1]])
            file = self._files.get((keys[code], slot))
            if file is None and len(self._files) >= MAX_FILES:
                for message in _messages(batch.take(pa.array(places[first:end]))):
                    self._add_undecoded(message, Undecodable(TOO_MANY))
                continue
            file = file or self._new_file(keys[code], slot, first_seq)
            file.messages += end - first
            file.last_seq = last_seq
            self._messages += end - first
            yield file, places[first:end]

    def _subject_keys(self, batch: pa.RecordBatch) -> tuple[list[str], Int64s]:
        """The keys of the messages: escaped, and for each message which it is; -1 where its subject has none."""
        if self._job.spec.key is None:
            return [ALL], np.zeros(len(batch), np.int64)
        subjects, of = exact_subjects(batch), tokens_of(self._job.spec.key)
        keys: dict[str, int] = {}
        codes = np.full(len(subjects.dictionary), -1, np.int64)
        for at, subject in enumerate(subject_names(subjects)):
            try:
                codes[at] = keys.setdefault(self._key(of(subject)), len(keys))
            except Undecodable:
                continue
        return list(keys), codes[subjects.indices.to_numpy()]

    def _why(self, message: Message) -> Undecodable:
        """Returns the reason why a message is not among the lines."""
        (rows,) = self._decoder.rows([message])
        if isinstance(rows, Undecodable):
            return rows
        try:
            self._key_of(message, rows[0])
        except Undecodable as reason:
            return reason
        return Undecodable("The payload is not strict JSON")

    def _key(self, key: str) -> str:
        """The key as a part of a path."""
        if (known := self._keys.get(key)) is None:
            if len(self._keys) > MAX_FILES:
                self._keys.clear()
            known = self._keys[key] = escaped(key)
        return known

    def _new_file(self, key: str, slot: int, seq: int) -> _File:
        file = self._files[key, slot] = _File(self._serializer.new_file(), seq, seq)
        return file

    def _add_undecoded(self, message: Message, reason: Undecodable) -> None:
        self._first_reason = self._first_reason or f"message {message.seq}: {reason}"
        line = line_of(message.document(self._job.stream) | {"reason": str(reason)})
        self._undecoded.append((message.seq, line))

    def _stage(self, outlet: Outlet) -> Iterator[StagedFile]:
        for number, (key, slot) in enumerate(sorted(self._files)):
            file = self._files.pop((key, slot))
            path = file_path(self._job, self._group, key, slot, file.first_seq, file.last_seq)
            yield self._put(outlet, path, str(number), file.writer.finish(), file)

    def _stage_undecoded(self, outlet: Outlet) -> StagedFile | None:
        if not self._undecoded:
            return None
        # Of a batch the messages of a key come together.
        self._undecoded.sort(key=lambda one: one[0])
        seqs = [seq for seq, _ in self._undecoded]
        file = _File(self._serializer.new_file(), seqs[0], seqs[-1], len(seqs))
        folder = f"{own_folder(self._job.archive, self._job.spec.name)}/undecoded/{hour_name(self._job.hour)}"
        path = f"{folder}/{self._group.mark}{seqs[0]:020d}-{seqs[-1]:020d}.ndjson.gz"
        return self._put(
            outlet, path, "undecoded", compressor_of("gzip")(b"".join(line for _, line in self._undecoded)), file
        )

    def _put(self, outlet: Outlet, path: str, name: str, data: bytes, file: _File) -> StagedFile:
        staged = f"{self._job.staging}/{self._group.number:05d}-{name}"
        outlet.put(staged, data)
        fault_point("export.put")
        sha256 = hashlib.sha256(data).hexdigest()
        made = ExportFile(path, len(data), sha256, file.messages, file.first_seq, file.last_seq)
        return StagedFile(staged, made)


def _messages(batch: pa.RecordBatch) -> Iterator[Message]:
    columns = [batch.column(name).to_pylist() for name in ("seq", "time_ns", "subject", "headers", "data")]
    exact = [raw and decoded(raw) for raw in batch.column("subject_bytes").to_pylist()]
    return map(Message._make, zip(*columns, exact, strict=True))
