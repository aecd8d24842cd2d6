"""Filters take a subject by its bytes, or by the text that it is shown with, whatever reads."""

from typing import Any

import pytest

from nats3_dagster import Archive
from nats3_dagster.archive.read import chunk_pages
from nats3_dagster.documents.chunks import ChunkDetail
from nats3_dagster.model import Selection
from nats3_dagster.query import engine
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.points import add_chunk, create, message

# Beside each subject that is not UTF-8 the one of the same readable text.
RAW, TEXT = b"h.lat\xe9", b"h.lat%E9"
LONG_RAW, LONG_TEXT = b"h.long." + b"x" * 300 + b"\xff", b"h.long." + b"x" * 300 + b"%FF"
NAMES = [
    RAW,
    TEXT,
    b"h.bin.\xff\xfe.1",
    b"h.bin.%FF%FE.1",
    LONG_RAW,
    LONG_TEXT,
    "h.é".encode(),
    b"other\x0b",
    b"h.a%20b",
    b"h.w*d",
]
FILTERS: dict[str, set[bytes]] = {
    "h.lat%E9": {RAW, TEXT},
    "h.*": {RAW, TEXT, "h.é".encode(), b"h.a%20b", b"h.w*d"},
    "h.bin.%FF%FE.1": {b"h.bin.\xff\xfe.1", b"h.bin.%FF%FE.1"},
    "h.a%20b": {b"h.a%20b"},
    "h.w*d": {b"h.w*d"},
    "h.bin.*.1": {b"h.bin.\xff\xfe.1", b"h.bin.%FF%FE.1"},
    "h.long.>": {LONG_RAW, LONG_TEXT},
    LONG_TEXT.decode(): {LONG_RAW, LONG_TEXT},
    "h.é": {"h.é".encode()},
    ">": {*NAMES},
}


@pytest.fixture(params=["counted", "bloom"])
def archive(
    workspace: Workspace, settings: Settings, bucket: str, request: Any, monkeypatch: pytest.MonkeyPatch
) -> Any:
    """Three chunks of five rounds through NAMES each; their subjects are counted, or in a bloom filter."""
    if request.param == "bloom":
        monkeypatch.setattr("nats3_dagster.chunks.meta.MAX_SUBJECTS", 1)
    stored = create(workspace, bucket)
    size = 5 * len(NAMES)
    for first in range(1, 3 * size, size):
        add_chunk(workspace, stored, [message(n, NAMES[n % len(NAMES)]) for n in range(first, first + size)])
    with Archive.open("logs", settings) as opened:
        yield opened


LAST = 15 * len(NAMES)
SEQS = {name: [n for n in range(1, LAST + 1) if NAMES[n % len(NAMES)] == name] for name in NAMES}


@pytest.mark.parametrize("filter_", FILTERS)
def test_every_read_takes_the_same_messages(archive: Archive, workspace: Workspace, filter_: str) -> None:
    seqs = sorted(n for name in FILTERS[filter_] for n in SEQS[name])
    assert [m.seq for m in archive.read(subjects=[filter_])] == seqs
    assert archive.next(filter_).seq == seqs[0]
    assert archive.next(filter_, seqs[0]).seq == seqs[1]
    assert archive.last(filter_).seq == seqs[-1]
    lasts = {m.subject_bytes or m.subject.encode(): m.seq for m in archive.last_values(filter_)}
    assert lasts == {name: SEQS[name][-1] for name in FILTERS[filter_]}
    for sql in ("SELECT seq FROM logs", "SELECT seq FROM logs WHERE subject > ''"):
        with engine.run(workspace, sql, Selection(subjects=(filter_,))) as result:
            assert sorted(row[0] for row in result.rows) == seqs


def test_a_query_by_text_finds_both(archive: Archive, workspace: Workspace) -> None:
    """The column `subject` is text: chunks must not be left out because their subjects have other bytes."""
    with engine.run(workspace, "SELECT seq FROM logs WHERE subject = 'h.lat%E9'", Selection()) as result:
        assert sorted(row[0] for row in result.rows) == sorted(SEQS[RAW] + SEQS[TEXT])


def test_chunks_list_by_the_bytes_and_show_text(archive: Archive, workspace: Workspace) -> None:
    stored = workspace.catalog.archives.get("logs")
    assert len(chunk_pages.page(workspace, stored, subject="h.lat%E9").chunks) == 3
    (chunk, *_) = workspace.catalog.chunks.select(stored)
    shown = ChunkDetail.of_report(chunk_pages.chunk(workspace, chunk.id), None).subjects
    assert shown is None or (shown["h.lat%E9"], sum(shown.values())) == (10, 5 * len(NAMES))
