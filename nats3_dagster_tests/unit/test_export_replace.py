"""Replacing an hour's files: the same again changes nothing, and a run killed anywhere is made up by the next."""

import json
from contextlib import nullcontext
from dataclasses import replace

import pytest

from nats3_dagster import fault_points
from nats3_dagster.errors import Conflict, OperatorError, StoreError
from nats3_dagster.exports.job import OWNER_PATH
from nats3_dagster.exports.manifest import manifest_path, read_manifest
from nats3_dagster.exports.places import Former, Owner
from nats3_dagster.objects import Outlet
from nats3_dagster_tests.support.catalog import HOUR
from nats3_dagster_tests.support.exports import ARCHIVE_ID, OWN, Case

MANIFEST = f"{OWN}/2026-11-21-07.json"


@pytest.fixture
def case(tmp_path):
    case = Case(tmp_path)
    case.chunk(("x.a", b'{"n": 1}'), ("x.b", b'{"n": 2}'), ("x.a", b'{"n": 3}'))
    return case


@pytest.fixture(autouse=True)
def _disarmed():
    yield
    fault_points.arm("")


def run(case, **fields):
    return case.run(**{"decode": "json", "key": "subject:2", **fields})


def times(case):
    return {p: p.stat().st_mtime_ns for p in case.out.rglob("*") if p.is_file()}


@pytest.mark.parametrize("form", ["ndjson", "csv", "parquet", "raw", "messages"])
@pytest.mark.parametrize("compression", ["gzip", "zstd"])
def test_a_run_again_makes_the_same_files_and_writes_none(case, form, compression):
    first = run(case, format=form, compression=compression)
    before, written = case.everything(), times(case)
    again = run(case, format=form, compression=compression)
    assert (first.files, first.written, again.files, again.written, again.removed) == (2, 2, 2, 0, 0)
    assert (case.everything(), times(case)) == (before, written)


def test_the_bytes_of_a_file_follow_from_its_messages(case, tmp_path):
    run(case, format="parquet")
    other = Case(tmp_path / "other")
    other.chunk(("x.a", b'{"n": 1}'), ("x.b", b'{"n": 2}'), ("x.a", b'{"n": 3}'))
    run(other, format="parquet")
    assert case.everything() == other.everything()


def test_the_manifest_says_what_the_run_did(case):
    run(case)
    document = json.loads(case.everything()[MANIFEST])
    assert {name: document[name] for name in ("archive", "export", "hour", "is_done", "messages", "undecoded")} == {
        "archive": "logs",
        "export": "files",
        "hour": HOUR,
        "is_done": True,
        "messages": 3,
        "undecoded": 0,
    }
    counts = [(file["messages"], file["first_seq"], file["last_seq"]) for file in document["files"]]
    assert counts == [(2, 1, 3), (1, 2, 2)]
    assert {file["path"] for file in document["files"]} == set(case.files())


def test_files_that_are_made_no_more_are_removed(case):
    run(case)
    result = run(case, key=None)
    assert (result.files, result.written, result.removed) == (1, 1, 2)
    assert len(case.files()) == 1
    case.chunk(("x.a", b'{"n": 4}'))
    assert (run(case, key=None).written, len(case.files())) == (1, 1)
    assert [line["n"] for line in case.lines()] == [1, 2, 3, 4]


def test_a_file_that_somebody_removed_comes_back(case):
    run(case)
    before = case.everything()
    next(case.out.glob("key=a/**/*.gz")).unlink()
    assert run(case).written == 1
    assert case.everything() == before


def test_a_file_that_another_program_replaced_comes_back(case):
    """By one of the same size."""
    run(case, compression="none")
    before = case.everything()
    path = next(case.out.glob("key=a/**/*.ndjson"))
    path.write_bytes(path.read_bytes().replace(b"1", b"7"))
    assert run(case, compression="none").written == 1
    assert case.everything() == before


def test_no_file_of_somebody_else_is_replaced(case):
    plan = case.plan(decode="json", path="{date}/{hour}/{part}.ndjson")
    mine = case.out / "2026-11-21" / "07" / "00000.ndjson"
    mine.parent.mkdir(parents=True)
    mine.write_bytes(b"mine")
    with pytest.raises(Conflict, match="00000.ndjson is at the destination already, and no file of this export"):
        case.run(decode="json", path=plan.job.spec.path)
    assert mine.read_bytes() == b"mine"


def test_a_manifest_of_something_else_is_not_believed(case):
    run(case)
    (case.out / MANIFEST).write_text('{"version": 1}')
    with pytest.raises(StoreError, match="is not a manifest of this export"):
        run(case)


STEPS = ["staged", "replacing", "moved", "moved:raise:2", "removed", "removed:raise:2", "done"]


@pytest.mark.parametrize("step", STEPS)
def test_a_run_killed_at_any_step_is_made_up_by_the_next(case, step, tmp_path):
    """Also where the next run is one of another split."""
    expected = Case(tmp_path / "expected")
    expected.chunk(("x.a", b'{"n": 1}'), ("x.b", b'{"n": 2}'), ("x.a", b'{"n": 3}'))
    expected.run(decode="json", key="field:n")
    run(case)
    fault_points.arm(f"export.{step if ':' in step else step + ':raise'}")
    with pytest.raises(fault_points.InjectedFault):
        run(case, key="field:n")
    fault_points.arm("")
    names = set(case.files())
    manifest = read_manifest(Outlet(case.plan().job.outlet), "logs", "files", HOUR)
    assert manifest
    assert names <= {file.path for file in manifest.files}
    assert run(case, key="field:n").files == 3
    assert case.everything() == expected.everything()
    run(case)
    fault_points.arm(f"export.{step if ':' in step else step + ':raise'}")
    with pytest.raises(fault_points.InjectedFault):
        run(case, key="field:n")
    fault_points.arm("")
    assert run(case, key=None).files == 1
    assert len(case.files()) == 1


