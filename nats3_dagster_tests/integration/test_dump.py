"""A catalog as one file: written while captures go on, loaded whole or not at all."""

from pathlib import Path

import psycopg
import pytest
import zstandard

from nats3_dagster import fault_points
from nats3_dagster.archive.proof.seal import seal_hours
from nats3_dagster.catalog import migrate
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.commands import Command
from nats3_dagster_tests.support.recovery import HOURS, new_archive, put, tables


def test_a_dump_is_one_moment_and_a_load_all_of_it_or_nothing(
    workspace: Workspace,
    bucket: str,
    postgres_url: str,
    empty_postgres_url: str,
    nats3: Command,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    archive = new_archive(workspace, bucket)
    workspace.catalog.chunks.commit(archive, [put(workspace, archive, HOURS[0], (1, 10), absent=[4])])
    assert len(list(seal_hours(workspace, archive, HOURS[:1]))) == 1
    before, commits = tables(postgres_url), list[int]()

    # A capture commits while the dump is between two tables.
    def commit(name: str) -> None:
        if name == "dump.table":
            commits.append(10 * len(commits) + 11)
            workspace.catalog.chunks.commit(
                archive, [put(workspace, archive, HOURS[1], (commits[-1], commits[-1] + 9))]
            )

    file = tmp_path / "nats3.dump"
    with monkeypatch.context() as patch:
        patch.setattr("nats3_dagster.catalog.recovery.dump.fault_point", commit)
        dumped = nats3.ok("catalog", "dump", str(file), "-o", "json").json
    assert len(commits) > 10
    assert (dumped["rows"]["chunk"], dumped["rows"]["archive"], file.stat().st_mode & 0o777) == (1, 1, 0o600)
    assert "There is a file" in nats3.refused("catalog", "dump", str(file))

    migrate(empty_postgres_url)
    empty = tables(empty_postgres_url)
    monkeypatch.setenv("NATS3_POSTGRES_URL", empty_postgres_url)
    whole = zstandard.ZstdDecompressor().decompressobj().decompress(file.read_bytes())
    bad, compress = tmp_path / "bad.dump", zstandard.ZstdCompressor().compress
    cases = [
        (file.read_bytes()[:-20], "not whole"),
        (b"no dump", "not a dump"),
        (compress(whole.replace(b'"schema": "0102"', b'"schema": "0099"')), "The dump is of schema 0099"),
        # Rows that add up to other sums, with the digest of the rows that were there.
        (compress(whole.replace(b"log.1\t3", b"log.1\t4")), "its own digest"),
    ]
    for data, said in cases:
        bad.write_bytes(data)
        assert said in nats3.refused("catalog", "load", str(bad)), said
        assert tables(empty_postgres_url) == empty
    for step in ("load.table", "load.before_commit"):
        fault_points.arm(f"{step}:raise")
        assert nats3("catalog", "load", str(file)).status == 1
        fault_points.arm("")
        assert tables(empty_postgres_url) == empty

    loaded = nats3.ok("catalog", "load", str(file), "-o", "json").json
    assert loaded == dumped
    after = tables(empty_postgres_url)
    assert after == before
    assert "not empty: it has rows in" in nats3.refused("catalog", "load", str(file))
    # The loaded catalog goes on: ids after those of the dump, and the triggers that prove are there.
    with Workspace(Settings.load()) as moved:
        again = moved.catalog.archives.get("logs")
        moved.catalog.chunks.commit(again, [put(moved, again, HOURS[1], (11, 20))])
        assert moved.catalog.coverage.all(again)[0].messages == 19
        assert moved.catalog.seals.select(again)[0].valid
    with psycopg.connect(empty_postgres_url) as connection, pytest.raises(psycopg.errors.IntegrityConstraintViolation):
        connection.execute("update nats3.chunk set messages = 1")


def test_sums_that_do_not_add_up_are_refused(
    workspace: Workspace,
    bucket: str,
    postgres_url: str,
    empty_postgres_url: str,
    nats3: Command,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    archive = new_archive(workspace, bucket)
    workspace.catalog.chunks.commit(archive, [put(workspace, archive, HOURS[0], (1, 10))])
    with psycopg.connect(postgres_url) as connection:
        connection.execute("update nats3.coverage set messages = 11")
        connection.execute("update nats3.hour set messages = 12")
    file = tmp_path / "nats3.dump"
    nats3.ok("catalog", "dump", str(file))
    migrate(empty_postgres_url)
    monkeypatch.setenv("NATS3_POSTGRES_URL", empty_postgres_url)
    said = nats3.refused("catalog", "load", str(file))
    assert "The sums of the dump do not add up: coverage of archive 1, hour 2026-11-21-07:00 of archive 1" in said


@pytest.mark.parametrize("held", ["nats://ann:hunter2@h:4222", "SUAHUNTER2" + "A" * 48, "data:hunter2"])
def test_a_secret_in_the_place_of_the_file_is_refused_and_not_repeated(held: str, nats3: Command) -> None:
    for command in ("dump", "load"):
        ran = nats3("catalog", command, held)
        assert (ran.status, "hunter2" in (ran.out + ran.err).lower()) == (2, False), ran.err
        assert "FILE holds" in ran.err
