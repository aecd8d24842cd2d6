"""A catalog that is made again from its bucket: what is the same as in the one that was lost, and what is not known."""

import hashlib
import json
import os
from collections.abc import Iterator

import pyarrow as pa
import pytest

from nats3_dagster import fault_points
from nats3_dagster.archive.captures import commit
from nats3_dagster.archive.keep.retention import promise
from nats3_dagster.archive.lifecycle import remove
from nats3_dagster.archive.lifecycle.change import change
from nats3_dagster.archive.proof.seal import seal_hours
from nats3_dagster.archive.proof.unlisted import examine
from nats3_dagster.archive.proof.verify import chunks_to_verify, verify_chunks
from nats3_dagster.archive.recovery.orphan_sweep import sweep_each
from nats3_dagster.archive.recovery.rebuild import Rebuilt, rebuild
from nats3_dagster.archive.stored import folder
from nats3_dagster.catalog import migrate
from nats3_dagster.chunks.consumers import ConsumersDocument
from nats3_dagster.chunks.manifest import Manifest, ManifestChunk, ManifestPart
from nats3_dagster.chunks.naming import object_key
from nats3_dagster.errors import ChunkError, StoreError
from nats3_dagster.hours import HOUR_NS, hour_start
from nats3_dagster.model import Archive, Gap, ReplayPreset, ReplaySpec, SeqRange, Witness
from nats3_dagster.model.consumer import ConsumerPosition, Pair
from nats3_dagster.model.hold import REBUILT
from nats3_dagster.objects import create_bucket
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.adoption import archive_of, gaps, other_history, publish, stored
from nats3_dagster_tests.support.bombs import with_column
from nats3_dagster_tests.support.captures import capture, plan, read
from nats3_dagster_tests.support.commands import Command
from nats3_dagster_tests.support.recovery import HOURS, LIFE, new_archive, put, tables, without
from nats3_dagster_tests.support.replays import archived, replayed
from nats3_dagster_tests.support.wire import Wire

# The columns of each table that no object says; None: nothing of the table is known.
UNKNOWN: dict[str, tuple[str, ...] | None] = {
    "account_archive": None,
    "account_rule": None,
    "account_stream": None,
    "drill": None,
    "ended_account_rule": None,
    "restored_stream": None,
    "alembic_version": (),
    "archive": ("id", "job_id", "revision", "updated_at"),
    # The stream's state is known once it is observed.
    "imported_archive": None,
    "incarnation": ("id", "first_seq", "last_seq", "first_ns", "last_ns", "messages", "bytes", "observed_at"),
    "coverage": (),
    "chunk": ("id", "dagster_run_id", "committed_at", "captured_at"),
    "chunk_subject": (),
    "chunk_bloom": (),
    "archive_hours": (),
    # A manifest says that sequences were retired, and not which chunks had them.
    "gap": ("id", "dagster_run_id", "recorded_at", "messages", "chunks", "newest_at", "replay_id"),
    "gap_sum": (),
    "hold": ("id", "created_at"),
    "hour": ("revision",),
    # The content of what changed since its seal; that of the others is compared below.
    "seal": ("id", "revision", "content", "dagster_run_id", "sealed_at"),
    # Only of what is there now.
    "total": None,
    "archive_table": None,
    "capture": None,
    "copy_task": None,
    "durable": None,
    "kept_consumers": ("id", "kept_at"),
    "consumers_problem": None,
    # Who and why: no object says it. Of an archive without erasures there is nothing.
    "erased_range": None,
    "erasure": None,
    "former_copy": None,
    "open_erasure": None,
    "event": None,
    "export": None,
    "export_hour": None,
    "iceberg_namespace_properties": None,
    "iceberg_tables": None,
    "merged_chunk": None,
    "refused_removal": None,
    "removal": None,
    "replay": None,
    "replay_attempt": None,
    "replay_chunk": None,
    "replay_target": None,
}


