"""An erasure is final: no older catalog, rebuild, late writer, deletion or former copy brings its messages back, and
nothing else goes with them. Each test reads the files themselves, past the code under test."""

import io
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow.parquet as pq
import pytest

from nats3_dagster import fault_points
from nats3_dagster.archive.keep import compaction, erasure, holds, merge_task
from nats3_dagster.archive.lifecycle import remove
from nats3_dagster.archive.lifecycle.change import change
from nats3_dagster.archive.proof.repair import repair_all
from nats3_dagster.archive.recovery.rebuild import rebuild
from nats3_dagster.archive.stored import copies, folder
from nats3_dagster.archive.stored.erased import apart, erased_of, may_have_erased
from nats3_dagster.errors import Conflict, Held, Nats3Error, StoreError
from nats3_dagster.fault_points import InjectedFault
from nats3_dagster.model import Archive, Gap, Incarnation, Selection, SeqRange
from nats3_dagster.model.erasure import ErasureRecord
from nats3_dagster.model.hold import REBUILT
from nats3_dagster.objects import Bucket, create_bucket
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support import catalog as made_up
from nats3_dagster_tests.support.captures import capture
from nats3_dagster_tests.support.commands import Command
from nats3_dagster_tests.support.repairs import make_events, planned
from nats3_dagster_tests.support.small_chunks import check_whole, compact, live, messages, rows, seal, small
from nats3_dagster_tests.support.stored import LIFE, made, store
from nats3_dagster_tests.support.wire import Wire

ERASED = (SeqRange(10, 19), SeqRange(50, 50))
GONE = {*range(10, 20), 50}
LEFT = {*range(1, 101)} - GONE


@pytest.fixture(autouse=True)
def disarmed() -> Iterator[None]:
    yield
    fault_points.arm("")


@pytest.fixture
def archive(workspace: Workspace, bucket: str) -> Archive:
    """Six chunks of five messages each, in a sealed hour, and one in an open hour; without a stream."""
    archive = made(workspace, bucket, "logs")
    folder.claim(workspace, archive)
    small(workspace, archive, 6)
    store(workspace, archive, 8, messages(31, 36))
    return archive


def files(settings: Settings, bucket: str) -> dict[str, set[int]]:
    """The sequences of the messages in each Parquet file of a bucket, which is a folder."""
    root = settings.store.folder
    assert root is not None
    found: dict[str, set[int]] = {}
    for path in Path(root, bucket).rglob("*.parquet"):
        table = pq.read_table(io.BytesIO(path.read_bytes()), columns=["seq"])
        found[str(path.relative_to(root / bucket))] = {*table.column("seq").to_pylist()}
    return found


def everywhere(settings: Settings, bucket: str) -> set[int]:
    return set().union(*files(settings, bucket).values())


def records(settings: Settings, bucket: str) -> set[str]:
    """The names of the records of erasures in a bucket, which is a folder."""
    root = settings.store.folder
    assert root is not None
    return {path.name for path in Path(root, bucket).rglob("_erasures/*")}


def failed(nats3: Command, *words: str) -> str:
    """What a command that failed wrote."""
    ran = nats3(*words)
    assert ran.status == 1, ran
    return ran.out + ran.err


def erase(workspace: Workspace, archive: Archive, *ranges: SeqRange) -> erasure.Erased:
    life = workspace.catalog.coverage.all(archive)[-1].incarnation
    return erasure.erase(workspace, archive, {life: ranges}, reason="case 17", chosen_by=["sequences"])


def have(workspace: Workspace, archive: Archive) -> set[int]:
    return {row["seq"] for row in rows(workspace, archive).to_pylist()} if live(workspace, archive) else set()


def reasons(workspace: Workspace, archive: Archive) -> dict[int, str]:
    """The reason of each absent sequence of the archive."""
    found = {
        seq: gap.reason
        for gap in workspace.catalog.gaps.select(archive)
        for part in gap.ranges
        for seq in range(part.first, part.last + 1)
    }
    for chunk in live(workspace, archive):
        for part in chunk.meta.deleted or ():
            found |= dict.fromkeys(range(part.first, part.last + 1), chunk.meta.absent_reason or "")
    return found


