"""What Dagster says of an archive that is healthy, late, lossy or paused: health, freshness and checks agree.

Health is what Dagster itself computes of materializations, freshness and checks.
"""

import asyncio
import re
from typing import Any

import pytest
from dagster import AssetKey, DagsterInstance
from dagster._core.definitions.asset_health.asset_check_health import AssetCheckHealthState
from dagster._core.definitions.asset_health.asset_freshness_health import AssetFreshnessHealthState
from dagster._core.definitions.asset_health.asset_health import overall_status_from_component_statuses
from dagster._core.definitions.asset_health.asset_materialization_health import AssetMaterializationHealthState
from dagster._core.definitions.freshness_evaluator import TimeWindowFreshnessPolicyEvaluator
from dagster._core.loader import LoadingContextForTest

from nats3_dagster.archive.status import pause
from nats3_dagster.defs.project.project import load
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.dagster.states import HEALTHY, LATE, LOSSY, PAUSED, in_state

pytestmark = [pytest.mark.needs_nats("2.15"), pytest.mark.steady_hour(60)]
HOUR_S = 3600.0
DELETED = "The stream has deleted 50 sequences that were not captured"
# By the minute of the hour in which the test runs.
WAITS = re.compile(r"It waits for (29|30)\.\d hours, and a capture is due after 30 s")


def says(instance: DagsterInstance, state: str) -> tuple[str, str, dict[str, str]]:
    """The health of the archive's hours, their freshness, and the checks that do not pass, by their severity."""
    checked = (
        load()
        .resolve_job_def("checks")
        .execute_in_process(instance=instance, run_config={"ops": {f"{state}__checks": {"config": {"sample": 0}}}})
    )
    evaluations = checked.get_asset_check_evaluations()
    assert {one.check_name for one in evaluations} == {
        "no_gaps",
        "chunks_intact",
        "capture_keeps_up",
        "kept_as_promised",
    }
    key, graph = AssetKey([state, "chunks"]), load().resolve_asset_graph()
    node: Any = graph.get(key)

    async def asked() -> tuple[str, str]:
        context = LoadingContextForTest(instance)
        freshness = await TimeWindowFreshnessPolicyEvaluator().evaluate_freshness(context, node)
        checks = await AssetCheckHealthState.compute_for_asset_checks(
            {*graph.get_check_keys_for_assets({key})}, context
        )
        hours = await AssetMaterializationHealthState.compute_for_asset(key, node.partitions_def, context)
        health = overall_status_from_component_statuses(
            asset_checks_status=checks.health_status,
            materialization_status=hours.health_status,
            freshness_status=AssetFreshnessHealthState(freshness_state=freshness).health_status,
        )
        return health.value, freshness.value

    health, freshness = asyncio.run(asked())
    return (
        health,
        freshness,
        {one.check_name: one.severity.value for one in evaluations if not one.passed}
        | {f"{one.check_name} says": str(one.description) for one in evaluations if not one.passed},
    )


@pytest.mark.parametrize(
    ("state", "captured_s", "expected"),
    [
        (HEALTHY, 0, ("HEALTHY", "PASS", {})),
        (LATE, 3 * HOUR_S, ("WARNING", "WARN", {"capture_keeps_up": "WARN"})),
        (LATE, 30 * HOUR_S, ("DEGRADED", "FAIL", {"capture_keeps_up": "ERROR"})),
        (LOSSY, 0, ("DEGRADED", "PASS", {"capture_keeps_up": "ERROR", "capture_keeps_up says": DELETED})),
        (PAUSED, 0, ("WARNING", "PASS", {"capture_keeps_up": "WARN"})),
        # A pause does not hide that messages wait for longer than a day.
        (PAUSED, 30 * HOUR_S, ("DEGRADED", "FAIL", {"capture_keeps_up": "ERROR"})),
    ],
)
def test_health_freshness_and_checks_agree(
    settings: Settings, bucket: str, instance: DagsterInstance, state: str, captured_s: float, expected: Any
) -> None:
    in_state(settings, instance, bucket, state, captured_s=captured_s)
    if state == PAUSED:
        with Workspace(settings) as workspace:
            pause(workspace, state)
    health, freshness, checks = says(instance, state)
    assert (health, freshness) == expected[:2]
    assert expected[2].items() <= checks.items()
    # No other check fails, and what is late for a day is said.
    assert {name for name in checks if " " not in name} == {name for name in expected[2] if " " not in name}
    assert captured_s < 24 * HOUR_S or WAITS.search(checks["capture_keeps_up says"])
