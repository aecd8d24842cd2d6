"""`nats3 connect-server`: the Spark Connect server of this installation."""

from typing import Annotated

import typer

from nats3_dagster.cli.terminal.progress import note
from nats3_dagster.errors import OperatorError
from nats3_dagster.pipeline.connect_server import HOST, run
from nats3_dagster.pipeline.java import CONNECT_PORT
from nats3_dagster.settings import Settings


def connect_server(
    host: Annotated[str, typer.Option("--host", metavar="ADDRESS", help="The address to listen on.")] = HOST,
    port: Annotated[int, typer.Option("--port", min=1, max=65535, help="The port to listen on.")] = CONNECT_PORT,
    conf: Annotated[
        list[str] | None,
        typer.Option("--conf", metavar="NAME=VALUE", help="A setting of Spark. May be repeated."),
    ] = None,
) -> None:
    """Run the Spark Connect server until it is stopped: captures and replays then start no JVM of their own.

    They find it by NATS3_SPARK_REMOTE. It asks for the token of NATS3_SPARK_TOKEN, and listens on loopback only where
    none is set. Start it again after an update: clients refuse a server of another release."""
    for one in conf or ():
        if one.find("=") < 1:
            raise OperatorError("--conf has no NAME=VALUE", "Write it as --conf spark.driver.memory=1g", field="conf")
    settings = Settings.load()
    if settings.spark_token is None:
        note("No token is set (NATS3_SPARK_TOKEN): every user of this machine can run code here as its user")
    run(settings, host, port, conf or ())
