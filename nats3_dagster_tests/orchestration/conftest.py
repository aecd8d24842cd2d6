"""Fixtures of the tests that run Dagster in this process."""

from collections.abc import Iterator

import pytest
from dagster import DagsterInstance


@pytest.fixture
def instance() -> Iterator[DagsterInstance]:
    """An instance of the test's own that forgets everything at its end."""
    with DagsterInstance.ephemeral() as made:
        yield made
