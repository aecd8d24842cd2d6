"""NATS: is it there, does it fit, and how long until a stream deletes what is not archived yet?"""

import json
from collections.abc import Iterator, Sequence
from http.client import HTTPException
from typing import Any, cast
from urllib.parse import urlsplit

from nats3_dagster.archive.health.finding import Finding
from nats3_dagster.archive.source.absence import lost_by_reason
from nats3_dagster.archive.source.backlog import Backlog, backlog
from nats3_dagster.archive.source.clocks import stream_now_ns
from nats3_dagster.archive.source.loss import WARN_AT, Loss, time_to_loss
from nats3_dagster.archive.source.observe import source_state
from nats3_dagster.archive.source.requirements import CROWDED, has_all_consumers, unmatched_filters
from nats3_dagster.archive.source.stream_changes import recreated_error, rewritten_error, unfinished_error
from nats3_dagster.direct_http import open_directly
from nats3_dagster.errors import Nats3Error, OperatorError, UnknownConsumer, UnknownStream
from nats3_dagster.hours import SECOND_NS, format_time
from nats3_dagster.jetstream.codes import OLDEST_SERVER
from nats3_dagster.jetstream.server import ServerInfo, check_jetstream, check_version, server_info
from nats3_dagster.model import Archive, StreamState
from nats3_dagster.model.imported import KeptImport
from nats3_dagster.steps import Next, Step
from nats3_dagster.workspace import Workspace

AREA = "nats"
NEWEST = (2, 15)
MONITOR_PORT = 8222
# The sync_interval of servers before 2.10, where it is not configurable.
FIXED_SYNC_S = 120
# An id of each message of the window is kept in the server's memory.
LONG_WINDOW_S = 600


def check(workspace: Workspace) -> Iterator[Finding]:
    """The server, and each archived stream when the catalog can be asked."""
    info = server_info(workspace.link)
    try:
        check_version(info)
    except OperatorError as error:
        yield Finding("fail", AREA, error.what, error.hint)
    else:
        if info.version >= OLDEST_SERVER and info.version[:2] <= NEWEST:
            yield Finding("ok", AREA, f"{info.name}, max_payload {info.max_payload:,} bytes")
        else:
            yield Finding("warn", AREA, f"{info.name} is not one of the tested releases", "Use 2.9.7 to 2.15")
    client = workspace.link.client
    if not client.is_own_jetstream:
        check_jetstream(workspace.link)
        yield Finding("ok", AREA, f"JetStream answers at {client.api}")
    elif not info.jetstream:
        hint = "Enable it there (nats-server -js), or use another server"
        yield Finding("fail", AREA, "The server has no JetStream", hint)
        return
    else:
        yield Finding("ok", AREA, "JetStream is on")
    synced = _sync_interval(info, workspace.settings.nats_monitor_url, None if client.is_own_jetstream else client.api)
    states: list[StreamState] = []
    archives = _archives(workspace)
    consumers = workspace.catalog.consumers.problems() if archives else {}
    imports = workspace.catalog.imports.paused() if archives else {}
    for archive in archives:
        if archive.id in imports:
            yield _imported(archive, imports[archive.id])
            continue
        if problem := consumers.get(archive.id):
            what = "the positions of the stream's consumers are not kept as they are"
            yield Finding("warn", AREA, f"Archive {archive.name}: {what}: {problem.what}", problem.hint)
        try:
            states.append(source_state(workspace, archive))
            if unfinished := unfinished_error(archive, states[-1]):
                raise unfinished
            yield from _check_stream(workspace, archive, states[-1])
        except Nats3Error as error:
            ended_at = workspace.catalog.accounts.ended_at(archive) if isinstance(error, UnknownStream) else None
            if ended_at:
                yield Finding(
                    "ok", AREA, f"Archive {archive.name} has ended: its stream was deleted, and its rule knows"
                )
            else:
                yield Finding("fail", AREA, f"Archive {archive.name}: {error.what}", error.hint)
    yield _durability(synced, info, states, embedded=workspace.settings.is_embedded("nats_url"))


