"""Permissions: the subjects that a NATS user needs to make a stream again from its archive, and no other."""

from nats3_dagster.archive.permissions import Names, Need, Permissions, reads, to_look
from nats3_dagster.model.stream import check_stream_name


def to_restore(archived: str, stream: str, names: Names) -> Permissions:
    """Returns the permissions for a restore of the archived stream under the name `stream`. Raises OperatorError for an
    invalid name."""
    return restores(archived, check_stream_name(stream), names)


def restores(archived: str, stream: str, names: Names) -> Permissions:
    """The same for a stream, or for all with `*`."""
    api = names.api
    look, get, make, take, delete = reads(api, stream)
    publish = (
        Need("See whether the archived stream still has what is missing in the archive.", reads(api, archived)[:1]),
        Need("Restore: see whether its name and its subjects are free.", (look, f"{api}.STREAM.LIST")),
        Need(
            "Restore: send the backup, give the stream its subjects, and delete what was cut.",
            (
                f"{api}.STREAM.RESTORE.{stream}",
                f"$JS.SNAPSHOT.RESTORE.{stream}.*",
                f"{api}.STREAM.UPDATE.{stream}",
                f"{api}.STREAM.DELETE.{stream}",
            ),
        ),
        Need("Compare it with the archive.", (get, make, take, delete)),
        Need(
            "Restore its consumers: compare them, and let them deliver once the stream is proven.",
            (f"{api}.CONSUMER.INFO.{stream}.*", f"{api}.CONSUMER.PAUSE.{stream}.*"),
        ),
    )
    return to_look(names) | Permissions(publish, ())
