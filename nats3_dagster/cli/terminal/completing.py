"""Names that a shell completes: asked of the catalog, NATS or the API, for a second at most.

Invariant: whatever fails, nothing is printed but names: the shell would show it in the middle of a command line.
"""

import logging
import threading
from collections.abc import Callable, Iterable

import typer

LIMIT_S = 1.0


def archives(incomplete: str) -> list[str]:
    """Names of archives that begin so."""
    return _within(_archives, incomplete)


def exports(context: typer.Context, incomplete: str) -> list[str]:
    """Names of the exports, that begin so, of the archive that is named before."""
    archive = str(context.params.get("archive") or "")
    return _within(lambda: _exports(archive), incomplete) if archive else []


def replays(incomplete: str) -> list[str]:
    """Ids of the newest replays that begin so."""
    return _within(_replays, incomplete)


def streams(incomplete: str) -> list[str]:
    """Names of streams that begin so."""
    return _within(_streams, incomplete)


def chunks(context: typer.Context, incomplete: str) -> list[str]:
    """Ids of the chunks, that begin so, of the archive that is named before."""
    name = str(context.params.get("name") or "")
    return _within(lambda: _chunks(name), incomplete) if name else []


def _within(look: Callable[[], Iterable[str]], incomplete: str) -> list[str]:
    """Returns its result, or nothing if it fails or takes longer. What goes on then ends with the process."""
    names = list[str]()

    def run() -> None:
        try:
            names.extend(look())
        except Exception:  # a shell that completes has no use for it
            return

    logging.disable(logging.CRITICAL)
    try:
        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        thread.join(LIMIT_S)
    finally:
        logging.disable(logging.NOTSET)
    return [name for name in list(names) if name.startswith(incomplete) and name.isprintable()]


def _archives() -> list[str]:
    from nats3_dagster.cli.remote import server
    from nats3_dagster.settings import Settings
    from nats3_dagster.workspace import Workspace

    settings = Settings.load()
    with server(settings) as api:
        if api:
            return [one["name"] for one in api.archives()]
    with Workspace(settings) as workspace:
        return [archive.name for archive in workspace.catalog.archives.all()]


def _exports(archive: str) -> list[str]:
    from nats3_dagster.exports.status import listed
    from nats3_dagster.settings import Settings
    from nats3_dagster.workspace import Workspace

    with Workspace(Settings.load()) as workspace:
        return [one.export.name for one in listed(workspace, archive)]


def _replays() -> list[str]:
    from nats3_dagster.cli.remote import server
    from nats3_dagster.replay.status import statuses
    from nats3_dagster.settings import Settings
    from nats3_dagster.workspace import Workspace

    settings = Settings.load()
    with server(settings) as api:
        if api:
            return [one["id"] for one in api.replays(None, 100)]
    with Workspace(settings) as workspace:
        return [one.replay.id for one in statuses(workspace, limit=100)]


def _streams() -> list[str]:
    from nats3_dagster.archive.source.streams import report
    from nats3_dagster.settings import Settings
    from nats3_dagster.workspace import Workspace

    with Workspace(Settings.load()) as workspace:
        return [one.state.incarnation.stream for one in report(workspace)]


def _chunks(archive: str) -> list[str]:
    from nats3_dagster.archive.status import chunks as of_archive
    from nats3_dagster.settings import Settings
    from nats3_dagster.workspace import Workspace

    with Workspace(Settings.load()) as workspace:
        return [str(chunk.id) for chunk in of_archive(workspace, archive)]
