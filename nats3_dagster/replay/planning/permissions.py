"""Permissions: the subjects that a NATS user needs to replay into a stream, and no other."""

from nats3_dagster.archive.permissions import OWN_SUBJECTS, Names, Need, Permissions, reads, to_look
from nats3_dagster.jetstream.nats_options import API
from nats3_dagster.model.stream import check_stream_name
from nats3_dagster.subjects import Transform


def to_replay(archived: str, write_subject: str, stream: str, names: Names, *, create: bool = False) -> Permissions:
    """Returns the permissions for replays of the archived stream to these subjects, which `stream` captures. `create`:
    whether they may make it. Raises OperatorError for an invalid subject or name."""
    api, pattern = names.api, Transform(">", write_subject).pattern
    look, get, make, take, delete = reads(api, check_stream_name(stream))
    publish = [
        Need("See whether the archived stream still has what is missing in the archive.", reads(api, archived)[:1]),
        Need(
            "Replay: find the streams that listen, look at the target, and publish.",
            (
                f"{api}.STREAM.LIST",
                look,
                pattern,
            ),
        ),
        Need("Resume a replay: read what the target holds of it.", (get, make, take, delete)),
    ]
    if create:
        publish.append(Need("Create the target.", (f"{api}.STREAM.CREATE.{stream}",)))
    if api != API:
        publish.append(Need("See whether streams of our own account take the same subjects.", (f"{API}.STREAM.NAMES",)))
    reason = "Between our own processes: progress, and the fence that keeps two attempts apart."
    own, answers = Need(reason, (OWN_SUBJECTS,)), Need(reason, (OWN_SUBJECTS, f"{names.inbox_prefix}.>"))
    return to_look(names) | Permissions((*publish, answers), (own,))