@pytest.fixture
def other(workspace: Workspace, empty_postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Workspace]:
    """An empty catalog beside the same store."""
    migrate(empty_postgres_url)
    with monkeypatch.context() as patch:
        patch.setenv("NATS3_POSTGRES_URL", empty_postgres_url)
        settings = Settings.load()
    with Workspace(settings) as opened:
        yield opened


def filled(workspace: Workspace, bucket: str) -> Archive:
    """An archive with two sealed hours, one of them sealed twice, and an open one: with deleted messages, losses,
    chunks that were retired, and one with too many subjects to count."""
    archive = new_archive(workspace, bucket, prefix="team", max_messages=777, subjects=())
    commit = workspace.catalog.chunks.commit
    commit(
        archive,
        [put(workspace, archive, HOURS[0], (1, 10)), put(workspace, archive, HOURS[0], (11, 20), absent=[15, 20])],
        [Gap(LIFE, (SeqRange(21, 25),), "expired")],
    )
    commit(archive, [put(workspace, archive, HOURS[1], (26, 30)), put(workspace, archive, HOURS[1], (31, 40))])
    assert len(list(seal_hours(workspace, archive, HOURS[:2]))) == 2
    commit(archive, [put(workspace, archive, HOURS[1], (41, 45)), put(workspace, archive, HOURS[1], (46, 50))])
    gone = workspace.catalog.chunks.by_key(bucket, put(workspace, archive, HOURS[1], (41, 45)).key)
    assert gone
    assert workspace.catalog.chunks.retire(archive, [gone.id]) == 1
    commit(archive, [put(workspace, archive, HOURS[2], (51, 60), absent=[55], reason="superseded")])
    assert [seal.number for seal in seal_hours(workspace, archive, [HOURS[1]])] == [2]
    many = put(workspace, archive, HOURS[2], (61, 10_100), subjects=20_000)
    assert many.bloom
    commit(archive, [many], [Gap(LIFE, (SeqRange(10_101, 10_110),), "deleted")])
    workspace.catalog.coverage.record_witness(archive, LIFE, Witness(10_100, many.last_ns))
    workspace.catalog.holds.create(archive, "case", "a law", hours=(None, HOURS[1]), seqs=SeqRange(1, 7))
    for number, at_ns in ((1, 5), (2, 6), (3, HOUR_NS)):
        _keep(workspace, archive, hour_start(HOURS[0]) + at_ns, number)
    presets = [ReplayPreset.of({"name": "to_test", "write_subject": "test.>", "rate": 5, "live": True})]
    return change(workspace, archive.name, {"replays": tuple(presets)}).after


def _keep(workspace: Workspace, archive: Archive, observed_ns: int, number: int) -> None:
    """Keep a consumer beside the chunks."""
    one = ConsumerPosition("app", {"ack_policy": "explicit"}, Pair(number, number), Pair(0, 0), {number: (number, 7)})
    document = ConsumersDocument(archive.name, LIFE.stream, "team", LIFE.created_ns, observed_ns, 50, (one,))
    data, key = document.encode()
    kept = document.kept(archive.spec.bucket, key, data)
    workspace.bucket(archive.spec.bucket).put_new(key, data, kept.sha256)
    assert workspace.catalog.consumers.add(archive, LIFE, kept, begun=workspace.catalog.now())


def only(found: Iterator[Rebuilt]) -> Rebuilt:
    (one,) = found
    if one.error:
        raise one.error
    return one


