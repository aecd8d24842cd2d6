"""Parameters of queries that are read alike."""

from typing import Annotated
from uuid import UUID

from fastapi import Query

from nats3_dagster.errors import blaming
from nats3_dagster.hours import parse_time

JobId = Annotated[UUID, Query(description="Id of the job.", examples=["7f0f3f0a-2d0e-4d5c-9f4e-6f1f0f6b8a11"])]


def time_in(field: str, text: str | None) -> int | None:
    """The time that a parameter gives. Raises OperatorError that names the parameter."""
    with blaming(field):
        return None if text is None else parse_time(text)
