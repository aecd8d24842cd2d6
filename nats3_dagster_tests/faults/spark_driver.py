"""A driver with a warm Spark session: `python -m nats3_dagster_tests.faults.spark_driver SOCKET`.

It takes requests as the fork server does, one after the other in its own process: so what kills it kills the session,
and the next one starts a JVM of its own.
"""

import os
import socket
import sys
from typing import Any

from nats3_dagster import fault_points
from nats3_dagster.archive.captures.due import select_hours
from nats3_dagster.errors import Nats3Error
from nats3_dagster.pipeline.replay_run import run_replay
from nats3_dagster.pipeline.session import session
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.faults import jobs
from nats3_dagster_tests.faults.forks import Ended, Request, receive, send
from nats3_dagster_tests.faults.topology import MASTER

# Names the fault of the Python workers; NATS3_FAULT is the driver's.
WORKER_FAULT = "NATS3_FAULTS_WORKER"


def capture(spark: Any, archive: str) -> int:
    settings = Settings.load()
    with Workspace(settings) as workspace:
        hours = select_hours(workspace, archive)
    return jobs.capture_hours(spark, settings, archive, hours)


def replay(spark: Any, replay_id: str) -> int:
    return run_replay(spark, Settings.load(), replay_id).published


def main(path: str) -> None:
    jobs.small_settings()
    with session(os.environ[MASTER]) as spark:
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(path)
        listener.listen(8)
        print("ready", flush=True)
        while True:
            connection, _ = listener.accept()
            request: Request = receive(connection)
            os.environ.update(request.environment)
            fault_points.arm(request.environment.get("NATS3_FAULT", ""))
            # Workers of another environment are other processes.
            spark.sparkContext.environment["NATS3_FAULT"] = request.environment.get(WORKER_FAULT, "")
            send(connection, os.getpid())
            try:
                ended = Ended(request.work(spark, *request.arguments))
            except Nats3Error as error:
                ended = Ended(None, type(error).__name__, str(error))
            except Exception as error:
                ended = Ended(None, f"Defect {type(error).__name__}", str(error))
            with connection:
                send(connection, ended)


if __name__ == "__main__":
    main(sys.argv[1])
