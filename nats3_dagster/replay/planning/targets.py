"""Targets: the streams that take what a replay publishes, and whether they take all of it."""

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from nats3_dagster.errors import OperatorError, StreamChanged, TargetError
from nats3_dagster.jetstream.codes import REFUSED_ID_IS_FATAL
from nats3_dagster.jetstream.link import Link
from nats3_dagster.jetstream.server import ServerInfo, server_info
from nats3_dagster.jetstream.streams import find_stream, stream_state, streams_listening
from nats3_dagster.model import Archive, Chunk, ReplaySpec, ReplayTarget, StreamState
from nats3_dagster.model.stream import removing_settings
from nats3_dagster.replay.planning.creation import origins
from nats3_dagster.steps import Next
from nats3_dagster.subjects import Transform, covers, encoded, matches, overlap, readable
from nats3_dagster.workspace import Workspace

# How long a new leader of a stream may take to have all that the one before acknowledged.
CATCH_UP_S = 5.0


def listening(link: Link, patterns: Iterable[str]) -> list[StreamState]:
    """The streams that take some of the subjects of these filters, by name."""
    states = {state.name: state for pattern in patterns for state in streams_listening(link, pattern)}
    return [states[name] for name in sorted(states)]


def takes_batches(streams: Sequence[StreamState], server: ServerInfo) -> bool:
    """Whether there is one target, and it takes fast-ingest batches."""
    return server.takes_batches and len(streams) == 1 and bool(streams[0].config.get("allow_batched"))


def takes_chain(state: StreamState, server: ServerInfo) -> bool:
    """Whether a chain of expected ids that breaks, by a lost message or another publisher's, harms the stream no
    further. Replicas of newer servers stop at the first refusal, and nothing starts them again."""
    return server.version < REFUSED_ID_IS_FATAL or state.config.get("num_replicas", 1) == 1


def goes_one_at_a_time(
    spec: ReplaySpec, streams: Sequence[StreamState], server: ServerInfo, *, batched: bool
) -> bool:  # fmt: skip
    """Whether each message is published after the answer to the one before, because the one target takes neither
    batches nor a chain, and what is stored is to be a beginning of the stream's order."""
    if batched or not spec.marks or spec.order != "stream" or len(streams) != 1:
        return False
    return not takes_chain(streams[0], server)


def removes(state: StreamState) -> bool:
    """Whether the stream is made to remove messages that are not its oldest: by a limit per subject, or because its
    consumers have acknowledged them."""
    config = state.config
    return config.get("retention", "limits") != "limits" or config.get("max_msgs_per_subject", -1) > 0


def stores_nothing(state: StreamState) -> bool:
    """Whether the stream acknowledges messages and stores none: it keeps them for consumers, and has none."""
    return state.config.get("retention") == "interest" and not state.consumers


def blind_settings(config: Mapping[str, Any]) -> tuple[str, ...]:
    """The settings of a stream by which it removes messages of its own and then is less full than they allow: a purge
    cannot be told from that. With max_msgs alone it can: the stream then has as many as it may."""
    if config.get("retention", "limits") != "limits":
        return ("retention",)
    return tuple(name for name in removing_settings(config) if name != "max_msgs")


def check_provable(spec: ReplaySpec, streams: Sequence[StreamState]) -> None:
    """Raises OperatorError where an interrupted replay could not know what it has published: a stream removes messages,
    and what goes there is no chain, because several publishers or several streams take part."""
    if spec.order == "stream" and len(streams) <= 1:
        return
    for stream in filter(removes, streams):
        why = (
            f"its limit max_msgs_per_subject is {stream.config['max_msgs_per_subject']}"
            if stream.config.get("retention", "limits") == "limits"
            else f"its retention is {stream.config['retention']}"
        )
        what = f"Stream {stream.name} removes messages ({why}): "
        if spec.order != "stream":
            raise OperatorError(
                f"{what}with the order {spec.order} an interrupted replay could not know what it has published",
                "Use the order stream",
            )
        raise OperatorError(
            f"{what}into {len(streams)} streams an interrupted replay could not know what it has published",
            "Create a replay for each of the streams, with the subjects that it captures",
        )


def check_kept(link: Link, targets: Sequence[ReplayTarget], stored: Mapping[str, int], *, live: bool = False) -> None:
    """Check that the targets are the streams they were when the replay began, store what they acknowledge, and have not
    lost what they acknowledged up to these stream sequences. `live`: what is published may remove messages. Raises
    StreamChanged, TargetError."""
    for target in targets:
        until, seq = time.monotonic() + CATCH_UP_S, stored.get(target.incarnation.stream, 0)
        while (state := target_state(link, target)).last_seq < seq:
            if time.monotonic() > until:
                raise TargetError(
                    f"Stream {state.name} acknowledged sequence {seq} and ends at {state.last_seq}: it lost what it "
                    "had stored",
                    "Create a new replay, and delete what this one left",
                )
            time.sleep(0.1)
        if stores_nothing(state):
            raise TargetError(
                f"Stream {state.name} has interest retention and lost its last consumer: it acknowledges messages and "
                "stores none",
                "Create its consumers, and then a new replay; delete what this one left",
            )
        if live or removes(state) or blind_settings(state.config) or state.first_seq <= target.since_seq:
            continue
        limit, why = removing_settings(state.config).get("max_msgs"), "what it published was purged"
        if limit:
            if state.messages >= limit:
                continue  # it removed no more than it had to
            why = f"it has {state.messages} messages of {limit} (max_msgs), so it was purged, or its limit was raised"
        raise TargetError(
            f"Stream {state.name} begins at sequence {state.first_seq}, and this replay began at "
            f"{target.since_seq}: {why}",
            "Create a new replay, and delete what this one left",
        )


