"""Seals: an hour is sealed when it is complete, never before, and again when it changed."""

from dataclasses import replace
from uuid import uuid4

import psycopg
import pytest

from nats3_dagster.archive import status
from nats3_dagster.archive.proof.manifest_repair import repair_manifests
from nats3_dagster.archive.proof.manifests import stray_manifests
from nats3_dagster.archive.proof.seal import (
    Sealable,
    check_sealed,
    complete_hours,
    ended_hours,
    newest_closed,
    position,
    require_sealed,
    seal_asked,
    seal_hours,
    sealable,
)
from nats3_dagster.archive.proof.verify import verify_seals
from nats3_dagster.archive.source.clocks import ask_clocks
from nats3_dagster.archive.stored import folder
from nats3_dagster.catalog.contents.seals import Seals
from nats3_dagster.chunks.manifest import ManifestGap, ManifestOther, decode_manifest, manifest_number
from nats3_dagster.errors import ChunkError, Conflict, Nats3Error, OperatorError, StoreError
from nats3_dagster.hours import CLOCKS_S, HOUR_NS, hour_of
from nats3_dagster.model import Gap, Incarnation
from nats3_dagster.objects import Bucket
from nats3_dagster_tests.support.catalog import HOUR_NS as BEGIN
from nats3_dagster_tests.support.catalog import LOGS, chunk, ranges, spec, state

HOURS = [hour_of(BEGIN + n * HOUR_NS) for n in range(6)]
FIRST, LAST = HOURS[0], HOURS[-1]


@pytest.fixture
def catalog(workspace):
    return workspace.catalog


@pytest.fixture
def logs(workspace, bucket):
    created = workspace.catalog.archives.create(spec(bucket=bucket), state(last=1))
    folder.claim(workspace, created)
    return created


def held(n, first, last, messages=None, **fields):
    """A chunk of the n-th hour."""
    times = {"first_ns": BEGIN + n * HOUR_NS, "last_ns": BEGIN + n * HOUR_NS + 9}
    return chunk(first, last, messages, hour=HOURS[n], **times, **fields)


def unsealed(catalog, logs, bound=None):
    return [HOURS.index(h) for h in catalog.seals.unsealed(logs, FIRST, LAST, bound=bound and (LOGS, bound))]


def seal(workspace, logs, *numbers):
    return list(seal_hours(workspace, logs, [HOURS[n] for n in numbers]))


def contents(s3_client, logs):
    """The keys in the archive's bucket, by their numbers."""
    listed = s3_client.list_objects_v2(Bucket=logs.spec.bucket).get("Contents", ())
    return {number: item["Key"] for item in listed if (number := manifest_number(item["Key"]))}


def manifest(s3, seal):
    return decode_manifest(bytes(Bucket(s3, seal.bucket).get(seal.key)))


def test_an_archive_that_holds_everything_is_complete_in_every_hour(catalog, logs):
    catalog.chunks.commit(logs, [held(0, 1, 10), held(1, 11, 20), held(3, 21, 30)])
    assert unsealed(catalog, logs) == unsealed(catalog, logs, 30) == [0, 1, 2, 3, 4, 5]


def test_hours_beside_a_hole_are_not_complete(catalog, logs):
    """What lacks between the hours 1 and 4 may be of any of them, and of those between."""
    catalog.chunks.commit(logs, [held(0, 1, 10), held(1, 11, 20), held(4, 31, 40), held(5, 41, 50)])
    assert unsealed(catalog, logs) == [0, 5]
    catalog.chunks.commit(logs, [held(2, 21, 29)])
    assert unsealed(catalog, logs) == [0, 1, 5]
    catalog.chunks.commit(logs, [], [Gap(LOGS, ranges((30, 30)), "expired")])
    assert unsealed(catalog, logs) == [0, 1, 2, 3, 4, 5]


