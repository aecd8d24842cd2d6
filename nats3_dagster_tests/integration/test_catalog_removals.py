"""Removals: an object that is going away cannot be part of an archive."""

import random
from dataclasses import dataclass, replace

import psycopg
import pytest

from nats3_dagster.errors import Conflict
from nats3_dagster.model import ChunkMeta, ChunkResult, ReplaySpec, SeqRange
from nats3_dagster_tests.support.catalog import chunk, spec, state
from nats3_dagster_tests.support.sealed import H7, H8, of, seal


@pytest.fixture
def logs(catalog):
    return catalog.archives.create(spec(), state())


def _keys(catalog):
    return [dead.key for dead in catalog.removals.dead_objects("logs")]


def test_objects_of_retired_chunks_and_of_deleted_archives_are_dead_until_removed(catalog, logs):
    first, second, third = (chunk(n, n + 9) for n in (1, 11, 21))
    catalog.chunks.commit(logs, [first, second, third])
    assert _keys(catalog) == []
    catalog.chunks.retire(logs, [catalog.chunks.select(logs)[0].id])
    assert _keys(catalog) == [first.key]
    catalog.archives.delete("logs")
    assert _keys(catalog) == [first.key, second.key, third.key]
    assert catalog.removals.reserve("archive", [first.key, second.key]) == (first.key, second.key)
    assert len(_keys(catalog)) == 3  # claimed is not gone: a purge that was killed finds them again
    catalog.removals.finish("archive", [first.key, second.key])
    assert _keys(catalog) == [third.key]


def test_more_dead_objects_than_a_page(catalog, logs):
    catalog.chunks.commit(logs, [chunk(n, n) for n in range(1, 2502)])
    catalog.archives.delete("logs")
    assert len(set(_keys(catalog))) == 2501


def test_an_object_that_is_live_again_is_not_dead_and_cannot_be_claimed(catalog, logs):
    meta, lost = chunk(1, 10), chunk(11, 20)
    catalog.chunks.commit(logs, [meta, lost])
    catalog.archives.delete("logs")
    again = catalog.archives.create(spec(), state())
    catalog.chunks.commit(again, [meta])
    assert _keys(catalog) == [lost.key]
    assert catalog.removals.reserve("archive", [meta.key, lost.key, "orphan"]) == (lost.key, "orphan")
    # The same key in another bucket is another object.
    assert catalog.removals.reserve("other", [meta.key]) == (meta.key,)


def test_a_chunk_whose_object_is_being_removed_is_refused_until_that_has_ended(catalog, logs):
    meta = chunk(1, 10)
    catalog.removals.reserve(meta.bucket, [meta.key])
    with pytest.raises(Conflict, match=f"{meta.key} of archive logs is being deleted.*Run it again"):
        catalog.chunks.commit(logs, [meta])
    catalog.removals.finish(meta.bucket, [meta.key])
    catalog.chunks.commit(logs, [meta])
    assert len(catalog.chunks.select(logs)) == 1


def test_a_chunk_whose_object_was_removed_while_it_was_made_is_refused(catalog, logs):
    meta = chunk(1, 10)
    begun = catalog.now()
    catalog.removals.reserve(meta.bucket, [meta.key])
    catalog.removals.finish(meta.bucket, [meta.key])
    with pytest.raises(Conflict, match="was removed from the store while this ran"):
        catalog.chunks.commit(logs, [meta], begun=begun)
    catalog.chunks.commit(logs, [meta], begun=catalog.now())
    # And it can be removed once more.
    catalog.chunks.retire(logs, [catalog.chunks.select(logs)[0].id])
    assert _keys(catalog) == [meta.key]
    assert catalog.removals.reserve(meta.bucket, [meta.key]) == (meta.key,)


# The sweep


def _swept(catalog, grace_s=0, **fields):
    return [key for _, key in catalog.removals.sweepable(grace_s, **fields)]


