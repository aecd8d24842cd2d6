"""What a target does with messages, by its configuration, and what it is refused for: at each limit and beside it."""

from dataclasses import replace
from typing import Any, cast

import pytest

from nats3_dagster.errors import StreamChanged, TargetError
from nats3_dagster.hours import SECOND_NS
from nats3_dagster.jetstream.server import ServerInfo
from nats3_dagster.model import ReplaySpec, ReplayTarget, StreamState
from nats3_dagster.replay import targets
from nats3_dagster.replay.messages.headers import MAX_BLOCK
from nats3_dagster.replay.planning import refusals
from nats3_dagster.replay.planning.forgotten import SAMPLE
from nats3_dagster.replay.planning.refusals import Load, notes
from nats3_dagster.replay.targets import (
    blind_settings,
    check_kept,
    removes,
    stores_nothing,
    supports_batches,
    supports_chain,
    way_out,
)
from nats3_dagster_tests.support.catalog import LOGS
from nats3_dagster_tests.support.sealed import AGAIN

MIB = 1 << 20
LOAD = Load(10, True, 1000, True, {"a": 6, "b": 4}, 100, 200)


def stream(messages: int = 0, *, size: int = 0, consumers: int = 0, **config: Any) -> StreamState:
    return StreamState(LOGS, 1, messages, 0, 0, messages, size, config, consumers=consumers)


def server(version: str) -> ServerInfo:
    major, minor, patch = (int(part) for part in version.split("."))
    return ServerInfo((major, minor, patch), "id", "127.0.0.1:4222", MIB, jetstream=True)


@pytest.mark.parametrize(
    ("config", "is_removing", "blind"),
    [
        ({}, False, ()),
        ({"max_msgs_per_subject": -1}, False, ()),
        ({"max_msgs_per_subject": 0}, False, ()),
        ({"max_msgs_per_subject": 1}, True, ("max_msgs_per_subject",)),
        ({"retention": "limits"}, False, ()),
        ({"retention": "interest"}, True, ("retention",)),
        ({"retention": "workqueue", "max_age": 1}, True, ("retention",)),
        # With max_msgs alone a purge is told from what the stream removes: it is full then.
        ({"max_msgs": 9}, False, ()),
        ({"max_age": 9}, False, ("max_age",)),
        ({"max_msgs": 9, "max_bytes": 9}, False, ("max_bytes",)),
    ],
)
def test_what_a_stream_removes(config: dict[str, Any], is_removing: bool, blind: tuple[str, ...]) -> None:
    assert removes(stream(**config)) == is_removing
    assert blind_settings(config) == blind


def test_a_stream_without_consumers_may_store_nothing() -> None:
    assert stores_nothing(stream(retention="interest"))
    assert not stores_nothing(stream(retention="interest", consumers=1))
    assert not stores_nothing(stream(retention="workqueue"))
    assert not stores_nothing(stream())


# Refusals


def refused(target: StreamState, load: Load = LOAD, spec: ReplaySpec | None = None, **source: Any) -> list[str]:
    """Returns what the target is refused for, in short: the setting that the text names."""
    texts = refusals._refusals(spec or ReplaySpec("logs"), {"name": "SOURCE", **source}, target, load)
    return [what for what, _ in texts]


LIVE = ReplaySpec("logs", live=True)
COUNTER: dict[str, Any] = {"allow_msg_counter": True}


def test_a_plain_target_is_refused_for_nothing() -> None:
    assert refused(stream()) == refused(stream(), spec=LIVE) == []


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ({"sealed": True}, "is sealed"),
        ({"no_ack": True}, "does not acknowledge messages"),
        ({"retention": "interest"}, "has interest retention and no consumer"),
    ],
)
def test_a_target_that_takes_nothing(config: dict[str, Any], says: str) -> None:
    (text,) = refused(stream(**config))
    assert says in text


