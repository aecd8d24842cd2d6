"""Runs of jobs in this process."""

from typing import Any

from dagster import AssetKey, DagsterInstance, ExecuteInProcessResult

from nats3_dagster.defs.project.project import load


def run(instance: DagsterInstance, job: str, *, check: bool = True, **how: Any) -> ExecuteInProcessResult:
    result = load().resolve_job_def(job).execute_in_process(instance=instance, raise_on_error=False, **how)
    assert result.success or not check, [e.message for e in result.all_events if e.is_failure]
    return result


def hour_range(first: str, last: str) -> dict[str, str]:
    return {"dagster/asset_partition_range_start": first, "dagster/asset_partition_range_end": last}


def materialized(result: ExecuteInProcessResult, key: AssetKey) -> dict[str, dict[str, Any]]:
    """Metadata of the materializations of `key`, by hour."""
    events = result.asset_materializations_for_node(key.to_python_identifier())
    found = {str(e.partition): {n: v.value for n, v in e.metadata.items()} for e in events if e.asset_key == key}
    assert len(found) == len(events)
    return found