def _retire(catalog, logs, *metas):
    ids = {one.meta.key: one.id for one in catalog.chunks.select(logs)}
    catalog.chunks.retire(logs, [ids[meta.key] for meta in metas])


def test_objects_of_retired_chunks_are_swept_after_their_time_of_grace(catalog, logs):
    first, second, third = (chunk(n, n + 9) for n in (1, 11, 21))
    catalog.chunks.commit(logs, [first, second, third])
    assert _swept(catalog) == []
    _retire(catalog, logs, second)
    _retire(catalog, logs, first)
    assert _swept(catalog, 3600) == []
    assert _swept(catalog) == [second.key, first.key]  # the oldest first
    assert catalog.removals.sweepable(0) == {("archive", second.key): 301, ("archive", first.key): 301}
    assert _swept(catalog, limit=1) == [second.key]
    assert (_swept(catalog, bucket="archive"), _swept(catalog, bucket="other")) == ([second.key, first.key], [])
    unswept = catalog.removals.unswept(logs)
    assert (unswept.objects, unswept.bytes) == (2, 602)
    # One that the store refused comes last, until it is gone.
    catalog.removals.reserve("archive", [second.key])
    catalog.removals.refused("archive", [second.key])
    assert _swept(catalog) == [first.key, second.key]
    catalog.removals.reserve("archive", [first.key])
    catalog.removals.finish("archive", [first.key])
    assert _swept(catalog) == [second.key]
    assert (catalog.removals.unswept(logs).objects, catalog.removals.unswept(logs).bytes) == (1, 301)


def test_what_a_hold_covers_or_another_archive_has_is_not_swept(catalog, logs):
    held, shared = chunk(1, 10), chunk(11, 20)
    catalog.chunks.commit(logs, [held, shared])
    _retire(catalog, logs, held, shared)
    catalog.holds.create(logs, "case", "a case", seqs=SeqRange(10, 10))
    assert _swept(catalog) == [shared.key]
    assert catalog.removals.reserve("archive", [held.key, shared.key]) == (shared.key,)
    catalog.removals.release("archive", [shared.key])
    catalog.archives.create(spec("other"), state())
    again = catalog.archives.get("other")
    catalog.chunks.commit(again, [shared])
    assert _swept(catalog) == []
    catalog.holds.release(logs, "case", "over")
    assert _swept(catalog) == [held.key]
    # It keeps what it had when it is deleted, whoever had the object before.
    catalog.archives.delete("other")
    assert _swept(catalog) == [held.key]


def test_what_an_archive_had_when_it_was_deleted_is_not_swept(catalog, logs):
    before, last = chunk(1, 10), chunk(11, 20)
    catalog.chunks.commit(logs, [before, last])
    _retire(catalog, logs, before)
    catalog.archives.delete("logs")
    assert _swept(catalog) == [before.key]
    assert _keys(catalog) == [before.key, last.key]


def test_manifests_are_swept_when_their_hour_was_sealed_again(catalog, logs):
    catalog.chunks.commit(logs, [of(H7, 1, 10), of(H8, 11, 20)])
    old, other = seal(catalog, logs, H7), seal(catalog, logs, H8)
    assert _swept(catalog) == []
    assert catalog.removals.reserve("archive", [old.key]) == ()
    new = seal(catalog, logs, H7, number=2, key="again")
    assert _swept(catalog) == [old.key]
    assert _swept(catalog, 3600) == []
    assert _swept(catalog, bucket="other") == []
    assert _keys(catalog) == [old.key]
    assert catalog.removals.reserve("archive", [old.key, new.key]) == (old.key,)
    catalog.removals.finish("archive", [old.key])
    assert _swept(catalog) == _keys(catalog) == []
    catalog.archives.delete("logs")
    assert {new.key, other.key} <= {*_keys(catalog)}


