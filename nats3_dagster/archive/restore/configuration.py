"""The configuration of a restored stream: the archived one, less what would change the messages or remove them."""

from collections.abc import Mapping
from typing import Any, Final

from nats3_dagster.jetstream.codes import supported_settings
from nats3_dagster.jetstream.server import ServerInfo
from nats3_dagster.model.stream import MARK, bucket_of, own_metadata

# Limits that could remove restored messages at once, each with its value for none.
_LIMITS: Final[Mapping[str, Any]] = {"max_age": 0, "max_msgs": -1, "max_bytes": -1, "max_msgs_per_subject": -1}
# Settings that the restored stream does not have.
#   mirror, sources     would bring messages again where their streams are others; only if asked for
#   sealed              takes no message, so no restore either
#   first_seq           of an empty stream
#   placement           of a cluster that this one may not be
#   template_owner      made by a server that is gone
_LEFT_OUT: Final = ("sealed", "first_seq", "placement", "template_owner")
_ORIGINS: Final = ("mirror", "mirror_direct", "sources")


def restored_configuration(
    source: Mapping[str, Any],
    server: ServerInfo,
    name: str,
    *,
    largest_bytes: int,
    replicas: int | None,
    storage: str | None,
    limits: bool,
    origins: bool = False,
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Returns the configuration and the settings of the archived stream that it does not have. With `limits` it has
    those of the archived stream, with `origins` its mirror or sources; a bucket has its limit of messages per subject
    in any case, because clients take it for the depth of its history. `largest_bytes`: header block and payload of the
    largest message, which may be from before a limit of their size."""
    lifted = {} if limits else dict(_LIMITS)
    if bucket_of(source.get("subjects") or ()):
        lifted.pop("max_msgs_per_subject", None)
    without = _LEFT_OUT if origins else (*_LEFT_OUT, *_ORIGINS)
    config = {key: value for key, value in source.items() if key not in without} | lifted
    config["metadata"] = own_metadata(source)
    if 0 <= config.get("max_msg_size", -1) < largest_bytes:
        config["max_msg_size"] = -1
    # A server wants the limit with it.
    if config.get("max_msgs_per_subject", -1) <= 0:
        config.pop("discard_new_per_subject", None)
    # No consumer has an interest yet, and a message without one is removed.
    if config.get("retention") == "interest":
        config["retention"] = "limits"
    config["num_replicas"] = replicas or (source.get("num_replicas", 1) if server.clustered else 1)
    if storage:
        config["storage"] = storage
    config = supported_settings(config | {"name": name}, server.version)
    asked = {"name": True, "metadata": True, "num_replicas": replicas, "storage": storage}
    left_out = {key for key, value in source.items() if value and config.get(key) != value and not asked.get(key)}
    return config, tuple(sorted(left_out))


def has_limits(config: Mapping[str, Any]) -> bool:
    """True if a limit of the stream may have removed messages that were restored."""
    return any(int(config.get(name) or 0) > 0 for name in _LIMITS)


def unfinished(config: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the configuration until the stream is whole and compared: marked, and without its subjects and sources. A
    server takes messages from the moment that it has the backup, and what others publish must not go when the stream is
    deleted. A mirror cannot become one later: the server begins with it when the backup has ended (nats-server
    2.15.1), and nothing else publishes to it."""
    config = {key: value for key, value in config.items() if key not in ("subjects", "sources")}
    subjects = {} if config.get("mirror") else {"subjects": [f"{MARK}.{config['name']}"]}
    return {**config, **subjects, "metadata": {**own_metadata(config), MARK: "true"}}
