"""A nats-server of our own for an import or a drill: on loopback, with a token of its own, in a folder that goes with
it."""

import secrets
import shutil
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from pydantic import SecretStr

from nats3_dagster.dev.nats_server import NatsServer
from nats3_dagster.errors import Conflict, EngineError
from nats3_dagster.settings import Settings, home
from nats3_dagster.settings.private import make_folder
from nats3_dagster.temporary_folder import locked_folder

# Bytes of the largest message that a server takes.
_MAX_PAYLOAD = 64 << 20


@dataclass(slots=True)
class OwnServer:
    """The server while it runs."""

    # Those of the caller, with this server instead of theirs. Spark runs here: another host does not reach it.
    settings: Settings
    # True if the folder is to stay for the next one of this name.
    keep: bool = False


def import_server(settings: Settings, archive: str) -> AbstractContextManager[OwnServer]:
    """The server for imports into an archive. What one left that was killed it has still. Raises Conflict while another
    process imports into it, EngineError."""
    busy = Conflict(f"Another process imports into archive {archive}", "Wait for it")
    return _own_server(settings, home() / "imports" / archive, busy)


def drill_server(settings: Settings, rule: str) -> AbstractContextManager[OwnServer]:
    """The server for drills of a rule. Raises Conflict while another process drills it, EngineError."""
    busy = Conflict(f"Another process drills rule {rule}", "Wait for it")
    return _own_server(settings, home() / "drills" / rule, busy)


@contextmanager
def _own_server(settings: Settings, folder: Path, busy: Conflict) -> Iterator[OwnServer]:
    try:
        make_folder(folder.parent)
    except OSError as error:
        hint = "Make room, or set NATS3_HOME"
        raise EngineError(f"{folder.parent} cannot be written: {error.strerror}", hint) from error
    token = secrets.token_urlsafe(32)
    config = f'authorization: {{token: "{token}"}}\nmax_payload: {_MAX_PAYLOAD}'
    try:
        with locked_folder(folder):
            server = NatsServer(folder, config=config, name="nats3-own")
            # One that is still about to end: its process was killed.
            server.find()
            server.stop()
            running = OwnServer(_settings(settings, token))
            try:
                server.start()
                running.settings = running.settings.model_copy(update={"nats_url": server.url})
                yield running
            finally:
                server.stop()
                if not running.keep:
                    shutil.rmtree(folder, ignore_errors=True)
    except BlockingIOError:
        raise busy from None


def _settings(settings: Settings, token: str) -> Settings:
    fields = type(settings).model_fields
    none = {name: field.default for name, field in fields.items() if name.startswith(("nats_", "spark_"))}
    return settings.model_copy(update=none | {"nats_token": SecretStr(token)})
