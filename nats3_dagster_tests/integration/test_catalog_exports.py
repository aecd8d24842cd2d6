"""Exports in the catalog: declarations, and which hours are due."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from nats3_dagster.catalog import Catalog
from nats3_dagster.errors import Conflict, Unknown
from nats3_dagster.model import Archive, Gap
from nats3_dagster.model.export import Export
from nats3_dagster_tests.support.catalog import HOUR, HOUR_NS, LOGS, chunk, ranges, spec, state
from nats3_dagster_tests.support.declared_exports import NEXT, declared, export, only, seal


@pytest.fixture
def logs(catalog: Catalog) -> Archive:
    return catalog.archives.create(spec(), state(last=10_000))


@pytest.fixture
def pizza(catalog: Catalog, logs: Archive) -> Export:
    return catalog.exports.create(logs, declared())


def states(catalog: Catalog, archive: Archive, of: Export) -> dict[str, str]:
    return {one.hour: one.state for one in catalog.exports.hours(archive, of)}


def test_a_declaration_comes_back_as_it_was_given(catalog: Catalog, logs: Archive, pizza: Export) -> None:
    assert catalog.exports.get(logs, "pizza") == pizza
    assert pizza.spec == declared()
    assert catalog.exports.all() == catalog.exports.all(logs) == (pizza,)
    with pytest.raises(Conflict, match="has an export pizza already"):
        catalog.exports.create(logs, declared(format="ndjson", columns=()))
    with pytest.raises(Unknown, match="has no export pizzas") as unknown:
        catalog.exports.get(logs, "pizzas")
    assert "pizza" in str(unknown.value.hint)


def test_a_change_is_of_what_was_seen(catalog: Catalog, logs: Archive, pizza: Export) -> None:
    other = declared(max_undecoded=5)
    changed = catalog.exports.change(logs, pizza, other)
    assert (changed.spec, changed.version, changed.id) == (other, 2, pizza.id)
    with pytest.raises(Conflict, match="Another process changed or deleted export pizza"):
        catalog.exports.change(logs, pizza, declared(max_undecoded=6))
    assert catalog.exports.get(logs, "pizza") == changed


def test_a_deleted_one_frees_its_name(catalog: Catalog, logs: Archive, pizza: Export) -> None:
    catalog.exports.delete(logs, pizza)
    catalog.exports.delete(logs, pizza)
    assert catalog.exports.all(logs) == ()
    again = catalog.exports.create(logs, declared())
    assert again.id != pizza.id
    assert catalog.exports.deleted_names() == {("logs", "pizza")}


def test_an_archive_takes_its_exports_with_it(catalog: Catalog, logs: Archive, pizza: Export) -> None:
    catalog.archives.delete("logs")
    assert catalog.exports.all() == ()
    with pytest.raises(Conflict, match="Archive logs was deleted"):
        catalog.exports.create(logs, declared("other"))


def test_sealed_hours_are_due_until_they_are_exported(catalog: Catalog, logs: Archive, pizza: Export) -> None:
    catalog.chunks.commit(logs, [chunk(1, 10)])
    assert states(catalog, logs, pizza) == {}
    seal(catalog, logs)
    # An hour without messages too.
    seal(catalog, logs, NEXT)
    assert states(catalog, logs, pizza) == {HOUR: "due", NEXT: "due"}
    export(catalog, logs, pizza)
    assert states(catalog, logs, pizza) == {HOUR: "done", NEXT: "due"}
    found = only(catalog, logs, pizza)
    assert found.made is not None
    assert (found.made.messages, found.made.undecoded, found.made.files) == (10, 1, 2)
    export(catalog, logs, pizza, NEXT)
    assert states(catalog, logs, pizza) == {HOUR: "done", NEXT: "done"}
    totals = catalog.exports.totals()[pizza.id]
    assert (totals.hours, totals.messages, totals.undecoded, totals.last_hour) == (2, 10, 2, NEXT)


@pytest.mark.parametrize("what", ["late", "recaptured", "loss"])
def test_an_hour_that_changes_is_due_again(catalog: Catalog, logs: Archive, pizza: Export, what: str) -> None:
    catalog.chunks.commit(logs, [chunk(1, 10), chunk(11, 20)])
    seal(catalog, logs)
    export(catalog, logs, pizza)
    if what == "late":
        catalog.chunks.commit(logs, [chunk(21, 30)])
    elif what == "recaptured":
        catalog.chunks.retire(logs, [catalog.chunks.select(logs)[0].id], recapture=True)
    else:
        gap = Gap(LOGS, ranges((21, 30)), "missing")
        catalog.chunks.commit(logs, [chunk(31, 40, first_ns=HOUR_NS + 40, last_ns=HOUR_NS + 41)], [gap])
    # Not due: it is not sealed as it is now.
    assert states(catalog, logs, pizza) == {HOUR: "changed"}
    seal(catalog, logs)
    assert states(catalog, logs, pizza) == {HOUR: "due"}
    export(catalog, logs, pizza)
    assert states(catalog, logs, pizza) == {HOUR: "done"}


def test_an_hour_of_two_incarnations_that_loses_one_is_due(catalog: Catalog, logs: Archive, pizza: Export) -> None:
    """The hour's revision is that of the newer one, and stays."""
    second = replace(LOGS, created_ns=LOGS.created_ns + 1)
    catalog.chunks.commit(logs, [chunk(1, 10)])
    catalog.coverage.begin(logs, state(second, last=100))
    catalog.chunks.commit(logs, [chunk(1, 10, incarnation=second)])
    seal(catalog, logs)
    export(catalog, logs, pizza)
    catalog.chunks.retire(logs, [catalog.chunks.select(logs)[0].id], recapture=True)
    seal(catalog, logs)
    assert states(catalog, logs, pizza) == {HOUR: "due"}


