"""The request of a load job: which archive it is about, what is replayed, and into which stream."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from nats3_dagster.errors import OperatorError, WrongState
from nats3_dagster.model import Archive, Replay, ReplaySpec, Selection
from nats3_dagster.replay.planning.plan import ReplayPlan
from nats3_dagster.steps import Next
from nats3_dagster.workspace import Workspace


@dataclass(frozen=True, slots=True)
class JobSource:
    """The archive that a load job replays: by name, or by what the archive is of. None if nothing was asked for."""

    archive: str | None = None
    bucket: str | None = None
    stream: str | None = None
    # Of the object keys.
    prefix: str | None = None
    # Name of the durable through which the archive takes its messages.
    consumer: str | None = None

    def find(self, workspace: Workspace, selection: Selection) -> Archive:
        """The one archive that this fits; of several the one that takes its messages through the consumer, or is of
        exactly the subjects of the selection. Raises OperatorError, also if it does not have an hour of the
        selection."""
        archives = workspace.catalog.archives
        if self.archive is None and (self.bucket is None or self.stream is None):
            raise OperatorError("No archive is named", Next.SAY_ARCHIVE())
        every = [archives.get(self.archive)] if self.archive is not None else list(archives.all())
        archive = self._one_of(every, selection.subjects)
        _check_hours(workspace, archive, selection.hours)
        self._check_consumer(archive)
        return archive

    def _one_of(self, every: Sequence[Archive], subjects: Sequence[str]) -> Archive:
        matching = [a for a in every if self.stream in (None, a.spec.stream) and self.bucket in (None, a.spec.bucket)]
        if self.prefix is not None:
            matching = [a for a in matching if a.spec.prefix == self.prefix.strip("/")]
        if not matching:
            there = ", ".join(f"{a.name} (stream {a.spec.stream}, bucket {a.spec.bucket})" for a in every[:5])
            raise OperatorError(
                f"No archive of stream {self.stream or 'of any name'} is in bucket {self.bucket or 'of any name'}",
                f"There is {there}" if there else Next.CREATE_ARCHIVE(),
            )
        if len(matching) > 1 and self.consumer is not None:
            matching = [a for a in matching if a.spec.durable == self.consumer] or matching
        if len(matching) > 1 and subjects:
            exact = [a for a in matching if set(a.spec.subjects) == set(subjects)]
            matching = exact if len(exact) == 1 else matching
        if len(matching) > 1:
            names = ", ".join(a.name for a in matching)
            raise OperatorError(
                f"Bucket {self.bucket} has {len(matching)} archives of stream {self.stream}: {names}",
                Next.CHOOSE_ARCHIVE(),
            )
        return matching[0]

    def _check_consumer(self, archive: Archive) -> None:
        durable = archive.spec.durable
        if self.consumer is not None and self.consumer != durable:
            through = f"through {durable}" if durable else "through no consumer"
            raise OperatorError(
                f"read_consumer is {self.consumer}, and archive {archive.name} takes its messages {through}",
                "A replay reads chunks, and needs no consumer: leave read_consumer out",
            )

    def fits(self, replay: Replay) -> bool:
        """True if the replay is one of an archive that this fits."""
        pairs = (
            (self.archive, replay.spec.archive),
            (self.bucket, replay.bucket),
            (self.stream, replay.stream),
            (self.prefix and self.prefix.strip("/"), replay.prefix),
            (self.consumer, replay.durable),
        )
        return all(wanted is None or wanted == has for wanted, has in pairs)


@dataclass(frozen=True, slots=True)
class JobRequest:
    """A load job as a client asks for it."""

    source: JobSource
    # Its archive is still empty.
    spec: ReplaySpec
    # The stream that is to take the messages; the archived one may then. None for any.
    write_stream: str | None = None
    # What the client calls the job.
    name: str | None = None

    def resolved(self, workspace: Workspace) -> ReplaySpec:
        """The replay, with its archive. Raises OperatorError as `JobSource.find`."""
        archive = self.source.find(workspace, self.spec.selection)
        return self._of(archive.name, archive.spec.stream)

    def check_stream(self, planned: ReplayPlan) -> None:
        """Raises OperatorError unless the plan publishes into the stream that is asked for, and into no other one."""
        if self.write_stream is None:
            return
        names = [target.incarnation.stream for target in planned.targets]
        if planned.creation:
            names = [planned.creation.name]
        if names != [self.write_stream]:
            raise OperatorError(
                f"write_stream is {self.write_stream}, and what is published to {planned.pattern} goes into "
                f"{', '.join(names)}",
                "Choose a write_subject that only that stream captures, or leave write_stream out",
            )

    def check_began(self, replay: Replay) -> None:
        """Raises WrongState unless this request began the replay."""
        asked = self._of(replay.spec.archive, replay.stream)
        # Its pace may have been changed since.
        same = replace(asked, pace=replay.spec.pace) == replay.spec and self.name == replay.job_name
        if not same or not self.source.fits(replay):
            raise WrongState(
                f"The key {replay.job_id} began another load job", "Give each load job a key of its own, or no key"
            )

    def _of(self, archive: str, stream: str) -> ReplaySpec:
        """Naming the archived stream as the one to write to is consent to it."""
        into_own = self.spec.into_own_stream or self.write_stream == stream
        return replace(self.spec, archive=archive, into_own_stream=into_own)


def _check_hours(workspace: Workspace, archive: Archive, hours: Sequence[str]) -> None:
    if not hours:
        return
    known = {h.hour for h in workspace.catalog.hours.select(archive, first=min(hours), last=max(hours))}
    if unknown := [hour for hour in hours if hour not in known]:
        raise OperatorError(
            f"Archive {archive.name} has nothing of the hour {', '.join(unknown[:3])}",
            Next.LIST_HOURS(archive=archive.name),
        )
