"""The Dagster of a stack: one that answers is left alone, whoever asks for one; one that does not is replaced."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from nats3_dagster.dev import dagster_server
from nats3_dagster.dev.dagster_server import DagsterServer
from nats3_dagster.dev.process import free_port, wait_for
from nats3_dagster.settings import Settings

pytestmark = pytest.mark.slow

MUTE = "import time; time.sleep(120)"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of a stack without servers; whatever Dagster runs there is stopped in the end."""
    monkeypatch.setenv("NATS3_HOME", str(tmp_path))
    yield tmp_path
    server = DagsterServer(tmp_path)
    if server.find():
        server.stop()


def test_one_that_answers_is_left_alone_and_one_that_does_not_is_replaced(
    home: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dagster_server, "PATIENCE_S", 0.3)
    workspace = home / "dagster" / "workspace.yaml"
    words = ["-w", str(workspace), "-p", str(free_port())]
    with subprocess.Popen([sys.executable, "-c", MUTE, *words], start_new_session=True) as mute:
        first = DagsterServer(home)
        # A process has its command line some time after its start.
        assert wait_for(first.find, 30)
        assert first.ui() is None
        ui = first.start(free_port(), {})
        assert mute.wait(10) != 0
    assert (ui.is_new, ui.replaced) == (True, mute.pid)

    second = DagsterServer(home).start(free_port(), {})
    assert (second.address, second.pid, second.started_at) == (ui.address, ui.pid, ui.started_at)
    assert (second.is_new, second.replaced) == (False, None)
    assert first.running
    first.stop()
    assert not DagsterServer(home).find()
