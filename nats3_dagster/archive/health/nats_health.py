"""NATS: is it there, does it fit, and how long until a stream deletes what is not archived yet?"""

import json
import time
import urllib.request
from collections.abc import Iterator, Mapping
from typing import Any, cast
from urllib.parse import urlsplit

from nats3_dagster.archive.health.finding import Finding
from nats3_dagster.catalog import Catalog
from nats3_dagster.errors import Nats3Error
from nats3_dagster.hours import SECOND_NS
from nats3_dagster.jetstream.link import Link
from nats3_dagster.jetstream.streams import ServerInfo, message_time, server_info, stream_state
from nats3_dagster.model import Archive, SeqRange, StreamState
from nats3_dagster.settings import Settings
from nats3_dagster.steps import Next, Step

AREA = "nats"
OLDEST, NEWEST = (2, 9), (2, 15)
# How much of a limit may be used by what is not captured: as the asset check `capture_keeps_up`.
WARN_AT, FAIL_AT = 0.5, 0.9
MONITOR_PORT = 8222
# An id of each message of the window is kept in the server's memory.
LONG_WINDOW_S = 600


def check(settings: Settings) -> Iterator[Finding]:
    """The server, and each archived stream when the catalog can be asked."""
    with Link(settings.nats) as link:
        info = server_info(link)
        version = ".".join(map(str, info.version))
        at = f"nats-server {version} at {info.address}"
        if not OLDEST <= info.version[:2] <= NEWEST:
            yield Finding("warn", AREA, f"{at} is not one of the tested releases", "Use 2.9 to 2.15")
        else:
            yield Finding("ok", AREA, f"{at}, max_payload {info.max_payload:,} bytes")
        if not info.jetstream:
            yield Finding("fail", AREA, "The server has no JetStream", "Start it with -js, or name one that has it")
            return
        yield Finding("ok", AREA, "JetStream is on")
        synced = _sync_interval(info, settings.nats_monitor_url)
        try:
            catalog = Catalog.connect(settings.postgres)
        except Nats3Error:  # a finding of its own, under postgres
            yield _durability(synced, info, [])
            return
        with catalog:
            states: list[StreamState] = []
            for archive in catalog.archives.all():
                try:
                    states.append(stream_state(link, archive.spec.stream))
                    yield from _check_stream(catalog, link, archive, states[-1])
                except Nats3Error as error:
                    yield Finding("fail", AREA, f"Archive {archive.name}: {error.what}", error.hint)
            yield _durability(synced, info, states)