@pytest.mark.parametrize("left", ["all", "none", "others"])
@pytest.mark.parametrize("way", ["older", "rebuilt"])
def test_an_older_catalog_and_a_rebuilt_one_know_it(
    settings: Settings, wire: Wire, bucket: str, put_back: Any, nats3: Command, left: str, way: str
) -> None:
    """The stream still has all messages, or none, or just those that were erased: only the archive has the others."""
    with Workspace(settings) as workspace:
        make_events(workspace, wire, bucket)
    restored: Callable[[], Workspace] = put_back()
    with Workspace(settings) as workspace:
        archive = workspace.catalog.archives.get("events")
        assert erase(workspace, archive, *ERASED).problem is None
        assert everywhere(settings, bucket) == LEFT
        if left == "none":
            wire.api("STREAM.PURGE.EV")
        if left == "others":
            for seq in LEFT:
                wire.api("STREAM.MSG.DELETE.EV", seq=seq)
        if way == "rebuilt":
            with workspace.catalog.session.transaction() as sql:
                sql.connection.execute("truncate nats3.archive cascade")
            assert [one.error for one in rebuild(workspace, bucket)] == [None]
            holds.release(workspace, "events", REBUILT, "looked at")
    workspace = restored() if way == "older" else Workspace(settings).__enter__()
    try:
        archive = workspace.catalog.archives.get("events")
        if way == "older":
            assert "does not know" in nats3("doctor").out
        said = nats3("chunk", "verify", "events").err
        if way == "older":
            # What was erased must not come back: neither from the stream nor from a copy of the bucket.
            assert "nats3 store sweep" in said
            assert not re.search("chunk repair|chunk adopt|[Rr]estore|bring it back", said), said
        assert "learned" in [one.what for one in workspace.catalog.history.newest([archive], 20)]
        capture(workspace, archive, wire)
        for repaired in repair_all(workspace, archive, planned(workspace, archive), accept_loss=False):
            assert isinstance(repaired.conflict, Conflict)
        assert erasure.carry_out(workspace, archive).problem is None
        capture(workspace, archive, wire)
        assert have(workspace, archive) == LEFT
        assert everywhere(settings, bucket) == LEFT
        assert reasons(workspace, archive) == dict.fromkeys(GONE, "erased")
        assert planned(workspace, archive).bad == ()
        assert erasure.prove(workspace, archive).traces == ()
    finally:
        workspace.__exit__(None, None, None)


def test_objects_that_an_older_catalog_may_not_take_yet_stay(
    settings: Settings, wire: Wire, bucket: str, put_back: Any
) -> None:
    """It has a hold that was released later: the chunk stays, and so do the objects that have its other messages."""
    with Workspace(settings) as workspace:
        make_events(workspace, wire, bucket)
        holds.place(workspace, "events", "court", Selection(sequences=SeqRange(1, 5)), "order 5")
    restored: Callable[[], Workspace] = put_back()
    with Workspace(settings) as workspace:
        archive = workspace.catalog.archives.get("events")
        holds.release(workspace, "events", "court", "over")
        assert erase(workspace, archive, *ERASED).problem is None
        wire.api("STREAM.PURGE.EV")
    workspace = restored()
    try:
        archive = workspace.catalog.archives.get("events")
        assert isinstance(erasure.carry_out(workspace, archive).problem, Nats3Error)
        assert everywhere(settings, bucket) == LEFT
        holds.release(workspace, "events", "court", "over")
        assert erasure.carry_out(workspace, archive).problem is None
        assert have(workspace, archive) == everywhere(settings, bucket) == LEFT
    finally:
        workspace.__exit__(None, None, None)


def test_a_whole_chunk_of_an_open_hour_stays_away(settings: Settings, wire: Wire, bucket: str) -> None:
    """Its gap was in the catalog alone."""
    with Workspace(settings) as workspace:
        archive = make_events(workspace, wire, bucket)
        assert erase(workspace, archive, SeqRange(1, 100)).messages == 100
        assert files(settings, bucket) == {}
        with workspace.catalog.session.transaction() as sql:
            sql.connection.execute("truncate nats3.archive cascade")
        assert [one.error for one in rebuild(workspace, bucket)] == [None]
        archive = workspace.catalog.archives.get("events")
        capture(workspace, archive, wire)
        assert (have(workspace, archive), files(settings, bucket)) == (set(), {})
        assert reasons(workspace, archive) == dict.fromkeys(range(1, 101), "erased")


