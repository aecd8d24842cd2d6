"""The servers of the session, started before the first mutant. No part of the suite: worker.py names this file."""

from typing import Any

import pytest

from nats3_dagster.dev.nats_server import NatsServer
from nats3_dagster.dev.postgres import Postgres
from nats3_dagster_tests.mutants.worker import NATS_URL


def test_servers_run(
    nats_session: NatsServer, postgres_session: Postgres, s3_client: Any, pytestconfig: pytest.Config
) -> None:
    pytestconfig.stash[NATS_URL] = nats_session.url
    assert postgres_session.url()
    assert s3_client
