"""Applying declared archives: the plan, what is refused, two at once, and what is left after it was killed."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml

from nats3_dagster.archive.declared import apply as applying
from nats3_dagster.archive.declared.apply import Planned, perform, plan
from nats3_dagster.archive.declared.entries import Declared, entry_of, read
from nats3_dagster.archive.lifecycle import remove
from nats3_dagster.archive.lifecycle.create import create
from nats3_dagster.catalog.archives.archives import Archives
from nats3_dagster.errors import OperatorError, SourceError
from nats3_dagster.model import Archive, ArchiveSpec
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.commands import everything
from nats3_dagster_tests.support.races import errors, meet, race
from nats3_dagster_tests.support.wire import Wire


@pytest.fixture
def two(settings: Settings, wire: Wire) -> Iterator[tuple[Workspace, Workspace]]:
    """What two processes have: connections of their own; and streams EV, LOGS and, a work queue, JOBS."""
    wire.create_stream("EV", "ev.>")
    wire.create_stream("LOGS", "logs.>")
    wire.create_stream("JOBS", "jobs.>", retention="workqueue")
    with ExitStack() as stack:
        yield stack.enter_context(Workspace(settings)), stack.enter_context(Workspace(settings))


def declared(bucket: str, *entries: dict[str, Any]) -> tuple[Declared, ...]:
    text = yaml.safe_dump({"defaults": {"bucket": bucket}, "archives": list(entries)})
    return read([("a.yaml", text)]).archives


def actions(planned: tuple[Planned, ...]) -> dict[str, str]:
    return {one.name: one.action if one.refusal is None else f"refused: {one.refusal.what}" for one in planned}


EV, LOGS = {"name": "ev", "stream": "EV"}, {"name": "logs", "stream": "LOGS"}
JOBS = {"name": "jobs", "stream": "JOBS", "mode": "consumer"}


def test_applying_creates_changes_and_removes_and_again_does_nothing(
    two: tuple[Workspace, Workspace], wire: Wire, bucket: str
) -> None:
    workspace = two[0]
    first = declared(bucket, EV | {"paused": True, "subjects": ["ev.a", "ev.b"]}, LOGS, JOBS)
    assert actions(plan(workspace, first)) == {"ev": "create", "logs": "create", "jobs": "create"}
    done = list(perform(workspace, plan(workspace, first)))
    assert [(one.planned.name, one.done, one.error) for one in done] == [
        ("ev", True, None),
        ("jobs", True, None),
        ("logs", True, None),
    ]
    assert {a.name: a.paused for a in workspace.catalog.archives.all()} == {"ev": True, "jobs": False, "logs": False}
    assert set(actions(plan(workspace, first, prune=True)).values()) == {"unchanged"}
    assert list(perform(workspace, plan(workspace, first, prune=True))) == []

    # A pause that the file says nothing of is left as it is; what it leaves out has its default.
    workspace.catalog.archives.pause("logs")
    second = declared(bucket, EV | {"subjects": ["ev.b", "ev.a"]}, LOGS | {"max_age": "5m"})
    planned = plan(workspace, second, prune=True)
    assert actions(planned) == {"ev": "unchanged", "jobs": "remove", "logs": "change"}
    assert [(d.field, d.old, d.new) for one in planned for d in one.differences] == [("max_age_s", 30, 300)]
    done = list(perform(workspace, planned))
    assert [(one.planned.name, one.done) for one in done] == [("logs", True), ("jobs", True)]
    assert done[1].removed
    assert done[1].removed.consumer == "nats3-jobs"
    logs = workspace.catalog.archives.get("logs")
    assert (logs.spec.max_age_s, logs.paused) == (300, True)
    planned = plan(workspace, declared(bucket, EV | {"subjects": ["ev.a", "ev.b"]}, LOGS))
    assert [(d.field, d.old, d.new) for one in planned for d in one.differences] == [("max_age_s", 300, 30)]


REFUSED = [
    (EV | {"stream": "LOGS"}, "stream of archive ev cannot change from EV to LOGS: what it has is counted by"),
    (EV | {"prefix": "x"}, "prefix of archive ev cannot change from none to x: its chunks are there"),
    (EV | {"mode": "consumer"}, "mode of archive ev cannot change from stream to consumer: what it has was read"),
    (LOGS | {"stream": "LOG"}, "There is no stream LOG at NATS"),
    (LOGS | {"bucket": "no-such-one"}, "The bucket 'no-such-one' does not exist in"),
    (LOGS | {"subjects": ["ev.>"]}, "Stream LOGS has no subject that 'ev.>' takes"),
    (LOGS | {"consumer": "mine"}, "Stream LOGS has no consumer mine"),
    ({"name": "jobs", "stream": "JOBS"}, "Stream JOBS has workqueue retention: its consumers decide how long it keeps"),
]


def test_whatever_is_refused_nothing_of_the_file_is_done(
    two: tuple[Workspace, Workspace], wire: Wire, bucket: str, postgres_url: str, nats: Any, s3_client: Any
) -> None:
    create(two[0], ArchiveSpec("ev", "EV", bucket))
    before = everything(postgres_url, nats.url, s3_client, bucket)
    wrong = []
    for entry, text in REFUSED:
        planned = plan(two[0], declared(bucket, {"name": "good", "stream": "EV"}, entry), prune=True)
        refusals = [str(one.refusal) for one in planned if one.refusal]
        with pytest.raises(OperatorError, match="^One archive is refused, and nothing was changed. a.yaml:"):
            list(perform(two[0], planned))
        if len(refusals) != 1 or not refusals[0].startswith(text):
            wrong.append((text, refusals))
    assert wrong == []
    # A consumer is made only with its archive, also where something else is refused.
    planned = plan(two[0], declared(bucket, JOBS, EV | {"stream": "LOGS"}, LOGS | {"stream": "LOG"}))
    with pytest.raises(OperatorError, match="^2 of 3 archives are refused, and nothing was changed. a.yaml:"):
        list(perform(two[0], planned))
    assert everything(postgres_url, nats.url, s3_client, bucket) == before


def test_applying_again_finishes_what_was_killed(two: tuple[Workspace, Workspace], bucket: str) -> None:
    create(two[0], ArchiveSpec("old", "EV", bucket))
    create(two[0], ArchiveSpec("logs", "LOGS", bucket))
    wanted = declared(bucket, EV, LOGS | {"zstd_level": 1}, JOBS)
    names: list[str] = []
    for _ in range(5):
        planned = plan(two[0], wanted, prune=True)
        begun = perform(two[0], planned)
        if (one := next(begun, None)) is None:
            break
        names.append(one.planned.name)
        begun.close()  # the process dies here
    assert names == ["ev", "jobs", "logs", "old"]
    assert set(actions(plan(two[0], wanted, prune=True)).values()) == {"unchanged"}


def test_a_new_archive_is_as_declared_from_its_first_moment(
    two: tuple[Workspace, Workspace], bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sensor that came between would capture what is paused."""
    real, seen = Archives.create, list[tuple[bool, list[str]]]()

    def watched(*args: Any, **kwargs: Any) -> Archive:
        made = real(*args, **kwargs)
        there = two[1].catalog.archives.get(made.name)
        seen.append((there.paused, [preset.name for preset in there.presets]))
        return made

    monkeypatch.setattr(Archives, "create", watched)
    replays = [{"name": "to_test", "write_subject": "test.>"}]
    wanted = declared(bucket, EV | {"paused": True, "replays": replays}, LOGS)
    assert [one.done for one in perform(two[0], plan(two[0], wanted))] == [True, True]
    assert seen == [(True, ["to_test"]), (False, [])]