def test_nothing_was_done_says_so_only_if_nothing_was(
    workspace: Workspace, archive: Archive, settings: Settings, bucket: str, nats3: Command
) -> None:
    """A hold on one message of many chunks refuses all of it, before anything."""
    holds.place(workspace, "logs", "court", Selection(sequences=SeqRange(30, 30)), "order 5")
    before, known = files(settings, bucket), live(workspace, archive)
    assert "court" in failed(nats3, "message", "erase", "logs", "--sequences", "13-36", "--reason", "r", "--yes")
    assert (files(settings, bucket), live(workspace, archive)) == (before, known)
    assert workspace.catalog.erasures.all(archive) == []
    with pytest.raises(Held):
        erase(workspace, archive, SeqRange(13, 36))
    assert erase(workspace, archive, SeqRange(13, 25), SeqRange(31, 36)).problem is None
    assert have(workspace, archive) == {*range(1, 37)} - {*range(13, 26), *range(31, 37)}


@pytest.mark.parametrize("step", ["erase.decided", "erase.recorded", "erase.put", "erase.in_swap", "erase.swapped"])
def test_the_same_call_finishes_what_died(
    workspace: Workspace, archive: Archive, settings: Settings, bucket: str, nats3: Command, step: str
) -> None:
    """A compaction died with an object that no chunk lists, then an erasure: the second call finds nothing to match,
    and is not finished before the message is in no object."""
    fault_points.arm("compact.object_put:raise")
    with pytest.raises(InjectedFault):
        compact(workspace, archive)
    fault_points.arm(f"{step}:raise")
    with pytest.raises(InjectedFault):
        erase(workspace, archive, SeqRange(7, 8))
    fault_points.arm("")
    assert erasure.prove(workspace, archive).traces
    cut = step == "erase.swapped"
    for hold, refused in (("court", not cut), ("other", False)):
        place = ("hold", "create", "logs", hold, "--sequences", "9-9" if hold == "court" else "1-1", "--reason", "r")
        if refused:
            assert "being erased" in nats3.refused(*place)
        else:
            nats3.ok(*place)
            nats3.ok("hold", "delete", "logs", hold, "--reason", "r", "--yes")
    ran = nats3.ok("message", "erase", "logs", "--sequences", "7-8", "--reason", "case 17", "--yes")
    assert "1 earlier erasure had not been finished, and is now" in ran.err
    assert {7, 8}.isdisjoint(everywhere(settings, bucket))
    assert have(workspace, archive) == {*range(1, 37)} - {7, 8}
    assert workspace.catalog.erasures.unfinished_archives() == []
    check_whole_hour(workspace, archive)


def test_objects_of_a_cut_that_is_refused_go_again(
    workspace: Workspace, archive: Archive, settings: Settings, bucket: str, tmp_path: Path
) -> None:
    """The chunk was retired while it was cut. The erasure is not finished, and the next call has nothing to cut."""
    (chunk,) = [one for one in live(workspace, archive) if one.meta.covers.first == 6]
    before, held = files(settings, bucket), tmp_path / "held"
    fault_points.arm(f"erase.put:hold={held}")
    with ThreadPoolExecutor(1) as pool, Workspace(settings) as other:
        erasing = pool.submit(erase, other, archive, SeqRange(7, 8))
        while not held.exists():
            assert not erasing.done(), erasing.result()
            time.sleep(0.001)
        assert files(settings, bucket).keys() > before.keys()
        assert workspace.catalog.chunks.retire(archive, [chunk.id]) == 1
        Path(f"{held}.go").touch()
        assert isinstance(erasing.result().problem, Conflict)
    left = files(settings, bucket)
    assert {7, 8}.isdisjoint(set().union(*left.values()))
    assert left.keys() == before.keys() - {chunk.meta.key}
    assert erase(workspace, archive, SeqRange(7, 8)).problem is None