def test_each_table_is_as_it_was_but_for_what_no_object_says(
    workspace: Workspace, other: Workspace, bucket: str, postgres_url: str, empty_postgres_url: str
) -> None:
    archive = filled(workspace, bucket)
    folder.require(workspace, archive)
    before = tables(postgres_url)
    one = only(rebuild(other, bucket, "team"))
    assert (one.chunks, one.messages, one.sealed, one.changed, one.unlisted) == (7, 10_087, 2, 0, 1)
    assert (one.missing, one.refused, one.settings) == ({}, {}, "")
    after = tables(empty_postgres_url)
    assert before.keys() == after.keys() == UNKNOWN.keys()
    # What was retired is in manifests, as a gap, and the chunk is not.
    before["chunk"] = [row for row in before["chunk"] if not row["deleted_at"]]
    # Of each hour the consumers that were kept last are.
    assert len(before["kept_consumers"]) == 3
    last = {row["hour"]: row for row in sorted(before["kept_consumers"], key=lambda row: row["observed_ns"])}
    before["kept_consumers"] = [row for row in before["kept_consumers"] if row in last.values()]
    assert len(before["kept_consumers"]) == 2
    # In an hour without a seal a gap that is no loss is not known: the stream is asked again.
    assert before["gap"].pop()["reason"] == "deleted"
    for row in (*before["seal"], *after["seal"]):
        row["superseded_at"] = row["superseded_at"] is not None
    # Until somebody has looked at the settings, nothing leaves the archive.
    assert after["hold"].pop(0)["name"] == REBUILT
    before["gap_sum"] = [row for row in before["gap_sum"] if row["reason"] != "deleted"]
    (coverage,) = before["coverage"]
    coverage.update(covered="{[1,10101)}", frontier=10_100, last_seq=10_100)
    for name, unknown in UNKNOWN.items():
        if unknown is not None:
            assert without(after[name], *unknown) == without(before[name], *unknown), name
    # Seals hold where the hours are as they were sealed.
    seals = other.catalog.seals.select(other.catalog.archives.get("logs"))
    assert [s.valid for s in seals] == [True, True]
    assert [s.content for s in seals] == [s.content for s in workspace.catalog.seals.select(archive)]


def keys(workspace: Workspace, bucket: str) -> list[str]:
    return sorted(key for key, _ in workspace.bucket(bucket).list())


def test_the_catalog_before_neither_writes_nor_removes_any_longer_and_a_killed_rebuild_is_run_again(
    workspace: Workspace, other: Workspace, bucket: str, empty_postgres_url: str
) -> None:
    archive = filled(workspace, bucket)
    folder.require(workspace, archive)
    empty, objects = tables(empty_postgres_url), keys(workspace, bucket)
    assert only(rebuild(other, bucket, "team", dry_run=True)).chunks == 7
    assert (tables(empty_postgres_url), keys(workspace, bucket)) == (empty, objects)
    for step in ("rebuild.read", "owner.written", "rebuild.taken_over", "rebuild.before_commit"):
        fault_points.arm(f"{step}:raise")
        with pytest.raises(fault_points.InjectedFault):
            list(rebuild(other, bucket, "team"))
        fault_points.arm("")
        assert tables(empty_postgres_url) == empty, step
    one = only(rebuild(other, bucket, "team"))
    assert (one.chunks, one.settings) == (7, "")
    again = other.catalog.archives.get("logs")
    assert (again.spec, again.created_at) == (archive.spec, archive.created_at)
    assert only(rebuild(other, bucket, "team")).is_kept
    # The folder has the settings of its owner. Those of rebuilds that were killed are orphans, as are what was
    # retired, and consumers that others took the place of.
    assert folder.inspect(other, again)
    # What was retired stays until a person has looked at the holds that were found.
    assert "the hold rebuilt keeps it" in [one.kept for one in sweep_each(other, -60, dry_run=True).orphans]
    other.catalog.holds.release(again, REBUILT, "looked at")
    orphans = sweep_each(other, -60, dry_run=False).orphans
    assert [one.kept for one in orphans] == [""] * len(orphans)
    assert (len(orphans), sum(one.key.endswith(".parquet") for one in orphans)) == (3, 1)
    assert [key for key in keys(workspace, bucket) if "_settings-" in key] == [
        f"team/archive=logs/_settings-{again.job_id}.json"
    ]
    before = keys(workspace, bucket)
    with pytest.raises(StoreError, match="another owner"):
        folder.require(workspace, archive)
    with pytest.raises(StoreError, match="another catalog"):
        remove.delete(workspace, "logs", purge=True)
    assert keys(workspace, bucket) == before
    folder.require(other, again)


