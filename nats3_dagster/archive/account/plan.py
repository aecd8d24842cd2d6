"""The plan of a rule: what it says of each stream of the account, from what NATS and the catalog have.

Invariant: planning asks nothing and writes nothing, so that a preview and a tick are one.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from nats3_dagster.archive.source.streams import verdict
from nats3_dagster.errors import Nats3Error, OperatorError
from nats3_dagster.model import ArchiveSpec, StreamState
from nats3_dagster.model.account_rule import AccountArchive, AccountRule, KeptRule
from nats3_dagster.model.stream import buffer_of, is_unfinished
from nats3_dagster.steps import Next

# archived: the rule's archive has it. remade: it does, and the stream was deleted and made again since. ended: it does,
# and the stream is gone. create: it is to get an archive. left_out: it gets none. released: the rule's archive has it,
# and the rule does not take it any longer.
# restoring: it does, and the stream is being restored, or was left by a restore that was cut.
Action = Literal["create", "archived", "remade", "restoring", "ended", "released", "left_out"]


@dataclass(frozen=True, slots=True)
class StreamPlan:
    """A stream of the account, as a rule has it."""

    stream: str
    action: Action
    # Why it is left out or released, and what to do so that it is archived; None for the others.
    reason: Nats3Error | None = None
    # The stream as it is now; None for one that is gone.
    state: StreamState | None = None
    # The archive to be created.
    spec: ArchiveSpec | None = None
    # The archive of the rule.
    archive: AccountArchive | None = None
    # True if it is left out because all that it has is of other streams: a restore makes it from them.
    is_derived: bool = False

    @property
    def archive_name(self) -> str:
        """Returns the name of the rule's archive, also of one to be created; empty if it has none."""
        return self.archive.name if self.archive else self.spec.name if self.spec else ""


def plan(
    rule: AccountRule,
    states: Sequence[StreamState],
    archives: Sequence[AccountArchive],
    *,
    rule_id: int | None = None,
    older: Sequence[KeptRule] = (),
) -> tuple[StreamPlan, ...]:
    """Returns what the rule says of each stream, by name. `rule_id`: of a rule of the catalog; None for one that is to
    be created. `older`: the rules before it, whose streams are theirs."""
    return _Plan(rule, states, archives, rule_id, older).streams()


class _Derived(OperatorError):
    """All that a stream has is of other streams."""


class _Plan:
    def __init__(
        self,
        rule: AccountRule,
        states: Sequence[StreamState],
        archives: Sequence[AccountArchive],
        rule_id: int | None,
        older: Sequence[KeptRule],
    ) -> None:
        self._rule = rule
        self._states = {state.name: state for state in states}
        self._older = older
        live = [one for one in archives if one.deleted_at is None]
        self._by_name = {one.name: one for one in live}
        self._whole = {one.stream: one for one in live if one.is_whole}
        own = [one for one in archives if rule_id is not None and one.rule_id == rule_id]
        self._own = {one.stream: one for one in own if one.deleted_at is None}
        self._deleted = {one.stream: one for one in own if one.deleted_at is not None}

    def streams(self) -> tuple[StreamPlan, ...]:
        return tuple(self._stream(name) for name in sorted(self._states.keys() | self._own.keys()))

    def _stream(self, name: str) -> StreamPlan:
        state, own = self._states.get(name), self._own.get(name)
        if own:
            return self._archived(name, own, state)
        assert state is not None
        try:
            self._check_name(name)
            if other := self._whole.get(name):
                raise OperatorError(f"archive {other.name} has it")
            if deleted := self._deleted.get(name):
                raise OperatorError(f"its archive {deleted.name} was deleted", Next.CREATE_ARCHIVE_AGAIN())
            return StreamPlan(name, "create", state=state, spec=self._spec(state))
        except Nats3Error as error:
            return StreamPlan(name, "left_out", error, state, is_derived=isinstance(error, _Derived))

    def _archived(self, name: str, own: AccountArchive, state: StreamState | None) -> StreamPlan:
        if state is None:
            return StreamPlan(name, "ended", archive=own)
        try:
            self._check_name(name)
        except OperatorError as error:
            return StreamPlan(name, "released", error, state, archive=own)
        if is_unfinished(state.config):
            return StreamPlan(name, "restoring", state=state, archive=own)
        is_remade = own.created_ns is not None and own.created_ns != state.incarnation.created_ns
        return StreamPlan(name, "remade" if is_remade else "archived", state=state, archive=own)

    def _check_name(self, name: str) -> None:
        """Raises OperatorError for a stream that the rule does not take by its name."""
        if not self._rule.is_matched(name):
            raise OperatorError("no pattern of the rule takes it")
        if self._rule.is_excluded(name):
            raise OperatorError("it is excluded by the rule")
        for kept in self._older:
            if kept.takes(name):
                raise OperatorError(f"rule {kept.name} has it")

    def _spec(self, state: StreamState) -> ArchiveSpec:
        """The archive of a stream. Raises OperatorError where it is not to have one."""
        if is_unfinished(state.config):
            raise OperatorError("it is being restored")
        if owner := buffer_of(state):
            raise OperatorError(f"it is the buffer of archive {owner}")
        if not self._rule.take_mirrors and (origin := self._origin(state)):
            raise _Derived(origin, Next.TAKE_MIRRORS(rule=self._rule.name))
        judged = verdict(state)
        if judged.mode is None:
            assert judged.error is not None
            raise judged.error
        if judged.mode == "consumer" and not self._rule.take_queues:
            retention = state.config.get("retention")
            why = f"it has {retention} retention, and an archive would be one of its consumers"
            raise OperatorError(why, Next.TAKE_QUEUES(rule=self._rule.name))
        spec = self._rule.archive(state.name, taken=judged.mode == "consumer")
        if other := self._by_name.get(spec.name):
            raise OperatorError(f"archive {other.name}, of stream {other.stream}, has the name that its own would have")
        return spec

    def _origin(self, state: StreamState) -> str:
        """Says where a stream has all its messages from, if that is a mirrored stream or archived ones; else empty."""
        if mirror := state.config.get("mirror"):
            return f"it mirrors {mirror.get('name')}"
        sources = _only_sources(state.config)
        if sources and all(self._is_archived(source, {state.name}) for source in sources):
            return f"all that it has is from {', '.join(sources)}"
        return ""

    def _is_archived(self, name: str, asked: Collection[str]) -> bool:
        """True if an archive has the stream, or will have it by this rule. `asked`: streams that source it."""
        if name in self._own or name in self._whole:
            return True
        state = self._states.get(name)
        if state is None or name in asked:
            return False
        try:
            self._check_name(name)
        except OperatorError:
            return False
        sources = _only_sources(state.config)
        if sources and not self._rule.take_mirrors:
            return all(self._is_archived(source, {*asked, name}) for source in sources)
        mode = None if state.config.get("mirror") else verdict(state).mode
        return mode == "stream" or (mode == "consumer" and self._rule.take_queues)


def _only_sources(config: Mapping[str, object]) -> list[str]:
    """The streams that a stream without subjects of its own has its messages from; empty if one is of another account
    or domain, or it has subjects too."""
    sources: list[dict[str, object]] = config.get("sources") or []  # type: ignore[assignment]
    if config.get("subjects") or any(source.get("external") for source in sources):
        return []
    return list(dict.fromkeys(str(source.get("name")) for source in sources))