def test_a_hole_at_the_begin_and_one_at_the_end(catalog, logs):
    catalog.chunks.commit(logs, [held(1, 5, 10), held(2, 11, 20), held(3, 21, 30)])
    assert unsealed(catalog, logs) == [2, 3, 4, 5]  # the hours 0 and 1 lack 1 to 4
    assert unsealed(catalog, logs, 31) == [2]  # the stream has one more, of the hour 3 or later
    assert unsealed(catalog, logs, 30) == [2, 3, 4, 5]


def test_another_incarnation_blocks_its_own_hours(catalog, logs):
    again = Incarnation("LOGS", LOGS.created_ns + 3 * HOUR_NS)
    catalog.chunks.commit(logs, [held(0, 1, 10), held(1, 11, 20)])
    catalog.coverage.begin(logs, state(again))
    catalog.chunks.commit(logs, [held(4, 3, 9, incarnation=again)])
    assert [HOURS.index(h) for h in catalog.seals.unsealed(logs, FIRST, LAST, bound=(again, 9))] == [5]


def test_a_seal_lists_all_that_the_hour_accounts_for(workspace, catalog, logs, s3):
    expired = Gap(LOGS, ranges((11, 14), (25, 25)), "expired")
    catalog.chunks.commit(logs, [held(0, 1, 10), held(2, 15, 24, 8), held(2, 26, 30)], [expired])
    zero, one, two = seal(workspace, logs, 0, 1, 2)
    (part,) = manifest(s3, zero).parts
    assert (part.first_seq, part.last_seq) == (1, 14)
    found = manifest(s3, two)
    (part,) = found.parts
    assert (part.first_seq, part.last_seq) == (11, 30)
    assert [(c.first_seq, c.last_seq, c.messages) for c in part.chunks] == [(15, 24, 8), (26, 30, 5)]
    assert {c.key for c in part.chunks} == {c.meta.key for c in catalog.chunks.select(logs, hours=[HOURS[2]])}
    assert [(g.first_seq, g.last_seq, g.reason) for g in part.gaps] == [(11, 14, "expired"), (25, 25, "expired")]
    assert (two.messages, two.gaps, two.chunks, two.number) == (13, 5, 2, 1)
    kept = catalog.seals.select(logs)
    assert [(s.key, s.sha256, s.valid) for s in kept] == [(s.key, s.sha256, True) for s in (zero, one, two)]
    assert catalog.seals.select(logs, hours=[HOURS[1]]) == kept[1:2]
    assert unsealed(catalog, logs) == [3, 4, 5]


def test_an_hour_that_changed_is_sealed_once_more(workspace, catalog, logs, s3):
    catalog.chunks.commit(logs, [held(0, 1, 10), held(1, 11, 20)])
    first = seal(workspace, logs, 0, 1)
    catalog.chunks.commit(logs, [held(1, 21, 25)])
    assert [s.valid for s in catalog.seals.select(logs)] == [True, False]
    assert unsealed(catalog, logs) == [1, 2, 3, 4, 5]
    (again,) = seal(workspace, logs, 1)
    assert (again.number, again.messages) == (2, 15)
    assert [d.key for d in catalog.removals.dead_objects("logs")] == [first[1].key]
    # What is current cannot be taken away, what was can.
    assert catalog.removals.reserve(logs.spec.bucket, [first[0].key, first[1].key, again.key]) == (first[1].key,)
    catalog.chunks.retire(logs, [catalog.chunks.select(logs, hours=[HOURS[0]])[0].id])
    assert unsealed(catalog, logs) == [0, 2, 3, 4, 5]
    (empty,) = seal(workspace, logs, 0)
    assert (empty.number, empty.messages, empty.chunks, empty.losses) == (2, 0, 0, 10)


