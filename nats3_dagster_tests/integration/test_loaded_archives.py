"""Archives that are created or deleted while Dagster runs, and that nobody asked it to load. That it then loads them:
orchestration/test_two_servers."""

import pytest

from nats3_dagster.archive.lifecycle.create import create
from nats3_dagster.archive.lifecycle.remove import delete
from nats3_dagster.defs.sensors import loaded_archives
from nats3_dagster.defs.sensors.loaded_archives import LoadedArchives
from nats3_dagster.dev.process import free_port
from nats3_dagster.model import ArchiveSpec
from nats3_dagster.runs.reload import Reloaded
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.wire import Wire


def present(workspace: Workspace) -> dict[str, int]:
    return {version.name: version.id for version in workspace.catalog.archives.versions()}


def test_a_tick_says_which_archives_dagster_has_not_loaded(workspace: Workspace, wire: Wire, bucket: str) -> None:
    wire.create_stream("EV", "ev.>")
    settings = workspace.settings

    def said(**loaded: int) -> str:
        return LoadedArchives(loaded).reload_if_changed(settings, present(workspace))

    assert said() == ""
    spec = ArchiveSpec(name="events", stream="EV", bucket=bucket)
    first = create(workspace, spec).id
    assert said(events=first) == ""
    created = said()
    assert created.startswith("Created or deleted since Dagster loaded the archives: events. Reload the code location;")
    assert "loaded the archives: gone." in said(events=first, gone=first + 1)
    delete(workspace, "events")
    # One that is made again under its name is another archive.
    create(workspace, spec)
    assert "loaded the archives: events." in said(events=first)
    others = {f"a{n}": n for n in range(7)}
    assert ": a0, a1, a2, a3, a4 and 3 more." in said(**others)
    nobody = settings.model_copy(update={"dagster_url": f"http://127.0.0.1:{free_port()}"})
    unloaded = LoadedArchives({})
    for _ in range(10):  # it is asked for as long as it does not answer
        assert "did not reload (" in unloaded.reload_if_changed(nobody, present(workspace))


def test_a_code_server_that_does_not_load_again_is_named(
    workspace: Workspace, wire: Wire, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`dagster api grpc`: the webserver says that it has reloaded the location, and the process is the same."""
    wire.create_stream("EV", "ev.>")
    create(workspace, ArchiveSpec(name="events", stream="EV", bucket=bucket))
    asked: list[str] = []
    monkeypatch.setattr(loaded_archives, "reload_locations", lambda url, _: asked.append(url) or Reloaded(("nats3",)))
    settings = workspace.settings.model_copy(update={"dagster_url": "http://127.0.0.1:1"})
    same = LoadedArchives({})
    said = [same.reload_if_changed(settings, present(workspace)) for _ in range(8)]
    assert len(asked) == 5
    assert said[4].endswith("events. Dagster reloads nats3")
    assert {text.rpartition(". ")[2] for text in said[5:]} == {
        "Dagster reloaded 5 times, and this code server did not: start it again"
    }
