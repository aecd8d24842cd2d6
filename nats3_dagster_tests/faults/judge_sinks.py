"""The judge of writes by Spark: the target, read by raw requests, held against the rows that were to be written.

Invariant: it shares no code with what is tested.
"""

from collections import Counter
from collections.abc import Iterable

from nats3_dagster_tests.faults.judge import Finding
from nats3_dagster_tests.support.wire import Message

# What a write that fails says: rows could be doubled, or the source is another one.
FORESEEN = (
    "rows could be stored twice",
    "were removed while",
    "was made again",
    "the server forgot messages",
    "no longer has sequences",
    "newest messages",
    "was deleted",
)


def judge_write(stored: Iterable[Message], wanted: Iterable[bytes], *, ok: bool, text: str) -> list[Finding]:
    """Findings of a write that ended so. Rows are known by their data, with zeros before it left out."""
    counts = Counter(message.data.lstrip(b"0") or b"0" for message in stored)
    rows = set(wanted)
    findings: list[Finding] = []
    doubled = [row for row, times in counts.items() if times > 1]
    if doubled:
        findings.append(Finding("doubled", len(doubled), f"rows are stored more than once, as {doubled[0]!r}"))
    if foreign := counts.keys() - rows:
        findings.append(Finding("doubled", len(foreign), f"rows that nobody wrote, as {min(foreign)!r}"))
    if ok and (missing := rows - counts.keys()):
        findings.append(Finding("lost", len(missing), f"a success without rows, as {min(missing)!r}"))
    if not ok and not any(reason in text for reason in FORESEEN):
        findings.append(Finding("unclear", 1, f"it ended without a reason: {text[-600:]}"))
    return findings
