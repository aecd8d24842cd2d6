"""The server: uvicorn runs the application until it is interrupted."""

import uvicorn

from nats3_dagster.api.app import create_app
from nats3_dagster.settings import Settings


def serve(settings: Settings, host: str, port: int) -> None:
    """Serve until SIGINT or SIGTERM; requests that are under way are answered first."""
    uvicorn.run(create_app(settings), host=host, port=port, log_level="warning", server_header=False)
