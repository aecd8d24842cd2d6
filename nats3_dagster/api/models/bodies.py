"""Parts of answers and queries that several routes share."""

from typing import Annotated, Any, get_type_hints
from uuid import UUID

from fastapi import Query
from pydantic import BaseModel, ConfigDict, Field, create_model

from nats3_dagster.bodies.base import attribute_of
from nats3_dagster.model.spec_table import settings_of


class Answer(BaseModel):
    """An answer. What a view adds must be documented here."""

    model_config = ConfigDict(extra="forbid")


def answer_with_settings(name: str, spec: type[Any]) -> type[Answer]:
    """An answer with the settings of a spec, by their keys."""
    types = get_type_hints(spec)
    fields: dict[str, Any] = {}
    for one in settings_of(spec):
        kind: Any = list[str] if one.kind.is_list else types[one.name]
        attribute, alias = attribute_of(one.key)
        fields[attribute] = (kind, Field(alias=alias, description=one.help))
    return create_model(name, __base__=Answer, **fields)


JobId = Annotated[UUID, Query(description="Id of the job.", examples=["7f0f3f0a-2d0e-4d5c-9f4e-6f1f0f6b8a11"])]