def test_a_target_for_counters_takes_those_of_a_live_replay() -> None:
    assert len(refused(stream(**COUNTER))) == 2
    assert len(refused(stream(**COUNTER), **COUNTER)) == 1
    assert len(refused(stream(**COUNTER), spec=LIVE)) == 1
    assert refused(stream(**COUNTER), spec=LIVE, **COUNTER) == []


def test_sums_of_sources_are_not_added_up_twice() -> None:
    load = replace(LOAD, has_counter_sources=True)
    (text,) = refused(stream(**COUNTER, sources=[{"name": "O"}]), load, LIVE, **COUNTER)
    assert "has sources" in text
    assert refused(stream(**COUNTER), load, LIVE, **COUNTER) == []
    assert refused(stream(**COUNTER, sources=[{"name": "O"}]), LOAD, LIVE, **COUNTER) == []


@pytest.mark.parametrize("setting", ["allow_msg_ttl", "allow_rollup_hdrs", "allow_msg_schedules"])
def test_headers_that_act_need_their_setting(setting: str) -> None:
    acting: dict[str, Any] = {setting: True}
    (text,) = refused(stream(), spec=LIVE, **acting)
    assert f"({setting} is not set)" in text
    assert refused(stream(**acting), spec=LIVE, **acting) == []
    assert refused(stream(), **acting) == []
    assert refused(stream(), spec=LIVE) == []


@pytest.mark.parametrize(
    ("limit", "size", "is_refused"),
    [(200, 200, False), (199, 200, True), (0, 1, True), (-1, 200, False), (200, 201, True), (0, 0, False)],
)
def test_the_largest_message_of_a_target(limit: int, size: int, is_refused: bool) -> None:
    found = refused(stream(max_msg_size=limit), replace(LOAD, largest_message=size))
    assert bool(found) == is_refused


@pytest.mark.parametrize(
    ("size", "storage", "is_refused"),
    [
        (32 * MIB - 35, "file", False),
        (32 * MIB - 34, "file", True),
        (32 * MIB - 34, None, True),
        (32 * MIB - 34, "memory", False),
    ],
)
def test_the_largest_message_in_a_file(size: int, storage: str | None, is_refused: bool) -> None:
    config: dict[str, Any] = {"storage": storage} if storage else {}
    assert bool(refused(stream(**config), replace(LOAD, largest_message=size))) == is_refused


def test_the_largest_message_of_a_server() -> None:
    refusals._check_load(replace(LOAD, largest_block=MAX_BLOCK, largest_message=500), 500)
    with pytest.raises(TargetError, match="The largest header block has"):
        refusals._check_load(replace(LOAD, largest_block=MAX_BLOCK + 1), 500)
    with pytest.raises(TargetError, match="max_payload is 500"):
        refusals._check_load(replace(LOAD, largest_message=501), 500)


def too_full(target: StreamState, load: Load = LOAD) -> list[str]:
    return [what for what, _ in refusals._too_full(cast("Any", None), target, load)]


@pytest.mark.parametrize(
    ("has", "size", "config", "is_refused"),
    [
        # Ten messages of 1,000 bytes come.
        (0, 0, {"max_msgs": 10}, False),
        (0, 0, {"max_msgs": 9}, True),
        (5, 0, {"max_msgs": 15}, False),
        (5, 0, {"max_msgs": 14}, True),
        (5, 0, {"max_msgs": 0}, False),
        (5, 0, {"max_msgs": -1}, False),
        (5, 500, {"max_bytes": 1500}, False),
        (5, 500, {"max_bytes": 1499}, True),
        (5, 500, {"max_bytes": -1}, False),
        # Older messages of a subject make room.
        (5, 500, {"max_msgs": 1, "max_msgs_per_subject": 1}, False),
        (5, 500, {"max_msgs": 1, "max_msgs_per_subject": 0}, True),
        # Of an empty stream no subject is asked for: six messages of `a` come.
        (0, 0, {"discard_new_per_subject": True, "max_msgs_per_subject": 6}, False),
        (0, 0, {"discard_new_per_subject": True, "max_msgs_per_subject": 5}, True),
        (0, 0, {"discard_new_per_subject": True, "max_msgs_per_subject": 1}, True),
        (0, 0, {"discard_new_per_subject": True, "max_msgs_per_subject": 0}, False),
        (0, 0, {"discard_new_per_subject": True, "max_msgs_per_subject": -1}, False),
        (0, 0, {"max_msgs": 1}, True),
        (0, 0, {"discard_new_per_subject": True, "max_msgs_per_subject": 6, "max_msgs": 9}, True),
    ],
)
def test_a_target_that_refuses_new_messages(has: int, size: int, config: dict[str, Any], is_refused: bool) -> None:
    assert bool(too_full(stream(has, size=size, discard="new", **config))) == is_refused
    assert too_full(stream(has, size=size, **config)) == []
    assert too_full(stream(has, size=size, discard="old", **config)) == []


