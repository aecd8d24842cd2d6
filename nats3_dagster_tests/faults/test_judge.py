"""The judge sees what a broken product does: the archive or the target is spoilt on purpose, and it must say so."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from nats3_dagster_tests.faults import judge
from nats3_dagster_tests.faults.judge import Archived, Finding
from nats3_dagster_tests.faults.topology import Topology
from nats3_dagster_tests.faults.trial import Trial
from nats3_dagster_tests.faults.workload import HEAD_LIES, Key, as_json
from nats3_dagster_tests.support.wire import Message

pytestmark = pytest.mark.steady_hour(60)


@pytest.fixture(scope="module")
def trial() -> Iterator[Trial]:
    """Captured and replayed without a fault."""
    with Topology() as servers, Trial(servers, 1, store="file") as trial:
        trial.make_stream(250)
        trial.finish_capture()
        trial.make_target()
        trial.replay_id = trial.begin_replay()
        trial.finish_replay(trial.replay_id)
        assert trial.findings == [], trial.log
        yield trial


def kinds(findings: list[Finding]) -> dict[str, int]:
    return {finding.kind: finding.count for finding in findings}


def spoilt(trial: Trial, spoil: Callable[[Archived, Key], object]) -> dict[str, int]:
    """What the judge finds in the archive after `spoil` has changed something of its tenth message."""
    archived = trial.archived()
    spoil(archived, trial.acknowledged()[9])
    return kinds(judge.judge_archive(archived, trial.truth))


def test_a_message_in_no_chunk(trial: Trial) -> None:
    assert spoilt(trial, lambda a, key: a.messages.pop(key)) == {"lost": 1}


def test_a_message_that_is_called_deleted(trial: Trial) -> None:
    def spoil(archived: Archived, key: Key) -> None:
        del archived.messages[key]
        archived.reasons[key] = ["deleted"]

    assert spoilt(trial, spoil) == {"lost": 1}
    trial.truth.taken[trial.acknowledged()[9]] = HEAD_LIES
    assert spoilt(trial, spoil) == {"lost": 1}  # it went at the head, and nobody deleted it
    trial.truth.taken[trial.acknowledged()[9]] = frozenset()
    assert spoilt(trial, spoil) == {}
    trial.truth.taken.clear()


def test_a_message_in_two_chunks(trial: Trial) -> None:
    assert spoilt(trial, lambda a, key: a.messages[key].append(a.messages[key][0])) == {"doubled": 1}


def test_a_message_in_a_chunk_and_a_gap(trial: Trial) -> None:
    assert spoilt(trial, lambda a, key: a.reasons.update({key: ["expired"]})) == {"doubled": 1}


@pytest.mark.parametrize("part", range(4))
def test_an_altered_message(trial: Trial, part: int) -> None:
    def spoil(archived: Archived, key: Key) -> None:
        (message,) = archived.messages[key]
        fields = list(message)
        fields[part] = (message[0] + "x", message[1] + b"x", message[2] + b"x", message[3] + 1)[part]
        archived.messages[key] = [tuple(fields)]  # type: ignore[list-item]

    assert spoilt(trial, spoil) == {"lost": 1}


def test_a_message_that_never_was(trial: Trial) -> None:
    def spoil(archived: Archived, key: Key) -> None:
        archived.messages[key[0], 10**6] = archived.messages[key]

    assert spoilt(trial, spoil) == {"doubled": 1}


@pytest.mark.parametrize("data", [None, b"", b"PAR1"])
def test_an_object_that_is_not_what_was_committed(trial: Trial, data: bytes | None) -> None:
    bucket, key = trial.live_objects()[1]
    before = trial.fetch(bucket, key)
    trial.overwrite(bucket, key, data)
    assert kinds(trial.archived().findings) == {"lost": 100}
    trial.overwrite(bucket, key, before)
    assert trial.archived().findings == []


def target(trial: Trial, spoil: Callable[[list[Message]], object]) -> dict[str, int]:
    """What the judge finds in the target after `spoil`."""
    stored = trial.stored()
    spoil(stored)
    expected = list(trial.truth.messages.items())
    rename: Callable[[str], str] = lambda subject: trial.back + subject.removeprefix(trial.prefix)  # noqa: E731
    return kinds(judge.judge_target(stored, trial.replay_id, expected, subject=rename))


def test_a_target_that_is_right(trial: Trial) -> None:
    assert target(trial, lambda stored: None) == {}


def test_a_target_without_a_message(trial: Trial) -> None:
    assert target(trial, lambda stored: stored.pop(9)) == {"lost": 1}


def test_a_target_with_one_twice(trial: Trial) -> None:
    assert target(trial, lambda stored: stored.insert(9, stored[9])) == {"doubled": 1}


def test_a_target_with_two_out_of_order(trial: Trial) -> None:
    assert target(trial, lambda stored: stored.insert(9, stored.pop(19))) == {"reordered": 1}


@pytest.mark.parametrize("change", [{"data": b"other"}, {"subject": "other"}])
def test_a_target_with_other_bytes(trial: Trial, change: dict[str, object]) -> None:
    def spoil(stored: list[Message]) -> None:
        stored[9] = stored[9]._replace(**change)  # type: ignore[arg-type]

    assert target(trial, spoil) == {"lost": 1}


def test_a_target_with_another_byte_in_a_subject_that_is_not_utf_8(trial: Trial) -> None:
    def spoil(stored: list[Message]) -> None:
        at, byte = next((n, b) for n, m in enumerate(stored) for b in m.subject if "\udc80" <= b <= "\udcff")
        other = stored[at].subject.replace(byte, "\udc81", 1)
        assert as_json(other) == as_json(stored[at].subject)
        stored[at] = stored[at]._replace(subject=other)

    assert target(trial, spoil) == {"lost": 1}


def test_a_target_with_other_headers(trial: Trial) -> None:
    def spoil(stored: list[Message]) -> None:
        stored[9] = stored[9]._replace(headers=stored[9].headers[:-2] + b"More: 1\r\n\r\n")

    assert target(trial, spoil) == {"lost": 1}


def test_success_with_a_finding_is_silence(trial: Trial) -> None:
    other = replace(trial.truth, messages={})
    before, trial.truth = trial.truth, other
    trial.judge_archive()
    trial.truth = before
    assert [finding.kind for finding in trial.findings] == ["doubled", "silent"]
    trial.findings.clear()
