"""Faults: a stream is removed, and restored from a backup."""

from contextlib import nullcontext

from nats3_dagster.dev.history import Past, restore_stream
from nats3_dagster_tests.faults import jobs
from nats3_dagster_tests.faults.registry import fault
from nats3_dagster_tests.faults.trial import ARCHIVE, Trial
from nats3_dagster_tests.faults.workload import HEAD_LIES, Key, created_ns, parse_ns
from nats3_dagster_tests.support.wire import Message

_STEPS = ("before_put", "object_put", "before_commit", "in_commit", "after_commit")
_POINTS = tuple(f"capture.{step}" for step in _STEPS)
# The last sequence that each removed stream was seen with.
_UNKNOWN = """
select i.created_ns, c.unknown_after from nats3.coverage c join nats3.incarnation i on i.id = c.incarnation_id
where c.unknown_after is not null
"""
OLDER = "was restored from a backup that is older than archive"


@fault(
    "stream restored",
    "the stream is removed and restored from a backup, older than the archive or not",
    since=(2, 15),
    short=True,
)
def restored(trial: Trial) -> None:
    rng = trial.random
    trial.make_stream(rng.randint(120, 350))
    if rng.random() < 0.3:
        trial.capture(f"{rng.choice(_POINTS)}:kill")
    trial.finish_capture()
    if rng.random() < 0.5:  # messages that only the backup has
        trial.publish(rng.randint(1, 120))
    backup = dict(trial.truth.messages)
    after = rng.choice(("nothing", "unseen", "captured", "captured", "captured", "killed", "held", "held"))
    if after != "nothing":
        trial.publish(rng.randint(1, 120))
    if after == "captured":
        trial.finish_capture()
    elif after == "killed":
        trial.capture(f"{rng.choice(_POINTS)}:kill")
    held = trial.held(rng.choice(_POINTS[:3]), jobs.capture, ARCHIVE) if after == "held" else nullcontext()
    is_over = rng.random() < 0.5
    with held as job:
        _restore(trial, backup)
        # What the stream has for itself.
        fresh = trial.truth.messages.keys() - _publish(trial, rng.choice((0, 1, rng.randint(2, 200))))
        if job and is_over:
            trial.capture()
    if job:
        trial.end(job, "capture held over the restore")
    ended = trial.capture()
    if not ended.ok:
        trial.expect(OLDER in ended.text or "restored from a backup while" in ended.text, "unclear", str(ended))
        trial.finish(jobs.capture, ARCHIVE, True)
    _expect(trial, backup, fresh)
    trial.finish_capture()


def _publish(trial: Trial, count: int) -> set[Key]:
    """Publish into the restored stream; the keys of before."""
    before = set(trial.truth.messages)
    if count:
        trial.publish(count)
    return before


def _restore(trial: Trial, backup: dict[Key, Message]) -> None:
    past = [Past(seq, parse_ns(m.time), m.subject, m.headers, m.data) for (_, seq), m in sorted(backup.items())]
    with trial.wire() as wire:
        wire.api(f"STREAM.DELETE.{trial.stream}")
    restore_stream(trial.servers.nats.url, trial.stream, [f"{trial.prefix}.>"], past)


def _expect(trial: Trial, backup: dict[Key, Message], fresh: set[Key]) -> None:
    """What the archive has to have: the restored stream's messages under its own name where it was adopted, and under
    that of the earlier one where it continues that."""
    messages = trial.truth.messages
    (first,) = {created for created, _ in backup}
    with trial.servers.admin(database=trial.database) as connection:
        unknown: dict[int, int] = dict(connection.execute(_UNKNOWN).fetchall())
    gone = [key for key in messages if key not in backup and key not in fresh]
    if first in unknown:
        # No process saw what came after that.
        for key in [key for key in gone if key[1] > unknown[first]]:
            del messages[key]
        trial.truth.take([key for key in gone if key in messages], HEAD_LIES)
        return
    for key in gone:
        del messages[key]
    for key in sorted(fresh):
        messages[first, key[1]] = messages.pop(key)
    with trial.wire() as wire:
        trial.expect(created_ns(wire, trial.stream) != first, "unclear", "the stream was not made again")
