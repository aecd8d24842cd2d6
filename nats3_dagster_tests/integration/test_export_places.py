"""Places of exports: each belongs to one export of one archive of one catalog."""

import gzip
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psycopg
import pytest

from nats3_dagster.archive.proof.seal import seal_hours
from nats3_dagster.archive.stored import folder
from nats3_dagster.errors import Conflict, OperatorError
from nats3_dagster.exports import declare, places
from nats3_dagster.exports.hour_export import export_hour
from nats3_dagster.exports.hours import attempt
from nats3_dagster.exports.job import ExportJob, Group, GroupResult
from nats3_dagster.exports.status import find
from nats3_dagster.hours import HOUR_NS as AN_HOUR
from nats3_dagster.hours import hour_of
from nats3_dagster.model import Archive, ExportResult, ExportSpec
from nats3_dagster.objects import StoreOptions, create_bucket
from nats3_dagster.pipeline.worker import export_group
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.catalog import HOUR, HOUR_NS, chunk, spec, state
from nats3_dagster_tests.support.exports import Case

NEXT = hour_of(HOUR_NS + AN_HOUR)


@pytest.fixture
def case(tmp_path: Path, s3: StoreOptions, bucket: str) -> Case:
    case = Case(tmp_path, s3, bucket)
    case.chunk(("orders.milano", b'{"id": 1}'), ("orders.napoli", b'{"id": 2}'))
    return case


@pytest.fixture
def to(tmp_path: Path) -> str:
    return f"file://{tmp_path}/files"


def make(workspace: Workspace, case: Case, name: str = "logs") -> Archive:
    """An archive with the chunk in a sealed hour."""
    archive = workspace.catalog.archives.create(spec(name, bucket=case.bucket), state(last=2))
    folder.claim(workspace, archive)
    workspace.catalog.chunks.commit(archive, [one.meta for one in case.chunks])
    list(seal_hours(workspace, archive, [HOUR]))
    return archive


def run(workspace: Workspace, name: str = "files", hour: str = HOUR, archive: str = "logs") -> ExportResult:
    """Export the hour as the catalog declares it, and record it."""
    row, export = find(workspace, archive, name)
    return attempt(workspace, row, export, hour, lambda: export_hour(workspace, row, export.spec, hour, perform))


def perform(tasks: Any) -> tuple[list[GroupResult], None]:
    return [result for task in tasks for result in export_group(task)], None


def declared(to: str, name: str = "files", **fields: Any) -> ExportSpec:
    return ExportSpec(name, to, **{"decode": "json", **fields})


def files(to: str) -> dict[str, bytes]:
    root = Path(to.removeprefix("file://"))
    found = {str(path.relative_to(root)): path for path in sorted(root.rglob("*")) if path.is_file()}
    return {name: gzip.decompress(path.read_bytes()) for name, path in found.items() if "_exports/" not in name}


BOTH = b'{"id": 1}\n{"id": 2}\n'


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({}, {}),
        ({}, {"destination": "/in"}),
        ({"destination": "/in"}, {}),
        ({}, {"format": "csv"}),
        ({"path": "a/{key}/{date}{hour}{part}"}, {"destination": "/a"}),
        ({"path": "{archive}/{key}/{date}{hour}{part}"}, {"path": "logs/{key}/{date}{hour}{part}"}),
        ({"path": "a-{key}/{date}{hour}{part}"}, {"path": "b-{key}/{date}{hour}{part}"}),
    ],
)
def test_no_two_exports_have_one_place(
    workspace: Workspace, case: Case, to: str, first: dict[str, str], second: dict[str, str]
) -> None:
    make(workspace, case)
    one, two = (
        declared(to + fields.pop("destination", ""), name, **fields)
        for name, fields in (("one", dict(first)), ("two", dict(second)))
    )
    declare.create(workspace, "logs", one)
    with pytest.raises(OperatorError, match="would write to .* and export one of archive logs writes") as refused:
        declare.create(workspace, "logs", two)
    assert refused.value.field == "destination"
    # Nor by a change.
    declare.create(workspace, "logs", declared(f"{to}2", "two"))
    with pytest.raises(OperatorError, match="and export one of archive logs writes"):
        declare.change(workspace, "logs", "two", {"destination": two.destination, "path": two.path})
    declare.delete(workspace, "logs", "one")
    assert declare.change(workspace, "logs", "two", {"destination": two.destination, "path": two.path}).differences


@pytest.mark.parametrize("scheme", ["s3", "az", "gs"])
def test_an_export_needs_the_bucket_that_it_goes_to(
    workspace: Workspace, case: Case, scheme: str, request: pytest.FixtureRequest
) -> None:
    make(workspace, case)
    if scheme != "s3":
        request.getfixturevalue(scheme)
    to = f"{scheme}://new-{case.bucket}/out"
    name = to.removesuffix("/out").removeprefix("s3://")
    with pytest.raises(OperatorError, match=f"The destination's bucket '{name}' does not exist in ") as refused:
        declare.create(workspace, "logs", declared(to))
    assert refused.value.field == "destination"
    assert workspace.catalog.exports.all(workspace.catalog.archives.get("logs")) == ()
    create_bucket(workspace.settings.store, name)
    declare.create(workspace, "logs", declared(to))
    with pytest.raises(OperatorError, match="The destination's bucket '.*gone' does not exist in "):
        declare.change(workspace, "logs", "files", {"destination": f"{scheme}://gone/out"})


