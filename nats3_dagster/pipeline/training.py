"""The program of a JVM while its classes are archived (classes.py): a session, and tasks as captures and replays
have."""

from collections.abc import Iterator

from nats3_dagster.pipeline.session import session
from nats3_dagster.pipeline.tasks import run_tasks


def _work(number: int) -> Iterator[int]:
    yield number


if __name__ == "__main__":
    with session() as spark:
        run_tasks(spark, "training", _work, (1, 2))