def test_an_hour_that_lacks_something_cannot_be_sealed(workspace, catalog, logs, s3, s3_client):
    """Whoever asks for it: the manifest itself would not add up."""
    catalog.chunks.commit(logs, [held(0, 1, 10), held(0, 12, 20)])
    with pytest.raises(ChunkError, match="sequences between 10 and 12 are in no chunk"):
        seal(workspace, logs, 0)
    assert catalog.seals.select(logs) == ()
    assert contents(s3_client, logs) == {}
    with pytest.raises(OperatorError, match=f"complete in {HOURS[0]}. Capture what is missing in archive logs"):
        check_sealed([HOURS[0], HOURS[3]], [HOURS[3]], "logs", LAST)
    with pytest.raises(OperatorError, match=f"Hour {HOURS[3]} has not ended"):
        check_sealed([HOURS[0], HOURS[3]], [HOURS[0]], "logs", HOURS[2])
    check_sealed([HOURS[0]], [HOURS[0]], "logs", HOURS[2])


@pytest.mark.parametrize(("count", "more"), [(1, ""), (4, ""), (5, ""), (6, " and 1 more"), (7, " and 2 more")])
def test_hours_that_are_required_are_sealed_as_they_are(workspace, catalog, logs, s3, count, more):
    catalog.chunks.commit(logs, [held(0, 1, 10), held(1, 11, 20)])
    seal(workspace, logs, 0, 1)
    before = hour_of(BEGIN - HOUR_NS)
    require_sealed(workspace, logs, [before, HOURS[1], HOURS[0]])
    require_sealed(workspace, logs, [])
    catalog.chunks.commit(logs, [held(1, 21, 25)])
    require_sealed(workspace, logs, [before, HOURS[0]])
    asked = [hour_of(BEGIN + n * HOUR_NS) for n in range(count, 0, -1)]
    named = ", ".join(sorted(asked)[:5])
    with pytest.raises(OperatorError) as caught:
        require_sealed(workspace, logs, [*asked, HOURS[0]])
    assert caught.value.what == f"Archive logs has hours that are not sealed: {named}{more}"


def test_the_first_hour_that_is_not_sealed_decides_what_is_said():
    check_sealed(HOURS, HOURS, "logs", FIRST)
    check_sealed([], [], "logs", FIRST)
    with pytest.raises(OperatorError) as caught:
        check_sealed(HOURS, HOURS[5:], "logs", FIRST)
    assert caught.value.what == f"Archive logs is not complete in {', '.join(HOURS[:5])}"
    with pytest.raises(OperatorError) as caught:
        check_sealed(HOURS, [], "logs", FIRST)
    assert caught.value.what == f"Archive logs is not complete in {', '.join(HOURS[:5])} and more"
    with pytest.raises(OperatorError) as caught:
        check_sealed(HOURS, [FIRST], "logs", FIRST)
    assert (caught.value.what, caught.value.hint) == (
        f"Hour {HOURS[1]} has not ended",
        f"Seal it {CLOCKS_S} s after its end; the sensor does",
    )
    with pytest.raises(OperatorError) as caught:
        check_sealed([HOURS[1]], [FIRST], "logs", FIRST, "Postgres is 9 s behind")
    assert (caught.value.what, caught.value.hint) == (
        f"Hour {HOURS[1]} has not ended. Postgres is 9 s behind",
        "Set the clocks right",
    )


def test_hours_that_have_ended_are_counted(workspace, catalog, logs):
    catalog.chunks.commit(logs, [held(1, 11, 20), held(0, 1, 10)])
    first, count = ended_hours(workspace, logs)
    closed = newest_closed(ask_clocks(workspace).earliest_ns)
    assert (first, hour_of(BEGIN + (count - 1) * HOUR_NS)) == (FIRST, closed)
    # An hour before the first one is none of the archive's.
    assert complete_hours(workspace, logs, [hour_of(BEGIN - HOUR_NS)]) == (set(), None)
    at = position(workspace, logs)
    assert (at.archive, at.closed) == (logs.id, closed)
    catalog.chunks.commit(logs, [held(2, 21, 30)])
    assert position(workspace, logs) == replace(at, revision=catalog.hours.revision(logs))
    assert position(workspace, logs) != at
    catalog.archives.delete("logs")
    with pytest.raises(Conflict, match="Archive logs was deleted"):
        ended_hours(workspace, logs)


