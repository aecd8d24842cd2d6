"""A short selection of the faults, spread over all kinds, with fixed seeds. `make faults` plays them all."""

from collections.abc import Iterator

import pytest

from nats3_dagster.dev.nats_server import find_nats_server, version_of
from nats3_dagster.errors import EngineError
from nats3_dagster_tests.faults.play import FAULTS, play
from nats3_dagster_tests.faults.registry import Fault
from nats3_dagster_tests.faults.table import command
from nats3_dagster_tests.faults.topology import Topology
from nats3_dagster_tests.support.thorough import FAULTS_IN_CI

SEED = 1
assert {fault.name for fault in FAULTS.values() if fault.short} >= FAULTS_IN_CI
SHORT = [
    pytest.param(fault, id=fault.name, marks=() if fault.name in FAULTS_IN_CI else pytest.mark.thorough)
    for fault in FAULTS.values()
    if fault.short
]


@pytest.fixture(scope="module")
def servers() -> Iterator[Topology]:
    with Topology() as started:
        yield started


@pytest.mark.steady_hour(60)
@pytest.mark.parametrize("fault", SHORT)
def test_survived(servers: Topology, fault: Fault) -> None:
    try:
        version = version_of(find_nats_server())
    except EngineError as error:
        pytest.skip(str(error))
    if version < fault.since:
        pytest.skip(f"needs nats-server {fault.since}")
    played = play(servers, fault, SEED)
    text = "\n".join([*played.log, *map(str, played.findings), command(fault.name, SEED)])
    assert not played.findings, f"\n{text}"
