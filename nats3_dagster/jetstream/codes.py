"""The meaning of nats-server's error codes and versions. Pure, no I/O.

Codes and their texts: nats-server, server/errors.json. Status lines: ADR-1 and ADR-13. Batches: ADR-50.
"""

from collections.abc import Mapping
from enum import IntEnum, StrEnum
from typing import Any, Final


class ErrCode(IntEnum):
    """`err_code` of a JetStream error. The server's text follows each."""

    BAD_REQUEST = 10003  # bad request
    NO_PEERS = 10005  # no suitable peers for placement
    UNAVAILABLE = 10008  # JetStream system temporarily unavailable
    CONSUMER_NAME_IN_USE = 10013  # consumer name already in use
    CONSUMER_NOT_FOUND = 10014  # consumer not found
    NO_RESOURCES = 10023  # insufficient resources
    INVALID_JSON = 10025  # invalid JSON: {err}
    MAX_CONSUMERS = 10026  # maximum consumers limit reached
    MESSAGE_NOT_FOUND = 10037  # no message found
    NOT_ENABLED_FOR_ACCOUNT = 10039  # JetStream not enabled for account
    NO_STORAGE = 10047  # insufficient storage resources available
    STREAM_NAME_IN_USE = 10058  # stream name already in use with a different configuration
    STREAM_NOT_FOUND = 10059  # stream not found
    WRONG_LAST_MSG_ID = 10070  # wrong last msg ID: {id}
    WRONG_LAST_SEQ = 10071  # wrong last sequence: {seq}
    NOT_ENABLED = 10076  # JetStream not enabled
    QUEUE_WANTS_ACKS = 10084  # consumer in pull mode requires explicit ack policy on workqueue stream
    FILTER_NOT_IN_STREAM = 10093  # consumer filter subject is not a valid subset of the interest subjects
    STREAM_OFFLINE = 10118  # stream is offline
    CONSUMER_OFFLINE = 10119  # consumer is offline
    MAX_ACK_PENDING = 10121  # consumer max ack pending exceeds system limit of {limit}
    FILTERS_OVERLAP = 10138  # consumer subject filters cannot overlap
    INACTIVE_THRESHOLD = 10153  # consumer inactive threshold exceeds system limit of {limit}
    WRONG_LAST_SEQ_UNKNOWN = 10164  # wrong last sequence
    TOO_MANY_REQUESTS = 10167  # too many requests
    ATOMIC_DISABLED = 10174  # atomic publish is disabled
    ATOMIC_INCOMPLETE = 10176  # atomic publish batch is incomplete
    ATOMIC_TOO_LARGE = 10199  # atomic publish batch is too large: {size}
    ATOMIC_DUPLICATE = 10201  # atomic publish batch contains duplicate message id
    BATCH_UNKNOWN = 10208  # batch publish ID unknown


class Status(StrEnum):
    """The status line of an answer that is no message."""

    HEARTBEAT = "100"
    REQUEST_EXPIRED = "408"
    REQUEST_ENDED = "409"  # the description says why: it was fulfilled, or the consumer is gone
    NO_RESPONDERS = "503"  # the subject has no subscriber


# `code` of an error, as in HTTP.
_TOO_BUSY, _UNAVAILABLE = 429, 503
# A leader of the stream, of the consumer or of JetStream itself is being elected, mostly.
_PASSING_FOR_REQUESTS: Final = frozenset(
    {ErrCode.NO_PEERS, ErrCode.UNAVAILABLE, ErrCode.STREAM_OFFLINE, ErrCode.CONSUMER_OFFLINE}
)
# The same for a message. Placement and consumers have no part in storing one; a stream that is too busy has.
_PASSING_FOR_MESSAGES: Final = frozenset({ErrCode.UNAVAILABLE, ErrCode.STREAM_OFFLINE, ErrCode.TOO_MANY_REQUESTS})
# A batch as a whole was refused, and nothing of it is stored: it comes again with fewer messages, or another way.
REFUSED_BATCH: Final = frozenset(
    {ErrCode.ATOMIC_DISABLED, ErrCode.ATOMIC_INCOMPLETE, ErrCode.ATOMIC_TOO_LARGE, ErrCode.ATOMIC_DUPLICATE}
)
# What Raft itself says has no err_code (2.9): "raft: not leader" while a leader is being replaced.
_RAFT = "raft: "
# Descriptions of a pull request that ended because it got what it asked for.
_FULFILLED = ("batch completed", "message size exceeds maxbytes")