def test_an_expired_hour_is_swept_when_it_was_sealed_again(catalog, logs):
    meta = of(H7, 1, 10)
    catalog.chunks.commit(logs, [meta])
    old = seal(catalog, logs, H7)
    assert len(catalog.expiry.expire(logs, H8, None, 9)) == 1
    assert _swept(catalog) == []
    seal(catalog, logs, H7, key="again")
    assert _swept(catalog) == [meta.key, old.key]


def test_a_merged_chunk_is_swept_when_its_hour_was_sealed_again(catalog, logs):
    first, second, both = of(H7, 1, 10), of(H7, 11, 20), of(H7, 1, 20)
    catalog.chunks.commit(logs, [first, second])
    seal(catalog, logs, H7)
    ids = [one.id for one in catalog.chunks.select(logs)]
    catalog.compaction.swap(logs, H7, [(ids, both)], begun=catalog.now())
    assert _swept(catalog) == []
    seal(catalog, logs, H7, key="again")
    assert {*_swept(catalog)} >= {first.key, second.key}
    assert both.key not in _swept(catalog)


def test_a_merged_chunk_stays_while_a_replay_that_runs_has_to_publish_it(catalog, logs):
    """Not for one that has published it, has ended, was deleted or never began; nor where its archive was deleted."""
    first, second, both = of(H7, 1, 10), of(H7, 11, 20), of(H7, 1, 20)
    catalog.chunks.commit(logs, [first, second])
    seal(catalog, logs, H7)
    own = [one.id for one in catalog.chunks.select(logs)]
    running, planned, ended, gone = (letter * 16 for letter in "abcd")
    for replay in (running, planned, ended, gone):
        catalog.replays.begin(replay, logs, ReplaySpec("logs"), (), own)
    attempts = {replay: catalog.replays.start_attempt(replay) for replay in (running, ended, gone)}
    catalog.compaction.swap(logs, H7, [(own, both)], begun=catalog.now())
    seal(catalog, logs, H7, key="again")

    def kept():
        return {first.key, second.key} - {*_swept(catalog)}

    assert kept() == {first.key, second.key}
    catalog.replays.finish(ended, attempts[ended], "failed", "broke off")
    catalog.replays.finish(gone, attempts[gone], "failed", "broke off")
    catalog.replays.delete(gone)
    catalog.replay_chunks.record(running, attempts[running], [ChunkResult(own[0], 10, 10, 0, 0)])
    assert kept() == {second.key}
    catalog.replays.finish(running, attempts[running], "failed", "broke off")
    assert kept() == set()
    catalog.replays.start_attempt(running)
    assert kept() == {second.key}
    catalog.archives.delete("logs")
    assert kept() == set()


def test_objects_that_are_known(catalog, logs):
    live, retired, gone = (chunk(n, n + 9) for n in (1, 11, 21))
    keys = [live.key, retired.key, gone.key, "other"]
    catalog.chunks.commit(logs, [live, retired, gone])
    assert catalog.removals.known("archive", keys) == {live.key, retired.key, gone.key}
    assert catalog.removals.known("other", keys) == set()
    _retire(catalog, logs, retired, gone)
    assert catalog.removals.known("archive", keys) == {live.key, retired.key, gone.key}
    catalog.removals.reserve("archive", [gone.key, "other"])
    assert catalog.removals.known("archive", keys) == {*keys}
    assert catalog.removals.known("archive", ["unknown"]) == catalog.removals.known("other", ["other"]) == set()
    catalog.removals.finish("archive", [gone.key, "other"])
    assert catalog.removals.known("archive", keys) == {live.key, retired.key}
    catalog.archives.delete("logs")
    assert catalog.removals.known("archive", keys) == {live.key, retired.key}
    assert catalog.removals.known("archive", keys, with_deleted=False) == {retired.key}


def test_an_object_that_was_retired_again_has_its_grace_again(catalog, logs, postgres_url):
    meta = chunk(1, 10)
    for _ in range(2):
        catalog.chunks.commit(logs, [meta])
        (one,) = catalog.chunks.select(logs)
        catalog.chunks.retire(logs, [one.id], recapture=True)
        assert (_swept(catalog), _swept(catalog, 3600)) == ([meta.key], [])
        _pass_hour(postgres_url)
        assert _swept(catalog, 3600) == [meta.key]
        assert _swept(catalog, 7000) == []