@pytest.mark.parametrize(
    ("per", "held", "come", "is_refused"), [(6, 0, 6, False), (6, 1, 6, True), (1, 1, 1, True), (0, 9, 9, False)]
)
def test_a_target_that_refuses_new_messages_of_a_subject(
    per: int, held: int, come: int, is_refused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refusals, "subject_counts", lambda *_: {"a": held, "b": 0})
    target = stream(9, discard="new", discard_new_per_subject=True, max_msgs_per_subject=per)
    found = too_full(target, replace(LOAD, subjects={"a": come}))
    assert bool(found) == is_refused
    assert all(f"it has {held}, and {come} come" in text for text in found)
    assert too_full(target, replace(LOAD, subjects={})) == []


def test_the_least_that_a_limit_must_be_is_named() -> None:
    """Of bytes it is not known to the byte what a stream needs."""
    full = stream(5, size=500, discard="new", max_msgs=14, max_bytes=1499)
    hints = [str(hint) for _, hint in refusals._too_full(cast("Any", None), full, LOAD)]
    assert hints == [
        "Set max_msgs of stream LOGS to at least 15",
        "Set max_bytes of stream LOGS to at least more than 1500",
    ]


def test_what_may_be_less_may_fit() -> None:
    full = stream(discard="new", max_msgs=9, max_bytes=999)
    assert len(too_full(full)) == 2
    assert len(too_full(full, replace(LOAD, is_exact=False))) == 1
    assert too_full(full, replace(LOAD, is_exact=False, is_size_exact=False)) == []


# Notes


def noted(
    target: StreamState, load: Load = LOAD, *, marks: bool = True, alone: bool = False, live: bool = False
) -> list[str]:
    return list(notes([target], load, marks=marks, alone=alone, live=live))


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ({"max_age": 90 * SECOND_NS}, ["removes messages 90 s after", "A purge"]),
        ({"max_age": 1}, ["removes messages 1e-09 s after", "A purge"]),
        ({"max_age": 0}, []),
        ({"max_msgs_per_subject": 1}, ["keeps the newest 1 of each subject", "A purge"]),
        ({"max_msgs_per_subject": 0}, []),
        ({"max_msgs_per_subject": 1, "discard": "new", "discard_new_per_subject": True}, []),
        ({"max_msgs": 9}, ["keeps the newest 9 messages (max_msgs)"]),
        ({"max_msgs": 10}, []),
        ({"max_msgs": 1}, ["keeps the newest 1 messages (max_msgs)"]),
        ({"max_msgs": 0}, []),
        ({"max_bytes": 1}, ["keeps the newest 1 bytes", "A purge"]),
        ({"max_bytes": 0}, []),
        ({"max_msgs": 9, "discard": "new"}, ["takes up to 9 messages (max_msgs, discard new)"]),
        ({"max_bytes": 999}, ["keeps the newest 999 bytes", "A purge"]),
        ({"max_bytes": 1000}, ["A purge"]),
        ({"retention": "workqueue"}, ["its consumers take messages away", "A purge"]),
    ],
)
def test_what_a_target_does_not_keep_is_noted(config: dict[str, Any], says: list[str]) -> None:
    found = noted(stream(**config))
    assert len(found) == len(says)
    assert all(text in note for text, note in zip(says, found, strict=True))


