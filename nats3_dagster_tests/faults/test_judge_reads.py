"""The judge of reads sees a message that was skipped, doubled, altered or left out."""

import pytest

from nats3_dagster_tests.faults.judge_reads import expected, judge_read
from nats3_dagster_tests.faults.workload import Truth
from nats3_dagster_tests.support.wire import Message

MESSAGES = [(seq, f"d{seq}") for seq in range(1, 11)]


def log(*parts: str) -> list[str]:
    """`1-3` is messages, `<` and `>` a save that began and ended, `B` a process."""
    lines: list[str] = []
    for part in parts:
        if part == "B":
            lines.append("begin")
        elif part in "<>":
            lines.append("saving 0" if part == "<" else "saved")
        else:
            first, _, last = part.partition("-")
            lines += [f"message {seq} d{seq}" for seq in range(int(first), int(last or first) + 1)]
    return lines


@pytest.mark.parametrize(
    "parts",
    [
        ("B", "1-10", "<", ">"),
        ("B", "1-4", "<", ">", "5-6", "B", "5-10"),
        ("B", "1-4", "B", "1-10"),
        # Killed while the token is written: it may be there or not.
        ("B", "1-4", "<", "B", "5-10"),
        ("B", "1-4", "<", "B", "1-10"),
    ],
)
def test_a_right_read(parts: tuple[str, ...]) -> None:
    assert judge_read(log(*parts), MESSAGES) == []


@pytest.mark.parametrize(
    ("parts", "kind"),
    [
        (("B", "1-3", "5-10"), "lost"),
        (("B", "1-9"), "lost"),
        (("B", "2-10"), "lost"),
        (("B", "1-4", "<", ">", "B", "6-10"), "lost"),
        (("B", "1-4", "<", ">", "B", "4-10"), "doubled"),
        (("B", "1-4", "4-10"), "doubled"),
        (("B", "1-10", "11"), "doubled"),
    ],
)
def test_a_wrong_read(parts: tuple[str, ...], kind: str) -> None:
    assert {finding.kind for finding in judge_read(log(*parts), MESSAGES)} == {kind}


def test_altered_and_retired_messages() -> None:
    assert [f.text for f in judge_read(["begin", "message 1 other"], MESSAGES[:1])] == ["read: 1 altered"]
    assert judge_read(log("B", "1-3", "6-10"), MESSAGES, retired={4, 5}) == []
    assert judge_read(log("B", "1-3", "6-10"), MESSAGES, retired={4}) != []
    assert judge_read(log("B", "1-3"), MESSAGES, ended=False) == []


@pytest.mark.parametrize("filter_", ["ev.%FF", "ev.*", "ev.>"])
def test_a_filter_takes_a_subject_by_its_bytes_and_by_its_text(filter_: str) -> None:
    subjects = (b"ev.\xff", b"ev.%FF")
    messages = [
        Message(seq, subject.decode(errors="surrogateescape"), b"", b"", "2026-01-01T00:00:00Z")
        for seq, subject in enumerate(subjects, 1)
    ]
    truth = Truth({(0, message.seq): message for message in messages})
    assert [seq for seq, _ in expected(truth, [filter_])] == [1, 2]
    assert expected(truth, ["ev.%FE", "ev.a.>"]) == []
