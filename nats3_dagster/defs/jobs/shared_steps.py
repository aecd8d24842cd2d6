"""Steps of runs that capture several archives: what failed is noted while the run goes, archive by archive.

Invariant: a run that ends as failed says which of its archives failed, also where its process was killed. Dagster's own
state of a run is one for all of them.
"""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from types import TracebackType
from typing import Self, TypeVar

from dagster import AssetExecutionContext, DagsterRun

from nats3_dagster.archive.captures.hour_run import HourRun
from nats3_dagster.defs.keys import ACCOUNT_TAG, NOTES_TAG
from nats3_dagster.defs.sensors.backoff import note_failed_hours
from nats3_dagster.errors import Nats3Error, from_json

T = TypeVar("T")


@dataclass
class Notes:
    """The notes of a run, kept as one of its tags."""

    run_id: str
    # The archive that is captured now; empty between two of them, and at the end.
    at: str = ""
    # By archive that failed: the hours, or none where nothing of it was captured.
    failed: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    # What stopped all that came after it, as Nats3Error.to_json: NATS or Spark could not be reached.
    stopped: str | None = None

    @classmethod
    def of(cls, run: DagsterRun) -> "Notes | None":
        """Returns the notes of a run; None where it began no step. One that repeats another run has that one's tag."""
        notes = cls(**json.loads(run.tags[NOTES_TAG])) if NOTES_TAG in run.tags else None
        return notes if notes and notes.run_id == run.run_id else None


class SharedStep:
    """One archive's step. In a run of no account it only keeps the hours that failed."""

    def __init__(self, context: AssetExecutionContext, archive: str) -> None:
        self._context, self._archive = context, archive
        self._is_shared = ACCOUNT_TAG in context.run.tags

    def __enter__(self) -> Self:
        if self._is_shared:
            notes = self._notes()
            notes.failed.pop(self._archive, None)  # it is tried again
            if notes.stopped and not self._context.op_execution_context.retry_number:
                notes.failed[self._archive] = []
                self._write(notes)
                raise from_json(notes.stopped)
            notes.at = self._archive
            self._write(notes)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # One that is interrupted stays the one that the run is at.
        if self._is_shared and (error is None or isinstance(error, Exception)):
            notes = self._notes()
            notes.at = ""
            if error is not None:
                notes.failed.setdefault(self._archive, [])
            self._write(notes)

    def started(self, start: Callable[[], T]) -> T:
        """Calls what connects and starts Spark. Where that fails, it fails for each archive that comes later in this
        run: no other one tries."""
        try:
            return start()
        except Nats3Error as error:
            if self._is_shared:
                notes = self._notes()
                notes.stopped = error.to_json()
                self._write(notes)
            raise

    def note_failed_hours(self, run: HourRun) -> None:
        """Notes the hours that failed while nothing was wrong with the others, as `backoff.note_failed_hours` does."""
        if not self._is_shared:
            note_failed_hours(self._context, run)
        elif run.errors and not run.is_general:
            notes = self._notes()
            notes.failed[self._archive] = [*run.errors]
            self._write(notes)

    def _notes(self) -> Notes:
        run = self._context.instance.get_run_by_id(self._context.run.run_id)
        return (Notes.of(run) if run else None) or Notes(self._context.run.run_id)

    def _write(self, notes: Notes) -> None:
        self._context.instance.add_run_tags(notes.run_id, {NOTES_TAG: json.dumps(asdict(notes))})
