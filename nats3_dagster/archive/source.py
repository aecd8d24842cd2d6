"""The source of an archive: its stream as it is now, and whether it is still the stream that is archived."""

import logging

from nats3_dagster.catalog import Catalog
from nats3_dagster.errors import OperatorError, StreamChanged
from nats3_dagster.hours import format_time
from nats3_dagster.jetstream.link import Link
from nats3_dagster.jetstream.streams import stream_state
from nats3_dagster.model import Archive, ArchiveSpec, Gap, SeqRange, StreamState
from nats3_dagster.steps import Next
from nats3_dagster.subjects import check_filter, overlap

log = logging.getLogger(__name__)


def check_source(link: Link, spec: ArchiveSpec) -> StreamState:
    """The stream of a new archive. Raises OperatorError when it is unknown, cannot be read in this mode, or has
    nothing for one of the filters."""
    state = stream_state(link, spec.stream)
    if spec.mode == "stream" and state.config.get("retention", "limits") != "limits":
        raise OperatorError(
            f"Stream {spec.stream} has {state.config['retention']} retention: reading it takes from its consumers",
            "The mode stream archives streams with limits retention; mirror or source the stream into one of those",
        )
    for filter_ in spec.subjects:
        check_filter(filter_)
        if state.subjects and not any(overlap(filter_, subject) for subject in state.subjects):
            raise OperatorError(
                f"Stream {spec.stream} has no subject that {filter_!r} takes",
                f"It captures {', '.join(state.subjects)}",
            )
    return state


def source_state(catalog: Catalog, link: Link, archive: Archive, adopt: bool = False) -> StreamState:
    """The archive's stream as it is now, known to the catalog. Raises StreamChanged when the stream was deleted and
    made again since the last capture, unless `adopt` says to go on with the new one."""
    state = stream_state(link, archive.spec.stream)
    known = catalog.coverage.incarnations(archive)
    if state.incarnation in known or not known or adopt:
        if adopt:
            catalog.coverage.adopt(archive, state)
            _give_up_earlier(catalog, archive, state)
        else:
            catalog.coverage.observe(archive, state)
        _check_not_shrunk(catalog, archive, state)
        return state
    raise StreamChanged(
        f"Stream {state.name} was deleted and made again at {format_time(state.incarnation.created_ns)}; "
        f"archive {archive.name} holds an earlier one",
        Next.ADOPT_STREAM(archive=archive.name),
    )


def _give_up_earlier(catalog: Catalog, archive: Archive, state: StreamState) -> None:
    """Record as lost what was not captured of the stream's earlier lives, as far as they were ever seen."""
    for covered in catalog.coverage.all(archive):
        seen = catalog.coverage.last_state(covered.incarnation)
        last = max(covered.last, seen.last_seq if seen else 0)
        if covered.incarnation == state.incarnation or last < covered.start:
            continue
        if lost := catalog.coverage.missing(archive, covered.incarnation, SeqRange(covered.start, last)):
            catalog.chunks.commit(archive, [], [Gap(covered.incarnation, tuple(lost), "missing")])
            log.warning(
                "%s: %d sequences of stream %s of %s went with it before they were captured", archive.name,
                sum(r.size for r in lost), state.name, format_time(covered.incarnation.created_ns),
            )  # fmt: skip


def _check_not_shrunk(catalog: Catalog, archive: Archive, state: StreamState) -> None:
    """A server that was cut off from power may forget its newest messages and give their sequences to others: these
    would count as captured. (A purge or a delete never lowers the last sequence.)"""
    held = catalog.coverage.of(archive, state.incarnation).last
    if held > state.last_seq:
        raise StreamChanged(
            f"Stream {state.name} ends at sequence {state.last_seq}, and archive {archive.name} holds it up to {held}: "
            "the server forgot messages, and gives their sequences to new ones",
            "Create another archive of the stream for what comes, and set sync_interval: always on the server",
        )