def test_settings_of_another_hand_are_shown_and_wait_for_a_person(
    workspace: Workspace, other: Workspace, bucket: str, nats3: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = filled(workspace, bucket)
    copy = f"copy-{bucket}"
    create_bucket(workspace.settings.store, copy)
    folder.require(workspace, archive)
    store, key = workspace.bucket(bucket), f"team/archive=logs/_settings-{archive.job_id}.json"
    kept = json.loads(bytes(store.get(key)))
    ((name, *_),) = kept["holds"]
    assert name == "case"
    kept["settings"] |= {"keep_s": 1, "copies": [copy]}
    # Somebody takes the hold out, and lets hours expire and go to a bucket of their own.
    changed = json.dumps(kept | {"holds": []}).encode()
    monkeypatch.setenv("NATS3_POSTGRES_URL", other.settings.postgres)
    words = ("catalog", "rebuild", "--bucket", bucket, "--prefix", "team")
    for data in (b"[" * 200_000, b" " * (9 << 20)):
        store.put_again(key, data, hashlib.sha256(data).hexdigest())
        assert f"logs: {key}" in nats3(*words, "--dry-run").error
    store.put_again(key, changed, hashlib.sha256(changed).hexdigest())
    for ran in (nats3.ok(*words, "--dry-run"), nats3.ok(*words)):
        assert f"logs: keep 1s; copies: {copy}" in ran.err
        assert "logs: no holds" in ran.err
        assert "nats3 hold delete logs rebuilt --reason" in ran.err
    (one,) = nats3.ok(*words, "-o", "json").json["archives"]
    assert one["state"] == "kept"
    again = other.catalog.archives.get("logs")
    due = nats3.ok("store", "expire", "logs", "-o", "json").json
    assert (due["hours"], due["held_chunks"]) == (0, 7)
    assert "are not confirmed yet: nothing is copied" in nats3.refused("store", "copy", "logs")
    assert keys(workspace, copy) == []
    assert "made again from the bucket" in nats3.ok("store", "get", "logs").out
    assert "Archive logs was made again from its bucket" in nats3("doctor").out
    assert not promise(other, again).is_kept
    assert "rebuilt" in nats3.refused("store", "delete", "logs", "--yes")
    assert nats3.refused("hold", "create", "logs", REBUILT, "--reason", "mine")[0] == "2"
    # Made again from there once more: it is the same.
    with workspace.catalog.session.transaction() as sql:
        sql.connection.execute("truncate nats3.archive cascade")
    (twice,) = rebuild(workspace, bucket, "team")
    assert (twice.error, [hold.name for hold in twice.holds]) == (None, [REBUILT])
    assert len(workspace.catalog.holds.all(workspace.catalog.archives.get("logs"))) == 1
    # A person has looked.
    nats3.ok("hold", "delete", "logs", REBUILT, "--reason", "keep is right", "--yes")
    assert promise(other, again).is_unchecked is False
    assert nats3.ok("store", "expire", "logs", "--dry-run", "-o", "json").json["hours"] == 2


def test_what_contradicts_itself_is_named_and_refused(
    workspace: Workspace, other: Workspace, bucket: str, empty_postgres_url: str
) -> None:
    archive = filled(workspace, bucket)
    empty = tables(empty_postgres_url)
    store = workspace.bucket(bucket)
    live = {chunk.meta.covers: chunk.meta for chunk in workspace.catalog.chunks.select(archive)}
    named, open_ = live[SeqRange(11, 20)], live[SeqRange(51, 60)]
    manifest = workspace.catalog.seals.select(archive)[0].key

    def refused(*, whole: bool = False) -> str:
        (one,) = rebuild(other, bucket, "team", whole=whole)
        assert one.error, one
        assert tables(empty_postgres_url) == empty
        return one.error.what

    def dry(*, accept_loss: bool = False) -> Rebuilt:
        return only(rebuild(other, bucket, "team", dry_run=True, accept_loss=accept_loss))

    kept = {key: bytes(store.get(key)) for key in (named.key, open_.key, manifest)}

    def put_back(key: str) -> None:
        store.put_again(key, kept[key], hashlib.sha256(kept[key]).hexdigest())

    # A chunk that a manifest names is gone, or is another one.
    store.delete(named.key)
    assert f"name 1 chunks that cannot be had: {named.key} is not in the bucket" in refused()
    lost = dry(accept_loss=True)
    # The hole before it touches the next hour too.
    assert (lost.chunks, lost.sealed, lost.changed, list(lost.missing)) == (6, 0, 2, [named.key])
    flipped = bytearray(kept[named.key])
    flipped[len(flipped) // 3] ^= 1
    store.put_again(named.key, bytes(flipped), hashlib.sha256(flipped).hexdigest())
    assert "name 1 chunks that cannot be had" in refused(whole=True)
    put_back(named.key)
    # A manifest that cannot be read; and two of the same number.
    store.put_again(manifest, b"x", hashlib.sha256(b"x").hexdigest())
    assert f"{manifest}: The object is not a manifest" in refused()
    put_back(manifest)
    # Two objects without a manifest that say different things; and two that agree.
    other_text = put(workspace, archive, HOURS[2], (58, 60), text=b"another")
    assert "they have other messages of the sequences 58-60" in refused()
    store.delete(other_text.key)
    put(workspace, archive, HOURS[2], (51, 53))
    agreed = dry()
    assert (agreed.chunks, agreed.unlisted, agreed.messages) == (7, 2, 10_087)
    # What no manifest contradicts is a chunk, whether a catalog had it or not; what is damaged is none.
    put(workspace, archive, HOURS[2], (20_001, 20_010))
    assert dry().chunks == 8
    store.put_again(open_.key, kept[open_.key][:-9], hashlib.sha256(kept[open_.key][:-9]).hexdigest())
    damaged = dry()
    # The other object of some of these sequences takes its place.
    assert (damaged.chunks, list(damaged.refused)) == (8, [open_.key])
    # Without settings, what chunks say.
    for key in keys(workspace, bucket):
        if "/_" in key:
            store.delete(key)
    put_back(open_.key)
    assert "no settings" in dry().settings


def test_a_manifest_of_an_hour_without_a_seal_is_told_and_sealed_over(
    workspace: Workspace, other: Workspace, bucket: str, nats3: Command
) -> None:
    """As after a restore of the catalog: a rebuild would take such a manifest for the truth."""
    archive = filled(workspace, bucket)
    folder.require(workspace, archive)
    nats3.ok("chunk", "verify", "logs")
    chunk = ManifestChunk("team/archive=logs/gone", "ab" * 32, 9, 1, 9, 9, 9, 1, 2)
    stray = Manifest("logs", "LOGS", bucket, "team", HOURS[2], 3, (ManifestPart(LIFE.created_ns, 1, 9, (chunk,)),))
    data, key = stray.encode()
    workspace.bucket(bucket).put_new(key, data, hashlib.sha256(data).hexdigest())
    (one,) = rebuild(other, bucket, "team", dry_run=True)
    assert one.error
    assert "chunks that cannot be had" in one.error.what
    told = "1 hours of archive logs have a manifest in the bucket that the catalog does not know"
    for words in (("verify",), ("verify", "--hour", HOURS[2]), ("repair",)):
        ran = nats3("chunk", words[0], "logs", *words[1:])
        assert (ran.status, told in ran.error) == (1, True), (words, ran)
    assert "They are not complete, so they were not sealed: capture them" in nats3("chunk", "repair", "logs").error
    # The next hour has a chunk: so this one has ended.
    later = "2026-11-21-10:00"
    workspace.catalog.chunks.commit(archive, [put(workspace, archive, later, (10_111, 10_120))])
    assert nats3.ok("chunk", "repair", "logs", "-o", "json").json["manifests_repaired"] == 1
    assert [seal.number for seal in workspace.catalog.seals.select(archive, hours=[HOURS[2]])] == [4]
    nats3.ok("chunk", "verify", "logs")
    assert only(rebuild(other, bucket, "team", dry_run=True)).sealed == 3


def test_a_capture_goes_on_where_the_archive_ended_and_one_that_was_under_way_comes_once(
    workspace: Workspace, other: Workspace, wire: Wire, bucket: str
) -> None:
    publish(wire, 1, 100)
    archive = archive_of(workspace, bucket)
    former = other_history(workspace, archive, plan(workspace, archive, wire), 60)
    capture(workspace, archive, wire)
    publish(wire, 101, 150)
    under_way = plan(workspace, archive, wire)
    outcomes = read(workspace, under_way)
    # Its object is there and agrees with the stream; one of another history does not.
    one = only(rebuild(other, bucket))
    assert (one.messages, one.unlisted, list(one.refused), one.stream) == (150, 1, [former.key], "")
    assert "has another message at sequence" in one.refused[former.key]
    # The old catalog may have it too, and then captures no more.
    assert [result.messages for result in commit.commit(workspace, under_way, outcomes)] == [50]
    publish(wire, 151, 160)
    again = other.catalog.archives.get("events")
    assert capture(other, again, wire).messages == 10
    assert stored(other, again) == {n: b"%d" % n for n in range(1, 161)}
    assert gaps(other, again) == {}
    with pytest.raises(StoreError, match="another owner"):
        folder.require(workspace, archive)


def test_a_stream_that_was_made_again_is_named(workspace: Workspace, other: Workspace, wire: Wire, bucket: str) -> None:
    publish(wire, 1, 10)
    capture(workspace, archive_of(workspace, bucket), wire)
    wire.api("STREAM.DELETE.EV")
    publish(wire, 1, 5)
    one = only(rebuild(other, bucket))
    assert (one.messages, one.error) == (10, None)
    assert "was deleted and made again" in one.stream


def test_a_chunk_that_expands_without_end_is_refused_wherever_it_is_read(
    workspace: Workspace, other: Workspace, wire: Wire, bucket: str, nats3: Command
) -> None:
    """In the place of a chunk, of the same size and under the same metadata; and beside it, under a key of its own."""
    wire.create_stream("EV", "ev.>")
    wire.create_stream("BACK", "back.>")
    wire.publish([("ev.a", b"", os.urandom(4000)) for _ in range(100)])
    archived(workspace, wire, "EV", bucket)
    archive = workspace.catalog.archives.get("a")
    (chunk,) = workspace.catalog.chunks.select(archive)
    store, meta = workspace.bucket(bucket), chunk.meta
    usual = pa.default_memory_pool()
    pa.set_memory_pool(pa.system_memory_pool())  # making it takes memory of its own
    bomb = with_column(bytes(store.get(meta.key)), "data", pa.array([bytes(4_000_000)] * 100), use_dictionary=False)
    pa.set_memory_pool(usual)
    footer = int.from_bytes(bomb[-8:-4], "little") + 8
    padded = bomb[:-footer] + bytes(meta.stored_bytes - len(bomb)) + bomb[-footer:]
    sha256 = hashlib.sha256(bomb).hexdigest()
    store.put_again(meta.key, padded, hashlib.sha256(padded).hexdigest())
    store.put_new(object_key("", "a", meta.hour, meta.incarnation, meta.covers, sha256), bomb, sha256)
    before = usual.max_memory()

    expands = "The chunk expands to more than its messages have: its column data takes "
    assert expands in nats3.refused("message", "get", "a", "--seq", "7")
    assert [unlisted.reason.partition("takes ")[0] + "takes " for unlisted in examine(workspace, archive)] == [expands]
    (verified,) = verify_chunks(workspace, chunks_to_verify(workspace, archive))
    assert "has SHA-256" in str(verified.error)
    with pytest.raises(ChunkError, match="has SHA-256"):
        replayed(workspace, ReplaySpec("a", "back.>"))
    (one,) = rebuild(other, bucket, whole=True)
    assert one.archive == "a"
    assert usual.max_memory() < before + (100 << 20)
