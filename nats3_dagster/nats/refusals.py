"""Refusals: requests of the JetStream API that an archive does not answer, and what to use instead. Pure."""

from nats3_dagster.jetstream.codes import ErrCode
from nats3_dagster.nats import replies

_RESTORE = "restore the stream with its sequences and times (nats3 stream restore) and make the consumer on it"
# By the first tokens of the request: the kind of the answer, and a sentence after "The archive is read only: ".
_KINDS: dict[str, tuple[str, str]] = {
    "CONSUMER.LIST": ("consumer_list_response", "it has no consumers"),
    "CONSUMER.NAMES": ("consumer_names_response", "it has no consumers"),
    "CONSUMER.INFO": ("consumer_info_response", f"it has no consumers; {_RESTORE}"),
    "CONSUMER.DELETE": ("consumer_delete_response", "it has no consumers"),
    "CONSUMER.": ("consumer_create_response", f"it has no consumers; {_RESTORE}"),
    "STREAM.CREATE": ("stream_create_response", "create a stream in the account's own JetStream"),
    "STREAM.UPDATE": ("stream_update_response", "change the archive by nats3 store set"),
    "STREAM.DELETE": ("stream_delete_response", "delete the archive by nats3 store delete"),
    "STREAM.PURGE": ("stream_purge_response", "erase messages by nats3 message erase"),
    "STREAM.MSG.DELETE": ("stream_msg_delete_response", "erase messages by nats3 message erase"),
    "STREAM.SNAPSHOT": ("stream_snapshot_response", "bring the stream back by nats3 stream restore"),
    "STREAM.RESTORE": ("stream_restore_response", "import a backup by nats3 import"),
    "STREAM.TEMPLATE": ("stream_template_create_response", "create streams in the account's own JetStream"),
}


def refusal(operation: str) -> bytes:
    """The answer to a request that is not answered otherwise; `operation`: its subject after the API's prefix."""
    for begin, (kind, instead) in _KINDS.items():
        if operation.startswith(begin):
            return replies.error(kind, 400, ErrCode.BAD_REQUEST, f"The archive is read only: {instead}")
    # As a server does with a subject that is no request.
    return replies.error("error", 400, ErrCode.BAD_REQUEST, f"An archive does not know the request {operation[:60]}")
