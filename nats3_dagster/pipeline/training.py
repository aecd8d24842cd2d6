"""What a JVM is shown while its classes are archived (classes.py): a session, and tasks as a run has them.

The rule kept here: as small as can be, and by the same way as a capture and a replay go.
"""

from collections.abc import Iterator


def _shown(number: int) -> Iterator[int]:
    yield number


if __name__ == "__main__":
    from nats3_dagster.pipeline.session import session
    from nats3_dagster.pipeline.tasks import run_tasks

    with session() as spark:
        run_tasks(spark, "training", _shown, (1, 2))
