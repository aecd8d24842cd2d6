"""What an archive's source says now: asked of real servers, never written, and never waited for long."""

import time
from typing import Any

import pytest

from nats3_dagster.archive.captures.open import open_source
from nats3_dagster.archive.lifecycle.create import create
from nats3_dagster.archive.source import condition as module
from nats3_dagster.archive.source.condition import Condition, condition, conditions
from nats3_dagster.catalog import Catalog
from nats3_dagster.dev.process import free_port
from nats3_dagster.errors import OperatorError
from nats3_dagster.model import Archive, ArchiveSpec, Gap, SeqRange
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.conftest import NatsFactory, freeze
from nats3_dagster_tests.support.commands import everything
from nats3_dagster_tests.support.wire import Wire

MESSAGES = 500


@pytest.fixture
def archive(workspace: Workspace, wire: Wire, bucket: str) -> Archive:
    """Of a stream with 500 messages, of which nothing is captured."""
    wire.create_stream("EV", "ev.>")
    archive = create(workspace, ArchiveSpec("events", "EV", bucket))
    wire.publish([("ev.a", b"", b"x")] * MESSAGES)
    return archive


def cover(workspace: Workspace, archive: Archive, first: int, last: int) -> None:
    """As if these sequences were captured."""
    state = open_source(workspace, archive).state
    workspace.catalog.chunks.commit(archive, [], [Gap(state.incarnation, (SeqRange(first, last),), "unselected")])


def without_writing(workspace: Workspace, archive: Archive, s3_client: Any, bucket: str) -> Condition:
    """The condition, the same for one archive and in a list; nothing is written."""
    settings = workspace.settings

    def seen() -> Any:
        return everything(settings.postgres, settings.nats_url or "", s3_client, bucket)

    before = seen()
    found = condition(workspace, archive)
    listed = conditions(workspace, [archive])[archive.id]
    assert seen() == before
    assert (listed.source, str(listed.error)) == (found.source, str(found.error))
    assert (listed.waiting and listed.waiting.behind) == (found.waiting and found.waiting.behind)
    return found


def test_what_is_not_captured_and_for_how_long(
    workspace: Workspace, archive: Archive, s3_client: Any, bucket: str, wire: Wire
) -> None:
    found = without_writing(workspace, archive, s3_client, bucket)
    assert (found.source, found.error) == ("ok", None)
    assert found.waiting
    assert (found.waiting.behind, found.waiting.gone) == (MESSAGES, 0)
    assert 0 < found.waiting.behind_s < 60
    cover(workspace, archive, 1, 400)
    wire.api("STREAM.PURGE.EV", seq=421)
    found = without_writing(workspace, archive, s3_client, bucket)
    assert found.waiting
    assert (found.waiting.behind, found.waiting.gone, found.waiting.first_seq) == (80, 20, 421)
    cover(workspace, archive, 401, 500)
    found = condition(workspace, archive)
    assert found.waiting
    assert found.waiting.is_empty


def test_a_stream_that_is_gone_or_another_one(
    workspace: Workspace, archive: Archive, s3_client: Any, bucket: str, wire: Wire
) -> None:
    wire.api("STREAM.DELETE.EV")
    found = without_writing(workspace, archive, s3_client, bucket)
    assert (found.source, found.waiting) == ("missing", None)
    assert str(found.error).startswith("There is no stream EV at NATS ")
    wire.create_stream("EV", "ev.>")
    found = without_writing(workspace, archive, s3_client, bucket)
    assert (found.source, found.waiting) == ("recreated", None)
    assert "EV was deleted and made again at " in str(found.error)


def test_a_stream_that_lost_its_end(workspace: Workspace, archive: Archive, s3_client: Any, bucket: str) -> None:
    cover(workspace, archive, 1, MESSAGES + 7)
    found = without_writing(workspace, archive, s3_client, bucket)
    assert (found.source, found.waiting) == ("shrunk", None)
    assert "ends at sequence 500, and archive events holds it up to 507" in str(found.error)


def at_nats(settings: Settings, url: str | None) -> Workspace:
    return Workspace(settings.model_copy(update={"nats_url": url}))


@pytest.mark.parametrize(
    ("url", "error"),
    [
        (None, "The address of NATS is not set"),
        ("nats://127.0.0.1:{port}", "Nothing listens for NATS at 127.0.0.1:"),
    ],
)
def test_a_server_that_is_not_there(
    workspace: Workspace, archive: Archive, settings: Settings, url: str | None, error: str
) -> None:
    with at_nats(settings, url and url.format(port=free_port())) as elsewhere:
        began = time.monotonic()
        found = conditions(elsewhere, [archive])[archive.id]
        assert time.monotonic() - began < 8  # who connects waits for longer
    assert (found.source, found.waiting) == ("unreachable", None)
    assert str(found.error).startswith(error)


@pytest.mark.parametrize("connected", [False, True])
def test_a_server_that_hangs(
    workspace: Workspace,
    archive: Archive,
    settings: Settings,
    nats_factory: NatsFactory,
    connected: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert module.STREAM_PATIENCE_S < module.PATIENCE_S <= 2
    monkeypatch.setattr(module, "PATIENCE_S", 0.4)
    monkeypatch.setattr(module, "STREAM_PATIENCE_S", 0.3)
    server = nats_factory()
    if connected:  # it hangs when it is asked
        ask = module.stream_states

        def asked(*args: Any) -> Any:
            freeze(server)
            return ask(*args)

        monkeypatch.setattr(module, "stream_states", asked)
    else:
        freeze(server)
    with at_nats(settings, server.url) as elsewhere:
        began = time.monotonic()
        found = conditions(elsewhere, [archive])[archive.id]
        assert time.monotonic() - began < 8  # who connects waits for longer
    assert found.source == "unreachable"
    assert "did not answer within" in str(found.error)


def test_without_an_archive_nobody_is_asked(postgres_url: str) -> None:
    with Workspace(Settings(postgres_url=postgres_url)) as workspace:  # type: ignore[call-arg, arg-type]
        assert conditions(workspace, []) == {}


def test_a_catalog_that_fails_is_no_source_that_fails(
    workspace: Workspace, archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> Any:
        raise OperatorError("the catalog")

    monkeypatch.setattr(workspace.catalog.coverage, "now", broken)
    assert isinstance(workspace.catalog, Catalog)
    with pytest.raises(OperatorError, match="the catalog"):
        condition(workspace, archive)
