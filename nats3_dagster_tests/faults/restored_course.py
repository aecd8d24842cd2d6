"""A trial in which an older copy is restored: an archive of the mode `stream`, what was removed from its stream, and
what its bucket had."""

import io
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

import pyarrow.parquet as pq

from nats3_dagster.model import ArchiveSpec
from nats3_dagster_tests.faults import jobs, judge, restored_jobs
from nats3_dagster_tests.faults.topology import BUCKET
from nats3_dagster_tests.faults.trial import ARCHIVE, Trial
from nats3_dagster_tests.faults.workload import DELETE_LIES, HEAD_LIES, Key, Truth

_STEPS = ("planned", "before_put", "object_put", "object_put", "task_returned", "before_commit", "in_commit")
# What the archive takes, by the subjects of the workload; none for every subject.
_FILTERS = ((), (), ("a",), ("a", "b.c"))
_CHUNK = re.compile(r"-(\d{20})-(\d{20})-[0-9a-f]{12}\.parquet$")
# Reasons of messages that the archive had, and whose object was lost: nobody deleted them there.
_LOST_LIES = frozenset({"deleted", "unselected", "retired"})


@dataclass
class Course:
    """A trial of an archive of the mode `stream`: what somebody removed from the stream, and what the bucket had."""

    trial: Trial
    subjects: tuple[str, ...]
    # The sequences of the messages of each chunk that the bucket had, by its key.
    objects: dict[str, frozenset[int]] = field(default_factory=dict[str, frozenset[int]])
    # Keys of objects that hold messages of an abandoned history.
    abandoned: set[str] = field(default_factory=set[str])

    def is_wanted(self, key: Key) -> bool:
        return not self.subjects or self.trial.truth.messages[key].subject in self.subjects

    def rounds(self, count: int) -> None:
        """Publish, remove some of it, and capture, which may be killed."""
        rng = self.trial.random
        for _ in range(count):
            self.trial.publish(rng.randint(1, 250))
            if rng.random() < 0.3:
                self.remove()
            self.capture()

    def capture(self) -> None:
        rng = self.trial.random
        killed = rng.random() < 0.4
        self.trial.capture(f"capture.{rng.choice(_STEPS)}:kill:{rng.randint(1, 2)}" if killed else "")
        self.note_objects()

    def note_objects(self) -> None:
        """Read the sequences of new objects."""
        for key in self.trial.stored_keys():
            if _CHUNK.search(key) and key not in self.objects:
                table = pq.read_table(io.BytesIO(self.trial.fetch(BUCKET, key)), columns=["seq"])
                self.objects[key] = frozenset(table.column("seq").to_pylist())

    def remove(self, keep: Collection[int] = (), every_after: int | None = None) -> None:
        """Somebody deletes single messages, or each after a sequence, those of a subject, or the head of the stream;
        never those of `keep`."""
        rng, stream = self.trial.random, self.trial.stream
        with self.trial.wire() as wire:
            for kind in rng.sample(("single", "subject", "head"), rng.randint(1, 3)):
                there = {message.seq: message.subject for message in wire.messages(stream)}
                free = [seq for seq in there if seq not in keep]
                if kind == "head":
                    end = max(there, default=0) + 1
                    wire.api(f"STREAM.PURGE.{stream}", seq=rng.randint(1, min([end, *keep])))
                elif kind == "subject":
                    subject = f"{self.trial.prefix}.{rng.choice(('a', 'b.c'))}"
                    if not keep:
                        wire.api(f"STREAM.PURGE.{stream}", filter=subject)
                    self._delete(seq for seq in free if keep and there[seq] == subject)
                elif every_after is not None:
                    self._delete(seq for seq in free if seq > every_after)
                else:
                    self._delete(rng.sample(free, min(len(free), rng.randint(1, 40))))
                self._take(there, HEAD_LIES if kind == "head" else DELETE_LIES)

    def _delete(self, seqs: Iterable[int]) -> None:
        with self.trial.wire() as wire:
            for seq in seqs:
                wire.api(f"STREAM.MSG.DELETE.{self.trial.stream}", seq=seq)

    def _take(self, before: Collection[int], lies: frozenset[str]) -> None:
        """Note what has gone from the stream since, and which reasons are lies for it."""
        # Under a filter all absences between two messages have one reason.
        lies -= {"unselected"} if self.subjects and lies == DELETE_LIES else frozenset()
        gone = set(before).difference(self.in_stream())
        truth = self.trial.truth
        truth.take([key for key in truth.messages if key[1] in gone and key not in truth.taken], lies)

    def in_stream(self) -> set[int]:
        with self.trial.wire() as wire:
            return {message.seq for message in wire.messages(self.trial.stream)}

    def finish(self) -> bool:
        """Capture the rest, and judge all. False if the capture did not succeed."""
        if not self.trial.finish(jobs.capture, ARCHIVE):
            return False
        self.judge()
        bad = self.trial.must(jobs.verify_all, ARCHIVE)
        self.trial.expect(bad == [], "lost", f"verify names {bad}")
        for item in self.trial.must(restored_jobs.examine, ARCHIVE):
            refused = item.key in self.abandoned
            self.trial.expect(bool(item.reason) == refused, "silent", f"{item}: it is to be refused: {refused}")
            self.trial.expect(item.missing == 0, "lost", f"{item} holds messages that the archive lacks")
        return True

    def judge(self, bad: Collection[str] = (), lost: Collection[int] = ()) -> None:
        """Each message that the stream has, or an object of the bucket had, is in the archive once, and no other is.
        `bad`: keys of chunks whose objects are lost and not repaired. `lost`: sequences of messages that were given up
        with their objects."""
        self.note_objects()
        held = self.in_stream().union(*(seqs for key, seqs in self.objects.items() if key not in self.abandoned))
        held.difference_update(lost)
        apart = {seq for key in bad for seq in covers(key)}
        truth = self.trial.truth
        wanted = {key: m for key, m in truth.messages.items() if key[1] not in apart and self.is_wanted(key)}
        taken = {key: lies for key, lies in truth.taken.items() if key in wanted and key[1] not in held}
        taken |= {key: _LOST_LIES for key in wanted if key[1] in lost}
        archived = self.trial.archived()
        findings = [f for f in archived.findings if not any(f.text == f"{key} is not in the store" for key in bad)]
        archived = judge.Archived(archived.messages, archived.reasons, findings)
        self.trial.blame(judge.judge_archive(archived, Truth(wanted, taken)))
        # Beside messages that were given up, inside a chunk or, where no message is left beside them, in a gap.
        true = (["unselected"], ["expired"], *((["damaged"], ["missing"]) if lost else ()))
        wrong = {
            key[1]: reasons
            for key in truth.messages.keys() - wanted.keys()
            if key[1] not in apart and (reasons := archived.reasons.get(key, ["nowhere"])) not in true
        }
        if wrong:
            self.trial.blame([judge.Finding("lost", len(wrong), f"not selected, and called: {wrong}")])


def covers(key: str) -> range:
    match = _CHUNK.search(key)
    assert match, key
    return range(int(match[1]), int(match[2]) + 1)


def make(trial: Trial) -> Course:
    """The stream and the archive, which has some of it or nothing; the seed chooses the filter."""
    rng = trial.random
    course = Course(trial, tuple(f"{trial.prefix}.{tokens}" for tokens in rng.choice(_FILTERS)))
    with trial.wire() as wire:
        wire.create_stream(trial.stream, f"{trial.prefix}.>")
    trial.publish(rng.randint(20, 300))
    trial.must(jobs.create, ArchiveSpec(ARCHIVE, trial.stream, BUCKET, prefix=trial.stream, subjects=course.subjects))
    course.rounds(rng.randint(0, 1))
    return course
