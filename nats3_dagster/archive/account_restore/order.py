"""Order: streams come before those that mirror or source them."""

from collections.abc import Iterable, Mapping
from typing import Any

from nats3_dagster.archive.account_restore.spec import StreamRestore


def origins_of(config: Mapping[str, Any]) -> tuple[str, ...]:
    """Returns the streams of the same account that a stream mirrors or sources, each once."""
    return tuple(dict.fromkeys(str(one["name"]) for one in _every(config) if not one.get("external")))


def named_origins(config: Mapping[str, Any]) -> list[str]:
    """Returns the names of all streams that a stream mirrors or sources, those of other accounts too."""
    return [str(one["name"]) for one in _every(config)]


def in_order(streams: Iterable[StreamRestore]) -> tuple[StreamRestore, ...]:
    """The streams, each after its origins; where they go around in a circle, by name."""
    return tuple(one for level in levels(streams) for one in level)


def levels(streams: Iterable[StreamRestore]) -> list[list[StreamRestore]]:
    """The streams in groups: the origins of each are in earlier groups."""
    left = {one.stream: one for one in sorted(streams, key=lambda one: one.stream)}
    groups: list[list[StreamRestore]] = []
    while left:
        ready = [one for one in left.values() if not any(name in left for name in one.origins if name != one.stream)]
        groups.append(ready or [*left.values()])
        for one in groups[-1]:
            del left[one.stream]
    return groups


def _every(config: Mapping[str, Any]) -> list[dict[str, Any]]:
    mirror: list[dict[str, Any]] = [config["mirror"]] if config.get("mirror") else []
    return [*mirror, *(config.get("sources") or ())]