def _imported(archive: Archive, backup: KeptImport) -> Finding:
    if backup.finished_at:
        return Finding("ok", AREA, f"Archive {archive.name} is of a backup: it follows no stream")
    return Finding(
        "warn", AREA, f"Archive {archive.name} has a part of a backup: its import was cut", "Import the backup again"
    )


def _archives(workspace: Workspace) -> Sequence[Archive]:
    """Returns all archives; none if the catalog cannot be asked, which is a finding of its own."""
    try:
        return workspace.catalog.archives.all()
    except Nats3Error:
        return ()


def _check_stream(workspace: Workspace, archive: Archive, state: StreamState) -> Iterator[Finding]:
    catalog = workspace.catalog
    who = f"Archive {archive.name}, stream {state.name}"
    coverage = next((c for c in catalog.coverage.all(archive) if c.incarnation == state.incarnation), None)
    if coverage is None:
        coverages = catalog.coverage.all(archive)
        # It imports pyarrow, 0.1 s, and is rare.
        from nats3_dagster.archive.source.history import history_of

        history = history_of(workspace, workspace.link, archive, coverages, state)
        if history and history.is_continued_by(state):
            at = format_time(state.incarnation.created_ns)
            yield Finding("ok", AREA, f"{who}: it was restored at {at} and has all that is archived; a capture goes on")
            return
        if history and (error := recreated_error(archive, coverages, state, history)):
            yield Finding("fail", AREA, f"{who}: {error.what}", error.hint)
            return
        again = Next.ADOPT_INCARNATION(archive=archive.name)
        yield Finding("fail", AREA, f"{who}: it was deleted and made again", again)
        return
    if state.last_seq < coverage.last:
        yield Finding(
            "fail",
            AREA,
            f"{who}: it ends at sequence {state.last_seq}, and {coverage.last} is archived: it lost its "
            "end, and gives sequences out again",
            "Make a new stream, and archive that one",
        )
        return
    if (witness := catalog.coverage.witness(archive, state.incarnation)) and (
        changed := rewritten_error(workspace.link, archive, state, witness)
    ):
        yield Finding("fail", AREA, f"{who}: {changed.what}", changed.hint)
        return
    lost = lost_by_reason(catalog.gaps.sums(archive, incarnation=state.incarnation), [coverage])
    if lost:
        why = ", ".join(f"{count:,} {reason}" for reason, count in lost.items())
        yield Finding(
            "warn",
            AREA,
            f"{who}: {sum(lost.values()):,} messages were removed before they were captured ({why})",
            _more_often(archive),
        )
    for earlier in catalog.coverage.all(archive):
        if earlier.unknown_after is not None:
            yield Finding(
                "warn",
                AREA,
                f"{who}: the one of {format_time(earlier.incarnation.created_ns)} was removed; what it "
                f"had after sequence {earlier.unknown_after:,} is lost, in unknown number",
            )
    if unmatched := unmatched_filters(archive.spec, state):
        yield Finding(
            "warn",
            AREA,
            f"{who}: no subject of the stream ({', '.join(state.subjects)}) matches "
            f"{', '.join(unmatched)}: nothing more of it is captured",
            Next.CHANGE_FILTER(archive=archive.name),
        )
    if has_all_consumers(state) and archive.spec.mode == "stream" and not archive.spec.buffer:
        what = f"{who}: it {CROWDED.format(state.consumers)}"
        yield Finding("warn", AREA, what, "Raise its max_consumers, or delete an unused consumer")
    yield _near_to_loss(workspace, archive, state, who)
    if (window := int(state.config.get("duplicate_window") or 0) // SECOND_NS) > LONG_WINDOW_S:
        yield Finding(
            "warn",
            AREA,
            f"{who}: a duplicate window of {window:,} s keeps the id of each message so long in memory",
            "Shorten it: no replay needs it to be resumed",
        )


def _near_to_loss(workspace: Workspace, archive: Archive, state: StreamState, who: str) -> Finding:
    try:
        waiting = backlog(workspace, archive, state, stream_now_ns(state))
    except UnknownConsumer as error:
        return Finding("fail", AREA, f"Archive {archive.name}: {error.what}", error.hint)
    loss = time_to_loss(waiting, paused=archive.paused)
    if loss.gone:
        return Finding(
            "fail", AREA, f"{who}: the stream has deleted messages that were not captured", _more_often(archive)
        )
    what = f"{who}: {_lag(waiting, loss)}" + (f". {loss.ahead}" if loss.ahead else "")
    match loss.level:
        case "error":
            return Finding("fail", AREA, what, Next.CAPTURE_NOW(archive=archive.name))
        case "warn" if loss.ahead and loss.used < WARN_AT:
            return Finding("warn", AREA, what, "Compare the clocks of this machine and of the NATS server")
        case "warn":
            more_often = Next.CAPTURE_MORE_OFTEN_OR_RAISE_LIMIT(archive=archive.name, limit=loss.limit)
            return Finding("warn", AREA, what, more_often)
        case "paused":
            return Finding("warn", AREA, f"{what}; the archive is paused", _more_often(archive))
        case "ok":
            return Finding("ok", AREA, what)


def _lag(waiting: Backlog, loss: Loss) -> str:
    lag = _limits(waiting, loss)
    return f"{lag}. {loss.early}" if loss.early else lag


def _limits(waiting: Backlog, loss: Loss) -> str:
    if waiting.is_empty:
        return "everything is captured"
    behind = f"{waiting.behind:,} sequences are not captured"
    if not loss.limit:
        return behind if loss.early else f"{behind}; the stream has no limit that deletes them"
    return f"{behind}, which is {loss.used:.0%} of its {loss.limit}"


def _more_often(archive: Archive) -> Step:
    return (Next.RESUME_ARCHIVE if archive.paused else Next.CAPTURE_MORE_OFTEN)(archive=archive.name)


def _sync_interval(info: ServerInfo, monitor_url: str | None, api: str | None) -> str | None:
    """`always`, or the seconds as text; None when the server does not tell. `api`: of a JetStream that is not the
    server's own, which a server of its domain tells."""
    if api is None and info.version < (2, 10):
        return str(FIXED_SYNC_S)
    usual = f"http://{urlsplit('//' + info.address).hostname}:{MONITOR_PORT}"
    for base in dict.fromkeys([monitor_url or usual, usual]):
        variables = _variables(base)
        jetstream = cast("dict[str, Any]", variables.get("jetstream") or {})
        config = cast("dict[str, Any]", jetstream.get("config") or {})
        its_own = variables.get("server_id") == info.id  # else another server answers there
        if its_own if api is None else api == f"$JS.{config.get('domain')}.API":
            seconds = int(config.get("sync_interval", FIXED_SYNC_S * SECOND_NS)) // SECOND_NS
            return "always" if config.get("sync_always") else str(seconds)
    return None


def _variables(base: str) -> dict[str, Any]:
    """Returns a server's own variables from its monitoring port; empty when it does not answer."""
    try:
        with open_directly(f"{base.rstrip('/')}/varz", timeout_s=2) as answer:
            variables = json.load(answer)
    except (OSError, ValueError, HTTPException):
        return {}
    return cast("dict[str, Any]", variables) if isinstance(variables, dict) else {}


def _durability(synced: str | None, info: ServerInfo, states: list[StreamState], *, embedded: bool) -> Finding:
    if synced == "always":
        return Finding("ok", AREA, "sync_interval is always: what the server acknowledged survives a power cut")
    alone = [s.name for s in states if int(s.config.get("num_replicas") or 1) < 2]
    risk = (
        "after a power cut a stream with one replica may forget its newest messages and give their sequences to "
        "others, which then count as captured"
    )
    if embedded and synced:
        return Finding(
            "ok",
            AREA,
            f"The embedded server syncs every {synced} s, for trying things out: {risk}. For production: "
            "jetstream { sync_interval: always }, or streams with three replicas",
        )
    do = "Set jetstream { sync_interval: always }" + ("" if info.version >= (2, 10) else " (a server from 2.10 on)")
    status = "ok" if states and not alone else "warn"
    if synced is None:
        return Finding(
            status,
            AREA,
            f"sync_interval is unknown, the monitoring port does not tell: {risk}",
            f"{do}, and set NATS3_NATS_MONITOR_URL to see it here",
        )
    return Finding(status, AREA, f"sync_interval is {synced} s: {risk}", f"{do}, or give the streams three replicas")
