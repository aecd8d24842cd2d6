"""Erasures: what was erased is in no object any more and never comes back; everything else is as it was."""

import io
import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from nats3_dagster.archive.captures.open import open_source
from nats3_dagster.archive.keep import erasure, holds
from nats3_dagster.archive.lifecycle.change import change
from nats3_dagster.archive.metrics_snapshot import archive_measures
from nats3_dagster.archive.proof import source_check, unlisted
from nats3_dagster.archive.read.points import by_sequence
from nats3_dagster.archive.recovery.rebuild import rebuild
from nats3_dagster.archive.stored import folder
from nats3_dagster.cli import wording as cli
from nats3_dagster.errors import Held, NotArchived, OperatorError, StoreError
from nats3_dagster.exports import declare
from nats3_dagster.exports.hour_export import export_hour
from nats3_dagster.exports.hours import attempt, select_hours
from nats3_dagster.exports.status import find
from nats3_dagster.model import Archive, ExportSpec, Selection, SeqRange
from nats3_dagster.objects import Bucket, create_bucket
from nats3_dagster.query.matching import Conditions, matching, parse_header
from nats3_dagster.settings import Settings
from nats3_dagster.tables import tables
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.captures import capture
from nats3_dagster_tests.support.commands import Command
from nats3_dagster_tests.support.exports import perform
from nats3_dagster_tests.support.repairs import damage, make_events, planned, repaired
from nats3_dagster_tests.support.servers.s3_proxy import Handler, S3Proxy, refuse
from nats3_dagster_tests.support.small_chunks import HOUR, check_whole, compact, live, messages, rows, seal, small
from nats3_dagster_tests.support.stored import LIFE, Made, made, store
from nats3_dagster_tests.support.tables import numbers, seqs, synced
from nats3_dagster_tests.support.wire import Wire

WANTED = (SeqRange(2, 2), SeqRange(6, 10), SeqRange(13, 13), SeqRange(15, 15), SeqRange(22, 22))


@pytest.fixture
def archive(workspace: Workspace, bucket: str) -> Archive:
    """Three chunks that were compacted into one, and a later one with absent sequences, all of a sealed hour."""
    archive = made(workspace, bucket, "logs")
    folder.claim(workspace, archive)
    small(workspace, archive, 3)
    compact(workspace, archive)
    gone = {18, 24}
    store(workspace, archive, 7, [m for m in messages(16, 26) if m.seq not in gone], (16, 26), reason="expired")
    seal(workspace, archive)
    return archive


def everywhere(s3_client: Any, bucket: str) -> set[int]:
    """The sequences of the messages that any version of any object has, past the code under test."""
    found: set[int] = set()
    for version in s3_client.list_object_versions(Bucket=bucket).get("Versions", ()):
        if version["Key"].endswith(".parquet"):
            given = {"VersionId": version["VersionId"]} if version.get("VersionId") not in (None, "null") else {}
            data = s3_client.get_object(Bucket=bucket, Key=version["Key"], **given)["Body"].read()
            found |= {*pq.read_table(io.BytesIO(data), columns=["seq"]).column("seq").to_pylist()}
    return found


def erase(workspace: Workspace, archive: Archive, *ranges: SeqRange) -> erasure.Erased:
    return erasure.erase(workspace, archive, {LIFE: ranges or WANTED}, reason="case 17", chosen_by=["sequences"])


