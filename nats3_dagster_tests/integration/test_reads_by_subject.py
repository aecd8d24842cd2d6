"""Reads by subject against chunks in a real store: which message it is, and how many requests it takes."""

from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

import pytest

from nats3_dagster.archive.read.cursor import Cursor
from nats3_dagster.archive.read.subjects import last_of, last_values, next_of
from nats3_dagster.catalog.session.statements import Statements
from nats3_dagster.errors import OperatorError, Unknown
from nats3_dagster.model import Incarnation, Selection
from nats3_dagster.settings import Settings
from nats3_dagster.subjects import matches
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.catalog import LOGS, state
from nats3_dagster_tests.support.points import SECOND, T0, Case, Gets, add_chunk, as_read, create, large, message
from nats3_dagster_tests.support.servers.s3_proxy import S3Proxy

NEXT_LIFE = Incarnation("LOGS", LOGS.created_ns + 3600 * SECOND)
FILTERS = ["a.b", "a.c", "b", "none", "a.*", "a.>", "*.b", "*", ">", "c.*.z", "none.>", "*.*.*"]
NAMES = ["a.b", "a.c", "b", "c.x.z", "c.y.z", "c.y.w", "a.*", "dé.日本", "e." + 300 * "x", "e." + 300 * "x" + "y"]


@pytest.fixture
def case(s3_server: Any, bucket: str, postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Case]:
    """An empty archive, whose store is asked through a proxy that counts."""
    with S3Proxy(s3_server.endpoint) as proxy:
        monkeypatch.setenv("NATS3_POSTGRES_URL", postgres_url)
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", proxy.endpoint)
        monkeypatch.setenv("AWS_REGION", s3_server.region)
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", s3_server.access_key)
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", s3_server.secret_key)
        with Workspace(Settings.load()) as workspace:
            yield Case(workspace, create(workspace, bucket), Gets(proxy))


def row(seq: int, subject: str, time_ns: int | None = None) -> dict[str, Any]:
    return message(seq, subject.encode(), time_ns=T0 + seq * SECOND if time_ns is None else time_ns)


def expected(lives: Sequence[list[dict[str, Any]]], filter_: str, at_ns: int | None = None) -> list[tuple[int, int]]:
    """Life and sequence of the last message of each subject, the newest first."""
    last: dict[bytes, tuple[int, int]] = {}
    for life, rows in enumerate(lives):
        for one in rows:
            if matches(filter_, one["subject"].decode()) and (at_ns is None or one["time_ns"] <= at_ns):
                last[one["subject"]] = life, one["seq"]
    return sorted(last.values(), reverse=True)