def test_of_a_stream_that_is_gone_hours_before_the_last_chunk_are_sealed(workspace, catalog, logs):
    """Nothing says whether the hour of the last chunk had more messages."""
    found = sealable(workspace, logs, FIRST)
    assert (found.hours, isinstance(found.problem, Nats3Error)) == ((), True)
    catalog.chunks.commit(logs, [held(0, 1, 10), held(1, 11, 20), held(3, 21, 30)])
    found = sealable(workspace, logs, FIRST)
    assert (found.hours, isinstance(found.problem, Nats3Error)) == (tuple(HOURS[:3]), True)
    assert sealable(workspace, logs, HOURS[1]).hours == tuple(HOURS[1:3])
    assert sealable(workspace, logs, FIRST, 2).hours == tuple(HOURS[:2])
    hours, problem = complete_hours(workspace, logs, [HOURS[3], HOURS[1], HOURS[4]])
    assert (hours, isinstance(problem, Nats3Error)) == ({HOURS[1]}, True)
    later = hour_of(BEGIN + 100_000 * HOUR_NS)
    assert sealable(workspace, logs, later) == Sealable(position(workspace, logs), ())
    with pytest.raises(Nats3Error):
        list(seal_asked(workspace, "logs", HOURS[:1]))


def test_an_hour_that_changes_while_it_is_sealed(workspace, catalog, logs, s3):
    catalog.chunks.commit(logs, [held(0, 1, 10)])
    begun = catalog.now()
    (kept,) = seal(workspace, logs, 0)
    catalog.chunks.commit(logs, [held(0, 11, 20)])
    with pytest.raises(Conflict, match="was sealed by another process"):
        catalog.seals.add(logs, kept, begun=begun)
    late = type(kept)(**{**{f: getattr(kept, f) for f in kept.__slots__}, "number": 2})
    with pytest.raises(Conflict, match="changed while it was sealed"):
        catalog.seals.add(logs, late, begun=begun)
    catalog.archives.delete("logs")
    with pytest.raises(Conflict, match="was deleted"):
        catalog.seals.add(logs, late, begun=begun)


def test_killed_between_the_object_and_its_row(workspace, catalog, logs, s3, s3_client, monkeypatch):
    """The object stays as a retry finds it: the same state of an hour has the same manifest under the same key."""
    catalog.chunks.commit(logs, [held(0, 1, 10)])
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(Seals, "add", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt))
        seal(workspace, logs, 0)
    (left,) = contents(s3_client, logs).values()
    assert unsealed(catalog, logs) == [0, 1, 2, 3, 4, 5]
    (again,) = seal(workspace, logs, 0)
    assert again.key == left
    assert contents(s3_client, logs) == {1: left}


@pytest.mark.parametrize("damage", [None, "manifest", "number"])
def test_nothing_is_sealed_into_a_folder_of_another_owner(workspace, catalog, logs, s3_client, damage):
    """As after `store claim` in another catalog. One GET a command, and none where nothing is to be written."""
    catalog.chunks.commit(logs, [held(0, 1, 10), held(1, 11, 20)])
    (zero,) = seal(workspace, logs, 0)
    if damage == "manifest":
        s3_client.delete_object(Bucket=zero.bucket, Key=zero.key)
    elif damage == "number":
        higher = zero.key.replace("manifest-0001-", "manifest-0004-")
        s3_client.put_object(Bucket=zero.bucket, Key=higher, Body=b"of another history")
    key = folder.owner_key(f"archive={logs.name}")
    other = folder.Owner(uuid4(), logs.name, logs.spec.stream).encode()
    s3_client.put_object(Bucket=zero.bucket, Key=key, Body=other)
    before = contents(s3_client, logs)
    if damage is None:
        assert list(repair_manifests(workspace, logs)) == []
    else:
        with pytest.raises(StoreError, match="another owner"):
            list(repair_manifests(workspace, logs))
    with pytest.raises(StoreError, match="another owner"):
        seal(workspace, logs, 1)
    assert contents(s3_client, logs) == before
    assert [s.number for s in catalog.seals.select(logs)] == [1]


