"""Dagster's private names: one module imports them, and each is still what we take it for."""

import re
from pathlib import Path

import dagster
import pytest

import nats3_dagster
from nats3_dagster.defs.instance import internals
from nats3_dagster.defs.sensors.backoff import UNFINISHED

PACKAGE = Path(nats3_dagster.__file__).parent


def test_dagster_is_the_release_that_they_were_checked_with() -> None:
    """After an upgrade: read defs/instance/internals.py, then write the new release into it."""
    assert dagster.__version__ == internals.CHECKED_WITH


@pytest.mark.parametrize("name", sorted(set(internals.__all__) - {"CHECKED_WITH"}))
def test_each_exists_and_has_no_public_name(name: str) -> None:
    assert getattr(internals, name) is not None
    assert not hasattr(dagster, name), f"take the public dagster.{name}"


def test_no_other_module_imports_them() -> None:
    private = re.compile(r"^\s*(?:from|import)\s+(?:dagster\w*\._|dagster_shared)", re.MULTILINE)
    importing = {str(path.relative_to(PACKAGE)) for path in PACKAGE.rglob("*.py") if private.search(path.read_text())}
    assert importing == {"defs/instance/internals.py"}


def test_unfinished_runs_are_those_that_dagster_calls_so() -> None:
    from dagster._core.storage.dagster_run import NOT_FINISHED_STATUSES

    assert set(UNFINISHED) == set(NOT_FINISHED_STATUSES)


def test_tags_and_the_name_of_the_asset_job_are_what_runs_in_storage_have() -> None:
    assert internals.IMPLICIT_ASSET_JOB_NAME == "__ASSET_JOB"
    assert internals.ASSET_PARTITION_RANGE_START_TAG == "dagster/asset_partition_range_start"
    assert internals.ASSET_PARTITION_RANGE_END_TAG == "dagster/asset_partition_range_end"
    assert internals.REPOSITORY_LABEL_TAG == ".dagster/repository"


def test_an_error_with_its_own_words_is_shown_by_them_alone() -> None:
    from dagster._utils.error import serializable_error_info_from_exc_info

    info = internals.SerializableErrorInfo("Two sentences. Do this", [], "OperatorError")
    with pytest.raises(internals.DagsterUserCodeProcessError) as error:
        raise internals.DagsterUserCodeProcessError("not shown", user_code_process_error_infos=[info])
    assert serializable_error_info_from_exc_info((error.type, error.value, error.tb)) == info