def check_targets(
    workspace: Workspace, spec: ReplaySpec, transform: Transform, chunks: Iterable[Chunk],
    streams: Sequence[StreamState],
) -> None:  # fmt: skip
    """Raises OperatorError if a subject that the replay will publish to has no stream."""
    captured = [subject for stream in streams for subject in stream.subjects]
    create = spec.create_stream
    hint = Next.CREATE_TARGET() if create is None else (
        f"Stream {create} cannot be created, because {', '.join(s.name for s in streams)} captures a part of "
        f"{transform.pattern}: let it capture all, or choose another write subject"
    )  # fmt: skip
    if not any(overlap(transform.pattern, subject) for subject in captured):
        raise OperatorError(f"No stream listens on {transform.pattern}", hint)
    if any(covers(subject, transform.pattern) for subject in captured):
        return
    known: set[str] = set()
    for chunk in chunks:
        for source in sorted(set(archived_subjects(workspace, chunk, spec)) - known):
            target = transform(source)
            if target is not None and not any(matches(subject, target) for subject in captured):
                raise OperatorError(f"No stream listens on {target}, to which {source} would go", hint)
            known.add(source)


def check_own_stream(
    link: Link, archive: Archive, source: Mapping[str, Any], spec: ReplaySpec, transform: Transform,
    streams: Iterable[StreamState],
) -> None:  # fmt: skip
    """Raises OperatorError if the replay would be archived again, be it on the way of mirrors and sources."""
    if spec.into_own_stream:
        return
    names, waiting = {archive.spec.stream}, [source]
    while waiting:
        for origin in origins(waiting.pop()) - names:
            names.add(origin)
            state = find_stream(link, origin)
            waiting += [state.config] if state else []
    own = next((s.name for s in streams if s.name in names), None)
    if own is None:
        return
    what = f"the stream that archive {archive.name} archives"
    raise OperatorError(
        f"{transform.pattern} is captured by {own}, {what}"
        if own == archive.spec.stream
        else f"{transform.pattern} is captured by {own}, from which {archive.spec.stream} is filled, {what}",
        Next.CHOOSE_OTHER_TARGET(),
    )


def archived_subjects(workspace: Workspace, chunk: Chunk, spec: ReplaySpec) -> Iterable[str]:
    """The subjects of a chunk; with very many the catalog does not have them, and the object is asked."""
    if chunk.meta.subjects is not None:
        return chunk.meta.subjects
    # It imports pyarrow, 0.1 s: the commands that only look at replays, and every help, do without.
    from nats3_dagster.replay.planning.content import subjects

    return subjects(workspace, chunk, spec)


def check_subject_sizes(transform: Transform, chunks: Iterable[Chunk]) -> None:
    """Raises TargetError for a subject that is too long to be published to. Only subjects that the catalog counted can
    be checked; the publisher refuses the others."""
    from nats3_dagster.jetstream.publish.encode import MAX_SUBJECT_BYTES, subject_too_long  # pyarrow takes 0.1 s

    parts = sum(transform.destination.count(sign) for sign in ("{{", "$", ">"))
    for source in {s for c in chunks for s in c.meta.subjects or ()}:
        # No part makes more than twice its token, so that most subjects need no transform.
        if len(transform.destination) + 2 * parts * len(encoded(source)) <= MAX_SUBJECT_BYTES:
            continue
        target = transform(source)
        if target is not None and (size := len(encoded(target))) > MAX_SUBJECT_BYTES:
            raise subject_too_long(readable(target), size)


def target_state(link: Link, target: ReplayTarget) -> StreamState:
    """The target as it is now. Raises StreamChanged if it is another stream than when the replay began: what the replay
    published there is gone with it."""
    state = stream_state(link, target.incarnation.stream)
    if state.incarnation != target.incarnation:
        raise StreamChanged(
            f"Stream {state.name} was deleted and made again after this replay began",
            "What was published is gone with it: create a new replay",
        )
    return state


def check_resumable(link: Link, targets: Sequence[ReplayTarget]) -> bool:
    """Check that the targets are the streams they were when the replay began; whether batches can be used. Raises
    StreamChanged."""
    streams = [target_state(link, target) for target in targets]
    return takes_batches(streams, server_info(link))
