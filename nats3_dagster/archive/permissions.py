"""Permissions: the subjects that a NATS user needs to archive a stream, and no other.

Invariant: each subject is used, and none is used that is not here: a test compares with what a server traced.
"""

import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from nats3_dagster.jetstream.nats_options import API, NatsOptions
from nats3_dagster.jetstream.server import server_info
from nats3_dagster.model import ArchiveSpec
from nats3_dagster.workspace import Workspace

# Between our own processes: the progress of tasks, and the fence that keeps two attempts of a replay apart.
OWN_SUBJECTS = "_NATS3.>"


@dataclass(frozen=True, slots=True)
class Need:
    """Subjects, and what they are needed for."""

    # A phrase, as a comment of a configuration has it.
    reason: str
    # Patterns of NATS subjects.
    subjects: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Names:
    """The prefixes of subjects, as a server's permissions name them."""

    # JetStream's API, without a dot at its end.
    api: str
    # Where answers come.
    inbox_prefix: str


@dataclass(frozen=True, slots=True)
class Permissions:
    """The permissions of a NATS user."""

    publish: tuple[Need, ...]
    subscribe: tuple[Need, ...]
    # Whether it may answer requests, wherever an answer is wanted.
    responds: bool = False

    def __or__(self, other: "Permissions") -> "Permissions":
        """Returns the union; a subject stays at its first place."""
        return Permissions(
            _merged(self.publish + other.publish),
            _merged(self.subscribe + other.subscribe),
            self.responds or other.responds,
        )


def names_here(workspace: Workspace) -> Names:
    """Returns the names by the settings, and by the server that they lead to. Raises SourceError."""
    return names_at(workspace.settings.nats, server_info(workspace.link).domain)


def names_at(options: NatsOptions, domain: str = "") -> Names:
    """Returns the names at a server with this domain: one that has the asked domain itself maps its API to its own
    first, and looks at permissions after that (seen on 2.9.10 and 2.15.1)."""
    return Names(API if options.domain and options.domain == domain else options.api, options.inbox_prefix)


def to_look(names: Names) -> Permissions:
    """Returns the permissions that every command needs: answers, and the names of streams for errors."""
    reason = "Only so that errors can say which streams there are."
    publish = Need(reason, (f"{names.api}.STREAM.NAMES",))
    return Permissions((publish,), (Need("Answers.", (f"{names.inbox_prefix}.>",)),))


def to_capture(spec: ArchiveSpec, names: Names) -> Permissions:
    """Returns the permissions for captures of the archive, with its sensor, checks and verification."""
    durable = (spec.durable or spec.own_durable) if spec.mode == "consumer" else None
    needed = captures(spec.stream, names, durable, owns_durable=spec.owns_durable or spec.durable is None)
    return needed | _buffered(spec.buffer, names) if spec.buffer else needed


def _buffered(buffer: str, names: Names) -> Permissions:
    """The permissions for making, reading and deleting the mirror that an archive is read from."""
    api = names.api
    needs = (
        Need(
            "Make the mirror that the archive is read from, and delete it with the archive.",
            (f"{api}.STREAM.CREATE.{buffer}", f"{api}.STREAM.DELETE.{buffer}"),
        ),
        Need("Read the mirror.", reads(api, buffer)),
    )
    return Permissions(needs, ())


def captures(stream: str, names: Names, durable: str | None, *, owns_durable: bool) -> Permissions:
    """The same for a stream, or for all with `*`. `durable`: the one through which its messages are taken, or `*`; None
    where it is read. `owns_durable`: the archive makes and deletes it."""
    api = names.api
    needs = [Need("Archive the stream: look at it, and ask its leader for a message.", reads(api, stream)[:2])]
    if durable is not None:
        made = ("CREATE", "DELETE") if owns_durable else ()
        subjects = tuple(f"{api}.CONSUMER.{what}.{stream}.{durable}" for what in ("INFO", *made))
        needs.append(Need("Take its messages through the durable consumer.", subjects))
        if api != API:
            needs.append(
                Need(
                    "See that no consumer of this name gets our acknowledgements.",
                    (f"{API}.CONSUMER.INFO.{stream}.{durable}",),
                )
            )
        needs.append(Need("Look for consumers that take the same messages.", (f"{api}.CONSUMER.LIST.{stream}",)))
        older = ""
        if owns_durable:
            older = " (its own consumer: with servers before 2.14)"
            reason = "Acknowledge by flow control what is in the catalog (servers from 2.14)."
            by_flow = (f"{api}.CONSUMER.RESET.{stream}.{durable}", f"$JS.FC.{stream}.{durable}.>")
            needs.append(Need(reason, by_flow))
        one_by_one = (f"{api}.CONSUMER.MSG.NEXT.{stream}.{durable}", f"$JS.ACK.{stream}.{durable}.>")
        needs.append(Need(f"Pull, and acknowledge one by one what is in the catalog{older}.", one_by_one))
    needs.append(Need("Read it by consumers that nats3 makes and deletes.", reads(api, stream)[2:]))
    needs.append(
        Need(
            "Keep the positions of its consumers, from a list and the head of a backup.",
            (f"{api}.CONSUMER.LIST.{stream}", f"{api}.STREAM.SNAPSHOT.{stream}", f"$JS.SNAPSHOT.ACK.{stream}.>"),
        )
    )
    own = (Need("Between our own processes: the progress of tasks.", (OWN_SUBJECTS,)),)
    return to_look(names) | Permissions((*needs, *own), own)


def reads(api: str, stream: str) -> tuple[str, ...]:
    """Look at a stream, ask for a message, and read by ephemeral consumers: five subjects, in this order."""
    return (
        f"{api}.STREAM.INFO.{stream}",
        f"{api}.STREAM.MSG.GET.{stream}",
        f"{api}.CONSUMER.CREATE.{stream}.>",
        f"{api}.CONSUMER.MSG.NEXT.{stream}.>",
        f"{api}.CONSUMER.DELETE.{stream}.>",
    )


def configuration(permissions: Permissions) -> str:
    """The block `permissions` of a user, as a nats-server's configuration has it."""
    publish, subscribe = (_allow(needs) for needs in (permissions.publish, permissions.subscribe))
    # Replies to one request, and for how long: a batch has many, and its messages may have to be fetched.
    responses = '\n  allow_responses { max: -1, expires: "5m" }' if permissions.responds else ""
    return f"permissions {{\n  publish {{\n{publish}\n  }}\n  subscribe {{\n{subscribe}\n  }}{responses}\n}}"


def _allow(needs: Sequence[Need]) -> str:
    lines: list[str] = []
    for need in needs:
        lines.append(f"      # {need.reason}")
        lines += textwrap.wrap(
            ", ".join(f'"{subject}"' for subject in need.subjects),
            116,
            initial_indent="      ",
            subsequent_indent="      ",
            break_long_words=False,
            break_on_hyphens=False,
        )
    return "\n".join(["    allow: [", *lines, "    ]"])


def _merged(needs: Iterable[Need]) -> tuple[Need, ...]:
    known: set[str] = set()
    merged: list[Need] = []
    for need in needs:
        if new := tuple(subject for subject in need.subjects if subject not in known):
            merged.append(Need(need.reason, new))
            known.update(new)
    return tuple(merged)