@pytest.mark.parametrize("checks", range(8))
def test_a_run_that_is_not_alone_any_more_changes_nothing_from_then_on(case, checks):
    """It looks before the manifest, before each of three files that come and two that go, and before the manifest that
    says that it is done. Until that one, the manifest names all that may be there."""
    run(case)
    before, left = case.everything(), checks

    def check_alone():
        nonlocal left
        left -= 1
        if left < 0:
            raise Conflict("Another process exports the hour", "")

    with pytest.raises(Conflict) if checks < 7 else nullcontext():
        run(case, check_alone=check_alone, key="field:n")
    names, manifest = set(case.files()), read_manifest(Outlet(case.plan().job.outlet), "logs", "files", HOUR)
    assert manifest is not None
    old = set(before) & names
    came, went = min(max(checks - 1, 0), 3), min(max(checks - 4, 0), 2)
    assert (len(names - old), len(old), manifest.is_done) == (came, 2 - went, checks in {0, 7})
    assert names <= {file.path for file in manifest.files}
    assert len(manifest.files) == {0: 2, 7: 3}.get(checks, 5)
    assert checks or {p: d for p, d in case.everything().items() if "/staging/" not in p} == before


def manifest_of(case):
    return read_manifest(Outlet(case.plan().job.outlet), "logs", "files", HOUR)


def own(case, *former, archive_id=ARCHIVE_ID):
    """The place belongs to the export; with another archive's id, to another one."""
    (case.out / OWNER_PATH).write_bytes(Owner(archive_id, "logs", "files", former).encode())


@pytest.mark.parametrize("check", [1, 7])
def test_a_place_that_changes_its_owner_ends_the_run(case, check):
    """Before the first file is touched, and before the hour counts as done."""
    run(case)
    before, checks = case.files(), 0

    def check_alone():
        nonlocal checks
        checks += 1
        if checks == check:
            own(case, archive_id="of somebody else")

    with pytest.raises(Conflict, match="changed its owner"):
        run(case, check_alone=check_alone, key="field:n")
    assert (case.files() == before) is (check == 1)


def test_the_manifest_names_files_before_they_go_also_where_none_comes(case):
    case.chunk(("x.c", b'{"n": 4}'))
    run(case)
    whole = set(case.files())
    case.chunks.pop()
    fault_points.arm("export.replacing:raise")
    with pytest.raises(fault_points.InjectedFault):
        run(case)
    manifest = manifest_of(case)
    assert manifest is not None
    assert (manifest.is_done, {file.path for file in manifest.files}) == (False, whole)
    fault_points.arm("")
    result = run(case)
    assert (result.files, result.removed) == (2, 1)


def test_the_counts_of_the_hour_are_those_of_the_last_run_also_where_no_file_changes(case):
    case.chunk(("x.a", b"text"))
    run(case, max_undecoded=1)
    before = case.files()
    case.chunk(("x.a", b"other"))
    result = run(case, max_undecoded=2)
    manifest = manifest_of(case)
    assert manifest is not None
    assert (result.written, result.removed, manifest.undecoded, manifest.is_done) == (0, 0, 2, True)
    assert case.files() == before


def test_files_of_a_former_owner_of_the_place_go_with_its_manifest(case):
    """One of the former owners had the same names: its manifest is the one of the export itself."""
    run(case)
    manifest, path = manifest_of(case), case.out / manifest_path("before", "theirs", HOUR)
    assert manifest is not None
    path.parent.mkdir(parents=True)
    path.write_bytes(replace(manifest, archive="before", export="theirs").encode())
    (case.out / MANIFEST).unlink()
    own(case, Former("before", "theirs"), Former("logs", "files"), Former("before", "none"))
    result = run(case, key=None)
    assert (result.files, result.written, result.removed, len(case.files())) == (1, 1, 2, 1)
    assert not path.exists()
    again = run(case, key=None)
    assert (again.files, again.written, again.removed) == (1, 0, 0)


def test_a_file_of_a_run_that_did_not_end_is_written_again(case):
    """Its bytes are those of the manifest by their number alone."""
    run(case, compression="none")
    before = case.everything()
    path = next(case.out.glob("key=a/**/*.ndjson"))
    manifest = manifest_of(case)
    assert manifest is not None
    (case.out / MANIFEST).write_bytes(replace(manifest, is_done=False).encode())
    path.write_bytes(path.read_bytes()[:-2] + b"!\n")
    assert run(case, compression="none").written == 2
    assert case.everything() == before


def test_what_a_killed_run_staged_is_removed(case):
    fault_points.arm("export.staged:raise")
    with pytest.raises(fault_points.InjectedFault):
        run(case)
    assert [path for path in case.everything() if "/staging/" in path]
    fault_points.arm("")
    run(case)
    assert not [path for path in case.everything() if "/staging/" in path]


def test_undecoded_messages_of_an_earlier_run_go_when_they_decode(case):
    case.chunk(("x.a", b"text"))
    run(case, max_undecoded=1)
    assert len(case.undecoded()) == 1
    run(case, decode="text")
    assert case.undecoded() == []


def test_two_files_of_one_path_are_refused(case, monkeypatch):
    """A rule of the path template holds it; should that ever fail, nothing is written over."""
    monkeypatch.setattr("nats3_dagster.exports.group_export.file_path", lambda *_: "same")
    with pytest.raises(OperatorError, match="Two files of the export files have the path same"):
        run(case)
    assert case.files() == {}
