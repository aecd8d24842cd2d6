"""Creation: the stream that a replay makes for itself, plain or like the archived one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nats3_dagster.errors import OperatorError
from nats3_dagster.jetstream.codes import supported_settings
from nats3_dagster.jetstream.link import Link
from nats3_dagster.jetstream.server import ServerInfo
from nats3_dagster.jetstream.streams import create_stream, stream_name_taken
from nats3_dagster.model import Incarnation, ReplaySpec, StreamState
from nats3_dagster.model.stream import bucket_of, own_metadata
from nats3_dagster.steps import Next
from nats3_dagster.subjects import Transform, covers, overlap

# Subjects that a server lets no stream capture.
_RESERVED = ("$JS.>", "$JSC.>", "$NRG.>")
# Settings that belong to the archived stream's place or past, or that keep a replay from going in.
#   mirror, sources, subject_transform  made the messages what they are, and would do so once more, or beside the replay
#   republish                           would send every message to the subscribers of the archived stream
#   sealed, no_ack                      let no replay in, or not know what went in
#   first_seq                           of an empty stream
#   placement, mirror_direct, template_owner, persist_mode  of that server, or excluded by batches
_LEFT_OUT = (
    "mirror",
    "sources",
    "subject_transform",
    "republish",
    "sealed",
    "no_ack",
    "first_seq",
    "placement",
    "mirror_direct",
    "template_owner",
    "persist_mode",
)


@dataclass(frozen=True, slots=True)
class Creation:
    """A stream that is to be made."""

    # As STREAM.CREATE takes it.
    config: Mapping[str, Any]
    # Settings of the archived stream that it does not have.
    left_out: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.config["name"]

    @property
    def state(self) -> StreamState:
        """The state as it will be before its first message, but for the time when it is made."""
        return StreamState(Incarnation(self.name, 0), 1, 0, 0, 0, 0, 0, self.config)


def creation(spec: ReplaySpec, transform: Transform, source: Mapping[str, Any], server: ServerInfo) -> Creation | None:
    """The stream that a replay makes if none listens; None if it may make none. `source` is the configuration of the
    archived stream. Raises OperatorError."""
    if spec.like_source:
        return _like(spec, transform, source, server)
    if spec.create_stream is None:
        return None
    if bucket_of((transform.pattern,)):
        raise OperatorError(
            f"A plain stream on {transform.pattern} would be no bucket for its clients", Next.CREATE_BUCKET_STREAM()
        )
    # An older server is not asked for batches: create_stream knows which settings it has.
    config = {"name": spec.create_stream, "subjects": [transform.pattern], "storage": "file", "allow_batched": True}
    return Creation(config)


def origins(config: Mapping[str, Any]) -> set[str]:
    """The streams of the same account that this one is filled from, as a mirror or by its sources."""
    feeds = [*([config["mirror"]] if config.get("mirror") else []), *(config.get("sources") or ())]
    return {feed["name"] for feed in feeds if not feed.get("external")}


def check_creation(made: Creation, *, is_name_taken: bool) -> None:
    """Raises OperatorError if `create`, when no stream listens on the subjects, could not succeed, because the name is
    taken or the subjects are the server's own."""
    if is_name_taken:
        raise stream_name_taken(made.name)
    for pattern in made.config["subjects"]:
        if any(overlap(pattern, subject) for subject in _RESERVED):
            raise OperatorError(
                f"Stream {made.name} cannot be created on {pattern}: these subjects are, or include, JetStream's own",
                "Choose a write subject that begins with a word of your own",
            )


def create(link: Link, made: Creation) -> StreamState:
    """Make the stream."""
    return create_stream(link, made.config)


def _like(spec: ReplaySpec, transform: Transform, source: Mapping[str, Any], server: ServerInfo) -> Creation:
    subjects = _mapped(transform, source.get("subjects") or ())
    expected, archived = bucket_of(subjects), bucket_of(source.get("subjects") or ())
    if (expected or "").partition("_")[0] != (archived or "").partition("_")[0]:
        raise OperatorError(
            f"The archived stream {source['name']} is no bucket of the kind that {', '.join(subjects)} belongs to"
            if expected
            else f"The archived stream {source['name']} is a bucket, and {', '.join(subjects)} belongs to none",
            "Choose other subjects, or create the stream first with a client",
        )
    name = spec.create_stream or expected or source["name"]
    if expected and name != expected:
        raise OperatorError(
            f"The clients of {', '.join(subjects)} look for a stream {expected}, not {name}",
            f"Call it {expected}, or leave the name out",
        )
    config = {key: value for key, value in source.items() if key not in _LEFT_OUT}
    config["metadata"] = own_metadata(source)
    if not server.clustered:
        config["num_replicas"] = 1
    left_out = {key for key in _LEFT_OUT if source.get(key)}
    left_out |= {key for key, value in config.items() if value != source.get(key) and source.get(key)} - {"metadata"}
    config |= {"name": name, "subjects": subjects, "allow_batched": True}
    known = supported_settings(config, server.version)
    left_out |= {key for key in config if key not in known and config[key]} - {"allow_batched"}
    return Creation(known, tuple(sorted(left_out)))


def _mapped(transform: Transform, subjects: Sequence[str]) -> list[str]:
    """The subjects of a stream as the replay maps them, where every one is mapped as a whole; else the filter of all
    that the replay publishes to."""
    taken = [s for s in subjects if overlap(transform.source, s)]
    whole = all(covers(transform.source, s) for s in taken) and "{{" not in transform.destination
    mapped = sorted({m for m in map(transform, taken) if m}) if whole else []
    return [m for m in mapped if not any(m != o and covers(o, m) for o in mapped)] or [transform.pattern]
