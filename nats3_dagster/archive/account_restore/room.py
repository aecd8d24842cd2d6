"""Room: the limits of the account that is restored into, for streams, consumers and bytes."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from nats3_dagster.archive.account_restore.spec import StreamRestore
from nats3_dagster.errors import Nats3Error, WrongState
from nats3_dagster.jetstream.api import request
from nats3_dagster.jetstream.codes import BESIDE
from nats3_dagster.jetstream.link import Link

# Bytes that a server keeps of a message beside subject, header block and payload, at most.
_BESIDE: Final = sum(BESIDE["file"])


def refusal(link: Link, streams: Iterable[StreamRestore]) -> Nats3Error | None:
    """Returns the first limit of the account that these streams would pass; None where there is room. Raises
    SourceError."""
    info: dict[str, Any] = link.call(request, "INFO")
    made = [one for one in streams if one.action in ("restore", "make")]
    tiers: dict[str, Any] = info.get("tiers") or {}
    if not tiers:
        return _check(info, made, "", copies=True)
    for name, tier in tiers.items():
        of_tier = [one for one in made if f"R{_replicas(one)}" == name]
        if found := _check(tier, of_tier, f" of tier {name}", copies=False):
            return found
    return None


def _check(info: Mapping[str, Any], made: list[StreamRestore], where: str, *, copies: bool) -> Nats3Error | None:
    """`copies`: each replica counts by itself. A tier counts them together."""
    limits: Mapping[str, Any] = info.get("limits") or {}
    needed = {
        "streams": len(made),
        "consumers": sum(len(one.planned.consumers) for one in made if one.planned),
        "storage": sum(_bytes(one, copies=copies) for one in made if one.wanted.get("storage") != "memory"),
        "memory": sum(_bytes(one, copies=copies) for one in made if one.wanted.get("storage") == "memory"),
    }
    for what, more in needed.items():
        limit, used = int(limits.get(f"max_{what}", -1)), int(info.get(what, 0))
        if limit > 0 and more and used + more > limit:
            named = f"bytes of {what}" if what in ("storage", "memory") else what
            room = max(0, limit - used)
            return WrongState(
                f"The account{where} has room for {room:,} {named}, and the restore takes {more:,}",
                "Raise its limit, or restore fewer streams",
            )
    return None


def _bytes(one: StreamRestore, *, copies: bool) -> int:
    return (one.payload_bytes + one.messages * _BESIDE) * (_replicas(one) if copies else 1)


def _replicas(one: StreamRestore) -> int:
    return int(one.wanted.get("num_replicas") or 1)
