"""What the browser tests look at: an archive of half a day, of which some hours failed and some were never asked for;
and four archives, one in each state that Dagster shows of one.

Hours 0 to 4 are captured; of 5 and 6 a capture failed, because NATS was down; nobody asked for 7 and later. The archive
is paused, or the daemon's sensor would mend all that within a minute. So are those in states, until their sensors are
switched off.
"""

import json
import math
import os
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from dagster import DagsterInstance
from pydantic import SecretStr

from nats3_dagster.catalog import Catalog
from nats3_dagster.dev.history import Past, restore_stream
from nats3_dagster.dev.stack import Stack
from nats3_dagster.hours import HOUR_NS, hour_of, hour_start
from nats3_dagster.objects import create_bucket
from nats3_dagster.settings import Settings
from nats3_dagster_tests.support.dagster.processes import LOCATION, ROOT, Dagster
from nats3_dagster_tests.support.dagster.states import HEALTHY, LATE, PAUSED, STATES, in_state
from nats3_dagster_tests.support.dagster.stories import archive
from nats3_dagster_tests.support.waiting import eventually

HOURS, CAPTURED, FAILED = 10, range(5), range(5, 7)
ARCHIVE, STREAM, BUCKET = "orders", "ORDERS", "archive"
_ENDED = ("SUCCESS", "FAILURE", "CANCELED")
_LAUNCH = """mutation ($params: ExecutionParams!) { launchPipelineExecution(executionParams: $params) {
  __typename ... on LaunchRunSuccess { run { id } } ... on PythonError { message }
} }"""
_SENSOR = """query ($sensor: SensorSelector!) { sensorOrError(sensorSelector: $sensor) {
  ... on Sensor { sensorState { id status } } } }"""
_STOP = "mutation ($id: String!) { stopSensor(id: $id) { __typename ... on PythonError { message } } }"
# How long ago the late archive was captured, in seconds.
_LATE_S = 3 * 3600.0


@dataclass(frozen=True)
class Stage:
    """The servers, Dagster, and the archive's hours, of which the first is `hours[0]`."""

    stack: Stack
    dagster: Dagster
    settings: Settings
    hours: Sequence[str]
    messages: Mapping[str, Sequence[Past]]

    def capture(self, first: str, last: str) -> str:
        """Launch a capture of these hours; how it ended."""
        tags = {"dagster/asset_partition_range_start": first, "dagster/asset_partition_range_end": last}
        return self.launch(f"{ARCHIVE}_capture", tags)

    def launch(self, job: str, tags: Mapping[str, str]) -> str:
        """Launch a run of a job; how it ended."""
        selector = {"repositoryLocationName": LOCATION, "repositoryName": "__repository__", "jobName": job}
        metadata = {"tags": [{"key": key, "value": value} for key, value in tags.items()]}
        params = {"selector": selector, "runConfigData": {}, "mode": "default", "executionMetadata": metadata}
        launched = self.dagster.ask(_LAUNCH, params=params)["launchPipelineExecution"]
        assert launched["__typename"] == "LaunchRunSuccess", launched
        return self.ended(launched["run"]["id"])

    def switch_off(self, sensor: str) -> None:
        """Stop a sensor, as its switch in the UI does."""
        selector = {"repositoryLocationName": LOCATION, "repositoryName": "__repository__", "sensorName": sensor}
        found = self.dagster.ask(_SENSOR, sensor=selector)["sensorOrError"]["sensorState"]
        said = self.dagster.ask(_STOP, id=found["id"])["stopSensor"]
        assert said["__typename"] == "StopSensorMutationResult", said

    def partitions(self) -> Sequence[str]:
        """All hours of the archive as Dagster knows them: those of the past, and the current one."""
        query = """query ($key: AssetKeyInput!) {
          assetNodeOrError(assetKey: $key) { ... on AssetNode { partitionKeys } } }"""
        return self.dagster.ask(query, key={"path": [ARCHIVE, "chunks"]})["assetNodeOrError"]["partitionKeys"]

    def ended(self, run_id: str) -> str:
        """The status of a run, once it has ended."""

        def status() -> str:
            (run,) = [run for run in self.dagster.runs() if run["id"] == run_id]
            return run["status"] if run["status"] in _ENDED else ""

        return eventually(status, f"run {run_id} ends", 240)


