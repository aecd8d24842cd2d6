"""A nats-server of our own for one import: on loopback, with a token of its own, in a folder that goes with it."""

import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from pydantic import SecretStr

from nats3_dagster.dev.nats_server import NatsServer
from nats3_dagster.errors import Conflict, EngineError
from nats3_dagster.settings import Settings, home
from nats3_dagster.settings.private import make_folder
from nats3_dagster.temporary_folder import locked_folder

# Bytes of the largest message that a server takes.
_MAX_PAYLOAD = 64 << 20


@dataclass(slots=True)
class BackupServer:
    """The server while it runs."""

    # Those of the caller, with this server instead of theirs. Spark runs here: another host does not reach it.
    settings: Settings
    # True if the folder is to stay for the next import of this name.
    keep: bool = False


@contextmanager
def backup_server(settings: Settings, name: str) -> Iterator[BackupServer]:
    """The server for imports into the archive `name`. What one left that was killed it has still. Raises Conflict while
    another process imports under this name, EngineError."""
    folder = home() / "imports" / name
    try:
        make_folder(folder.parent)
    except OSError as error:
        hint = "Make room, or set NATS3_HOME"
        raise EngineError(f"{folder.parent} cannot be written: {error.strerror}", hint) from error
    token = secrets.token_urlsafe(32)
    config = f'authorization: {{token: "{token}"}}\nmax_payload: {_MAX_PAYLOAD}'
    try:
        with locked_folder(folder):
            server = NatsServer(folder, config=config, name="nats3-import")
            # One that is still about to end: its process was killed.
            server.find()
            server.stop()
            running = BackupServer(_settings(settings, token))
            try:
                server.start()
                running.settings = running.settings.model_copy(update={"nats_url": server.url})
                yield running
            finally:
                server.stop()
                if not running.keep:
                    shutil.rmtree(folder, ignore_errors=True)
    except BlockingIOError:
        raise Conflict(f"Another process imports into archive {name}", "Wait for it") from None


def _settings(settings: Settings, token: str) -> Settings:
    fields = type(settings).model_fields
    none = {name: field.default for name, field in fields.items() if name.startswith(("nats_", "spark_"))}
    return settings.model_copy(update=none | {"nats_token": SecretStr(token)})