@pytest.mark.parametrize("versions", [False, True])
def test_what_was_erased_is_nowhere_and_the_rest_is_as_it_was(
    workspace: Workspace, archive: Archive, bucket: str, s3_client: Any, versions: bool
) -> None:
    other = f"copy-{uuid.uuid4().hex[:12]}"
    create_bucket(workspace.settings.store, other)
    if versions:
        for name in (bucket, other):
            s3_client.put_bucket_versioning(Bucket=name, VersioningConfiguration={"Status": "Enabled"})
    archive = change(workspace, "logs", {"copies": (other,)}).after
    seal(workspace, archive)
    before = rows(workspace, archive).to_pylist()
    erased = {seq for part in WANTED for seq in range(part.first, part.last + 1)}

    done = erase(workspace, archive)
    # 1-15 had no absent sequence: it is one chunk with holes. 16-26 has two reasons: cut where they change.
    assert (done.messages, done.chunks, done.hours, done.left, done.problem) == (9, 2, (HOUR,), (), None)
    # The merged chunk, and the three that it was made of, which waited for the sweep.
    assert done.objects == 5
    assert rows(workspace, archive).to_pylist() == [row for row in before if row["seq"] not in erased]
    chunks = [(c.meta.covers.first, c.meta.covers.last, c.meta.absent_reason) for c in live(workspace, archive)]
    assert chunks == [(1, 15, "erased"), (16, 21, "expired"), (22, 23, "erased"), (24, 26, "expired")]
    check_whole(workspace, archive)
    left = {row["seq"] for row in before} - erased
    assert (everywhere(s3_client, bucket), everywhere(s3_client, other)) == (left, left)
    for seq in erased:
        with pytest.raises(NotArchived, match="it was erased"):
            by_sequence(workspace, archive, seq)
    with pytest.raises(NotArchived, match="a limit of the stream"):
        by_sequence(workspace, archive, 24)

    # Again: there is nothing. All that is left of a chunk: it is a gap.
    assert (erase(workspace, archive).messages, erasure.plan(workspace, archive, {LIFE: WANTED}).chunks) == (0, 0)
    assert erase(workspace, archive) == erasure.Erased("logs", objects=0)
    assert len(workspace.catalog.erasures.all(archive)) == 1
    assert erase(workspace, archive, SeqRange(22, 23)).messages == 1
    assert [(gap.reason, gap.ranges) for gap in workspace.catalog.gaps.select(archive)] == [
        ("erased", (SeqRange(22, 23),))
    ]
    check_whole(workspace, archive)
    # A catalog that is made again does not know otherwise.
    with workspace.catalog.session.transaction() as sql:
        sql.connection.execute("truncate nats3.archive cascade")
    assert [one.error for one in rebuild(workspace, bucket, "of/logs")] == [None]
    again = workspace.catalog.archives.get("logs")
    assert {row["seq"] for row in rows(workspace, again).to_pylist()} == left - {23}
    with pytest.raises(NotArchived, match="it was erased"):
        by_sequence(workspace, again, 22)


def test_conditions_narrow_together(workspace: Workspace, bucket: str) -> None:
    archive = made(workspace, bucket, "logs", last=40)
    values = [b"0", b"1", b"\xff", "\u00ff".encode(), "\ufffd".encode()]
    block = b"NATS/1.0\r\nOther: 0\r\nCustomer:  %s\t\r\nX: Customer: 0\r\n\r\n"
    store(workspace, archive, 7, [Made(n, "a.b", b"", block % values[n % 5]) for n in range(1, 41)])

    def chosen(where: str = "", *headers: str, **selection: Any) -> set[int]:
        conditions = Conditions(Selection(**selection), tuple(map(parse_header, headers)), where)
        found = matching(workspace, archive, conditions)
        return {seq for ranges in found.values() for part in ranges for seq in range(part.first, part.last + 1)}

    for number, value in enumerate(values):
        # As the command line gives what is not UTF-8.
        assert chosen("", f"Customer={value.decode(errors='surrogateescape')}") == {
            n for n in range(1, 41) if n % 5 == number
        }
    assert chosen("seq < 11 -- or all", "Customer=0") == {5, 10}
    assert chosen("true", "Customer=0", sequences=SeqRange(7, 12)) == {10}
    # A statement in it sees what is selected alone.
    assert chosen("seq = (SELECT max(seq) FROM messages)", sequences=SeqRange(7, 12)) == {12}
    for where in ("true) OR (true", "true) UNION ALL SELECT incarnation, seq, 1 FROM messages WHERE (true"):
        with pytest.raises(OperatorError, match="no expression"):
            chosen(where, sequences=SeqRange(7, 7))
    with pytest.raises(OperatorError, match="no text"):
        chosen("", "Customer=\ud800")


def test_nothing_brings_it_back(workspace: Workspace, wire: Wire, bucket: str, s3_client: Any, nats3: Command) -> None:
    """The stream still has it, and so has an object that somebody put back."""
    archive = make_events(workspace, wire, bucket)
    (chunk,) = live(workspace, archive)
    old = bytes(workspace.bucket(bucket).get(chunk.meta.key))
    wanted = {chunk.meta.incarnation: (SeqRange(10, 19), SeqRange(50, 50))}
    assert erasure.stream_may_have(workspace, archive, wanted)
    erasure.erase(workspace, archive, wanted, reason="case 17", chosen_by=["sequences"])
    left = {*range(1, 101)} - {*range(10, 20), 50}

    def have() -> set[int]:
        return {row["seq"] for row in rows(workspace, archive).to_pylist()}

    capture(workspace, archive, wire)
    assert have() == left
    compared = list(source_check.compare(workspace, archive, None))
    assert (sum(one.messages for one in compared), [one.wrong for one in compared if one.wrong]) == (100, [])
    s3_client.put_object(Bucket=bucket, Key=chunk.meta.key, Body=old)
    assert [one.missing for one in unlisted.examine(workspace, archive)] == [0]
    assert unlisted.adopt_unlisted(workspace, archive) == 0
    assert have() == left
    s3_client.delete_object(Bucket=bucket, Key=chunk.meta.key)
    (chunk,) = live(workspace, archive)
    damage(s3_client, chunk)
    (one,) = repaired(workspace, archive, planned(workspace, archive))
    assert (one.done, one.lost) == (True, 0)
    assert have() == left
    check_whole_of(workspace, archive)
    open_source(workspace, archive)