def test_other_notes() -> None:
    assert noted(stream(SAMPLE)) == []
    assert len(noted(stream(SAMPLE + 1))) == 1
    (unmarked,) = noted(stream(), marks=False)
    assert unmarked == "Without marks, a replay that breaks off after its first message cannot be resumed"
    (alone,) = noted(stream(num_replicas=3), alone=True)
    assert "has 3 replicas" in alone
    assert alone.endswith("With allow_batched or allow_atomic set it would take a thousand at once")
    (alone,) = noted(stream(num_replicas=3, allow_batched=True), alone=True)
    assert alone.endswith("With allow_atomic set it would take a thousand at once")
    (alone,) = noted(stream(num_replicas=3), alone=True, live=True)
    assert alone.endswith("With allow_batched set it would take a thousand at once")
    (alone,) = noted(stream(num_replicas=3, allow_batched=True), alone=True, live=True)
    assert alone.endswith("about 1,000 a second")
    counters = replace(LOAD, has_counter_sources=True)
    assert len(noted(stream(**COUNTER), counters)) == 1
    assert noted(stream(), counters) == noted(stream(**COUNTER)) == []


# Batches and chains


def test_one_target_with_batches_on_a_server_that_has_them() -> None:
    batched = stream(allow_batched=True)
    new, old = server("2.14.0"), server("2.13.9")
    assert supports_batches([batched], new)
    assert not supports_batches([batched], old)
    assert not supports_batches([stream()], new)
    assert not supports_batches([batched, batched], new)
    assert not supports_batches([], new)


def test_a_chain_of_expected_ids_stops_replicas_of_newer_servers() -> None:
    new, old = server("2.14.0"), server("2.13.9")
    for state in (stream(), stream(num_replicas=1)):
        assert supports_chain(state, new)
    assert not supports_chain(stream(num_replicas=3), new)
    assert supports_chain(stream(num_replicas=3), old)


@pytest.mark.parametrize(
    ("config", "spec", "version", "way"),
    [
        ({}, ReplaySpec("logs"), "2.15.0", "chain"),
        ({"allow_atomic": True}, ReplaySpec("logs"), "2.15.0", "chain"),
        ({}, ReplaySpec("logs", order="subject"), "2.15.0", "chain"),
        ({"num_replicas": 3}, ReplaySpec("logs"), "2.13.9", "chain"),
        ({"num_replicas": 3, "allow_atomic": True}, ReplaySpec("logs"), "2.13.9", "chain"),
        ({"num_replicas": 3}, ReplaySpec("logs"), "2.14.0", "single"),
        ({"num_replicas": 3, "allow_atomic": False}, ReplaySpec("logs"), "2.14.0", "single"),
        ({"num_replicas": 3, "allow_batched": True}, ReplaySpec("logs"), "2.14.0", "single"),
        ({"num_replicas": 3, "allow_atomic": True}, ReplaySpec("logs"), "2.14.0", "atomic"),
        ({"num_replicas": 3, "allow_atomic": True}, ReplaySpec("logs", order="subject"), "2.14.0", "window"),
        ({"num_replicas": 3, "allow_atomic": True}, replace(LIVE, marks=False), "2.14.0", "window"),
        ({"num_replicas": 3}, replace(LIVE, marks=False), "2.14.0", "window"),
        ({"num_replicas": 3, "allow_atomic": True}, LIVE, "2.14.0", "single"),
    ],
)
def test_the_way_out_into_one_target(config: dict[str, Any], spec: ReplaySpec, version: str, way: str) -> None:
    target = stream(**config)
    assert way_out(spec, [target], server(version), batched=False) == way
    assert way_out(spec, [target], server(version), batched=True) == "batch"
    assert way_out(spec, [target, target], server(version), batched=False) == "window"


