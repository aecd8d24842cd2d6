"""Archives that are created or deleted while Dagster runs, and that nobody asked it to load. That it then loads them:
orchestration/test_two_servers."""

from nats3_dagster.archive.lifecycle.create import create
from nats3_dagster.archive.lifecycle.remove import delete
from nats3_dagster.defs.sensors.reload_changed import reload_changed
from nats3_dagster.dev.process import free_port
from nats3_dagster.model import ArchiveSpec
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.wire import Wire


def test_a_tick_says_which_archives_dagster_has_not_loaded(workspace: Workspace, wire: Wire, bucket: str) -> None:
    wire.create_stream("EV", "ev.>")
    settings = workspace.settings

    def said(**loaded: int) -> str:
        return reload_changed(settings, workspace, loaded)

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
    assert "did not reload (" in reload_changed(nobody, workspace, {})
