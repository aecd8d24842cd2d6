"""An account's restore as asked for, and the plan of each of its streams."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal

from nats3_dagster.archive.restore.plan import RestorePlan
from nats3_dagster.errors import Nats3Error, OperatorError, WrongState
from nats3_dagster.model import StreamState
from nats3_dagster.model.account_rule import KeptRule, takes

# Restores of streams that run at once, at most: each holds a connection to Postgres.
MOST_AT_ONCE: Final = 6

# restore: made from its archive. make: has no archive; made, and the server fills it from its mirror or its sources.
# done: an earlier run has made it. compare: a stream of the name is there, and is compared with the archive.
# left_out: it was not there at that moment. refused: cannot be restored so.
Action = Literal["restore", "make", "done", "compare", "left_out", "refused"]


@dataclass(frozen=True, slots=True)
class AccountRestoreSpec:
    """An account's restore as asked for. Raises OperatorError if a field is invalid."""

    # The rule whose archives are restored.
    rule: str
    # The moment, in nanoseconds since 1970: each stream comes back with its messages from before it. None for all that
    # is archived.
    to_ns: int | None = None
    # Patterns of names, as a rule has them: the streams that come back, and those of them that do not.
    match: tuple[str, ...] = ("*",)
    exclude: tuple[str, ...] = ()
    # None for those of the archived streams, and 1 on a server alone.
    replicas: int | None = None
    # True to give the streams the archived ones' limits: they may remove messages at once.
    limits: bool = False
    # True to restore what is archived although messages between were lost.
    over_gaps: bool = False
    # False to leave the streams' consumers out.
    consumers: bool = True
    # Streams that are restored at once.
    at_once: int = 2

    def __post_init__(self) -> None:
        if self.replicas is not None and not 1 <= self.replicas <= 5:
            raise OperatorError(f"replicas is {self.replicas}", "Use 1 to 5", field="replicas")
        if not 1 <= self.at_once <= MOST_AT_ONCE:
            raise OperatorError(f"at_once is {self.at_once}", f"Use 1 to {MOST_AT_ONCE}", field="at_once")

    def takes(self, stream: str) -> bool:
        """True if a stream of this name is asked for."""
        return takes(stream, self.match, self.exclude)


@dataclass(frozen=True, slots=True)
class StreamRestore:
    """A stream of an account's restore."""

    stream: str
    action: Action
    # The name of its archive; empty for a stream that is made from others.
    archive: str = ""
    # How it is restored from its archive.
    planned: RestorePlan | None = None
    # As the server is asked for a stream that is made from others.
    config: Mapping[str, Any] | None = None
    # Streams of this restore that it mirrors or sources: they come before it.
    origins: tuple[str, ...] = ()
    # The time up to which all that it had is archived, by the clock of Postgres; None where that is not known.
    archived_up_to: datetime | None = None
    # What of it will not be as it was.
    notes: tuple[str, ...] = ()
    # Why it is left out, or cannot be restored.
    reason: Nats3Error | None = None

    @property
    def messages(self) -> int:
        """Messages that come out of the archive; of a plan at most."""
        return self.planned.messages if self.planned else 0

    @property
    def payload_bytes(self) -> int:
        """Bytes of their subjects, header blocks and payloads."""
        return self.planned.payload_bytes if self.planned else 0

    def check_reached(self, state: StreamState) -> None:
        """Raises WrongState if the stream that is there ends before the archive does."""
        if self.planned and state.last_seq < self.planned.last_seq:
            raise WrongState(
                f"It is there and ends with sequence {state.last_seq}, and its archive has it up to "
                f"{self.planned.last_seq}: a restore makes a new stream, and adds nothing to one",
                "Delete it",
            )

    @property
    def wanted(self) -> Mapping[str, Any]:
        """Returns its configuration once it is whole."""
        if self.planned:
            return self.planned.config
        return self.config or {}


@dataclass(frozen=True, slots=True)
class AccountRestorePlan:
    """The plan of an account's restore."""

    kept: KeptRule
    spec: AccountRestoreSpec
    # The server that the account is restored into.
    server: str
    # In the order in which they are made.
    streams: tuple[StreamRestore, ...]
    # Why nothing of it can begin; None where it can.
    refusal: Nats3Error | None = None
