"""Documents: what the domain says of itself and of its streams, as a server's JSON (nats-server 2.15)."""

import json
import time
from typing import Any, cast

from nats3_dagster.archive.served import description
from nats3_dagster.archive.served.served_stream import ServedStream
from nats3_dagster.archive.served.several import counts_from
from nats3_dagster.errors import WrongState
from nats3_dagster.nats import replies
from nats3_dagster.subjects import overlap
from nats3_dagster.version import __version__
from nats3_dagster.workspace import Workspace

# Entries of a page, and subjects of a stream, as a server gives them. And deleted sequences: a server gives all.
NAMES_PAGE, LIST_PAGE, SUBJECTS_PAGE, DELETED = 1024, 256, 100_000, 100_000
# The level of the JetStream API: the server's 2.11, with batches and several subjects of direct gets.
API_LEVEL = 1
# Keys of the metadata that nats3 adds.
_ARCHIVE, _LOST, _THROUGH = "nats3.archive", "nats3.lost", "nats3.archived_through"


def account_info(domain: str, streams: int) -> bytes:
    """The answer of INFO. Requests are counted by the service (service.py)."""
    limits = {
        "max_memory": -1,
        "max_storage": -1,
        "max_streams": -1,
        "max_consumers": 0,
        "max_ack_pending": -1,
        "memory_max_stream_bytes": -1,
        "storage_max_stream_bytes": -1,
        "max_bytes_required": False,
    }
    return replies.document(
        "account_info_response",
        memory=0,
        storage=0,
        reserved_memory=0,
        reserved_storage=0,
        streams=streams,
        consumers=0,
        limits=limits,
        domain=domain,
        api={"level": API_LEVEL, "total": 0, "errors": 0},
        nats3=__version__,
    )


def names(all_names: list[str], offset: int) -> bytes:
    """The answer of STREAM.NAMES."""
    page = all_names[offset : offset + NAMES_PAGE]
    return replies.document(
        "stream_names_response", total=len(all_names), offset=offset, limit=NAMES_PAGE, streams=page
    )


def listing(infos: list[dict[str, Any]], total: int, offset: int) -> bytes:
    """The answer of STREAM.LIST."""
    return replies.document("stream_list_response", total=total, offset=offset, limit=LIST_PAGE, streams=infos)


def info(workspace: Workspace, served: ServedStream, domain: str, payload: bytes) -> bytes:
    """The answer of STREAM.INFO. Raises ValueError for a malformed request, Nats3Error."""
    asked = request_body(payload)
    body = stream(workspace, served, domain)
    if asked.get("deleted_details"):
        body["state"]["deleted"] = description.deleted_sequences(workspace, served, DELETED)
    more: dict[str, Any] = {}
    if subject := asked.get("subjects_filter"):
        offset = offset_of(asked)
        counts = _subjects(workspace, served, str(subject))
        page = dict(sorted(counts.items())[offset : offset + SUBJECTS_PAGE])
        body["state"]["subjects"] = page
        more = {"total": len(counts), "offset": offset, "limit": SUBJECTS_PAGE} if counts else {}
    return replies.document("stream_info_response", **more, **body)


def stream(workspace: Workspace, served: ServedStream, domain: str) -> dict[str, Any]:
    """A stream as INFO and LIST have it. Raises Nats3Error."""
    told = description.describe(workspace, served)
    metadata = dict(told.config.get("metadata") or {}) | {
        _ARCHIVE: served.archive.name,
        _LOST: str(told.lost),
        _THROUGH: str(told.archived_through),
    }
    config = dict(told.config) | {
        "name": served.name,
        "allow_direct": True,
        "deny_delete": True,
        "deny_purge": True,
        "sealed": True,
        "metadata": metadata,
    }
    state: dict[str, Any] = {
        "messages": told.messages,
        "bytes": told.bytes,
        "first_seq": told.first_seq,
        "first_ts": replies.shown_time(told.first_ns),
        "last_seq": told.last_seq,
        "last_ts": replies.shown_time(told.last_ns),
        "consumer_count": 0,
    }
    if told.deleted:
        state["num_deleted"] = told.deleted
    return {
        "config": config,
        "created": replies.shown_time(told.created_ns),
        "state": state,
        "domain": domain,
        "ts": replies.shown_time(time.time_ns()),
    }


def takes(workspace: Workspace, served: ServedStream, subject: str) -> bool:
    """True if the archive takes something of a subject filter. Raises CatalogError."""
    filters = served.archive.spec.subjects
    if not filters:
        state = workspace.catalog.coverage.last_state(served.incarnation)
        # A mirror, or a stream that only has sources, has no subjects of its own: a server compares its name.
        filters = (state.subjects if state else ()) or (served.name,)
    return any(overlap(one, subject) for one in filters)


def request_body(payload: bytes) -> dict[str, Any]:
    """The JSON of a request; empty where it has none. Raises ValueError."""
    if not payload.strip():
        return {}
    body = json.loads(payload)
    if not isinstance(body, dict):
        raise ValueError("it is no object")
    return cast(dict[str, Any], body)


def offset_of(asked: dict[str, Any]) -> int:
    """Raises ValueError."""
    offset = asked.get("offset") or 0
    if not isinstance(offset, int):
        raise ValueError("its offset is no number")
    return max(0, offset)


def _subjects(workspace: Workspace, served: ServedStream, subject: str) -> dict[str, int]:
    """The archived messages of each subject. Raises WrongState where they are not counted."""
    counted, uncounted = counts_from(workspace, served, subject, 1)
    if uncounted:
        raise WrongState(
            f"The subjects of {uncounted:,} messages of archive {served.archive.name} are not counted",
            "Their chunks have too many: ask for the last message of a subject, or query the archive",
        )
    return counted