def due_hours(catalog: Catalog) -> int:
    (lag,) = catalog.exports.lags()
    return lag.due + lag.failed


@pytest.mark.parametrize("chunks", [1, 2])
def test_an_hour_whose_exported_chunks_are_retired_stays_done(
    catalog: Catalog, logs: Archive, pizza: Export, chunks: int
) -> None:
    """Its files have the only copy of these messages."""
    catalog.chunks.commit(logs, [chunk(1, 10), chunk(11, 20)])
    seal(catalog, logs)
    export(catalog, logs, pizza)
    catalog.chunks.retire(logs, [row.id for row in catalog.chunks.select(logs)][:chunks])
    assert states(catalog, logs, pizza) == {HOUR: "done"}
    seal(catalog, logs)
    assert states(catalog, logs, pizza) == {HOUR: "done"}
    assert (due_hours(catalog), only(catalog, logs, pizza).retired_messages) == (0, 10 * chunks)
    # What comes late is not in the files, and they cannot be made again.
    catalog.chunks.commit(logs, [chunk(21, 30)])
    seal(catalog, logs)
    assert (states(catalog, logs, pizza), due_hours(catalog)) == ({HOUR: "retired"}, 0)


def test_an_hour_whose_chunks_are_retired_before_its_export_is_never_due(
    catalog: Catalog, logs: Archive, pizza: Export
) -> None:
    catalog.chunks.commit(logs, [chunk(1, 10), chunk(11, 20)])
    seal(catalog, logs)
    catalog.chunks.retire(logs, [catalog.chunks.select(logs)[0].id])
    assert states(catalog, logs, pizza) == {HOUR: "retired"}
    seal(catalog, logs)
    assert (states(catalog, logs, pizza), due_hours(catalog)) == ({HOUR: "retired"}, 0)
    # Also after it was exported without them.
    export(catalog, logs, pizza)
    assert states(catalog, logs, pizza) == {HOUR: "retired"}


