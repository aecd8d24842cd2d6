"""Destinations: the subjects that a replay publishes to, and whether the right streams take all of them."""

from collections.abc import Iterator, Sequence

from nats3_dagster.archive.selected.chosen import Chosen
from nats3_dagster.errors import OperatorError
from nats3_dagster.model import Archive, ReplaySpec, StreamState
from nats3_dagster.replay.planning.topology import Topology
from nats3_dagster.replay.targets import removes
from nats3_dagster.steps import Next
from nats3_dagster.subjects import Transform, covers, encoded, matches, overlap, readable
from nats3_dagster.workspace import Workspace


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


def check_targets(
    workspace: Workspace,
    spec: ReplaySpec,
    transform: Transform,
    chosen: Chosen,
    streams: Sequence[StreamState],
) -> None:
    """Raises OperatorError if a subject that the replay will publish to has no stream."""
    captured = [subject for stream in streams for subject in stream.subjects]
    create = spec.create_stream
    hint = (
        Next.CREATE_TARGET()
        if create is None
        else (
            f"Stream {create} cannot be created, because {', '.join(s.name for s in streams)} captures a part of "
            f"{transform.pattern}: let it capture all, or choose another write subject"
        )
    )
    if not any(overlap(transform.pattern, subject) for subject in captured):
        raise OperatorError(f"No stream listens on {transform.pattern}", hint)
    if any(covers(subject, transform.pattern) for subject in captured):
        return
    for source in archived_subjects(workspace, chosen, spec):
        target = transform(source)
        if target is not None and not any(matches(subject, target) for subject in captured):
            raise OperatorError(f"No stream listens on {target}, to which {source} would go", hint)


def check_own_stream(archive: Archive, transform: Transform, topology: Topology) -> None:
    """Raises OperatorError if the replay would be archived again, be it on the way of mirrors and sources, and may not
    be."""
    own = next((stream.name for stream in topology.listening if stream.name in topology.feeding), None)
    if own is None:
        return
    what = f"the stream that archive {archive.name} archives"
    raise OperatorError(
        f"{transform.pattern} is captured by {own}, {what}"
        if own == archive.spec.stream
        else f"{transform.pattern} is captured by {own}, from which {archive.spec.stream} is filled, {what}",
        Next.CHOOSE_OTHER_TARGET(),
    )


def archived_subjects(workspace: Workspace, chosen: Chosen, spec: ReplaySpec) -> Iterator[str]:
    """The subjects of the chunks, each once. Where a chunk has very many, the catalog does not have them, and the
    object is asked."""
    yield from sorted(chosen.subjects)
    if not chosen.extent.uncounted:
        return
    # It imports pyarrow, 0.1 s: the commands that only look at replays, and every help, do without.
    from nats3_dagster.replay.planning.content import subjects

    known = set(chosen.subjects)
    for chunk in (chunk for page in chosen.pages(workspace) for chunk in page if chunk.meta.subjects is None):
        for subject in subjects(workspace, chunk, spec):
            if subject not in known:
                known.add(subject)
                yield subject


def check_subject_sizes(transform: Transform, chosen: Chosen) -> None:
    """Raises TargetError for a subject that is too long to be published to. Only subjects that the catalog counted can
    be checked; the publisher refuses the others."""
    from nats3_dagster.jetstream.publish.encode import MAX_SUBJECT_BYTES, subject_too_long  # pyarrow takes 0.1 s

    parts = sum(transform.destination.count(sign) for sign in ("{{", "$", ">"))
    for source in chosen.subjects:
        # No part makes more than twice its token, so that most subjects need no transform.
        if len(transform.destination) + 2 * parts * len(encoded(source)) <= MAX_SUBJECT_BYTES:
            continue
        target = transform(source)
        if target is not None and (size := len(encoded(target))) > MAX_SUBJECT_BYTES:
            raise subject_too_long(readable(target), size)
