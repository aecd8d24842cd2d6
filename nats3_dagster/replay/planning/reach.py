"""Reach: whether what a replay publishes comes to its targets and to no other stream.

It asks only where the streams are those of another domain or account: JetStream's API then says which streams listen
there, and a message goes where leaf nodes and imports pass its subject on.
"""

import time

from nats3_dagster.errors import OperatorError
from nats3_dagster.jetstream.link import Link
from nats3_dagster.jetstream.publish.listeners import listening_streams, own_listening_streams
from nats3_dagster.jetstream.publish.probe import subject_of_both
from nats3_dagster.jetstream.streams import stream_state
from nats3_dagster.replay.planning.plan import ReplayPlan
from nats3_dagster.subjects import overlap

# How long servers may take to tell each other that a stream listens, which may just have been created.
SPREAD_S = 5.0


def check_reach(link: Link, planned: ReplayPlan) -> None:
    """Raises OperatorError where messages do not come to the targets, or to other streams as well."""
    client = link.client
    if client.is_own_jetstream:
        return
    if own := own_listening_streams(link, planned.pattern):
        raise OperatorError(
            f"{planned.pattern} is captured by {', '.join(own)} of the connection's own JetStream too, beside the "
            f"streams at {client.api}: each would store what the replay publishes",
            "Choose a write subject that only the target captures",
        )
    if planned.creation and not planned.targets:  # it is not created yet
        subjects = {(subject_of_both(s, planned.pattern), "") for s in planned.creation.config["subjects"]}
    else:
        names = [target.incarnation.stream for target in planned.targets]
        subjects = {
            (subject_of_both(subject, planned.pattern), name)
            for name in names
            for subject in stream_state(link, name).subjects
            if overlap(subject, planned.pattern)
        }
    for subject, stream in sorted(subjects):
        _check(link, subject, stream)


def _check(link: Link, subject: str, stream: str) -> None:
    """`stream` alone takes a message on the subject; empty: none does."""
    until = time.monotonic() + SPREAD_S
    while not (names := listening_streams(link, subject)) and stream and time.monotonic() < until:
        time.sleep(0.1)
    if names == ([stream] if stream else []):
        return
    client = link.client
    if not names:
        raise OperatorError(
            f"A message on {subject} does not reach stream {stream} from NATS at {client.address}",
            "Let the leaf node, or the account's imports and exports, pass the subject on to the stream unchanged; or "
            "run the replay with NATS3_NATS_URL of a server and account that have the stream",
        )
    others = ", ".join(names)
    raise OperatorError(
        f"A message on {subject} reaches {others}, and not only stream {stream}"
        if stream
        else f"A message on {subject} reaches {others} before the replay has created its stream",
        "Streams of several domains or accounts take it: choose a write subject that only the target captures",
    )
