"""`/ping`: whether the server answers."""

from fastapi import APIRouter
from fastapi.responses import PlainTextResponse

router = APIRouter(tags=["status"])


@router.get("/ping", response_class=PlainTextResponse)
def ping() -> str:
    """The server answers."""
    return "pong"
