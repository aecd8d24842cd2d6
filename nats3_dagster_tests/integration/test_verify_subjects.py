"""Verifying what reads by subject rely on: the list of a chunk's subjects, and their bloom filter, in the catalog."""

from collections.abc import Callable
from itertools import chain

import psycopg
import pytest

from nats3_dagster.archive.proof.verify import chunks_to_verify, sample_chunks, verify_chunks
from nats3_dagster.archive.read.subjects import last_of
from nats3_dagster.catalog.archives.archives import Archives
from nats3_dagster.errors import ChunkError, ObjectMissing
from nats3_dagster.model import Archive
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.points import add_chunk, create, message

SUBJECTS = [b"logs.a", b"logs.b", b"logs.c", "logs.é".encode(), b"logs." + 300 * b"x"]
# The first chunk has so many subjects that they are counted, the second one has a bloom filter.
COUNTED = 2


@pytest.fixture
def archive(workspace: Workspace, bucket: str, monkeypatch: pytest.MonkeyPatch) -> Archive:
    monkeypatch.setattr("nats3_dagster.chunks.meta.MAX_SUBJECTS", COUNTED)
    made = create(workspace, bucket)
    add_chunk(workspace, made, [message(n + 1, SUBJECTS[n % COUNTED]) for n in range(10)])
    add_chunk(workspace, made, [message(n + 11, SUBJECTS[n % len(SUBJECTS)]) for n in range(10)])
    return made


@pytest.fixture
def change(workspace: Workspace) -> Callable[[str], None]:
    """Change the catalog as nothing of ours would."""

    def execute(statement: str) -> None:
        with psycopg.connect(workspace.settings.postgres) as connection:
            connection.execute("alter table nats3.chunk_subject disable trigger user")
            assert connection.execute(statement.encode()).rowcount

    return execute


def errors(workspace: Workspace, archive: Archive) -> list[str | None]:
    """What is wrong with each chunk, in the order of the stream."""
    every = list(verify_chunks(workspace, chunks_to_verify(workspace, archive)))
    sampled, total = sample_chunks(workspace, archive, 1)
    (one,) = verify_chunks(workspace, sampled)
    assert total == len(every) == 2
    for verified in chain(every, [one]):
        assert verified.error is None or isinstance(verified.error, ChunkError)
    texts = {v.chunk.id: v.error and str(v.error) for v in every}
    assert texts[one.chunk.id] == (one.error and str(one.error))
    return list(texts.values())


def test_the_archive_is_asked_for_once_however_many_objects_are_missing(
    workspace: Workspace, archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    archives = type(workspace.catalog.archives)
    get = archives.get

    def counted(self: Archives, name: str) -> Archive:
        asked.append(name)
        return get(self, name)

    monkeypatch.setattr(archives, "get", counted)
    for chunk in chunks_to_verify(workspace, archive):
        workspace.bucket(chunk.meta.bucket).delete(chunk.meta.key)
    found = [type(one.error) for one in verify_chunks(workspace, chunks_to_verify(workspace, archive))]
    assert (found, asked) == ([ObjectMissing] * 2, [archive.name])


def test_what_a_capture_commits_is_what_its_objects_have(workspace: Workspace, archive: Archive) -> None:
    assert errors(workspace, archive) == [None, None]


@pytest.mark.parametrize(
    "statement",
    [
        "update nats3.chunk_subject set subject = 'logs.other' where subject = 'logs.a'",
        "update nats3.chunk_subject set messages = messages + 1 where subject = 'logs.a'",
        "update nats3.chunk_subject set first_seq = 2 where subject = 'logs.a'",
        "update nats3.chunk_subject set archive_id = archive_id + 1 where subject = 'logs.a'",
        "update nats3.chunk_subject set incarnation_id = incarnation_id + 1",
        "delete from nats3.chunk_subject where subject = 'logs.a'",
        "delete from nats3.chunk_subject",
        "insert into nats3.chunk_subject select * from nats3.chunk_subject",
    ],
)
def test_other_counts_of_subjects(
    workspace: Workspace, archive: Archive, change: Callable[[str], None], statement: str
) -> None:
    change(statement)
    first, second = errors(workspace, archive)
    assert first
    assert first.startswith("The catalog has other subjects for ")
    assert second is None


@pytest.mark.parametrize(
    "blocks",
    [
        "decode(repeat('00', 32), 'hex')",  # hides every subject
        "(select set_bit(blocks, n, 0) from generate_series(0, 255) n where get_bit(blocks, n) = 1 limit 1)",
        "(select set_bit(blocks, n, 1) from generate_series(0, 255) n where get_bit(blocks, n) = 0 limit 1)",
        "blocks || blocks",  # other blocks for each subject
    ],
)
def test_a_bloom_filter_of_other_subjects(
    workspace: Workspace, archive: Archive, change: Callable[[str], None], blocks: str
) -> None:
    change(f"update nats3.chunk_bloom set blocks = {blocks}")
    first, second = errors(workspace, archive)
    assert first is None
    assert second
    assert second.startswith("The catalog has another bloom filter for ")
    assert "Restore the catalog from a backup" in second


def test_a_filter_that_hides_a_subject_hides_it_from_reads(
    workspace: Workspace, archive: Archive, change: Callable[[str], None]
) -> None:
    """Why it is compared: nothing else would notice."""
    found = last_of(workspace, archive, "logs.c")
    assert found is not None
    change("update nats3.chunk_bloom set blocks = decode(repeat('00', 32), 'hex')")
    assert last_of(workspace, archive, "logs.c") is None


def test_a_chunk_without_a_filter_hides_nothing(
    workspace: Workspace, archive: Archive, change: Callable[[str], None]
) -> None:
    change("delete from nats3.chunk_bloom")
    assert last_of(workspace, archive, "logs.c") is not None
    assert errors(workspace, archive) == [None, None]


def test_chunks_that_are_retired_while_they_are_verified_are_not_bad(workspace: Workspace, archive: Archive) -> None:
    chunks = list(chunks_to_verify(workspace, archive))
    workspace.catalog.chunks.retire(archive, [chunk.id for chunk in chunks])
    assert [verified.error for verified in verify_chunks(workspace, chunks)] == [None, None]
