"""The API on the test's clean servers."""

from collections.abc import Iterator

import pytest
from fastapi.testclient import TestClient

from nats3_dagster.api.app import create_app
from nats3_dagster.settings import Settings
from nats3_dagster_tests.support.wire import Wire


@pytest.fixture
def client(settings: Settings) -> Iterator[TestClient]:
    """A client of the API; no network is between them."""
    with TestClient(create_app(settings), raise_server_exceptions=False) as client:
        yield client


@pytest.fixture
def jobs_stream(wire: Wire) -> Wire:
    """With a stream `jobs` that takes `subjects.>`."""
    wire.create_stream("jobs", "subjects.>")
    return wire