def request_passes(err_code: int) -> bool:
    """True if a request that the JetStream API refused with this error may be sent again: all requests are safe to send
    twice."""
    return err_code in _PASSING_FOR_REQUESTS


def message_passes(error: Mapping[str, Any]) -> bool:
    """True if a stream that refused a message with this error may accept it later: it is too busy, or its leader is
    being replaced.

    Not every 503 passes: a full stream says 503 too (10077)."""
    return (
        error.get("code") == _TOO_BUSY
        or error.get("err_code") in _PASSING_FOR_MESSAGES
        or str(error.get("description")).startswith(_RAFT)
    )


def probe_passes(error: Mapping[str, Any]) -> bool:
    """True if a stream that refused a probe (probe.py) with this error has not looked at it: it is too busy or without
    a leader.

    Here every 503 passes, a full stream's too: a probe is never stored, so asking again costs nothing, and only the
    refusal that names the last sequence is an answer."""
    return error.get("code") in (_TOO_BUSY, _UNAVAILABLE)


def pull_request_ended(status: str, description: str) -> bool:
    """True if a pull request is over in the normal way, so that the next one may follow."""
    return status == Status.REQUEST_EXPIRED or (status == Status.REQUEST_ENDED and description.lower() in _FULFILLED)


# The version that brought a feature. An older server drops an unknown stream setting in silence, or refuses it.
# The first that finds a header by its whole name. Older ones act on any header whose name ends with one of theirs
# (nats-server#3645), in what they store for others and in what a replay sends them.
OLDEST_SERVER: Final = (2, 9, 7)
SEVERAL_FILTERS: Final = (2, 10)
ATOMIC: Final = (2, 12)
FAST_INGEST: Final = (2, 14)
# Consumers that acknowledge by flow control, and resets of consumers: API level 4 (ADR-60).
FLOW_ACKS: Final = (2, 14)
# From it on a server restores messages at their sequences and times (ADR-63).
RESTORE_SINCE: Final = (2, 15)
# Since then a replica stops for good at a message that expects another `Nats-Expected-Last-Msg-Id` than the stream has:
# in a cluster that is refused only when it is applied, on every replica at once.
REFUSED_ID_IS_FATAL: Final = (2, 14)
_SETTING_SINCE: Final[Mapping[str, tuple[int, int]]] = {
    "compression": (2, 10),
    "metadata": (2, 10),
    "first_seq": (2, 10),
    "subject_transform": (2, 10),
    "consumer_limits": (2, 10),
    "allow_msg_ttl": (2, 11),
    "subject_delete_marker_ttl": (2, 11),
    "allow_atomic": ATOMIC,
    "allow_msg_counter": (2, 12),
    "allow_msg_schedules": (2, 12),
    "persist_mode": (2, 12),
    "allow_batched": FAST_INGEST,
}


def version_of(info: Mapping[str, Any]) -> tuple[int, int, int]:
    """The version in a server's INFO; pre-releases count as the release."""
    parts = str(info.get("version", "")).partition("-")[0].split(".")
    numbers = [int(p) if p.isdigit() else 0 for p in (*parts, "0", "0", "0")[:3]]
    return numbers[0], numbers[1], numbers[2]


def restores(version: tuple[int, int, int]) -> bool:
    """True if a server of this version restores messages at their sequences and times; one that does not tell its
    version counts as new."""
    return not (0, 0, 0) < version < RESTORE_SINCE


def supported_settings(config: Mapping[str, Any], version: tuple[int, int, int]) -> dict[str, Any]:
    """The settings of a stream that a server of this version knows."""
    return {key: value for key, value in config.items() if version >= _SETTING_SINCE.get(key, (0, 0))}


# Bytes that a file store, or memory, needs for a message beside subject, header block and payload; and for a header
# block (nats-server, filestore.go and memstore.go).
BESIDE: Final = {"file": (30, 4), "memory": (16, 0)}
