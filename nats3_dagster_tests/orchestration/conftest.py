"""Fixtures of the tests that run Dagster in this process."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from dagster import DagsterInstance

from nats3_dagster.actor import current_run
from nats3_dagster.defs.instance.instance import instance_file
from nats3_dagster.settings import Settings


@pytest.fixture
def instance() -> Iterator[DagsterInstance]:
    """An instance of the test's own that forgets everything at its end. Its runs end with it."""
    with DagsterInstance.ephemeral() as made:
        yield made
    assert current_run() is None


@pytest.fixture
def dagster_home(settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of an instance as in production: on Postgres."""
    (tmp_path / "dagster.yaml").write_text(instance_file().read_text())
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def kept(dagster_home: Path) -> Iterator[DagsterInstance]:
    """That instance."""
    with DagsterInstance.get() as made:
        yield made