def test_two_who_apply_the_same_at_once_both_find_it_done(
    two: tuple[Workspace, Workspace], bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(two[0], ArchiveSpec("old", "EV", bucket))
    create(two[0], ArchiveSpec("logs", "LOGS", bucket))
    wanted = declared(bucket, EV | {"paused": True}, LOGS | {"zstd_level": 1}, JOBS)
    meet(monkeypatch, applying, "compare")
    results = race(*(lambda ws=ws: list(perform(ws, plan(ws, wanted, prune=True))) for ws in two))
    assert errors(results) == []
    assert {one.done for result in results for one in result} == {True}
    assert set(actions(plan(two[0], wanted, prune=True)).values()) == {"unchanged"}
    assert len(two[0].catalog.archives.all()) == 3


def test_two_who_apply_different_files_at_once_do_not_overwrite_each_other(
    two: tuple[Workspace, Workspace], bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(two[0], ArchiveSpec("ev", "EV", bucket))
    files = [declared(bucket, EV | {"max_messages": count}, LOGS | {"zstd_level": count}) for count in (5, 7)]
    meet(monkeypatch, applying, "compare")
    results = race(*(lambda ws=ws, f=f: list(perform(ws, plan(ws, f))) for ws, f in zip(two, files, strict=True)))
    assert errors(results) == []
    for name, field in (("ev", "max_messages"), ("logs", "zstd_level")):
        outcomes = [one for result in results for one in result if one.planned.name == name]
        assert sorted(one.done for one in outcomes) == [False, True]
        (won,) = [one for one in outcomes if one.done]
        value = getattr(two[0].catalog.archives.get(name).spec, field)
        assert won.planned.declared
        assert value == getattr(won.planned.declared.spec, field)
        (lost,) = [one.error for one in outcomes if not one.done]
        assert lost
        assert lost.what == (
            f"Another process changed archive ev: max_messages is {value} now, and was 1000000"
            if name == "ev"
            else "There is an archive logs already"
        )


@pytest.mark.parametrize("nats_url", [None, "nats://127.0.0.1:1"])
def test_an_archive_with_a_durable_is_not_removed_where_nats_cannot_be_asked(
    two: tuple[Workspace, Workspace],
    wire: Wire,
    bucket: str,
    nats_url: str | None,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    list(perform(two[0], plan(two[0], declared(bucket, EV, JOBS))))
    monkeypatch.chdir(tmp_path)
    if nats_url is None:
        monkeypatch.delenv("NATS3_NATS_URL")
    else:
        monkeypatch.setenv("NATS3_NATS_URL", nats_url)
    with Workspace(Settings.load()) as cut_off:
        if nats_url is None:
            planned = plan(cut_off, (), prune=True)
            assert actions(planned)["ev"] == "remove"
            assert actions(planned)["jobs"].startswith("refused: Archive jobs was not deleted: its consumer nats3-jobs")
            with pytest.raises(OperatorError, match=r"The address of NATS is not set\. Set NATS3_NATS_URL"):
                list(perform(cut_off, planned))
        else:
            with pytest.raises(SourceError, match="^Archive jobs was not deleted: its consumer nats3-jobs of"):
                plan(cut_off, (), prune=True)
        for purge in (False, True):
            with pytest.raises((OperatorError, SourceError), match=r"^Archive jobs was not deleted.* or to be kept\. "):
                remove.delete(cut_off, "jobs", purge=purge)
        assert {archive.name for archive in cut_off.catalog.archives.all()} == {"ev", "jobs"}
        # It needs no NATS where the consumer stays.
        remove.delete(cut_off, "jobs", keep_consumer=True)
        list(perform(cut_off, plan(cut_off, (), prune=True)))
    assert two[0].catalog.archives.all() == ()
    assert wire.api("CONSUMER.NAMES.JOBS")["consumers"] == ["nats3-jobs"]


def test_an_archive_that_was_made_again_meanwhile_is_not_removed(two: tuple[Workspace, Workspace], bucket: str) -> None:
    create(two[0], ArchiveSpec("old", "EV", bucket))
    planned = plan(two[0], (), prune=True)
    two[1].catalog.archives.delete("old")
    create(two[1], ArchiveSpec("old", "EV", bucket))
    (one,) = perform(two[0], planned)
    assert not one.done
    assert one.error
    assert one.error.what == "Another process deleted archive old and made it again"
    two[1].catalog.archives.delete("old")
    (one,) = perform(two[0], planned)
    assert (one.done, one.by_other) == (True, True)


def test_what_is_exported_is_found_unchanged(two: tuple[Workspace, Workspace], wire: Wire, bucket: str) -> None:
    wire.api(
        "CONSUMER.DURABLE.CREATE.JOBS.mine",
        stream_name="JOBS",
        config={
            "durable_name": "mine",
            "ack_policy": "explicit",
            "ack_wait": 30_000_000_000,
            "filter_subject": "jobs.a",
            "max_ack_pending": 10_000,
        },
    )
    specs = [
        ArchiveSpec("all", "EV", bucket, subjects=(">",)),
        ArchiveSpec("some", "LOGS", bucket, prefix="a/b", subjects=("logs.*.b", "logs.a"), max_bytes=1, max_age_s=5400),
        ArchiveSpec("shared", "JOBS", bucket, mode="consumer", durable="mine"),
        ArchiveSpec("own", "JOBS", bucket, mode="consumer", subjects=("jobs.b.>", "jobs.b.c")),
    ]
    for one in specs:
        create(two[0], one)
    two[0].catalog.archives.pause("some")
    text = yaml.safe_dump({"archives": [entry_of(archive) for archive in two[0].catalog.archives.all()]})
    planned = plan(two[0], read([("a.yaml", text)]).archives, prune=True)
    assert actions(planned) == {"all": "unchanged", "own": "unchanged", "shared": "unchanged", "some": "unchanged"}