def check_whole_of(workspace: Workspace, archive: Archive) -> None:
    assert planned(workspace, archive).bad == ()


def test_what_may_not_be_erased_stays(workspace: Workspace, archive: Archive) -> None:
    before = live(workspace, archive)
    with pytest.raises(OperatorError, match="has a reason"):
        erasure.erase(workspace, archive, {LIFE: WANTED}, reason=" ", chosen_by=["sequences"])
    with pytest.raises(OperatorError, match="Nothing says which"):
        Conditions(Selection())
    holds.place(workspace, "logs", "court", Selection(sequences=SeqRange(1, 1)), "order 5")
    with pytest.raises(Held):
        erase(workspace, archive, SeqRange(2, 2))
    assert live(workspace, archive) == before
    assert erase(workspace, archive, SeqRange(25, 25)).messages == 1  # another chunk


def test_the_command_finds_what_is_meant(workspace: Workspace, archive: Archive, nats3: Command) -> None:
    """By subject, header and condition together; a dry run changes nothing; the audit has who and why, and not what."""
    words = ("message", "erase", "logs", "--reason", "case 17", "--subject", "a.1", "--header", "A=b")
    dry = nats3.ok(*words, "--where", "seq < 20 -- the first ones", "--dry-run", "-o", "json").json
    # Every second message has the header, every third the subject.
    assert (dry["messages"], dry["dry_run"], dry["chosen_by"]) == (3, True, ["subject", "header", "where"])
    assert "Add --yes" in nats3.refused(*words)
    done = nats3.ok(*words, "--where", "seq < 20 -- the first ones", "--yes", "-o", "json").json
    assert (done["messages"], done["objects_left"], done["in_stream"]) == (3, [], None)
    selection = Selection(subjects=("a.1",))
    found = matching(workspace, archive, Conditions(selection, (("A", "b"),)))
    assert found == {LIFE: (SeqRange(22, 22),)}
    (line,) = [one for one in nats3.ok("history", "logs", "-o", "json").json if one["what"] == "erased"]
    assert line["detail"] == {"messages": 3, "number": 1, "reason": "case 17", "by": ["subject", "header", "where"]}
    assert line["who"]
    with workspace.catalog.session.reading() as sql:
        kept = sql.connection.execute("select erasure::text from nats3.erasure").fetchall()
    assert "a.1" not in str(kept)
    assert "case 17" in str(kept)


def test_outputs_follow(workspace: Workspace, archive: Archive, tmp_path: Path) -> None:
    """The export of the hour is named and due, also when nothing is left of the hour; the table's next sync has it."""
    declare.create(
        workspace, "logs", ExportSpec("files", f"file://{tmp_path}/out", format="ndjson", compression="none")
    )
    tables.create(workspace, "logs")
    synced(workspace)
    assert (exported(workspace), b'"seq":6,' in content_of(tmp_path)) == (24, True)
    erase(workspace, archive)
    assert erasure.exports_of(workspace, archive, [HOUR]) == ["files"]
    assert (exported(workspace), b'"seq":6,' in content_of(tmp_path)) == (15, False)
    synced(workspace)
    assert seqs(workspace) == numbers((1, 1), (3, 5), (11, 12), (14, 14), (16, 17), (19, 21), (23, 23), (25, 26))
    erase(workspace, archive, SeqRange(1, 26))
    assert live(workspace, archive) == []
    assert (exported(workspace), content_of(tmp_path)) == (0, b"")
    synced(workspace)
    assert seqs(workspace) == []


def exported(workspace: Workspace) -> int:
    """The messages of the export of the hour, which was due and is made now."""
    archive, export = find(workspace, "logs", "files")
    assert [one.hour for one in select_hours(workspace, "logs", "files")[2]] == [HOUR]
    return attempt(
        workspace, archive, export, HOUR, lambda: export_hour(workspace, archive, export.spec, HOUR, perform)
    ).messages


def content_of(folder: Path) -> bytes:
    """All files of the export that have messages."""
    return b"".join(path.read_bytes() for path in (folder / "out").rglob("*.ndjson") if path.is_file())


