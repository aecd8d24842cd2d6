"""The judge of reads: what a program that was killed and resumed saw, compared with what the stream acknowledged.

Invariant: it shares no code with what is tested: filters are compared here by themselves.
"""

import hashlib
from collections.abc import Collection, Iterable, Sequence

from nats3_dagster_tests.faults.judge import Finding
from nats3_dagster_tests.faults.workload import Truth, parse_ns
from nats3_dagster_tests.support.wire import Message

# Sequence, and digest of time, subject, headers and payload.
Expected = tuple[int, str]


def expected(truth: Truth, filters: Sequence[str]) -> list[Expected]:
    """The messages that one of the filters takes, in the order of the stream. A person's filter takes a subject by its
    bytes, or by its text with `%XX` for each byte that is not UTF-8."""
    return [
        (seq, _digest(message))
        for (_, seq), message in truth.messages.items()
        if not filters or any(_matches(f.encode(), s) for f in filters for s in (_raw(message), _shown(message)))
    ]


def judge_read(
    log: Iterable[str], messages: Sequence[Expected], *, retired: Collection[int] = (), ended: bool = True
) -> list[Finding]:
    """Each process goes on right after what was saved, and gives each message once and in order. `retired`: sequences
    that may be passed over. `ended`: the last process came to the end, and nothing may be left."""
    places = {seq: place for place, (seq, _) in enumerate(messages)}
    findings: list[Finding] = []
    # Where the process may go on, and where the next one may: two places while a token is on its way.
    now, then, intended = {0}, {0}, 0
    for line in log:
        what, *words = line.split()
        if what == "begin":
            now = set(then)
        elif what == "message":
            place = places.get(int(words[0]))
            if place is None:
                findings.append(Finding("doubled", 1, f"read: {words[0]} is not of the selection"))
                continue
            if messages[place][1] != words[1]:
                findings.append(Finding("lost", 1, f"read: {words[0]} altered"))
            allowed = {_past(messages, at, place, retired) for at in now}
            if place not in allowed:
                least, most = min(now), max(now)
                if place > most:
                    findings.append(Finding("lost", place - most, f"read: {messages[most][0]} to {words[0]} skipped"))
                else:
                    findings.append(Finding("doubled", 1, f"read: {words[0]} again, {least} were saved"))
            now = {place + 1}
        elif what == "saving":
            if len(now) == 1:
                intended = max(now) - int(words[0])
                then = {*then, intended}
        elif what == "saved" and len(now) == 1:
            then = {intended}
    if ended:
        left = [seq for seq, _ in messages[max(now) :] if seq not in retired]
        if left:
            findings.append(Finding("lost", len(left), f"read: it ended before {left[0]}"))
    return findings


def _past(messages: Sequence[Expected], at: int, place: int, retired: Collection[int]) -> int:
    """The next place from `at` on, or `place` where all before it were retired."""
    while at < place and messages[at][0] in retired:
        at += 1
    return at


def _matches(filter_: bytes, subject: bytes) -> bool:
    tokens, wanted = subject.split(b"."), filter_.split(b".")
    if wanted[-1] == b">":
        tokens, wanted = (tokens[: len(wanted) - 1], wanted[:-1]) if len(tokens) >= len(wanted) else ([], [b""])
    return len(tokens) == len(wanted) and all(w in (b"*", t) for w, t in zip(wanted, tokens, strict=True))


def _raw(message: Message) -> bytes:
    return message.subject.encode(errors="surrogateescape")


def _shown(message: Message) -> bytes:
    return "".join(f"%{ord(c) - 0xDC00:02X}" if "\udc80" <= c <= "\udcff" else c for c in message.subject).encode()


def _digest(message: Message) -> str:
    parts = (b"%d" % parse_ns(message.time), _raw(message), message.headers or b"", message.data)
    return hashlib.sha256(b"\0\0".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()
