"""Every setting of a replay is wherever replays are asked for, as the table of settings says."""

from datetime import UTC, datetime
from typing import Any

import pytest

from nats3_dagster.bodies.load_jobs import CreateLoadJob
from nats3_dagster.defs.jobs.run_config import WindowConfig
from nats3_dagster.documents.replays import Replay
from nats3_dagster.model import Pace, ReplaySpec, Selection, SeqRange
from nats3_dagster.model.spec_table import Kind, Setting, by_key, settings_of, to_document
from nats3_dagster_tests.support.commands import root_command

SETTINGS = settings_of(ReplaySpec)
# What a run of Dagster does not take.
NOT_IN_RUNS = {"hours", "poll_interval", "delete_chunks", "delete_unexported"}
SPEC = ReplaySpec(
    "a",
    "back.>",
    Selection((), 10**18, 10**18 + 1, SeqRange(3, 9), ("ev.>",)),
    order="stream",
    pace=Pace(rate=5.0, byte_rate=7.0),
    create_stream="BACK",
    poll_interval_s=1.5,
)


@pytest.mark.parametrize("one", SETTINGS, ids=lambda one: one.key)
def test_a_setting_is_everywhere(one: Setting) -> None:
    parameters = root_command().commands["load"].commands["create"].params
    options = {name: option for option in parameters for name in (*option.opts, *option.secondary_opts)}
    name = f"--no-{one.option[2:]}" if one.kind is Kind.FLAG and one.default else one.option
    assert one.help[1:] in options[name].help
    assert CreateLoadJob.model_fields[one.body_key].description == one.description
    assert Replay.model_fields[one.body_key].description == one.help
    assert (one.key in WindowConfig.model_fields) == (one.key not in NOT_IN_RUNS)


def test_a_document_gives_the_spec_back() -> None:
    document: dict[str, Any] = to_document(SPEC)
    assert (document["from_time"], document["poll_interval"]) == (
        "2001-09-09T01:46:40.000000000Z",
        {"secs": 1, "nanos": 500_000_000},
    )
    given = {key: value for key, value in document.items() if value is not None}
    assert ReplaySpec("a", **by_key(ReplaySpec, given)) == SPEC
    assert CreateLoadJob.model_validate({"archive": "a"} | given).spec() == ReplaySpec("", **by_key(ReplaySpec, given))


def test_run_config_takes_what_people_write() -> None:
    config = WindowConfig(archive="a", write_subject="back.>", from_time="-2h", sequences="3-9", rate=5.0, live=True)
    spec = config.window(datetime(2026, 11, 21, 9, tzinfo=UTC))
    taken = Selection.parse(from_time="2026-11-21T07:00:00Z", sequences="3-9", subjects=[">"])
    assert spec == ReplaySpec("a", "back.>", taken, pace=Pace(rate=5.0), live=True)
