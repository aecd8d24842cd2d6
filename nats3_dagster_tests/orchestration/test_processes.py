"""Webserver, daemon and code server started separately, as in production, and archives that come and go meanwhile."""

from pathlib import Path
from typing import Any

import pytest

from nats3_dagster.cli.reload import reload_dagster
from nats3_dagster.dev.nats_server import NatsServer
from nats3_dagster.dev.process import free_port
from nats3_dagster.settings import Settings
from nats3_dagster_tests.support.commands import Command
from nats3_dagster_tests.support.dagster.processes import Dagster
from nats3_dagster_tests.support.dagster.stories import archive, archived
from nats3_dagster_tests.support.waiting import eventually
from nats3_dagster_tests.support.wire import Wire

pytestmark = pytest.mark.slow


@pytest.mark.steady_hour(100)
@pytest.mark.timeout(300)  # two captures, each a process with a JVM of its own
def test_archives_are_captured_without_a_hand_also_those_created_meanwhile(
    settings: Settings,
    wire: Wire,
    bucket: str,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    nats3 = Command(capfd)
    wire.create_stream("EV", "ev.>")
    wire.create_stream("OT", "ot.>")
    archive(settings, bucket, max_age_s=1)
    with Dagster(tmp_path / "dagster", {}) as dagster:
        assert {name for name in dagster.assets() if "other" in name} == set()
        # The age of an hour's oldest message is what makes a capture due.
        wire.publish([("ev.a", b"", b"%d" % n) for n in range(300)])
        wire.publish([("ot.a", b"", b"%d" % n) for n in range(200)])

        monkeypatch.setenv("NATS3_DAGSTER_URL", dagster.url)
        made = nats3.ok("store", "create", "--name", "other", "--stream", "OT", "--bucket", bucket, "--max-age", "1s")
        assert "Dagster reloaded nats3;" in made.err
        assert dagster.assets() >= {"jetstream/OT", "other/chunks", "other/replay"}
        eventually(lambda: archived(settings) == 300, "the daemon captures the archive that was there")
        eventually(lambda: archived(settings, "other") == 200, "the daemon captures the archive created meanwhile")
        runs = eventually(lambda: _ended(dagster), "both runs end")
        assert {run["status"] for run in runs} == {"SUCCESS"}
        # More than these where an hour ends meanwhile.
        assert {run["tags"]["dagster/sensor_name"] for run in runs} >= {"events_capture_sensor", "other_capture_sensor"}
        assert dagster.daemon.running
        for name in ("dagster", "dagster-webserver", "dagster-daemon"):
            assert "Traceback" not in dagster.log(name)

        gone = nats3.ok("store", "delete", "other", "--yes")
        assert "Dagster reloaded nats3;" in gone.err
        assert not {name for name in dagster.assets() if name.startswith("other/")}


def _ended(dagster: Dagster) -> list[dict[str, Any]]:
    """All runs, when none of them is under way."""
    runs = dagster.runs()
    return runs if all(run["status"] in ("SUCCESS", "FAILURE") for run in runs) else []


def test_a_dagster_that_is_not_there_is_told_in_a_line(nats: NatsServer) -> None:
    by_hand = "reload the code location in the Dagster UI (Deployment, Reload)"
    assert reload_dagster(Settings.load()) == (
        f"If Dagster runs, {by_hand}; with NATS3_DAGSTER_URL set, this command does it"
    )
    # Nobody, one that speaks no HTTP, and no address at all.
    for url in (f"http://127.0.0.1:{free_port()}", nats.url.replace("nats://", "http://"), "file:///etc/passwd"):
        said = reload_dagster(Settings.load().model_copy(update={"dagster_url": url}))
        assert said.startswith("The Dagster at NATS3_DAGSTER_URL did not reload (")
        assert said.endswith(f"); {by_hand}")
        assert "\n" not in said