def test_an_hour_that_was_being_replaced_when_its_chunks_were_retired_is_not_done(
    catalog: Catalog, logs: Archive, pizza: Export
) -> None:
    catalog.chunks.commit(logs, [chunk(1, 10)])
    seal(catalog, logs)
    export(catalog, logs, pizza)
    catalog.exports.reopen(logs, pizza, HOUR)
    catalog.chunks.retire(logs, [catalog.chunks.select(logs)[0].id])
    assert states(catalog, logs, pizza) == {HOUR: "retired"}


def test_a_chunk_that_was_replaced_before_it_was_retired_counts_once(
    catalog: Catalog, logs: Archive, pizza: Export
) -> None:
    catalog.chunks.commit(logs, [chunk(1, 10), chunk(11, 20)])
    catalog.chunks.replace(
        logs, [row.id for row in catalog.chunks.select(logs)], [chunk(1, 20)], [], begun=datetime.now(UTC)
    )
    seal(catalog, logs)
    export(catalog, logs, pizza)
    catalog.chunks.retire(logs, [catalog.chunks.select(logs)[0].id])
    seal(catalog, logs)
    assert states(catalog, logs, pizza) == {HOUR: "done"}
    assert only(catalog, logs, pizza).retired_messages == 20


def test_failures_are_counted_until_one_succeeds(catalog: Catalog, logs: Archive, pizza: Export) -> None:
    catalog.chunks.commit(logs, [chunk(1, 10)])
    seal(catalog, logs)
    for _ in range(2):
        catalog.exports.record_failure(logs, pizza, HOUR, "operator", "3 messages do not decode\0")
    found = only(catalog, logs, pizza)
    assert found.state == "failed"
    assert found.failed is not None
    assert (found.failed.times, found.failed.error) == (2, "3 messages do not decode")
    assert catalog.exports.totals()[pizza.id].failed == 1
    export(catalog, logs, pizza)
    found = only(catalog, logs, pizza)
    assert (found.state, found.failed) == ("done", None)


def test_what_was_made_stays_when_the_next_attempt_fails(catalog: Catalog, logs: Archive, pizza: Export) -> None:
    catalog.chunks.commit(logs, [chunk(1, 10)])
    seal(catalog, logs)
    export(catalog, logs, pizza)
    catalog.exports.record_failure(logs, pizza, HOUR, "store", "the store is down")
    found = only(catalog, logs, pizza)
    assert (found.state, found.made is None, found.failed is None) == ("done", False, False)


def test_nothing_is_recorded_of_an_export_that_is_gone(catalog: Catalog, logs: Archive, pizza: Export) -> None:
    catalog.chunks.commit(logs, [chunk(1, 10)])
    seal(catalog, logs)
    catalog.exports.delete(logs, pizza)
    with pytest.raises(Conflict, match="was deleted while hour"):
        export(catalog, logs, pizza)


def test_an_hour_whose_files_are_being_replaced_is_due(catalog: Catalog, logs: Archive, pizza: Export) -> None:
    catalog.chunks.commit(logs, [chunk(1, 10)])
    seal(catalog, logs)
    catalog.exports.reopen(logs, pizza, HOUR)
    export(catalog, logs, pizza)
    catalog.exports.reopen(logs, pizza, HOUR)
    assert states(catalog, logs, pizza) == {HOUR: "due"}
    export(catalog, logs, pizza)
    assert states(catalog, logs, pizza) == {HOUR: "done"}


def test_the_version_of_an_archive_grows_with_its_exports(catalog: Catalog, logs: Archive) -> None:
    seen: list[int] = []

    def grows() -> None:
        (version,) = catalog.archives.versions()
        seen.append(version.exports)

    grows()
    pizza = catalog.exports.create(logs, declared())
    grows()
    catalog.chunks.commit(logs, [chunk(1, 10)])
    seal(catalog, logs)
    export(catalog, logs, pizza)
    grows()
    assert catalog.exports.changes(pizza) == {HOUR: seen[-1]}
    export(catalog, logs, pizza)
    grows()
    catalog.exports.delete(logs, pizza)
    grows()
    assert seen == sorted(set(seen))
    assert seen[0] == 0
