"""`/archive/{name}/...`: messages of an archive."""

from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Header, Path, Query, Response
from pydantic_core import to_json

from nats3_dagster.api.context import Json, Work
from nats3_dagster.api.json_bodies import JsonRoute
from nats3_dagster.api.parameters import time_in
from nats3_dagster.archive.read import answers
from nats3_dagster.archive.read.references import MAX_EXPIRES_S
from nats3_dagster.bodies.base import Text
from nats3_dagster.documents.messages import Message, MessagePage, MessageReference
from nats3_dagster.errors import calling
from nats3_dagster.model import Selection
from nats3_dagster.model.stream import MAX_SEQUENCE

# Messages of a page, and bytes of their headers and payloads unless a single message has more.
MOST, MOST_BYTES = 1000, 1 << 20
LINES = "application/x-ndjson"
router = APIRouter(prefix="/archive/{name}", tags=["messages"], route_class=JsonRoute)

Name = Annotated[Text, Path(description="Name of the archive.", examples=["logs"])]
Incarnation = Annotated[
    Text | None, Query(description="Of this life of the stream, as messages name it; without it of the newest.")
]
Subject = Annotated[Text, Query(description="A subject, or a NATS filter.", examples=["logs.>"])]
Sequence = Annotated[int, Query(ge=1, le=MAX_SEQUENCE, description="The sequence in the stream.", examples=[42])]


@router.get("/message", response_model=Message)
def get_message(
    name: Name,
    work: Work,
    seq: Annotated[int | None, Query(ge=1, le=MAX_SEQUENCE, description="The sequence in the stream.")] = None,
    at: Annotated[
        str | None, Query(description="Or the first message stored at this time (RFC 3339, or -2h) or later.")
    ] = None,
    incarnation: Incarnation = None,
) -> Json:
    """One message, by its sequence or its time. 404 says why there is none."""
    message = answers.get(work, name, seq=seq, at_ns=time_in("at", at), incarnation=incarnation)
    return Json(Message.of(message))


@router.get("/message/next", response_model=Message)
def get_next_message(
    name: Name,
    work: Work,
    subject: Subject,
    after: Annotated[int, Query(ge=0, le=MAX_SEQUENCE, description="After this sequence; 0 for the first one.")] = 0,
    incarnation: Incarnation = None,
) -> Json:
    """The next message of a subject, or of a filter, after a sequence."""
    return Json(Message.of(answers.next_of(work, name, subject, after, incarnation=incarnation)))


@router.get("/message/last", response_model=Message)
def get_last_message(
    name: Name,
    work: Work,
    subject: Subject,
    at: Annotated[str | None, Query(description="As it was at this time (RFC 3339, or -2h).")] = None,
) -> Json:
    """The last message of a subject, or of a filter; also as of a time."""
    return Json(Message.of(answers.last_of(work, name, subject, at_ns=time_in("at", at))))


@router.get("/message/ref", response_model=MessageReference)
def get_message_reference(
    name: Name,
    work: Work,
    seq: Sequence,
    expires: Annotated[int, Query(ge=1, le=MAX_EXPIRES_S, description="Seconds until the URL ends.")] = 3600,
    incarnation: Incarnation = None,
) -> Json:
    """A reference to one message: a URL of its object, and how to read it from there, without this server."""
    return Json(MessageReference.of(answers.reference(work, name, seq, expires, incarnation=incarnation)))


@router.get(
    "/messages",
    response_model=MessagePage,
    responses={
        200: {
            "content": {LINES: {"schema": {"type": "string"}}},
            "headers": {
                name: {"schema": {"type": "string"}, "description": f"`{name.rpartition('-')[2].lower()}` of the page."}
                for name in ("Nats3-Next", "Nats3-Cursor")
            }
            | {
                "Nats3-Removed": {
                    "schema": {"type": "string"},
                    "description": "Messages of the selection, at most, that were removed after a replay.",
                }
            },
        }
    },
)
def list_messages(
    name: Name,
    work: Work,
    hour: Annotated[
        list[str] | None,
        Query(description="Only of this hour. May be repeated.", examples=[["2026-11-21-07:00"]], max_length=MOST),
    ] = None,
    from_time: Annotated[str | None, Query(description="From this store time on (RFC 3339, or -2h).")] = None,
    to_time: Annotated[str | None, Query(description="Up to before this store time.")] = None,
    sequences: Annotated[str | None, Query(description="Sequences, both included: 1000-2000.")] = None,
    subject: Annotated[
        list[Text] | None, Query(description="Only of this NATS filter. May be repeated.", max_length=100)
    ] = None,
    over_gaps: Annotated[bool, Query(description="Give what is archived, even if messages between were lost.")] = False,
    limit: Annotated[int, Query(ge=1, le=MOST, description="Messages of a page; it ends earlier at 1 MiB.")] = 100,
    cursor: Annotated[str | None, Query(description="Of a page before, in place of a selection.")] = None,
    accept: Annotated[str | None, Header(description="application/x-ndjson: a message a line.")] = None,
) -> Response:
    """A page of the messages of a selection, in the order of the stream. 409 if some of them were lost, unless
    `over_gaps`."""
    times = {"from_ns": time_in("from_time", from_time), "to_ns": time_in("to_time", to_time)}
    with calling({"hours": "hour", "subjects": "subject", "to_ns": "to_time"}):
        selection = replace(Selection.parse(hours=hour, sequences=sequences, subjects=subject), **times)
    page = answers.page(
        work,
        name,
        None if cursor and selection == Selection() else selection,
        cursor,
        over_gaps=over_gaps,
        limit=limit,
        most_bytes=MOST_BYTES,
    )
    if accept is None or LINES not in accept:
        return Json(MessagePage.of(page))
    lines = b"".join(to_json(Message.of(message)) + b"\n" for message in page.messages)
    ends = {"Nats3-Cursor": page.cursor} | ({"Nats3-Next": page.cursor} if page.has_more else {})
    if page.removed:
        ends["Nats3-Removed"] = str(sum(part.messages for part in page.removed))
    return Response(lines, media_type=LINES, headers=ends)
