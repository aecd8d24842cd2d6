"""Requests for messages, as a server reads them (ADR-31; nats-server 2.15, jetstream_api.go and stream.go). Pure."""

import json
from dataclasses import dataclass
from typing import Any, cast

from nats3_dagster.errors import Nats3Error
from nats3_dagster.hours import parse_time
from nats3_dagster.model.stream import MAX_SEQUENCE


class BadRequest(Exception):
    """A request that no stream answers; its text is that of the status 408."""


@dataclass(frozen=True, slots=True)
class GetRequest:
    """The messages that are wanted; a field that is 0, empty or None was not given."""

    seq: int = 0
    last_by_subj: str = ""
    next_by_subj: str = ""
    # The most messages, and the most bytes of subjects, headers and payloads.
    batch: int = 0
    max_bytes: int = 0
    # Nanoseconds since 1970.
    start_ns: int | None = None
    # Filters: the last message of each subject that one of them takes, as the stream was at a sequence or a time.
    multi_last: tuple[str, ...] = ()
    up_to_seq: int = 0
    up_to_ns: int | None = None
    no_headers: bool = False

    @property
    def is_empty(self) -> bool:
        asked = self.seq or self.last_by_subj or self.next_by_subj or self.multi_last
        return not asked and self.start_ns is None

    @property
    def contradicts_itself(self) -> bool:
        """True for what DIRECT.GET refuses."""
        last, next_, multi = bool(self.last_by_subj), bool(self.next_by_subj), bool(self.multi_last)
        has_time = self.start_ns is not None
        return (
            (self.seq > 0 and (last or has_time))
            or (last and (has_time or next_ or self.batch > 0 or multi))
            or (next_ and multi)
            or (self.up_to_seq > 0 and self.up_to_ns is not None)
        )


def parse(payload: bytes) -> GetRequest:
    """Raises BadRequest for what is no request."""
    if not payload:
        raise BadRequest("Empty Request")
    try:
        body = json.loads(payload)
        if not isinstance(body, dict):
            raise BadRequest("Malformed Request")
        return _of(cast(dict[str, Any], body))
    except (ValueError, Nats3Error) as error:
        raise BadRequest("Malformed Request") from error


def _of(body: dict[str, Any]) -> GetRequest:
    """Raises ValueError, and OperatorError for a malformed time."""
    multi = body.get("multi_last") or []
    if not isinstance(multi, list) or not all(isinstance(one, str) for one in cast(list[Any], multi)):
        raise ValueError
    return GetRequest(
        seq=_number(body, "seq"),
        last_by_subj=_text(body, "last_by_subj"),
        next_by_subj=_text(body, "next_by_subj"),
        batch=_number(body, "batch"),
        max_bytes=_number(body, "max_bytes"),
        start_ns=_time(body, "start_time"),
        multi_last=tuple(cast(list[str], multi)),
        up_to_seq=_number(body, "up_to_seq"),
        up_to_ns=_time(body, "up_to_time"),
        no_headers=body.get("no_hdr") is True,
    )


def _number(body: dict[str, Any], name: str) -> int:
    value = body.get(name) or 0
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError
    # No stream has a later one, and the catalog cannot be asked for it.
    return min(value, MAX_SEQUENCE)


def _text(body: dict[str, Any], name: str) -> str:
    value = body.get(name) or ""
    if not isinstance(value, str):
        raise ValueError
    return value


def _time(body: dict[str, Any], name: str) -> int | None:
    value = body.get(name)
    if value is None:
        return None
    if not isinstance(value, str) or "T" not in value:
        raise ValueError
    return parse_time(value)