def test_a_store_that_does_not_answer_refuses_no_export(
    workspace: Workspace, case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another machine may be the one that exports, with another network and login."""
    make(workspace, case)
    monkeypatch.setenv("AZURE_STORAGE_SERVICE_ENDPOINT", "http://127.0.0.1:9/me")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT", "me")
    monkeypatch.setenv("AZURE_STORAGE_KEY", "a2V5")
    assert declare.create(workspace, "logs", declared("az://archive/out")).export.name == "files"


def test_exports_beside_one_another_share_a_destination(workspace: Workspace, case: Case, to: str) -> None:
    make(workspace, case)
    path = "{archive}/{export}/{key}/{date}{hour}{part}.{ext}"
    for name in ("one", "two", "on"):
        declare.create(workspace, "logs", declared(to, name, path=path))
        assert run(workspace, name).written == 1
    assert files(to) == {f"logs/{name}/all/2026-11-210700000.ndjson.gz": BOTH for name in ("one", "two", "on")}


def test_an_export_that_is_declared_again_goes_on_with_its_files(workspace: Workspace, case: Case, to: str) -> None:
    make(workspace, case)
    declare.create(workspace, "logs", declared(to))
    run(workspace)
    declare.delete(workspace, "logs", "files")
    declare.create(workspace, "logs", declared(to, key="subject:2"))
    assert (run(workspace).removed, len(files(to))) == (1, 2)
    # Another name is another export.
    declare.delete(workspace, "logs", "files")
    declare.create(workspace, "logs", declared(to, "other"))
    with pytest.raises(Conflict, match="belongs to export files of archive logs, and its files are not those of expor"):
        run(workspace, "other")
    assert len(files(to)) == 2
    row, other = find(workspace, "logs", "other")
    taken = places.take_over(workspace, row, other)
    assert taken
    assert (taken.former.export, taken.hours) == ("files", 1)
    assert (run(workspace, "other").removed, list(files(to).values())) == (2, [BOTH])
    assert places.take_over(workspace, row, other) is None


def test_an_archive_that_is_made_again_does_not_write_beside_the_former_ones_files(
    workspace: Workspace, case: Case, to: str
) -> None:
    """Until it is told to: then each hour that it makes replaces the former one's, and the others stay."""
    former = make(workspace, case)
    later = HOUR_NS + AN_HOUR
    case.chunk(("orders.roma", b'{"id": 3}'))
    meta = case.chunks[-1].meta
    other_hour = chunk(
        3,
        3,
        bucket=case.bucket,
        hour=NEXT,
        first_ns=later,
        last_ns=later,
        key=meta.key,
        sha256=meta.sha256,
        stored_bytes=meta.stored_bytes,
    )
    workspace.catalog.chunks.commit(former, [other_hour])
    list(seal_hours(workspace, former, [NEXT]))
    declare.create(workspace, "logs", declared(to))
    run(workspace)
    before = files(to)
    workspace.catalog.archives.delete("logs")
    case.chunks.pop()
    make(workspace, case)
    declare.create(workspace, "logs", declared(to, key="subject:2"))
    row, export = find(workspace, "logs", "files")
    owner = places.other_owner(workspace, row, export)
    assert owner
    assert (owner.archive_id, owner.archive) == (str(former.job_id), "logs")
    for _ in range(2):
        with pytest.raises(Conflict, match=f"export files of another archive logs .{former.job_id}") as refused:
            run(workspace)
        assert "take the place over" in str(refused.value.hint)
    assert files(to) == before
    taken = places.take_over(workspace, row, export)
    assert taken
    assert taken.hours == 1
    assert run(workspace).removed == 1
    assert sorted(files(to).values()) == [b'{"id": 1}\n', b'{"id": 2}\n']


def test_a_place_that_is_taken_over_during_a_run_fails_it(workspace: Workspace, case: Case, to: str) -> None:
    make(workspace, case)
    make(workspace, Case(case.out.parent / "more", case.store, case.bucket), "other")
    declare.create(workspace, "logs", declared(to))
    run(workspace)

    def slowly(tasks: Sequence[tuple[ExportJob, Group]]) -> tuple[list[GroupResult], None]:
        done = perform(tasks)
        declare.delete(workspace, "logs", "files")
        declare.create(workspace, "other", declared(to))
        assert places.take_over(workspace, *find(workspace, "other", "files"))
        return done

    logs = workspace.catalog.archives.get("logs")
    with pytest.raises(Conflict, match="changed its owner while .* it belongs to export files of archive other now"):
        export_hour(workspace, logs, declared(to, format="csv"), HOUR, slowly)
    assert list(files(to).values()) == [BOTH]


def test_a_run_that_lost_its_lock_puts_no_file_in_place(workspace: Workspace, case: Case, to: str) -> None:
    """Another process may export the hour by then."""
    make(workspace, case)
    declare.create(workspace, "logs", declared(to))
    row, export = find(workspace, "logs", "files")

    def slowly(tasks: Sequence[tuple[ExportJob, Group]]) -> tuple[list[GroupResult], None]:
        done = perform(tasks)
        with psycopg.connect(workspace.settings.postgres, autocommit=True) as connection:
            held = connection.execute(
                "select pg_terminate_backend(pid) from pg_locks where locktype = 'advisory' and pid <> pg_backend_pid()"
            ).fetchall()
        assert held
        return done

    with pytest.raises(Conflict, match="The lock of .* was lost with its connection"):
        attempt(workspace, row, export, HOUR, lambda: export_hour(workspace, row, export.spec, HOUR, slowly))
    assert files(to) == {}
    assert run(workspace).written == 1
