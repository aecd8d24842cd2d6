"""Waiting: how many restored messages each consumer has yet to deliver for the first time, by the archive."""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from nats3_dagster.archive.restore.consumers import PlannedConsumer
from nats3_dagster.model.messages import exact_subjects, subject_names
from nats3_dagster.subjects import selects_shown


class Waiting:
    """Counts the messages that each consumer has yet to deliver for the first time."""

    def __init__(self, consumers: Sequence[PlannedConsumer]) -> None:
        self._consumers = consumers
        self.counts = {one.name: 0 for one in consumers}

    def add(self, batch: pa.RecordBatch) -> None:
        """Count those of a batch of MESSAGES that is in the stream."""
        if not self._consumers or not batch.num_rows:
            return
        last, seqs = batch.column("seq")[-1].as_py(), batch.column("seq").to_numpy()
        subjects: pa.DictionaryArray | None = None
        for one in self._consumers:
            if last <= one.position.delivered.stream:
                continue
            ahead = seqs > one.position.delivered.stream
            if filters := _filters(one.config):
                subjects = exact_subjects(batch) if subjects is None else subjects
                assert subjects is not None
                taken = pa.array([selects_shown(filters, name) for name in subject_names(subjects)], pa.bool_())
                ahead = ahead & pc.take(taken, subjects.indices).to_numpy(zero_copy_only=False)
            self.counts[one.name] += int(ahead.sum())


def _filters(config: Mapping[str, Any]) -> list[str]:
    several: list[str] = list(config.get("filter_subjects") or ())
    single = config.get("filter_subject")
    return several or ([single] if single else [])
