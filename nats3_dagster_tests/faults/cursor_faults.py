"""Faults: a program that reads an archive is killed and resumes at its token, while the archive changes; and objects
are swept while a replay of them runs."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from nats3_dagster_tests.faults import cursor_jobs, jobs, judge_reads
from nats3_dagster_tests.faults.cursor_jobs import END, Program
from nats3_dagster_tests.faults.registry import fault
from nats3_dagster_tests.faults.trial import ARCHIVE, Trial
from nats3_dagster_tests.faults.workload import publish

_POINTS = {
    "yielded": "kill -9 of a reader that has a message",
    "saving": "kill -9 of a reader before it saves its token",
    "saved": "kill -9 of a reader after it saved its token",
}
# Errors that end a read or a replay truly: what it was to give is no longer in the archive.
_GONE = ("are not in archive", "were retired")


def program(trial: Trial, *, follow: bool = False, over_gaps: bool = False) -> Program:
    """A reader of some subjects, which saves now and then."""
    of = trial.prefix
    filters: list[tuple[str, ...]] = [
        (),
        (f"{of}.>",),
        (f"{of}.*",),
        (f"{of}.%FF", f"{of}.a"),
        (f"{of}.ü.x", f"{of}.*", f"{of}.*.b"),
    ]
    return Program(
        Path(trial.servers.folder) / f"cursor-{trial.seed}-{trial.random.getrandbits(32)}",
        trial.random.choice(("message", "message", "lazy", "break", "batch")),
        trial.random.choice((1, 7, 40, 150)),
        trial.random.choice(filters),
        over_gaps,
        follow,
    )


def log_of(reader: Program) -> list[str]:
    file = reader.file.with_suffix(".log")
    return file.read_text().splitlines() if file.exists() else []


def judge(trial: Trial, reader: Program, retired: Sequence[int] = (), *, ended: bool = True) -> None:
    messages = judge_reads.expected(trial.truth, reader.filters)
    trial.blame(judge_reads.judge_read(log_of(reader), messages, retired={*retired}, ended=ended))


def fault_of(trial: Trial, point: str) -> str:
    return f"cursor.{point}:kill:{trial.random.randint(1, 200 if point == 'yielded' else 4)}"


def change(trial: Trial) -> None:
    """The chunks of the archive change, and what it has does not; or it gets more."""
    kind = trial.random.choice(("more", "repair", "recapture", "none"))
    objects = trial.live_objects()
    if kind == "more":
        trial.publish(trial.random.randint(1, 150))
        trial.must(jobs.capture, ARCHIVE)
    elif kind == "repair":
        for bucket, key in trial.random.sample(objects, min(2, len(objects))):
            trial.overwrite(bucket, key, trial.random.choice((None, b"spoilt")))
        trial.must(cursor_jobs.repair_bad, ARCHIVE)
    elif kind == "recapture":
        keys = [key for _, key in trial.random.sample(objects, min(2, len(objects)))]
        trial.must(cursor_jobs.retire, ARCHIVE, keys, True)
        trial.must(jobs.capture, ARCHIVE)


def killed_reader(trial: Trial, point: str) -> None:
    """Killed up to three times; then it comes to the end."""
    trial.make_stream(trial.random.randint(250, 600))
    trial.must(jobs.capture, ARCHIVE)
    reader = program(trial)
    for _ in range(trial.random.randint(1, 3)):
        trial.run(cursor_jobs.read, ARCHIVE, reader, fault=fault_of(trial, point))
        change(trial)
    trial.finish(cursor_jobs.read, ARCHIVE, reader)
    judge(trial, reader)


for _point, _breaks in _POINTS.items():
    fault(f"kill cursor.{_point}", f"{_breaks}; chunks change before it resumes", short=_point == "saving")(
        partial(killed_reader, point=_point)
    )


@fault("cursor goes live", "kill -9 of a reader that follows the stream, while captures run")
def live_reader(trial: Trial) -> None:
    trial.make_stream(trial.random.randint(150, 300))
    if trial.random.random() < 0.7:
        trial.must(jobs.capture, ARCHIVE)
    reader = program(trial, follow=True)
    for _ in range(trial.random.randint(1, 3)):
        job = trial.start(cursor_jobs.read, ARCHIVE, reader, fault=fault_of(trial, "yielded"))
        trial.publish(200)
        if trial.random.random() < 0.6:
            trial.must(jobs.capture, ARCHIVE)
        # It reads up to its kill, or to the end of what there is, and waits there: then it is killed where it waits.
        job.wait(trial.random.uniform(0.5, 2.5))
    with trial.wire() as wire:
        last = [(f"{trial.prefix}.a", b"", END)]
        publish(wire, trial.stream, last, trial.truth, 1)
    if trial.random.random() < 0.5:
        trial.must(jobs.capture, ARCHIVE)
    trial.finish(cursor_jobs.read, ARCHIVE, reader)
    judge(trial, reader)


@fault("cursor over retired chunks", "chunks are retired and swept while a reader is stopped")
def retired_chunks(trial: Trial) -> None:
    """Over gaps it gives all that is left; else it says which sequences are gone, after what comes before them."""
    trial.make_stream(trial.random.randint(350, 600))
    trial.must(jobs.capture, ARCHIVE)
    reader = program(trial, over_gaps=trial.random.random() < 0.5)
    trial.run(cursor_jobs.read, ARCHIVE, reader, fault=fault_of(trial, "yielded"))
    keys = [key for _, key in trial.random.sample(trial.live_objects(), 2)]
    before = {seq for _, seq in trial.archived().messages}
    trial.must(cursor_jobs.retire, ARCHIVE, keys)
    if trial.random.random() < 0.5:
        trial.environment["NATS3_DELETE_GRACE"] = "0"
        trial.must(cursor_jobs.sweep)
    retired = before - {seq for _, seq in trial.archived().messages}
    resumed = reader.file.exists()
    done = trial.finish(cursor_jobs.read, ARCHIVE, reader, refusals=_GONE)
    judge(trial, reader, sorted(retired), ended=done)
    if done and resumed and not reader.over_gaps:
        given = {int(line.split()[1]) for line in log_of(reader) if line.startswith("message")}
        passed = {seq for seq, _ in judge_reads.expected(trial.truth, reader.filters)} & retired - given
        trial.expect(not passed, "silent", f"{len(passed)} retired messages were passed over")


@fault(
    "sweep during a replay",
    "chunks of a replay are retired or repaired, and their objects swept, while it runs",
    short=True,
)
def sweep_during_replay(trial: Trial) -> None:
    """It ends with every message, or fails and says so."""
    trial.make_stream(trial.random.randint(350, 700))
    trial.must(jobs.capture, ARCHIVE)
    trial.make_target()
    replay = trial.begin_replay()
    trial.environment["NATS3_DELETE_GRACE"] = "0"
    point = trial.random.choice(("attempt_started", "chunk_fetched", "sent", "before_record"))
    with trial.held(f"replay.{point}", jobs.replay, replay, passes=trial.random.randint(1, 2)) as job:
        chosen = trial.random.sample(trial.live_objects(), trial.random.randint(1, 3))
        if trial.random.random() < 0.5:
            trial.must(cursor_jobs.retire, ARCHIVE, [key for _, key in chosen])
        else:
            for bucket, key in chosen:
                trial.overwrite(bucket, key, None)
            trial.must(cursor_jobs.repair_bad, ARCHIVE)
        trial.must(cursor_jobs.sweep)
    ended = trial.end(job, f"replay held at {point}")
    if not ended.ok:
        trial.expect(any(text in ended.text for text in _GONE), "unclear", f"the replay ended with: {ended}")
        ended = trial.run(jobs.replay, replay)
    target = {message.data for message in trial.stored()}
    left = [key for key, message in trial.truth.messages.items() if message.data not in target]
    if ended.ok:
        trial.expect(not left, "silent", f"the replay succeeded without {len(left)} messages")
    trial.expect(len(target) == len(trial.stored()), "doubled", "the target has messages twice")
