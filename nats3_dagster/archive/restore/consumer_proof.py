"""Proof: each consumer of a restored stream stands where the plan says, and has before it what the archive says."""

from collections.abc import Mapping
from typing import Any

from nats3_dagster.archive.restore.configuration import has_limits
from nats3_dagster.archive.restore.consumers import PlannedConsumer
from nats3_dagster.archive.restore.plan import RestorePlan
from nats3_dagster.archive.restore.proof import Proof
from nats3_dagster.errors import SourceError
from nats3_dagster.jetstream.consumers.paused import consumer_infos
from nats3_dagster.workspace import Workspace

# Settings that are not as asked for until the restore ends, or that the server writes.
_OWN = frozenset({"pause_until", "metadata"})


def check_consumers(workspace: Workspace, planned: RestorePlan, proof: Proof | None) -> None:
    """Raises SourceError with the first consumer that is not as planned. `proof`: of the messages; None where they were
    not compared, and then what waits for a consumer is not counted."""
    infos = consumer_infos(workspace.link, planned.stream, [one.name for one in planned.consumers])
    # A message that ended is not pending any longer, and the floor goes up to it.
    whole = proof is not None and not proof.ended and not has_limits(planned.config)
    waiting: Mapping[str, int] = proof.waiting if proof else {}
    for one in planned.consumers:
        info = infos[one.name]
        for what, is_now, wanted in _compared(one, info):
            if is_now != wanted and (whole or what not in ("num_ack_pending", "ack_floor")):
                raise _differs(planned.stream, one.name, what, is_now, wanted)
        # Of such a consumer the server counts only the last message of each subject, and delivers all that come later.
        # A mirror may have got more of its origin since.
        is_counted = (
            whole and one.config.get("deliver_policy") != "last_per_subject" and not planned.config.get("mirror")
        )
        if is_counted and info["num_pending"] != waiting[one.name]:
            raise _differs(planned.stream, one.name, "num_pending", info["num_pending"], waiting[one.name])


def _compared(one: PlannedConsumer, info: Mapping[str, Any]) -> list[tuple[str, Any, Any]]:
    """Returns names of values, each with that of the server and that of the plan."""
    at, floor = one.position.delivered, one.position.ack_floor
    config: Mapping[str, Any] = info["config"]
    wanted = {key: value for key, value in one.config.items() if key not in _OWN and value}
    return [
        ("delivered", (info["delivered"]["consumer_seq"], info["delivered"]["stream_seq"]), tuple(at)),
        ("ack_floor", (info["ack_floor"]["consumer_seq"], info["ack_floor"]["stream_seq"]), tuple(floor)),
        ("num_ack_pending", info["num_ack_pending"], len(one.position.pending)),
        *[(key, config.get(key), value) for key, value in wanted.items()],
    ]


def _differs(stream: str, name: str, what: str, is_now: Any, wanted: Any) -> SourceError:
    return SourceError(
        f"Consumer {name} of stream {stream} has {what} {is_now} and not {wanted}",
        "It is deleted with its stream. Does anything else use it?",
    )
