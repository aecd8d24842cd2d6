"""The judge of archives with subject filters: each message by the filter that was valid for its sequence.

Invariant: as in judge.py, it shares no code with what is tested.
"""

from collections.abc import Collection, Sequence

from nats3_dagster_tests.faults.judge import Archived, Finding
from nats3_dagster_tests.faults.workload import Key, Truth, parse_ns
from nats3_dagster_tests.support.wire import Message

Filter = tuple[str, ...]


def selects(subjects: Filter, subject: str) -> bool:
    """Whether one of the filters matches the subject; without filters every subject is selected."""
    return not subjects or any(_matches(filter_.split("."), subject.split(".")) for filter_ in subjects)


def _matches(filter_: list[str], tokens: list[str]) -> bool:
    if filter_[-1] == ">":
        return len(tokens) >= len(filter_) and _matches(filter_[:-1], tokens[: len(filter_) - 1])
    return len(filter_) == len(tokens) and all(f in ("*", token) for f, token in zip(filter_, tokens, strict=True))


def filter_of(ended: Sequence[tuple[int, Filter]], now: Filter, seq: int) -> Filter:
    """The filter of a sequence. `ended`: the filters before, the oldest first, each with its last sequence."""
    return next((subjects for last, subjects in ended if seq <= last), now)


def judge_filters(
    archived: Archived,
    truth: Truth,
    ended: Sequence[tuple[int, Filter]],
    now: Filter,
    *,
    start: int = 1,
    gone: Collection[Key] = (),
    retired: Collection[int] = (),
) -> list[Finding]:
    """Each message that its filter takes is in exactly one chunk, byte for byte; each other one is `unselected`.

    `start`: the archive's first sequence. `gone`: messages that the stream has no longer; the archive may have them, or
    a reason. `retired`: sequences that may be called so."""
    findings = list(archived.findings)
    wrong: list[str] = []
    doubled: list[str] = []
    for key, message in truth.messages.items():
        copies, reasons = archived.messages.get(key, []), archived.reasons.get(key, [])
        is_taken = selects(filter_of(ended, now, key[1]), message.subject)
        if len(copies) + len(reasons) > 1:
            doubled.append(f"{key[1]} is {len(copies)} times in a chunk, and absent as {reasons}")
        if copies:
            wrong += [f"{key[1]} altered" for copy in copies if copy != _as_sent(message)]
            wrong += [] if is_taken else [f"{key[1]} is there, and its filter does not take it"]
        elif not reasons:
            wrong += [f"{key[1]} nowhere"] if key[1] >= start else []
        elif key[1] in retired and reasons == ["retired"]:
            pass
        elif key in gone:
            wrong += [f"{key[1]} is called retired"] if "retired" in reasons else []
        elif is_taken or reasons != ["unselected"]:
            wrong.append(f"{key[1]} is called {reasons[0]}")
    if wrong:
        findings.append(Finding("lost", len(wrong), f"archive: {', '.join(wrong[:4])}"))
    if doubled:
        findings.append(Finding("doubled", len(doubled), f"archive: {', '.join(doubled[:4])}"))
    if strangers := archived.messages.keys() - truth.messages.keys():
        findings.append(Finding("doubled", len(strangers), "archive: messages that the stream never had"))
    return findings


def _as_sent(message: Message) -> tuple[str, bytes, bytes, int]:
    return message.subject, message.headers, message.data, parse_ns(message.time)
