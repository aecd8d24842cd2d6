"""Parts of answers and queries that several routes share."""

from typing import Annotated
from uuid import UUID

from fastapi import Query
from pydantic import BaseModel, ConfigDict


class Answer(BaseModel):
    """An answer. What a view adds must be documented here."""

    model_config = ConfigDict(extra="forbid")


JobId = Annotated[UUID, Query(description="Id of the job.", examples=["7f0f3f0a-2d0e-4d5c-9f4e-6f1f0f6b8a11"])]
