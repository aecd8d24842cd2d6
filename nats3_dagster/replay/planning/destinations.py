"""Destinations: the subjects that a replay publishes to, and whether the right streams take all of them."""

from collections.abc import Sequence

from nats3_dagster.errors import OperatorError
from nats3_dagster.model import ReplaySpec, StreamState
from nats3_dagster.replay.planning.content import Content
from nats3_dagster.replay.planning.creation import check_creation
from nats3_dagster.replay.planning.topology import Topology
from nats3_dagster.replay.targets import removes
from nats3_dagster.steps import Next
from nats3_dagster.subjects import covers, encoded, matches, overlap, readable


def check_subject_sizes(content: Content) -> None:
    """Raises TargetError for a subject that is too long to be published to. Only subjects that the catalog counted can
    be checked; the publisher refuses the others."""
    from nats3_dagster.jetstream.publish.encode import MAX_SUBJECT_BYTES, subject_too_long  # pyarrow takes 0.1 s

    transform = content.transform
    parts = sum(transform.destination.count(sign) for sign in ("{{", "$", ">"))
    for source in content.chosen.subjects:
        # No part makes more than twice its token, so that most subjects need no transform.
        if len(transform.destination) + 2 * parts * len(encoded(source)) <= MAX_SUBJECT_BYTES:
            continue
        target = transform(source)
        if target is not None and (size := len(encoded(target))) > MAX_SUBJECT_BYTES:
            raise subject_too_long(readable(target), size)


def check_own_stream(content: Content, topology: Topology) -> None:
    """Raises OperatorError if the replay would be archived again, be it on the way of mirrors and sources, and may not
    be."""
    own = next((stream.name for stream in topology.listening if stream.name in topology.feeding), None)
    if own is None:
        return
    archive, pattern = content.archive, content.transform.pattern
    what = f"the stream that archive {archive.name} archives"
    raise OperatorError(
        f"{pattern} is captured by {own}, {what}"
        if own == archive.spec.stream
        else f"{pattern} is captured by {own}, from which {archive.spec.stream} is filled, {what}",
        Next.CHOOSE_OTHER_TARGET(),
    )


def check_takers(content: Content, topology: Topology) -> None:
    """Raises OperatorError if a subject that the replay will publish to has no stream, if the stream cannot be created
    that is to take them, or where an interrupted replay could not know what it has published."""
    if topology.creation:
        check_creation(topology.creation, is_name_taken=topology.is_name_taken)
    else:
        _check_subjects(content, topology.takers)
    _check_provable(content.spec, topology.takers)


def _check_subjects(content: Content, streams: Sequence[StreamState]) -> None:
    captured, pattern = [subject for stream in streams for subject in stream.subjects], content.transform.pattern
    create = content.spec.create_stream
    hint = (
        Next.CREATE_TARGET()
        if create is None
        else (
            f"Stream {create} cannot be created, because {', '.join(s.name for s in streams)} captures a part of "
            f"{pattern}: let it capture all, or choose another write subject"
        )
    )
    if not any(overlap(pattern, subject) for subject in captured):
        raise OperatorError(f"No stream listens on {pattern}", hint)
    if any(covers(subject, pattern) for subject in captured):
        return
    for source, target in content.subjects():
        if not any(matches(subject, target) for subject in captured):
            raise OperatorError(f"No stream listens on {target}, to which {source} would go", hint)


def _check_provable(spec: ReplaySpec, streams: Sequence[StreamState]) -> None:
    """Refuses a stream that removes messages, where what goes there is no chain, because several publishers or several
    streams take part."""
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
