"""Removals: an object that is going away cannot be part of an archive."""

import pytest

from nats3_dagster.errors import Conflict
from nats3_dagster_tests.support.catalog import chunk, spec, state


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
    assert catalog.removals.claim("archive", [first.key, second.key]) == (first.key, second.key)
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
    assert catalog.removals.claim("archive", [meta.key, lost.key, "orphan"]) == (lost.key, "orphan")
    # The same key in another bucket is another object.
    assert catalog.removals.claim("other", [meta.key]) == (meta.key,)


def test_a_chunk_whose_object_is_being_removed_is_refused_until_that_has_ended(catalog, logs):
    meta = chunk(1, 10)
    catalog.removals.claim(meta.bucket, [meta.key])
    with pytest.raises(Conflict, match=f"{meta.key} of archive logs is being deleted.*Run it again"):
        catalog.chunks.commit(logs, [meta])
    catalog.removals.finish(meta.bucket, [meta.key])
    catalog.chunks.commit(logs, [meta])
    assert len(catalog.chunks.select(logs)) == 1


def test_a_chunk_whose_object_was_removed_while_it_was_made_is_refused(catalog, logs):
    meta = chunk(1, 10)
    begun = catalog.now()
    catalog.removals.claim(meta.bucket, [meta.key])
    catalog.removals.finish(meta.bucket, [meta.key])
    with pytest.raises(Conflict, match="was removed from the store while this ran"):
        catalog.chunks.commit(logs, [meta], begun=begun)
    catalog.chunks.commit(logs, [meta], begun=catalog.now())
    # And it can be removed once more.
    catalog.chunks.retire(logs, [catalog.chunks.select(logs)[0].id])
    assert _keys(catalog) == [meta.key]
    assert catalog.removals.claim(meta.bucket, [meta.key]) == (meta.key,)
