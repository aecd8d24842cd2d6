"""Applying declared rules: killed between two steps, two at once, a rule that was made again, NATS that is down."""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
import yaml

from nats3_dagster.archive.account import rules
from nats3_dagster.archive.account.follow import follow
from nats3_dagster.archive.declared import apply_accounts as applying
from nats3_dagster.archive.declared.accounts import DeclaredRule
from nats3_dagster.archive.declared.apply_accounts import RuleStep, perform, plan
from nats3_dagster.archive.declared.entries import read
from nats3_dagster.errors import SourceError
from nats3_dagster.model.account_rule import AccountRule
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.races import errors, meet, race
from nats3_dagster_tests.support.wire import Wire


@pytest.fixture
def two(settings: Settings, wire: Wire) -> Iterator[tuple[Workspace, Workspace]]:
    """The connections of two processes; and streams EV and, a work queue, JOBS."""
    wire.create_stream("EV", "ev.>")
    wire.create_stream("JOBS", "jobs.>", retention="workqueue")
    with ExitStack() as stack:
        yield stack.enter_context(Workspace(settings)), stack.enter_context(Workspace(settings))


def declared(bucket: str, *entries: dict[str, Any]) -> tuple[DeclaredRule, ...]:
    text = yaml.safe_dump({"defaults": {"bucket": bucket}, "accounts": list(entries)})
    return read([("a.yaml", text)]).accounts


def actions(planned: tuple[RuleStep, ...]) -> dict[str, str]:
    return {one.name: one.action for one in planned}


def test_applying_again_finishes_what_was_killed(two: tuple[Workspace, Workspace], bucket: str) -> None:
    rules.create(two[0], AccountRule("old", bucket))
    rules.create(two[0], AccountRule("kept", bucket))
    wanted = declared(bucket, {"name": "new"}, {"name": "kept", "max_age": "5m"})
    names: list[str] = []
    for _ in range(4):
        begun = perform(two[0], plan(two[0], wanted, prune=True))
        if (one := next(begun, None)) is None:
            break
        names.append(one.planned.name)
        begun.close()  # the process dies here
    assert names == ["new", "kept", "old"]
    assert actions(plan(two[0], wanted, prune=True)) == {"new": "unchanged", "kept": "unchanged"}


def test_two_who_apply_the_same_at_once_both_find_it_done(
    two: tuple[Workspace, Workspace], bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rules.create(two[0], AccountRule("old", bucket))
    rules.create(two[0], AccountRule("kept", bucket))
    wanted = declared(bucket, {"name": "new"}, {"name": "kept", "max_age": "5m"})
    meet(monkeypatch, applying, "check")
    results = race(*(lambda ws=ws: list(perform(ws, plan(ws, wanted, prune=True))) for ws in two))
    assert errors(results) == []
    assert {one.done for result in results for one in result} == {True}
    found = {one.name: one.rule.max_age_s for one in two[0].catalog.accounts.rules()}
    assert found == {"kept": 300, "new": 30}


def test_a_rule_that_was_made_again_meanwhile_is_not_touched(two: tuple[Workspace, Workspace], bucket: str) -> None:
    rules.create(two[0], AccountRule("all", bucket))
    steps = [plan(two[0], declared(bucket, {"name": "all", "max_age": "5m"})), plan(two[0], (), prune=True)]
    rules.end(two[1], "all")
    rules.create(two[1], AccountRule("all", bucket, match=("EV",)))
    for planned in steps:
        (one,) = perform(two[0], planned)
        assert (one.done, one.error and one.error.what) == (
            False,
            "Another process ended rule all and made it again",
        )
    (kept,) = two[1].catalog.accounts.rules()
    assert kept.rule == AccountRule("all", bucket, match=("EV",))


def test_an_archive_that_cannot_have_the_settings_is_named(
    two: tuple[Workspace, Workspace], bucket: str, wire: Wire
) -> None:
    rules.create(two[0], AccountRule("all", bucket, take_queues=True))
    follow(two[0])
    # Another program lets the consumer leave out the payloads.
    config = wire.api("CONSUMER.INFO.JOBS.nats3-JOBS")["config"]
    wire.api("CONSUMER.DURABLE.CREATE.JOBS.nats3-JOBS", stream_name="JOBS", config=config | {"headers_only": True})
    entry = {"name": "all", "take_queues": True, "max_messages": 5}
    (one,) = perform(two[0], plan(two[0], declared(bucket, entry)))
    assert (one.done, one.error, {*one.failed}) == (True, None, {"JOBS"})
    found = {archive.name: archive.spec.max_messages for archive in two[0].catalog.archives.all()}
    assert found == {"EV": 5, "JOBS": 1_000_000}


def test_without_nats_only_what_changes_cannot_be_planned(
    two: tuple[Workspace, Workspace], bucket: str, settings: Settings
) -> None:
    rules.create(two[0], AccountRule("all", bucket))
    with Workspace(settings.model_copy(update={"nats_url": "nats://127.0.0.1:1"})) as cut_off:
        assert actions(plan(cut_off, declared(bucket, {"name": "all"}), prune=True)) == {"all": "unchanged"}
        with pytest.raises(SourceError):
            plan(cut_off, declared(bucket, {"name": "all", "max_age": "5m"}))
        list(perform(cut_off, plan(cut_off, (), prune=True)))
    assert two[0].catalog.accounts.rules() == ()