def test_a_copy_that_is_away_is_not_forgotten(
    workspace: Workspace, archive: Archive, bucket: str, s3_client: Any, nats3: Command
) -> None:
    """The erasure says that objects are left, and the next sweep removes them there."""
    other = f"copy-{uuid.uuid4().hex[:12]}"
    create_bucket(workspace.settings.store, other)
    archive = change(workspace, "logs", {"copies": (other,)}).after
    seal(workspace, archive)
    whole, workspace._buckets[other] = workspace.bucket(other), Bucket(workspace.settings.store, f"{other}-gone")
    done = erase(workspace, archive, SeqRange(2, 2))
    assert (done.messages, done.finished, isinstance(done.problem, StoreError)) == (1, 0, True)
    assert done.problem
    assert done.problem.text_in(cli.WORDS).endswith(
        f"nats3 store set logs --copy '', then nats3 store copy logs --forget {other}"
    )
    assert (2 in everywhere(s3_client, bucket), 2 in everywhere(s3_client, other)) == (False, True)
    assert archive_measures(workspace, workspace.catalog.archives.totals()).archives[0].erased_objects > 0
    workspace._buckets[other] = whole
    nats3.ok("store", "sweep")
    assert 2 not in everywhere(s3_client, other)
    assert archive_measures(workspace, workspace.catalog.archives.totals()).archives[0].erased_objects == 0
    assert [one["what"] for one in nats3.ok("history", "logs", "-o", "json").json].count("erased") == 1


def test_a_copy_that_is_gone_for_good_is_given_up(
    workspace: Workspace, archive: Archive, settings: Settings, s3_client: Any, nats3: Command
) -> None:
    """By the two commands that the erasure names."""
    for other in ("copy-kept", "copy-gone"):
        create_bucket(workspace.settings.store, other)
    archive = change(workspace, "logs", {"copies": ("copy-kept", "copy-gone")}).after
    seal(workspace, archive)
    for page in s3_client.get_paginator("list_objects_v2").paginate(Bucket="copy-gone"):
        for item in page["Contents"]:
            s3_client.delete_object(Bucket="copy-gone", Key=item["Key"])
    s3_client.delete_bucket(Bucket="copy-gone")
    done = erase(workspace, archive, SeqRange(2, 2))
    assert done.problem
    text = done.problem.text_in(cli.WORDS)
    assert "leave archive logs its other copies, copy-kept, and say so: nats3 store set logs --copy" in text
    nats3.ok("store", "set", "logs", "--copy", "copy-kept")
    nats3.ok("store", "copy", "logs", "--forget", "copy-gone")
    nats3.ok("store", "sweep")
    assert nats3.ok("message", "erase", "logs", "--prove", "-o", "json").json["found"] == []


def test_what_a_store_refuses_keeps_the_erasure_open(
    workspace: Workspace, archive: Archive, bucket: str, s3_client: Any, monkeypatch: pytest.MonkeyPatch, nats3: Command
) -> None:
    """A list of versions that is refused or fails is no list of none; and Object Lock says until when it keeps one."""
    s3_client.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    lock = b"<Retention><Mode>COMPLIANCE</Mode><RetainUntilDate>2031-01-02T03:04:05Z</RetainUntilDate></Retention>"
    store, options = workspace.settings.store, Settings.store.fget
    assert options
    monkeypatch.setattr(Settings, "store", property(lambda settings: replace(options(settings), patience_s=2)))

    def refused(request: Handler) -> None:
        query = request.path.partition("?")[2]
        if "retention" in query:
            request.reply(200, {"Content-Type": "application/xml"}, lock if locked else b"<Error/>")
        elif ("versions" in query and not locked) or (locked and request.command == "DELETE" and "versionId" in query):
            refuse(*answer)(request)
        else:
            request.reply(*request.forward())

    answers = (((503, "SlowDown"), False), ((403, "AccessDenied"), False), ((403, "AccessDenied"), True))
    for last, (answer, locked) in enumerate(answers, 1):
        with S3Proxy(store.endpoint or "") as proxy, monkeypatch.context() as patch:
            proxy.break_at(refused, ("GET", "DELETE"), times=1_000_000)
            patch.setenv("AWS_ENDPOINT_URL_S3", proxy.endpoint)
            with Workspace(Settings.load()) as other:
                done = erase(other, archive, SeqRange(last, last))
                assert (done.messages, isinstance(done.problem, StoreError)) == (1, True), answer
                assert ("Object Lock keeps it until 2031-01-02" in str(done.problem)) is locked
                assert done.finished == 0
                assert "copy" not in str(done.problem)
                assert other.catalog.erasures.unfinished_archives() == ["logs"]
        assert last in everywhere(s3_client, bucket)
        nats3.ok("store", "sweep")
        assert {*range(1, last + 1)}.isdisjoint(everywhere(s3_client, bucket))
    assert nats3.ok("message", "erase", "logs", "--prove", "-o", "json").json["erasures"] == 3