@pytest.mark.parametrize("damage", [None, b"other bytes"])
def test_a_manifest_that_is_gone_is_written_again_as_it_was(workspace, catalog, logs, s3_client, damage):
    catalog.chunks.commit(logs, [held(0, 1, 10), held(1, 11, 20)])
    _, one = seal(workspace, logs, 0, 1)
    s3_client.delete_object(Bucket=one.bucket, Key=one.key)
    if damage:
        s3_client.put_object(Bucket=one.bucket, Key=one.key, Body=damage)
    (repaired,) = repair_manifests(workspace, logs)
    assert (repaired.key, repaired.sha256) == (one.key, one.sha256)
    assert [error for _, error in verify_seals(workspace, catalog.seals.select(logs))] == [None, None]
    assert [s.number for s in catalog.seals.select(logs)] == [1, 1]
    assert list(repair_manifests(workspace, logs)) == []


def test_a_manifest_that_is_gone_after_the_prefix_changed_is_sealed_again(workspace, catalog, logs, s3_client):
    catalog.chunks.commit(logs, [held(0, 1, 10)])
    (zero,) = seal(workspace, logs, 0)
    s3_client.delete_object(Bucket=zero.bucket, Key=zero.key)
    moved = replace(logs, spec=replace(logs.spec, prefix="elsewhere"))
    folder.claim(workspace, moved)
    (again,) = repair_manifests(workspace, moved)
    assert (again.number, again.key.startswith("elsewhere/")) == (2, True)
    assert [(s.number, s.valid) for s in catalog.seals.select(logs)] == [(2, True)]


def test_a_stray_manifest_with_a_higher_number_is_listed_and_sealed_over(workspace, catalog, logs, s3_client):
    """As after a restore of the catalog: the bucket has seals that the catalog does not know."""
    catalog.chunks.commit(logs, [held(0, 1, 10)])
    (zero,) = seal(workspace, logs, 0)
    stray = zero.key.replace("manifest-0001-", "manifest-0004-")
    s3_client.put_object(Bucket=zero.bucket, Key=stray, Body=b"of another history")
    (found,) = stray_manifests(workspace, logs)
    assert (found.key, found.hour, found.number, found.is_highest) == (stray, HOURS[0], 4, True)
    assert stray_manifests(workspace, logs, [HOURS[1]]) == []
    (again,) = repair_manifests(workspace, logs)
    assert again.number == max(contents(s3_client, logs)) == 5
    assert [f.is_highest for f in stray_manifests(workspace, logs)] == [False]
    assert list(repair_manifests(workspace, logs)) == []


def test_an_hour_is_sealed_above_the_numbers_in_the_bucket(workspace, catalog, logs, s3_client):
    catalog.chunks.commit(logs, [held(0, 1, 10)])
    (zero,) = seal(workspace, logs, 0)
    s3_client.put_object(Bucket=zero.bucket, Key=zero.key.replace("-0001-", "-0002-"), Body=b"of another history")
    catalog.chunks.commit(logs, [held(0, 11, 20)])
    (again,) = seal(workspace, logs, 0)
    assert again.number == 3
    catalog.chunks.commit(logs, [held(0, 21, 30)])
    assert [s.number for s in seal(workspace, logs, 0)] == [4]