@pytest.mark.parametrize("seed", range(2))
def test_answers_are_those_of_a_search_through_all_messages(
    case: Case, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    workspace, archive, _ = case
    noise = Random(seed)
    workspace.catalog.coverage.begin(archive, state(NEXT_LIFE))
    lives: list[list[dict[str, Any]]] = []
    for life in (LOGS, NEXT_LIFE):
        live, seq, clock = list[dict[str, Any]](), 1, T0
        for number in range(6):
            monkeypatch.setattr("nats3_dagster.chunks.meta.MAX_SUBJECTS", noise.choice([2, 100]))
            names = noise.sample(NAMES, noise.randint(1, 6))
            rows, first = [], seq
            for _ in range(noise.randint(1, 12)):
                clock += noise.choice([1, 1, 1, -5, 20]) * SECOND  # a clock that steps
                rows.append(row(seq, noise.choice(names), clock))
                seq += noise.choice([1, 1, 3])
            chunk = add_chunk(
                workspace,
                archive,
                rows,
                covers=(first, max(seq - 1, rows[-1]["seq"])),
                incarnation=life,
                group_rows=noise.choice([None, 2, 3]),
            )
            if number in (2, 5) and noise.random() < 0.5:
                workspace.catalog.chunks.retire(archive, [chunk.id])
            else:
                live += rows
        lives.append(live)
    wrong: list[Any] = []
    ids = [LOGS, NEXT_LIFE]
    times = [None, T0 - 100 * SECOND, *(T0 + noise.randint(-20, 200) * SECOND for _ in range(3))]
    for filter_ in FILTERS + NAMES[-2:]:
        for at_ns in times:
            want = expected(lives, filter_, at_ns)
            got = [(ids.index(m.incarnation), m.seq) for m in last_values(workspace, archive, filter_, at_ns)]
            one = last_of(workspace, archive, filter_, at_ns)
            if sorted(got, reverse=True) != want or (one and (ids.index(one.incarnation), one.seq)) != (
                want[0] if want else None
            ):
                wrong.append((filter_, at_ns, want, got, one))
        for life, rows in zip(ids, lives, strict=True):
            for after in [0, *noise.sample(range(1, 60), 3)]:
                taken = (r for r in rows if r["seq"] > after and matches(filter_, r["subject"].decode()))
                want_next = next(taken, None)
                answer = next_of(workspace, archive, filter_, after, life)
                if answer != (want_next and as_read(want_next, life)):
                    wrong.append((filter_, life, after, want_next, answer))
    assert not wrong, wrong[0]


def test_the_newest_incarnation_is_asked_unless_another_is_given(case: Case) -> None:
    workspace, archive, _ = case
    add_chunk(workspace, archive, [row(1, "a"), row(2, "b")])
    workspace.catalog.coverage.begin(archive, state(NEXT_LIFE))
    add_chunk(workspace, archive, [row(1, "b")], incarnation=NEXT_LIFE)
    assert next_of(workspace, archive, "a", 0) is None
    assert next_of(workspace, archive, "a", 0, LOGS) == as_read(row(1, "a"))
    assert last_of(workspace, archive, "a") == as_read(row(1, "a"))
    assert last_of(workspace, archive, "b") == as_read(row(1, "b"), NEXT_LIFE)
    with pytest.raises(Unknown, match="Archive logs has nothing of the LOGS of 1970"):
        next_of(workspace, archive, "a", 0, Incarnation("LOGS", 1))


def test_a_bad_filter_is_refused(case: Case) -> None:
    workspace, archive, _ = case
    for read in (next_of, last_of, last_values):
        with pytest.raises(OperatorError, match="'a..b' is not a subject filter: token 2 is empty"):
            list(read(workspace, archive, "a..b", 0) or ())  # type: ignore[operator]


def test_chunks_without_the_subject_are_not_read(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    workspace, archive, gets = case
    for n in range(30):
        monkeypatch.setattr("nats3_dagster.chunks.meta.MAX_SUBJECTS", 2 if n % 2 else 100)
        first = n * 4 + 1
        subjects = ["old" if n == 3 else f"f{n}", "x", f"g{n}", "x"]
        add_chunk(workspace, archive, [row(first + at, subject) for at, subject in enumerate(subjects)])
    gets.count()
    assert next_of(workspace, archive, "none", 0) is None
    assert last_of(workspace, archive, "none") is None
    assert gets.count() == 0
    assert last_of(workspace, archive, "old") == as_read(row(13, "old"))
    assert gets.count() == 1
    assert last_of(workspace, archive, "x") == as_read(row(120, "x"))
    assert gets.count() == 1
    assert len(list(last_values(workspace, archive, ">"))) == 61
    assert gets.count() <= 30


@pytest.mark.parametrize("counted", [True, False])
def test_last_values_up_to_a_sequence_read_no_chunk_after_it(
    case: Case, monkeypatch: pytest.MonkeyPatch, counted: bool
) -> None:
    workspace, archive, gets = case
    monkeypatch.setattr("nats3_dagster.chunks.meta.MAX_SUBJECTS", 100 if counted else 1)
    for n in range(10):
        add_chunk(workspace, archive, [row(n * 3 + 1, "k.all"), row(n * 3 + 2, f"k.{n}"), row(n * 3 + 3, "k.all")])
    gets.count()
    # The sequence lies in the fifth chunk, before the last message there.
    values = list(last_values(workspace, archive, "k.*", incarnation=LOGS, upto=14))
    assert [(m.subject, m.seq) for m in values] == [
        ("k.4", 14),
        ("k.all", 13),
        ("k.3", 11),
        ("k.2", 8),
        ("k.1", 5),
        ("k.0", 2),
    ]
    assert gets.count() == 5


def test_chunks_of_listed_subjects_are_looked_up_again_only_for_a_sequence_before_the_end(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The list of subjects has the newest chunk of each: of a hundred thousand, a second lookup costs as much again."""
    workspace, archive, _ = case
    for n in range(3):
        add_chunk(workspace, archive, [row(n * 2 + 1, "k.all"), row(n * 2 + 2, f"k.{n}")])
    statements = list[str]()
    rows = Statements.rows

    def noted_rows(self: Statements, kind: Any, statement: str, /, **values: object) -> list[Any]:
        statements.append(statement)
        return rows(self, kind, statement, **values)

    monkeypatch.setattr(Statements, "rows", noted_rows)
    for upto, seqs in ((None, [6, 5, 4, 2]), (6, [6, 5, 4, 2]), (5, [5, 4, 2])):
        statements.clear()
        values = last_values(workspace, archive, "k.*", incarnation=LOGS, upto=upto)
        assert [message.seq for message in values] == seqs
        assert statements.count("subjects_between") == 1
        assert ("newest_counted" in statements) == (upto == 5)


def test_row_groups_without_the_subject_are_not_read(case: Case) -> None:
    """A chunk as a compaction makes it: 30 row groups, one of which has the rare subject and another two keys."""
    workspace, archive, gets = case
    rows = large(1, 30, 200_000)
    for seq in range(1, 31):
        rows[seq - 1]["subject"] = {3: b"rare", 9: b"key.a", 28: b"key.b"}.get(seq, b"common")
    add_chunk(workspace, archive, rows, group_rows=1)
    gets.count()
    # The end of the object, and the row group.
    assert last_of(workspace, archive, "rare") == as_read(rows[2])
    assert gets.count() == 2
    assert next_of(workspace, archive, "rare", 1) == as_read(rows[2])
    assert gets.count() == 1
    assert [m.seq for m in last_values(workspace, archive, "key.*")] == [28, 9]
    assert gets.count() == 2
    assert last_of(workspace, archive, "rare", T0 + 2 * SECOND) is None
    assert gets.count() == 0
    values = last_values(workspace, archive, ">", incarnation=LOGS, upto=14)
    assert [(m.subject, m.seq) for m in values] == [("common", 14), ("key.a", 9), ("rare", 3)]
    assert gets.count() == 3


@pytest.mark.parametrize("few", [False, True])
def test_a_cursor_reads_no_chunk_whose_counts_or_bloom_filter_have_none_of_its_subjects(
    case: Case, monkeypatch: pytest.MonkeyPatch, few: bool
) -> None:
    workspace, archive, gets = case
    for n in range(20):
        monkeypatch.setattr("nats3_dagster.chunks.meta.MAX_SUBJECTS", 2 if n % 2 else 100)
        first = n * 3 + 1
        subjects = {5: "odd", 8: "even", 9: "odd"}.get(n, f"f{n}"), f"g{n}", f"h{n}"
        add_chunk(workspace, archive, [row(first + at, subject) for at, subject in enumerate(subjects)])

    def read(*filters: str) -> tuple[list[int], int]:
        gets.count()
        cursor = Cursor.begin(workspace, archive, Selection(subjects=filters))
        return [seq for batch in cursor.batches(few=few) for seq in batch.column("seq").to_pylist()], gets.count()

    seqs, reads = read("odd")
    assert seqs == [16, 28]
    assert 2 <= reads <= 3  # one filter in 80 is wrong, and may cost a read
    seqs, reads = read("odd", "even")
    assert seqs == [16, 25, 28]
    assert 3 <= reads <= 4
    assert read("none")[0] == []
    assert read("none")[1] <= 1
    # A wildcard: the bloom filters cannot say.
    seqs, reads = read("odd", "*.none")
    assert (seqs, reads) == ([16, 28], 10)