@contextmanager
def staged(folder: Path) -> Iterator[Stage]:
    """Set it up in `folder`, which the servers' data goes to, and take it down."""
    with Stack(folder / "stack", stay=False, fast=True) as stack:
        # Not by the environment: that of the session's other tests is not to change.
        at = stack.endpoints
        settings = Settings.load().model_copy(
            update={
                "nats_url": at.nats_url,
                "postgres_url": SecretStr(at.postgres_url),
                "s3_endpoint": at.s3_endpoint,
                "s3_region": at.s3_region,
                "s3_access_key_id": at.s3_access_key_id,
                "s3_secret_access_key": SecretStr(at.s3_secret_access_key),
            }
        )
        hours, past = _past(time.time_ns())
        restore_stream(at.nats_url, STREAM, ["orders.>"], [m for hour in hours for m in past[hour]])
        create_bucket(settings.store, BUCKET)
        archive(settings, BUCKET, ARCHIVE, STREAM)
        with Catalog.connect(settings.postgres) as catalog:
            catalog.archives.pause(ARCHIVE)
        _states(folder / "dagster", settings, at.environment)
        with Dagster(folder / "dagster", at.environment) as dagster:
            stage = Stage(stack, dagster, settings, hours, past)
            for state in {*STATES} - {HEALTHY, PAUSED}:
                stage.switch_off(f"{state}_capture_sensor")
                with Catalog.connect(settings.postgres) as catalog:
                    catalog.archives.resume(state)
            assert stage.capture(hours[CAPTURED[0]], hours[CAPTURED[-1]]) == "SUCCESS"
            stack.nats.stop()
            try:
                assert stage.capture(hours[FAILED[0]], hours[FAILED[-1]]) == "FAILURE"
            finally:
                stack.nats.start()
            yield stage


def _states(home: Path, settings: Settings, environment: Mapping[str, str]) -> None:
    """The four archives, as Dagster's database has them before its processes start."""
    home.mkdir(parents=True)
    shutil.copy(ROOT / "dagster.yaml", home)
    with patch.dict(os.environ, environment), DagsterInstance.from_config(str(home)) as instance:
        for state in STATES:
            in_state(settings, instance, BUCKET, state, captured_s=_LATE_S if state == LATE else 0.0)
            if state != HEALTHY:
                with Catalog.connect(settings.postgres) as catalog:
                    catalog.archives.pause(state)


def _past(now_ns: int) -> tuple[list[str], dict[str, list[Past]]]:
    """The hours and the messages of each: orders that come in waves, some 400 an hour."""
    first_ns = hour_start(hour_of(now_ns)) - HOURS * HOUR_NS
    hours = [hour_of(first_ns + n * HOUR_NS) for n in range(HOURS)]
    past: dict[str, list[Past]] = {}
    seq = 0
    for number, hour in enumerate(hours):
        past[hour] = []
        for minute in range(60):
            count = round(7 + 5 * math.sin((60 * number + minute) / 11))
            for n in range(count):
                seq += 1
                at = hour_start(hour) + (minute * 60 + n * 60 // count) * 10**9 + seq
                subject = f"orders.{('eu', 'us', 'apac')[seq % 3]}.{seq % 7}"
                body: dict[str, Any] = {"order": seq, "items": seq % 5 + 1, "total": round(9.9 + seq % 313 / 10, 2)}
                past[hour].append(Past(seq, at, subject, b"", json.dumps(body).encode()))
    return hours, past