def test_a_seal_whose_object_is_removed_meanwhile(workspace, catalog, logs, s3):
    """An archive of the same name was deleted and is purged: its manifest has the same bytes and key."""
    catalog.chunks.commit(logs, [held(0, 1, 10)])
    (kept,) = seal(workspace, logs, 0)
    catalog.archives.delete("logs")
    again = catalog.archives.create(logs.spec, state())
    folder.claim(workspace, again)
    catalog.chunks.commit(again, [held(0, 1, 10)])
    begun = catalog.now()
    assert catalog.removals.reserve(kept.bucket, [kept.key]) == (kept.key,)
    with pytest.raises(Conflict, match="is being removed"):
        catalog.seals.add(again, kept, begun=begun)
    catalog.removals.finish(kept.bucket, [kept.key])
    with pytest.raises(Conflict, match="is being removed"):
        catalog.seals.add(again, kept, begun=begun)
    (sealed,) = seal(workspace, again, 0)
    assert catalog.removals.reserve(kept.bucket, [sealed.key]) == ()


def test_a_seal_is_never_changed(workspace, catalog, logs, s3, postgres_url):
    seal(workspace, logs, 0)
    with psycopg.connect(postgres_url) as connection, pytest.raises(psycopg.errors.IntegrityError):
        connection.execute("update nats3.seal set messages = 1")
    with psycopg.connect(postgres_url) as connection, pytest.raises(psycopg.errors.IntegrityError):
        connection.execute("delete from nats3.seal")


def test_an_hour_is_closed_a_while_after_its_end():
    assert newest_closed(BEGIN + HOUR_NS) == hour_of(BEGIN - HOUR_NS)
    assert newest_closed(BEGIN + HOUR_NS + 40_000_000_000) == hour_of(BEGIN)


def test_hours_that_interleave_are_sealed(workspace, catalog, logs, s3):
    """Two servers' clocks: 101 was stored after the hour's end by the one, 102 before it by the other."""
    catalog.chunks.commit(logs, [held(0, 1, 100), held(1, 101, 101), held(0, 102, 102), held(1, 103, 110)])
    assert unsealed(catalog, logs, 110) == [0, 1, 2, 3, 4, 5]
    (zero,), (one,) = (manifest(s3, sealed).parts for sealed in seal(workspace, logs, 0, 1))
    assert (zero.first_seq, zero.last_seq, [c.first_seq for c in zero.chunks]) == (1, 102, [1, 102])
    assert zero.others == (ManifestOther(101, 101, HOURS[1]),)
    assert (one.first_seq, one.last_seq, [c.first_seq for c in one.chunks]) == (101, 110, [101, 103])
    assert one.others == (ManifestOther(102, 102, HOURS[0]),)


def test_a_hole_between_hours_that_interleave_blocks_both(catalog, logs):
    catalog.chunks.commit(logs, [held(1, 1, 100), held(2, 101, 101), held(1, 103, 103), held(2, 104, 110)])
    assert unsealed(catalog, logs) == [0, 3, 4, 5]


def test_a_loss_stands_in_every_hour_that_it_may_belong_to(workspace, catalog, logs, s3):
    lost = Gap(LOGS, ranges((11, 1000)), "expired")
    catalog.chunks.commit(logs, [held(0, 1, 10), held(3, 1001, 1010), held(4, 1011, 1020)], [lost])
    sealed = seal(workspace, logs, 0, 1, 2, 3, 4)
    assert [s.losses for s in sealed] == [990, 990, 990, 990, 0]
    gap = ManifestGap(11, 1000, "expired", HOURS[0], HOURS[3], BEGIN + 9, BEGIN + 3 * HOUR_NS)
    for one in sealed[:4]:
        (part,) = manifest(s3, one).parts
        assert part.gaps == (gap,)
    assert [(p.first_seq, p.last_seq) for s in sealed for p in manifest(s3, s).parts] == [
        (1, 1000),
        (11, 1000),
        (11, 1000),
        (11, 1010),
        (1011, 1020),
    ]
    report = status.hour(workspace, logs, HOURS[1])
    assert (report.losses, report.chunks) == (990, ())


