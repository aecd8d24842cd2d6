"""`nats3_dagster.Account`: rules from a program."""

import re
from pathlib import Path
from typing import Any

import pytest

from nats3_dagster import Account, AccountRule
from nats3_dagster.archive.account.follow import follow
from nats3_dagster.errors import Conflict, OperatorError, Unknown
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.wire import Wire

DOCS = Path(__file__).parents[2] / "docs" / "account.md"


def tick(settings: Settings) -> None:
    with Workspace(settings) as workspace:
        follow(workspace)


def test_a_rule_from_its_preview_to_its_end(settings: Settings, wire: Wire, bucket: str) -> None:
    wire.create_stream("EV", "ev.>")
    wire.create_stream("KV_a", "$KV.a.>")
    wire.publish([("ev.1", b"", b"1"), ("ev.2", b"", b"2")])
    rule = AccountRule("all", bucket, exclude=("KV_*",))
    with Account.open(settings) as account:
        assert {one.stream: one.action for one in account.preview(rule)} == {"EV": "create", "KV_a": "left_out"}
        assert account.rules() == ()
        assert {one.stream: one.action for one in account.create(rule)} == {"EV": "create", "KV_a": "left_out"}
        assert [one.rule for one in account.rules()] == [rule]
        tick(settings)
        ev, kv = account.status("all").streams
        assert (ev.plan.action, ev.plan.archive_name) == ("archived", "EV")
        assert ev.condition
        assert ev.condition.waiting
        assert ev.condition.waiting.behind == 2
        assert (kv.plan.action, str(kv.plan.reason)) == ("left_out", "it is excluded by the rule")
        changed = account.set("all", exclude="tmp*", max_age_s=7)
        assert (changed.after.rule.exclude, changed.archives) == (("tmp*",), ("EV",))
        assert account.rules()[0].rule == AccountRule("all", bucket, exclude=("tmp*",), max_age_s=7)
        tick(settings)
        assert account.end("all") == 2
        assert account.rules() == ()
    with Workspace(settings) as workspace:
        specs = [archive.spec for archive in workspace.catalog.archives.all()]
        assert {one.stream: one.max_age_s for one in specs} == {"EV": 7, "KV_a": 7}


def test_what_is_refused(settings: Settings, wire: Wire, bucket: str) -> None:
    wire.create_stream("EV", "ev.>")
    with Account.open(settings) as account:
        for call in (account.status, account.end):
            with pytest.raises(Unknown, match="There is no rule all for an account"):
                call("all")
        with pytest.raises(OperatorError, match="The bucket 'no-such-one' does not exist"):
            account.create(AccountRule("all", "no-such-one"))
        assert account.rules() == ()
        account.create(AccountRule("all", bucket))
        with pytest.raises(Conflict, match="There is a rule all already"):
            account.create(AccountRule("all", bucket))
        with pytest.raises(OperatorError, match="prefix of rule all cannot change"):
            account.set("all", prefix="x")
        with pytest.raises(OperatorError, match="A rule has no field 'matc'"):
            account.set("all", matc="x")
        with pytest.raises(OperatorError, match="is not a pattern of stream names"):
            account.set("all", match=["a.b"])
        assert account.rules()[0].rule == AccountRule("all", bucket)


def test_the_example_of_the_docs(
    settings: Settings, wire: Wire, bucket: str, capsys: pytest.CaptureFixture[str]
) -> None:
    wire.create_stream("EV", "ev.>")
    (example,) = [one for one in re.findall(r"```python\n(.*?)```", DOCS.read_text(), re.DOTALL) if "Account" in one]
    scope: dict[str, Any] = {}
    exec(example.replace('"archive"', repr(bucket)), scope)
    assert "EV EV" in capsys.readouterr().out
