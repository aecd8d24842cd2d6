"""What processes of the faults of consumer mode do: the jobs of jobs.py, with small settings of their own."""

from nats3_dagster.archive.source import durables
from nats3_dagster.archive.take import plan
from nats3_dagster.model import ArchiveSpec
from nats3_dagster_tests.faults import jobs

# Messages of a claim: small workloads then have several tasks and rounds.
CLAIM_MESSAGES = 100


def create(spec: ArchiveSpec) -> None:
    _small_settings()
    jobs.create(spec)


def take(archive: str, adopt: bool = False) -> int:
    """Take all that the durable has; the messages."""
    _small_settings()
    return jobs.capture(archive, adopt)


def _small_settings() -> None:
    """In this process. What a process that was killed has pulled comes again after a second."""
    durables.LEAST_ACK_WAIT_S = 1
    plan.CHUNK_MESSAGES = plan.TASK_MESSAGES = CLAIM_MESSAGES