def test_a_loss_behind_an_hour_that_was_sealed_is_not_its_own(workspace, catalog, logs):
    """A quiet stream: when the hours 0 and 1 were sealed, it had nothing more."""
    catalog.chunks.commit(logs, [held(0, 1, 10)])
    seal(workspace, logs, 0, 1)
    catalog.chunks.commit(logs, [held(3, 21, 30)], [Gap(LOGS, ranges((11, 20)), "expired")])
    assert [s.valid for s in catalog.seals.select(logs)] == [True, True]
    assert [s.losses for s in seal(workspace, logs, 2, 3)] == [10, 10]
    assert unsealed(catalog, logs) == [4, 5]


def test_a_loss_at_the_end_may_belong_to_each_hour_up_to_its_record(catalog, logs):
    catalog.coverage.observe(logs, replace(state(), last_seq=200, last_ns=BEGIN + 2 * HOUR_NS))
    catalog.chunks.commit(logs, [held(0, 1, 10)], [Gap(LOGS, ranges((11, 200)), "missing")])
    (part,) = catalog.hours.parts(logs, HOURS[2])
    (gap,) = part.gaps
    assert (gap.first_hour, gap.last_hour) == (HOURS[0], HOURS[2])
    assert (gap.after_ns, gap.before_ns) == (BEGIN + 9, BEGIN + 2 * HOUR_NS)


def test_an_hour_that_was_moved_out_is_sealed_as_retired(workspace, catalog, logs, s3):
    catalog.chunks.commit(logs, [held(0, 1, 10), held(1, 11, 20), held(2, 21, 30)])
    seal(workspace, logs, 0, 1, 2)
    catalog.chunks.retire(logs, [catalog.chunks.select(logs, hours=[HOURS[1]])[0].id])
    assert unsealed(catalog, logs) == [1, 3, 4, 5]
    (again,) = seal(workspace, logs, 1)
    assert (again.chunks, again.losses, again.gaps) == (0, 10, 10)
    (part,) = manifest(s3, again).parts
    assert part.gaps == (ManifestGap(11, 20, "retired", HOURS[1], HOURS[1], BEGIN + HOUR_NS, BEGIN + HOUR_NS + 9),)


def test_an_hour_sealed_as_empty_before_is_sealed_again_when_it_was_moved_out(workspace, catalog, logs):
    seal(workspace, logs, 1)
    catalog.chunks.commit(logs, [held(1, 1, 20)])
    catalog.chunks.retire(logs, [catalog.chunks.select(logs)[0].id])
    assert unsealed(catalog, logs) == [0, 1, 2, 3, 4, 5]


def test_a_bucket_that_is_gone_ends_the_sealing(workspace, catalog, logs, s3_client):
    """It is no failure of a single hour, and no hour counts as sealed."""
    catalog.chunks.commit(logs, [held(0, 1, 10), held(1, 11, 20), held(2, 21, 30)])
    seals = seal_hours(workspace, logs, HOURS[:3])
    assert next(seals).hour == FIRST
    for item in s3_client.list_objects_v2(Bucket=logs.spec.bucket)["Contents"]:
        s3_client.delete_object(Bucket=logs.spec.bucket, Key=item["Key"])
    s3_client.delete_bucket(Bucket=logs.spec.bucket)
    with pytest.raises(StoreError):
        next(seals)
    assert [one.hour for one in catalog.seals.select(logs)] == [FIRST]


def test_one_bad_hour_does_not_stop_the_others(workspace, catalog, logs):
    catalog.chunks.commit(logs, [held(0, 1, 10), held(1, 11, 20), held(1, 22, 30), held(2, 31, 40)])
    sealed = []
    with pytest.raises(ChunkError, match=f"Hour {HOURS[1]} of archive logs was not sealed: .*between 20 and 22"):
        sealed += seal_hours(workspace, logs, [HOURS[0], HOURS[1], HOURS[2]])
    assert [s.hour for s in catalog.seals.select(logs)] == [HOURS[0], HOURS[2]]