def test_an_object_of_a_purged_archive_is_swept_once_a_later_one_had_it(catalog, logs):
    meta = chunk(1, 10)
    catalog.chunks.commit(logs, [meta])
    catalog.archives.delete("logs")
    again = catalog.archives.create(spec(), state())

    def commit_and_retire():
        catalog.chunks.commit(again, [meta])
        (one,) = catalog.chunks.select(again)
        catalog.chunks.retire(again, [one.id], recapture=True)

    commit_and_retire()
    assert _swept(catalog) == []  # the deleted archive keeps what it had
    catalog.removals.reserve("archive", [meta.key])
    catalog.removals.finish("archive", [meta.key])
    assert _swept(catalog) == []
    commit_and_retire()
    assert _swept(catalog) == [meta.key]


# Whatever happens

_H = 1_000_000  # the ticks of an hour


@dataclass
class _Stay:
    """The time that an object was part of an archive, in ticks."""

    archive: int
    name: str
    meta: ChunkMeta
    end: int | None = None
    # Whether it ended because the archive was deleted.
    with_archive: bool = False


class _Objects:
    """What the promises say of objects, by what happened to them. A place is a bucket and a key."""

    def __init__(self):
        self.now = 0
        self.stays: dict[tuple[str, str], list[_Stay]] = {}
        self.removed: dict[tuple[str, str], int] = {}
        self.claimed: set[tuple[str, str]] = set()
        self.holds: dict[int, SeqRange] = {}

    def there(self, place):
        """The stays of the object that may still be in the store: a removal ends all before it."""
        gone = self.removed.get(place, -1)
        return [stay for stay in self.stays.get(place, ()) if stay.end is None or stay.end > gone]

    def is_live(self, place):
        return any(stay.end is None for stay in self.stays.get(place, ()))

    def is_held(self, stay):
        held = self.holds.get(stay.archive)
        return held is not None and held.first <= stay.meta.covers.last and stay.meta.covers.first <= held.last

    def may_go(self, place):
        """Neither a live chunk nor a hold needs it."""
        return not self.is_live(place) and not any(map(self.is_held, self.stays.get(place, ())))

    def is_sweepable(self, place, grace):
        """A chunk of it was retired long enough ago and is not held; and no chunk of it is live, was retired lately, or
        went with its archive."""
        stays = self.there(place)
        if any(stay.end is None or stay.end >= self.now - grace or stay.with_archive for stay in stays):
            return False
        return any(not self.is_held(stay) for stay in stays)

    def dead(self, name):
        """The objects that an archive of this name had, and that none has."""
        return {
            place
            for place in self.stays
            if not self.is_live(place) and any(stay.name == name for stay in self.there(place))
        }

    def is_known(self, place, *, with_deleted):
        return place in self.claimed or any(with_deleted or not stay.with_archive for stay in self.there(place))

    def unswept(self, archive):
        stays = [(place, stay) for place in self.stays for stay in self.there(place) if stay.archive == archive]
        sizes = [stay.meta.stored_bytes for place, stay in stays if not self.is_live(place)]
        return len(sizes), sum(sizes)


_TIMES = """
select table_name, string_agg(format('%1$I = %1$I - make_interval(hours => 1)', column_name), ', ')
from information_schema.columns
where table_schema = 'nats3' and data_type = 'timestamp with time zone' and is_generated = 'NEVER'
  and table_name = any('{archive,chunk,removal,refused_removal}')
group by 1"""


def _pass_hour(postgres_url):
    """Everything happened an hour earlier."""
    with psycopg.connect(postgres_url) as connection:
        connection.execute("set session_replication_role = replica")
        for table, times in connection.execute(_TIMES).fetchall():
            connection.execute(f"update nats3.{table} set {times}".encode())


