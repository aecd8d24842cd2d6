"""`/archive/{name}/...`: messages of an archive."""

from typing import Annotated

from fastapi import APIRouter, Path, Query

from nats3_dagster.api.context import Document, Work
from nats3_dagster.api.models.message_models import Message, MessageReference
from nats3_dagster.api.parameters import time_in
from nats3_dagster.archive.read import answers
from nats3_dagster.archive.read.references import MAX_EXPIRES_S
from nats3_dagster.bodies.base import Text
from nats3_dagster.model.stream import MAX_SEQUENCE
from nats3_dagster.views import messages as views

router = APIRouter(prefix="/archive/{name}", tags=["messages"])

Name = Annotated[Text, Path(description="Name of the archive.", examples=["logs"])]
Incarnation = Annotated[
    Text | None, Query(description="Of this life of the stream, as messages name it; without it of the newest.")
]
Subject = Annotated[Text, Query(description="A subject, or a NATS filter.", examples=["logs.>"])]
Sequence = Annotated[int, Query(ge=1, le=MAX_SEQUENCE, description="The sequence in the stream.", examples=[42])]


@router.get("/message", response_model=Message)
def get_message(
    name: Name, work: Work,
    seq: Annotated[int | None, Query(ge=1, le=MAX_SEQUENCE, description="The sequence in the stream.")] = None,
    at: Annotated[
        str | None, Query(description="Or the first message stored at this time (RFC 3339, or -2h) or later.")
    ] = None,
    incarnation: Incarnation = None,
) -> Document:  # fmt: skip
    """One message, by its sequence or its time. 404 says why there is none."""
    message = answers.get(work, name, seq=seq, at_ns=time_in("at", at), incarnation=incarnation)
    return Document(views.message(message))


@router.get("/message/next", response_model=Message)
def get_next_message(
    name: Name, work: Work, subject: Subject,
    after: Annotated[int, Query(ge=0, le=MAX_SEQUENCE, description="Behind this sequence; 0 for the first one.")] = 0,
    incarnation: Incarnation = None,
) -> Document:  # fmt: skip
    """The next message of a subject, or of a filter, behind a sequence."""
    return Document(views.message(answers.next_of(work, name, subject, after, incarnation=incarnation)))


@router.get("/message/last", response_model=Message)
def get_last_message(
    name: Name, work: Work, subject: Subject,
    at: Annotated[str | None, Query(description="As it was at this time (RFC 3339, or -2h).")] = None,
) -> Document:  # fmt: skip
    """The last message of a subject, or of a filter; also as of a time."""
    return Document(views.message(answers.last_of(work, name, subject, at_ns=time_in("at", at))))


@router.get("/message/ref", response_model=MessageReference)
def get_message_reference(
    name: Name, work: Work, seq: Sequence,
    expires: Annotated[int, Query(ge=1, le=MAX_EXPIRES_S, description="Seconds until the URL ends.")] = 3600,
    incarnation: Incarnation = None,
) -> Document:  # fmt: skip
    """A reference to one message: a URL of its object, and how to read it from there, without this server."""
    return Document(views.reference(answers.reference(work, name, seq, expires, incarnation=incarnation)))