def check_whole_hour(workspace: Workspace, archive: Archive) -> None:
    seal(workspace, archive, "2026-11-21-08:00")
    check_whole(workspace, archive)


def test_a_compaction_that_has_read_writes_nothing_afterwards(
    workspace: Workspace, archive: Archive, settings: Settings, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An erasure waits for a compaction that runs; and a task whose driver is gone takes its object back."""
    monkeypatch.setattr(erasure, "PATIENCE_S", 0.0)
    real, told = merge_task.merge, list[Nats3Error]()

    def meanwhile(*given: Any) -> Any:
        if not told:
            with Workspace(settings) as other:
                try:
                    erase(other, archive, SeqRange(7, 8))
                except Nats3Error as error:
                    told.append(error)
        return real(*given)

    monkeypatch.setattr(merge_task, "merge", meanwhile)
    task = merge_task.MergeTask(
        archive.spec, settings.store, "2026-11-21-07:00", compaction.plan(workspace, archive, "2026-11-21-07:00").runs
    )
    assert compact(workspace, archive).after == 1
    assert [type(one) for one in told] == [Conflict]
    before = files(settings, bucket)
    assert erase(workspace, archive, SeqRange(7, 8)).problem is None
    # Its chunks were read by name before: they are there no more, and what it puts is taken back.
    for key in before.keys() - files(settings, bucket).keys():
        (settings.store.folder / bucket / key).parent.mkdir(parents=True, exist_ok=True)  # type: ignore[operator]
    late = merge_task.merge_hour(task)
    assert late.error
    assert {7, 8}.isdisjoint(everywhere(settings, bucket))


@pytest.mark.parametrize("end", [6, 10])
def test_a_late_object_is_found_and_removed(
    workspace: Workspace, archive: Archive, settings: Settings, bucket: str, nats3: Command, end: int
) -> None:
    """Whatever program puts it there, under whatever name: the proof names it, and a sweep removes what is ours."""
    (chunk,) = [one for one in live(workspace, archive) if one.meta.covers.first == 6]
    root = settings.store.folder
    assert root is not None
    old = Path(root, bucket, chunk.meta.key).read_bytes()
    # Its first message, or its last one.
    assert erase(workspace, archive, SeqRange(end, end)).problem is None
    nats3.ok("message", "erase", "logs", "--prove")
    folder, _, own = chunk.meta.key.rpartition("/")
    other = "-".join((own.split("-")[0], f"{5000:020d}", f"{8000:020d}", own.rpartition("-")[2]))
    names = {
        chunk.meta.key: False,
        f"{folder}/{other}": False,  # sequences that it has not
        f"{folder}/{own.replace(own[:8], '20010101', 1)}": False,  # another life of the stream
        f"{folder}/backup.parquet": True,
        f"{chunk.meta.key}.bak": True,
        f"{folder}/{own.removesuffix('.parquet')}": True,
    }
    for name, stays in names.items():
        Path(root, bucket, name).write_bytes(old)
        said = "".join(failed(nats3, "message", "erase", "logs", "--prove").split())
        assert name in said
        by_hand = f"Remove{name}fromthebucket{bucket}yourself"
        assert (by_hand in said) is stays
        swept = nats3("store", "sweep")
        assert (swept.status == 1) is stays
        assert (by_hand in "".join(swept.err.split())) is stays
        assert Path(root, bucket, name).exists() is stays
        Path(root, bucket, name).unlink(missing_ok=True)
        nats3.ok("store", "sweep")
    # One that cannot be read counts where its name says that it may have the message.
    for name, is_named in ((chunk.meta.key, True), (f"{folder}/{other}", False)):
        place = Path(root, bucket, name)
        place.write_bytes(old[: len(old) // 2])
        ran = nats3("message", "erase", "logs", "--prove")
        assert (ran.status, name in "".join((ran.out + ran.err).split())) == (int(is_named), is_named)
        assert ("cannotberead" in "".join((ran.out + ran.err).split())) is is_named
        place.unlink()
        nats3.ok("store", "sweep")
    # In the place of another chunk, which the catalog lists.
    other_chunk = next(one for one in live(workspace, archive) if one.meta.covers.first > 10)
    place = Path(root, bucket, other_chunk.meta.key)
    whole = place.read_bytes()
    place.write_bytes(old)
    assert other_chunk.meta.key in failed(nats3, "message", "erase", "logs", "--prove").replace("\n", "")
    place.write_bytes(whole)
    nats3.ok("store", "sweep")
    assert nats3.ok("message", "erase", "logs", "--prove", "-o", "json").json["found"] == []


def with_copy(workspace: Workspace, settings: Settings) -> Archive:
    """The archive once it has a copy, in the bucket `copy`, of all chunks and manifests."""
    create_bucket(settings.store, "copy")
    archive = change(workspace, "logs", {"copies": ("copy",)}).after
    copies.copy(workspace, archive)
    seal(workspace, archive)
    return archive


def test_a_former_copy_is_searched_until_it_is_forgotten(
    workspace: Workspace, archive: Archive, settings: Settings, bucket: str, nats3: Command
) -> None:
    """Taken out of the settings it keeps what it has. Away, it keeps the erasure open."""
    archive = with_copy(workspace, settings)
    archive = change(workspace, "logs", {"copies": ()}).after
    assert 2 in everywhere(settings, "copy")
    assert erase(workspace, archive, SeqRange(2, 2)).problem is None
    assert 2 not in everywhere(settings, "copy")
    assert 6 in everywhere(settings, "copy")
    assert records(settings, "copy") == records(settings, bucket)
    assert len(records(settings, bucket)) == 1
    away = settings.store.folder / "away"  # type: ignore[operator]
    (settings.store.folder / "copy").rename(away)  # type: ignore[operator]
    done = erase(workspace, archive, SeqRange(6, 6))
    assert "former copy" in str(done.problem)
    assert failed(nats3, "message", "erase", "logs", "--prove")
    with pytest.raises(Conflict, match="not deleted"):
        remove.delete(workspace, "logs")
    away.rename(settings.store.folder / "copy")  # type: ignore[operator]
    nats3.ok("store", "sweep")
    assert 6 not in everywhere(settings, "copy")
    (settings.store.folder / "copy").rename(away)  # type: ignore[operator]
    assert erase(workspace, archive, SeqRange(11, 11)).problem
    assert "no former copy" in nats3.refused("store", "copy", "logs", "--forget", "other")
    nats3.ok("store", "copy", "logs", "--forget", "copy")
    nats3.ok("store", "sweep")
    assert nats3.ok("message", "erase", "logs", "--prove", "-o", "json").json["messages"] == 3
    history = workspace.catalog.history.newest([archive], 50)
    told = Counter(one.what for one in history)
    # Decided when its messages left, finished when nothing was found.
    assert (told["erased"], told["erasure_finished"], told["forgotten"]) == (3, 3, 1)
    # Each record follows the one before it, and names it.
    rows = workspace.catalog.erasures.all(archive)
    assert [row.number for row in rows] == [1, 2, 3]
    assert [workspace.catalog.erasures.record(archive, row).previous for row in rows] == [
        None,
        *(row.digest for row in rows[:-1]),
    ]
    assert records(settings, bucket) == {f"{row.number:08d}-{row.digest}.json" for row in rows}
    assert [one.detail for one in history if one.what == "forgotten"] == [{"bucket": "copy"}]


def test_a_copy_that_is_away_keeps_no_rebuild_waiting(
    workspace: Workspace, archive: Archive, settings: Settings, bucket: str
) -> None:
    """The manifest names the erased object; what is left of it is beside it, in objects that no manifest names."""
    archive = with_copy(workspace, settings)
    whole, workspace._buckets["copy"] = workspace.bucket("copy"), Bucket(settings.store, "gone")
    assert isinstance(erase(workspace, archive, SeqRange(7, 8)).problem, StoreError)
    with workspace.catalog.session.transaction() as sql:
        sql.connection.execute("truncate nats3.archive cascade")
    workspace._buckets["copy"] = whole
    (one,) = rebuild(workspace, bucket, "of/logs")
    assert (one.error, one.missing) == (None, {})
    again = workspace.catalog.archives.get("logs")
    before = files(settings, bucket)
    waiting = erasure.carry_out(workspace, again)
    assert (isinstance(waiting.problem, Conflict), waiting.objects, waiting.finished) == (True, 0, 0)
    assert "erasures wait until its settings are confirmed" in str(waiting.problem)
    with pytest.raises(Conflict, match="until its settings are confirmed"):
        erasure.prove(workspace, again)
    assert files(settings, bucket) == before
    holds.release(workspace, "logs", REBUILT, "looked at")
    assert have(workspace, again) == {*range(1, 37)} - {7, 8}
    # In the copy it still is, until the erasure that the rebuild found goes on there.
    assert "another catalog" in str(erasure.carry_out(workspace, again).problem)
    assert 7 in everywhere(settings, "copy")
    assert not list((settings.store.folder / "copy").rglob("_erasures/*"))  # type: ignore[operator]
    folder.claim(workspace, again, take_over=True, bucket_name="copy")
    assert erasure.carry_out(workspace, again).problem is None
    assert {7, 8}.isdisjoint(everywhere(settings, "copy"))


def test_a_former_copy_of_a_catalog_that_is_gone_is_taken_over(
    workspace: Workspace, archive: Archive, settings: Settings, bucket: str, nats3: Command
) -> None:
    """A rebuild knows a former copy, and another catalog's archive owns the folder there: it is not to be given up."""
    archive = with_copy(workspace, settings)
    archive = change(workspace, "logs", {"copies": ()}).after
    assert erase(workspace, archive, SeqRange(2, 2)).problem is None
    with workspace.catalog.session.transaction() as sql:
        sql.connection.execute("truncate nats3.archive cascade")
    assert [one.error for one in rebuild(workspace, bucket, "of/logs")] == [None]
    holds.release(workspace, "logs", REBUILT, "looked at")
    told = failed(nats3, "message", "erase", "logs", "--sequences", "6", "--reason", "asked", "--yes")
    assert "nats3 store claim logs, then nats3 store sweep" in told
    assert "--forget" not in told
    assert 6 in everywhere(settings, "copy")
    nats3.ok("store", "claim", "logs", "--yes")
    nats3.ok("store", "sweep")
    assert {2, 6}.isdisjoint(everywhere(settings, "copy"))
    # A former copy that is gone does not keep the others from being taken over.
    (settings.store.folder / "copy").rename(settings.store.folder / "away")  # type: ignore[operator]
    nats3.ok("store", "claim", "logs", "--yes")


def test_an_archive_that_is_made_again_does_not_take_it(settings: Settings, wire: Wire, bucket: str) -> None:
    """In the same folder, under the same name, while the stream still has the message."""
    with Workspace(settings) as workspace:
        archive = make_events(workspace, wire, bucket)
        erase(workspace, archive, *ERASED)
        spec = archive.spec
        remove.delete(workspace, "events")
        again = workspace.catalog.archives.create(spec, observed(workspace))
        folder.claim(workspace, again)
        folder.require(workspace, again)
        capture(workspace, again, wire)
        assert have(workspace, again) == LEFT
        assert reasons(workspace, again) == dict.fromkeys(GONE, "erased")


def observed(workspace: Workspace) -> Any:
    from nats3_dagster.jetstream.streams import stream_state

    return stream_state(workspace.link, "EV")


def test_postgres_refuses_what_was_erased(workspace: Workspace, archive: Archive) -> None:
    """Whatever writes it: a chunk that has the message, or does not say that it is absent; and a gap of another
    reason becomes one of this."""
    erased = {LIFE.created_ns: (SeqRange(40, 41), SeqRange(44, 44))}
    record = ErasureRecord(uuid4(), 1, None, workspace.catalog.now(), erased)
    workspace.catalog.erasures.learn(archive, record, "a" * 64)
    for first, last in ((38, 42), (37, 40), (41, 41)):
        with pytest.raises(Conflict, match="were erased"):
            store(workspace, archive, 8, messages(first, last))
    kept = [one for one in messages(37, 42) if one.seq not in (40, 41)]
    with pytest.raises(Conflict, match="were erased"):
        store(workspace, archive, 8, kept, (37, 42), reason="unselected")
    store(workspace, archive, 8, kept, (37, 42), reason="erased")
    workspace.catalog.chunks.commit(archive, (), [Gap(LIFE, (SeqRange(43, 46),), "deleted")])
    assert reasons(workspace, archive) == {
        **dict.fromkeys((40, 41, 44), "erased"),
        **dict.fromkeys((43, 45, 46), "deleted"),
    }


def test_what_is_absent_is_erased_where_it_was_erased(workspace: Workspace, archive: Archive) -> None:
    """Of gaps and of chunks, at the first and the last sequence of each range, and of no other life."""
    erased = {LIFE.created_ns: (SeqRange(3, 4), SeqRange(8, 8), SeqRange(12, 20))}
    workspace.catalog.erasures.learn(
        archive, ErasureRecord(uuid4(), 1, None, workspace.catalog.now(), erased), "a" * 64
    )
    other = Incarnation("S", LIFE.created_ns + 1)

    def of(*pairs: tuple[int, int], life: Incarnation = LIFE) -> list[tuple[int, int]]:
        return [
            (part.first, part.last) for part in erased_of(workspace, archive, life, [SeqRange(*pair) for pair in pairs])
        ]

    assert of() == of((1, 2)) == of((5, 7), (9, 11)) == of((1, 30), life=other) == []
    assert of((1, 3)) == of((3, 3)) == [(3, 3)]
    assert of((4, 8)) == [(4, 4), (8, 8)]
    assert of((1, 2), (8, 9), (20, 30)) == [(8, 8), (20, 20)]

    def split(*gaps: Gap) -> list[Gap]:
        return list(apart(workspace, archive, gaps))

    whole, none = Gap(LIFE, (SeqRange(3, 4), SeqRange(12, 13)), "expired"), Gap(LIFE, (SeqRange(5, 7),), "ttl")
    mixed, elsewhere = Gap(LIFE, (SeqRange(2, 3), SeqRange(7, 12)), "expired"), Gap(other, whole.ranges, "expired")
    assert split(none, elsewhere) == [none, elsewhere]
    assert split(whole) == [replace(whole, reason="erased")]
    assert split(mixed, none) == [
        replace(mixed, ranges=(SeqRange(2, 2), SeqRange(7, 7), SeqRange(9, 11))),
        Gap(LIFE, (SeqRange(3, 3), SeqRange(8, 8), SeqRange(12, 12)), "erased"),
        none,
    ]

    def may_have(first: int, last: int, *absent: tuple[int, int]) -> bool:
        covers = {"archive": "logs", "incarnation": LIFE, "deleted": tuple(SeqRange(*pair) for pair in absent)}
        return may_have_erased(workspace, archive, made_up.chunk(first, last, last - first, **covers))

    assert [may_have(5, 7), may_have(1, 2), may_have(4, 4), may_have(1, 3)] == [False, False, True, True]
    assert [may_have(1, 4, (3, 4)), may_have(1, 4, (3, 3)), may_have(8, 9, (9, 9))] == [False, True, True]


def test_a_dry_run_changes_nothing_and_says_all(
    workspace: Workspace, archive: Archive, bucket: str, nats3: Command
) -> None:
    """Of which life of the stream they are, and which other archive has them."""
    other = made(workspace, bucket, "others", life=LIFE)
    folder.claim(workspace, other)
    store(workspace, other, 7, messages(1, 5))
    before = dump(workspace)
    said = nats3.ok("message", "erase", "logs", "--sequences", "2-3", "--dry-run", "-o", "json").json
    assert (said["messages"], said["chunks"], said["objects_removed"]) == (2, 1, None)
    assert (len(said["lives"]), said["other_archives"]) == (1, ["others"])
    assert dump(workspace) == before


def dump(workspace: Workspace) -> list[Any]:
    with workspace.catalog.session.reading() as sql:
        tables = ("incarnation", "coverage", "erasure", "event", "archive")
        return [sql.connection.execute(f"select * from nats3.{name} order by 1, 2").fetchall() for name in tables]