def test_targets_are_named_once(monkeypatch: pytest.MonkeyPatch) -> None:
    found = {"a.>": ["T2", "T1"], "b": ["T3", "T1"]}
    states = {name: replace(stream(), incarnation=replace(LOGS, stream=name)) for name in ("T1", "T2", "T3")}
    monkeypatch.setattr(targets, "streams_listening", lambda _, pattern: [states[name] for name in found[pattern]])
    assert targets.listening(cast("Any", None), ["a.>", "b"]) == list(states.values())


def test_a_replay_that_goes_on_finds_its_targets(monkeypatch: pytest.MonkeyPatch) -> None:
    versions: list[Any] = []
    monkeypatch.setattr(targets, "server_info", lambda _: server("2.14.0"))
    monkeypatch.setattr(targets, "check_version", versions.append)
    monkeypatch.setattr(targets, "stream_state", lambda _, name: stream(allow_batched=name == "LOGS"))
    assert targets.check_resumable(cast("Any", None), [ReplayTarget(LOGS, 5)])
    assert versions == [server("2.14.0")]
    with pytest.raises(StreamChanged):
        targets.check_resumable(cast("Any", None), [ReplayTarget(AGAIN, 5)])


# What a target has kept, of a replay that began at its sequence 5 and had its sequence 9 acknowledged


def kept(
    first: int = 1, last: int = 9, messages: int | None = None, *, consumers: int = 0, **config: Any
) -> StreamState:
    has = last - first + 1 if messages is None else messages
    return replace(stream(has, consumers=consumers, **config), first_seq=first, last_seq=last)


@pytest.mark.parametrize(
    ("states", "live", "says"),
    [
        ([kept()], False, ""),
        ([kept(last=10)], False, ""),
        ([kept(last=8)], False, "acknowledged sequence 9 and ends at 8"),
        # A new leader takes a while to have it.
        ([kept(last=8), kept()], False, ""),
        # It begins with the first of the replay at the latest.
        ([kept(5)], False, ""),
        ([kept(6)], False, "begins at sequence 6, and this replay began at 5: what it published was purged"),
        ([kept(6)], True, ""),
        ([kept(6, max_msgs_per_subject=1)], False, ""),
        ([kept(6, max_age=9)], False, ""),
        # Where max_msgs alone removes, it is full.
        ([kept(6, messages=4, max_msgs=4)], False, ""),
        ([kept(6, messages=5, max_msgs=4)], False, ""),
        ([kept(6, messages=3, max_msgs=4)], False, "it has 3 messages of 4 .max_msgs., so it was purged"),
        ([kept(10, messages=0, retention="workqueue")], False, ""),
        ([kept(10, messages=0, retention="interest", consumers=1)], False, ""),
        ([kept(10, messages=0, retention="interest")], False, "lost its last consumer"),
        ([kept(10, messages=0, retention="interest")], True, "lost its last consumer"),
        ([replace(kept(), incarnation=AGAIN)], False, "was deleted and made again"),
    ],
)
def test_a_target_keeps_what_it_acknowledges(
    states: list[StreamState], live: bool, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second of two targets is looked at like the first."""
    plain = replace(LOGS, stream="PLAIN")
    answers = iter(states)

    def state_of(_: Any, name: str) -> StreamState:
        return (
            replace(kept(6), incarnation=plain, config={"max_age": 1}) if name == "PLAIN" else next(answers, states[-1])
        )

    monkeypatch.setattr(targets, "stream_state", state_of)
    monkeypatch.setattr(targets, "CATCH_UP_S", 0.15)
    both = [ReplayTarget(plain, 5), ReplayTarget(LOGS, 5)]
    if not says:
        check_kept(cast("Any", None), both, {"LOGS": 9}, live=live)
        return
    with pytest.raises(StreamChanged if "again" in says else TargetError, match=says):
        check_kept(cast("Any", None), both, {"LOGS": 9}, live=live)


def test_a_target_that_acknowledged_nothing_need_not_have_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(targets, "stream_state", lambda *_: kept(1, 0))
    monkeypatch.setattr(targets, "CATCH_UP_S", 0.0)
    check_kept(cast("Any", None), [ReplayTarget(LOGS, 1)], {})