def _check_stream(catalog: Catalog, link: Link, archive: Archive, state: StreamState) -> Iterator[Finding]:
    who = f"Archive {archive.name}, stream {state.name}"
    coverage = next((c for c in catalog.coverage.all(archive) if c.incarnation == state.incarnation), None)
    again = Next.ADOPT_INCARNATION(archive=archive.name)
    if coverage is None:
        yield Finding("fail", AREA, f"{who}: it was deleted and made again", again)
        return
    if state.last_seq < coverage.last:
        yield Finding(
            "fail", AREA, f"{who}: it ends at sequence {state.last_seq}, and {coverage.last} is archived: it lost its "
            "end, and gives sequences out again", "Make a new stream, and archive that one",
        )  # fmt: skip
        return
    lost = sum(
        g.size
        for g in catalog.gaps.select(archive, incarnation=state.incarnation)
        if g.reason in ("expired", "missing")
    )
    if lost:
        yield Finding(
            "warn", AREA, f"{who}: {lost:,} messages were deleted before they were captured", _more_often(archive)
        )
    lacking = (
        catalog.coverage.missing(archive, state.incarnation, SeqRange(1, state.last_seq)) if state.last_seq else ()
    )
    if not lacking:
        yield Finding("ok", AREA, f"{who}: everything is captured")
    elif lacking[0].first < state.first_seq:
        yield Finding(
            "fail", AREA, f"{who}: the stream has deleted messages that were not captured", _more_often(archive)
        )
    else:
        yield _time_to_loss(link, archive, state, lacking[0].first, sum(r.size for r in lacking))
    if (window := int(state.config.get("duplicate_window") or 0) // SECOND_NS) > LONG_WINDOW_S:
        yield Finding(
            "warn", AREA, f"{who}: a duplicate window of {window:,} s keeps the id of each message so long in memory",
            "Shorten it: no replay needs it to be resumed",
        )  # fmt: skip


def _time_to_loss(link: Link, archive: Archive, state: StreamState, first: int, lacking: int) -> Finding:
    """How much of the stream's limits lies between its end and the oldest message that is not captured."""
    limits = _used(state, first, message_time(link, state.name, first))
    limit = max(limits, key=limits.__getitem__)
    used = limits[limit]
    what = f"Archive {archive.name}, stream {state.name}: {lacking:,} sequences are not captured"
    if used < 0:
        return Finding("ok", AREA, f"{what}; the stream has no limit that deletes them")
    what = f"{what}, which is {used:.0%} of its {limit}"
    if used >= FAIL_AT:
        return Finding("fail", AREA, what, Next.CAPTURE_NOW(archive=archive.name))
    if used >= WARN_AT:
        return Finding("warn", AREA, what, _more_often_or_raise(archive, limit))
    return Finding("ok", AREA, what)


def _used(state: StreamState, first: int, first_ns: int | None) -> dict[str, float]:
    """The share of each limit that is used when the message `first` is the oldest; below 0 without a limit."""
    config = state.config
    tail = (state.last_seq - first + 1) / max(state.last_seq - state.first_seq + 1, 1)
    limits = {name: int(config.get(name) or 0) for name in ("max_age", "max_msgs", "max_bytes")}
    used = {"max_age": -1.0, "max_msgs": -1.0, "max_bytes": -1.0}
    if limits["max_age"] > 0:
        used["max_age"] = (time.time_ns() - (first_ns or state.first_ns)) / limits["max_age"]
    if config.get("discard", "old") == "old":  # a stream that refuses new messages deletes none for being full
        if limits["max_msgs"] > 0:
            used["max_msgs"] = state.messages * tail / limits["max_msgs"]
        if limits["max_bytes"] > 0:
            used["max_bytes"] = state.bytes * tail / limits["max_bytes"]
    return used


def _more_often(archive: Archive) -> Step:
    return (Next.RESUME_ARCHIVE if archive.paused else Next.CAPTURE_MORE_OFTEN)(archive=archive.name)


def _more_often_or_raise(archive: Archive, limit: str) -> Step:
    return (Next.RESUME_OR_RAISE_LIMIT if archive.paused else Next.CAPTURE_MORE_OFTEN_OR_RAISE_LIMIT)(
        archive=archive.name, limit=limit
    )


def _sync_interval(info: ServerInfo, monitor_url: str | None) -> str | None:
    """`always`, or the seconds as text; None when the server does not tell."""
    if info.version < (2, 10):
        return "120"  # not configurable there
    base = (monitor_url or f"http://{urlsplit('//' + info.address).hostname}:{MONITOR_PORT}").rstrip("/")
    try:
        with urllib.request.urlopen(f"{base}/varz", timeout=2) as answer:  # noqa: S310  an operator's own address
            told: Mapping[str, Any] = json.load(answer)
    except (OSError, ValueError):
        return None
    if told.get("server_name") != info.name:  # something else answers there
        return None
    jetstream = cast("dict[str, Any]", told.get("jetstream") or {})
    config = cast("dict[str, Any]", jetstream.get("config") or {})
    return "always" if config.get("sync_always") else str(int(config.get("sync_interval", 0)) // SECOND_NS)


def _durability(synced: str | None, info: ServerInfo, states: list[StreamState]) -> Finding:
    if synced == "always":
        return Finding("ok", AREA, "sync_interval is always: what the server acknowledged survives a power cut")
    alone = [s.name for s in states if int(s.config.get("num_replicas") or 1) < 2]
    risk = (
        "after a power cut a stream with one replica may forget its newest messages and give their sequences to "
        "others, which then count as captured"
    )
    do = "Set jetstream { sync_interval: always }" + ("" if info.version >= (2, 10) else " (a server from 2.10 on)")
    status = "ok" if states and not alone else "warn"
    if synced is None:
        return Finding(
            status, AREA, f"sync_interval is unknown, the monitoring port does not tell: {risk}",
            f"{do}, and set NATS3_NATS_MONITOR_URL to see it here",
        )  # fmt: skip
    return Finding(status, AREA, f"sync_interval is {synced} s: {risk}", f"{do}, or give the streams three replicas")