@pytest.mark.parametrize("seed", range(3))
def test_whatever_happens_objects_go_when_nothing_needs_them(catalog, postgres_url, seed):
    chance, model = random.Random(seed), _Objects()
    names = ["logs", "other"]
    archives = {name: catalog.archives.create(spec(name), state()) for name in names}
    every = list(archives.values())
    # Two of the objects have the same key in different buckets.
    metas = [chunk(1, 10), chunk(11, 20), chunk(21, 30)]
    metas.append(replace(metas[0], bucket="elsewhere"))
    places = [(meta.bucket, meta.key) for meta in metas]
    swept = 0
    for _ in range(60):
        model.now += 1
        name = chance.choice(names)
        archive, number = archives[name], chance.randrange(len(metas))
        meta, place = metas[number], places[number]
        live = [stay for of in model.stays.values() for stay in of if stay.archive == archive.id and stay.end is None]
        match chance.randint(0, 12):
            case 0 | 1 | 2 if all(stay.meta.covers != meta.covers for stay in live):
                if place in model.claimed or model.is_live(place):
                    with pytest.raises(Conflict, match="is being deleted|in the catalog already"):
                        catalog.chunks.commit(archive, [meta])
                else:
                    catalog.chunks.commit(archive, [meta])
                    model.stays.setdefault(place, []).append(_Stay(archive.id, name, meta))
            case 3 | 4 | 8 | 9 if live and archive.id not in model.holds:
                stay = chance.choice(live)
                (found,) = [one for one in catalog.chunks.select(archive) if one.meta.covers == stay.meta.covers]
                catalog.chunks.retire(archive, [found.id], recapture=True)
                stay.end = model.now
            case 5 if archive.id not in model.holds and chance.random() < 0.5:
                catalog.archives.delete(name)
                for stay in live:
                    stay.end, stay.with_archive = model.now, True
                archives[name] = catalog.archives.create(spec(name), state())
                every.append(archives[name])
            case 6 if archive.id in model.holds:
                catalog.holds.release(archive, "case", "over")
                del model.holds[archive.id]
            case 6:
                model.holds[archive.id] = SeqRange(10, chance.choice([10, 11, 20]))
                catalog.holds.create(archive, "case", "a case", seqs=model.holds[archive.id])
            case 7:
                _pass_hour(postgres_url)
                model.now += _H
            case _:
                bucket, keys = meta.bucket, [one.key for one in metas if one.bucket == meta.bucket]
                taken = catalog.removals.reserve(bucket, keys)
                assert {*taken} == {key for key in keys if model.may_go((bucket, key))}
                for key in taken:
                    model.claimed.add((bucket, key))
                    model.removed.pop((bucket, key), None)
                ended = [key for key in taken if chance.random() < 0.7]
                match chance.randint(0, 3):
                    case 0:
                        catalog.removals.release(bucket, ended)
                    case 1:
                        catalog.removals.refused(bucket, ended)
                    case _:
                        catalog.removals.finish(bucket, ended)
                        model.now += 1
                        model.removed |= {(bucket, key): model.now for key in ended}
                model.claimed -= {(bucket, key) for key in ended}
        model.now += 1
        for hours in (0, 1, 2):
            found = {*catalog.removals.sweepable(hours * 3600)}
            assert found == {place for place in places if model.is_sweepable(place, hours * _H)}
            swept += len(found)
        for one in names:
            assert {(dead.bucket, dead.key) for dead in catalog.removals.dead_objects(one)} == model.dead(one)
        for bucket in ("archive", "elsewhere"):
            keys = {key for _, key in places}
            for with_deleted in (True, False):
                known = catalog.removals.known(bucket, [*keys], with_deleted=with_deleted)
                assert known == {key for key in keys if model.is_known((bucket, key), with_deleted=with_deleted)}
        for one in every[-4:]:
            unswept = catalog.removals.unswept(one)
            assert (unswept.objects, unswept.bytes) == model.unswept(one.id)
    assert swept > 10
