"""A client of Spark Connect: `python -m nats3_dagster_tests.faults.connect_client capture|replay NAME`.

It prints `ok`, or the class and the text of the error. The server is that of NATS3_SPARK_REMOTE.
"""

import sys

from nats3_dagster.errors import Nats3Error
from nats3_dagster.pipeline.session import session
from nats3_dagster.settings import Settings
from nats3_dagster_tests.faults import jobs, spark_driver

WORKS = {"capture": spark_driver.capture, "replay": spark_driver.replay}


def main(what: str, name: str) -> None:
    jobs.small_settings()
    try:
        with session(remote=Settings.load().connect) as spark:
            WORKS[what](spark, name)
        print("ok")
    except Nats3Error as error:
        print(f"{type(error).__name__}: {error}")
    except Exception as error:
        print(f"Defect {type(error).__name__}: {error}")


if __name__ == "__main__":
    main(*sys.argv[1:])
