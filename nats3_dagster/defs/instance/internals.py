"""Names of Dagster that are not public. They are imported here only; a test holds that each is still there.

Checked against Dagster 1.13.27. Dagster may move or change any of them in any release: read this page again with each
upgrade of requirements.lock. pyproject.toml admits the later patch releases of the same minor.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from dagster import AssetCheckKey, DagsterInstance

# What `post_process` of a config type raises for a value that it refuses. Dagster's reference of `ConfigType` names it,
# and no public module has it. Any other error of `post_process` is a crash of the validation, and not its result.
from dagster._config import PostProcessingError

# A job of Dagster's own holds what is materialized by hand or asked for by asset. A run's record has its name, and no
# public function tells it. Without it the capture sensor would start a run beside one that was started by hand.
from dagster._core.definitions.assets.job.asset_job import IMPLICIT_ASSET_JOB_NAME

# Tags of events: their version, and that of what they were made of. They are data in Dagster's storage; the first is in
# its documentation. Dagster writes them for the one output of a step, and an hour's event is none, or one of several.
from dagster._core.definitions.data_version import (
    CODE_VERSION_TAG,
    DATA_VERSION_TAG,
    NULL_EVENT_POINTER,
    get_input_data_version_tag,
    get_input_event_pointer_tag,
)

# The one class of errors that Dagster shows as the error says (`user_code_process_error_infos`), without its own
# frames. With the public Failure each foreseen error would be forty lines of Dagster, twice.
from dagster._core.errors import DagsterUserCodeProcessError

# DagsterInstance.get_backfills is public only by its name: what it filters by has no public one. Without them the
# capture sensor would start a run between two runs of a backfill.
from dagster._core.execution.backfill import BULK_ACTION_TERMINAL_STATUSES, BulkActionsFilter, BulkActionStatus

# What a launcher answers when run monitoring asks whether a run lives. Launchers of one's own are documented, and these
# two names of their interface are not public. Without them a run that dies with its code server is never found.
from dagster._core.launcher import CheckRunHealthResult, WorkerStatus

# A type only: a check as Dagster last evaluated it.
from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecord

# The names of Dagster's tables, which `nats3 migrate --grant` grants. Without them it would grant all of the schema
# public, which may hold tables of others.
from dagster._core.storage.event_log import SqlEventLogStorageMetadata
from dagster._core.storage.runs import RunStorageSqlMetadata
from dagster._core.storage.schedules import ScheduleStorageSqlMetadata

# Tags of a run for adjacent hours, and for one. They are data in Dagster's storage, and documented for a shell; the
# constants are imported so that a renamed tag fails a load, and not each run. Without them a sensor could ask for
# one hour a run. The tag that the UI finds the runs of a job by: repository@location. A run that a shell started is
# without it, and in no job's list. The tag of a backfill's runs: without it a dry run in a backfill would end as a
# failed backfill of a run that succeeded.
from dagster._core.storage.tags import (
    ASSET_PARTITION_RANGE_END_TAG,
    ASSET_PARTITION_RANGE_START_TAG,
    BACKFILL_ID_TAG,
    PARTITION_NAME_TAG,
    REPOSITORY_LABEL_TAG,
)

# A type only: what a class named in dagster.yaml is made with (storage.py). Nothing breaks at run time without it.
from dagster._serdes import ConfigurableClassData

# The error of a field in YAML that Dagster passes on as it is. Without it each wrong value of a declaration would be a
# traceback inside another one's text.
from dagster.components.resolved.errors import ResolutionException

# What `user_code_process_error_infos` is a list of: see DagsterUserCodeProcessError.
from dagster_shared.error import SerializableErrorInfo

CHECKED_WITH = "1.13.27"


def use_engine(storage: Any, engine: Any) -> None:
    """Let a storage of dagster-postgres ask through this engine of SQLAlchemy. There is no public way: a storage makes
    an engine that keeps no connection. Without it nothing breaks, and each question opens a connection."""
    storage._engine = engine


def check_records(
    instance: DagsterInstance, keys: Sequence[AssetCheckKey]
) -> Mapping[AssetCheckKey, AssetCheckExecutionRecord]:
    """Returns the newest record of each check. DagsterInstance.get_latest_asset_check_evaluation_record, which is
    public, asks this for one: 4,000 questions a minute where there are 1,000 archives."""
    return instance.event_log_storage.get_latest_asset_check_execution_by_key(keys)


__all__ = [
    "ASSET_PARTITION_RANGE_END_TAG",
    "ASSET_PARTITION_RANGE_START_TAG",
    "BACKFILL_ID_TAG",
    "BULK_ACTION_TERMINAL_STATUSES",
    "CHECKED_WITH",
    "CODE_VERSION_TAG",
    "DATA_VERSION_TAG",
    "IMPLICIT_ASSET_JOB_NAME",
    "NULL_EVENT_POINTER",
    "PARTITION_NAME_TAG",
    "REPOSITORY_LABEL_TAG",
    "AssetCheckExecutionRecord",
    "BulkActionStatus",
    "BulkActionsFilter",
    "CheckRunHealthResult",
    "ConfigurableClassData",
    "DagsterUserCodeProcessError",
    "PostProcessingError",
    "ResolutionException",
    "RunStorageSqlMetadata",
    "ScheduleStorageSqlMetadata",
    "SerializableErrorInfo",
    "SqlEventLogStorageMetadata",
    "WorkerStatus",
    "check_records",
    "get_input_data_version_tag",
    "get_input_event_pointer_tag",
    "use_engine",
]
