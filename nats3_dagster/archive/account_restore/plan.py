"""The plan of an account's restore: each stream that a rule archives, as it was at a moment.

Invariant: planning changes nothing. Each stream that cannot be restored is named with its reason, and nothing begins
while there is one.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

from nats3_dagster.archive.account_restore.moments import check_there, incarnation_at
from nats3_dagster.archive.account_restore.order import in_order, named_origins, origins_of
from nats3_dagster.archive.account_restore.room import refusal
from nats3_dagster.archive.account_restore.spec import AccountRestorePlan, AccountRestoreSpec, Action, StreamRestore
from nats3_dagster.archive.restore.configuration import restored_configuration
from nats3_dagster.archive.restore.consumers import ALL
from nats3_dagster.archive.restore.plan import RestoreSpec, check_free, check_sourced, described
from nats3_dagster.errors import Nats3Error, OperatorError, WrongState
from nats3_dagster.hours import SECOND_NS, format_time
from nats3_dagster.jetstream.server import server_info
from nats3_dagster.jetstream.streams import all_streams
from nats3_dagster.model import Selection, SeqRange, StreamState
from nats3_dagster.model.account_rule import AccountArchive, DerivedStream, KeptRule
from nats3_dagster.model.stream import is_unfinished
from nats3_dagster.workspace import Workspace


def plan(workspace: Workspace, spec: AccountRestoreSpec) -> AccountRestorePlan:
    """Everything that can be known before the first stream is made. Raises Unknown for the rule, OperatorError where
    nothing is asked for, SourceError, CatalogError."""
    kept = workspace.catalog.accounts.get(spec.rule)
    server = server_info(workspace.link)
    planning = _Planning(workspace, kept, spec)
    streams = in_order(planning.streams())
    if not streams:
        asked = "" if (spec.match, spec.exclude) == (("*",), ()) else " of a stream that is asked for"
        raise OperatorError(f"Rule {kept.name} has no archive{asked}", "Look at the rule: it says why, of each stream")
    return AccountRestorePlan(kept, spec, server.name, streams, _refusal(workspace, streams))


def archives_of(workspace: Workspace, kept: KeptRule) -> list[AccountArchive]:
    """The archives that have the streams of a rule: those that it made, and those that had one of its streams before.
    By the name of the stream."""
    accounts = workspace.catalog.accounts
    older = [one for one in accounts.rules() if one.id < kept.id]
    found: dict[str, AccountArchive] = {}
    for one in accounts.archives():
        taken = kept.takes(one.stream) and not any(other.takes(one.stream) for other in older)
        own = one.rule_id == kept.id
        if one.deleted_at is None and (own or (taken and one.is_whole and one.stream not in found)):
            found[one.stream] = one
    return [found[stream] for stream in sorted(found)]


class _Planning:
    def __init__(self, workspace: Workspace, kept: KeptRule, spec: AccountRestoreSpec) -> None:
        self._workspace, self._kept, self._spec = workspace, kept, spec
        self._archives = {one.stream: one for one in archives_of(workspace, kept) if spec.takes(one.stream)}
        self._present = {state.name: state for state in all_streams(workspace.link)}
        rows = workspace.catalog.account_restores.restored(kept)
        self._done = {(row.stream, row.created_ns) for row in rows if row.to_ns == spec.to_ns}

    def streams(self) -> list[StreamRestore]:
        """Each stream that is asked for, by name."""
        found = {
            stream: self._judged(stream, one.name, partial(self._archived, one))
            for stream, one in self._archives.items()
        }
        for one in self._workspace.catalog.account_restores.derived(self._kept):
            if self._spec.takes(one.stream) and one.stream not in found:
                found[one.stream] = self._judged(one.stream, "", partial(self._derived, one))
        linked = {name: self._linked(one, found) for name, one in found.items()}
        return list(linked.values())

    def _judged(self, stream: str, archive: str, judge: Callable[[], StreamRestore]) -> StreamRestore:
        """The plan of a stream; that it is refused is one, too."""
        try:
            one = judge()
            if one.action in ("restore", "make"):
                check_free(self._present, one.wanted)
            if one.action == "restore" and one.planned:
                check_sourced(self._present.values(), one.planned)
            if one.action in ("done", "compare"):
                one.check_reached(self._present[stream])
            return one
        except Nats3Error as error:
            if error.ends_all:
                raise
            return StreamRestore(stream, "refused", archive, reason=error)

    def _archived(self, found: AccountArchive, to_ns: int | None = None, last: int | None = None) -> StreamRestore:
        """A stream that comes out of its archive. `to_ns`, `last`: an earlier end than the one that is asked for."""
        workspace, spec = self._workspace, self._spec
        archive = workspace.catalog.archives.get(found.name)
        try:
            incarnation = incarnation_at(workspace, archive, spec.to_ns, found.ended_at)
        except OperatorError as error:
            return StreamRestore(found.stream, "left_out", found.name, reason=error)
        planned = described(
            workspace,
            RestoreSpec(
                found.name,
                selection=Selection(
                    to_ns=to_ns or spec.to_ns, sequences=None if last is None else SeqRange(1, max(1, last))
                ),
                replicas=spec.replicas,
                limits=spec.limits,
                over_gaps=spec.over_gaps,
                consumers=(ALL,) if spec.consumers else (),
                without_consumers=True,
                incarnation=incarnation.token,
                empty=True,
                origins=True,
            ),
        )
        up_to = workspace.catalog.account_restores.archived_up_to(archive, incarnation)
        notes = [*_notes(planned.left_out, planned.consumers_problem), *(_late(up_to, spec.to_ns))]
        notes += [f"{one.name} begins at its acknowledgement floor" for one in planned.consumers if not one.kept.exact]
        return StreamRestore(
            found.stream,
            self._action(found.stream),
            found.name,
            planned,
            origins=origins_of(planned.config),
            archived_up_to=up_to,
            notes=tuple(notes),
        )

    def _derived(self, one: DerivedStream) -> StreamRestore:
        """A stream that the server fills from others."""
        try:
            check_there(one, self._spec.to_ns)
        except OperatorError as error:
            return StreamRestore(one.stream, "left_out", reason=error)
        config, left_out = restored_configuration(
            one.config,
            server_info(self._workspace.link),
            one.stream,
            largest_bytes=0,
            replicas=self._spec.replicas,
            storage=None,
            limits=True,
            origins=True,
        )
        notes = list(_notes(left_out, None))
        if config.get("sources"):
            notes.append("the server fills it from its sources: sequences and times are new")
        if one.consumers:
            notes.append(f"its consumers ({one.consumers}) are not kept, because it has no archive")
        present = self._present.get(one.stream)
        return StreamRestore(
            one.stream,
            "done" if present and _is_made(present, config) else "make",
            config=config,
            origins=origins_of(config),
            notes=tuple(notes),
        )

    def _action(self, stream: str) -> Action:
        state = self._present.get(stream)
        if state is None or is_unfinished(state.config):
            return "restore"
        return "done" if (stream, state.incarnation.created_ns) in self._done else "compare"

    def _linked(self, one: StreamRestore, every: Mapping[str, StreamRestore]) -> StreamRestore:
        """The plan, with the origins that are restored too. A stream may not have more of an origin than that has: the
        server would take the origin's next messages for those that the stream has."""
        origins = [every[name] for name in one.origins if name in every and every[name].wanted]
        others = [name for name in one.origins if name not in every or not every[name].wanted]
        notes = [
            f"filled from {name} as that is there"
            if name in self._present
            else f"{name}, which it is filled from, is not restored"
            for name in others
        ]
        if one.planned and one.action == "restore":
            one = self._cut(one, origins)
        return replace(one, origins=tuple(other.stream for other in origins), notes=(*one.notes, *notes))

    def _cut(self, one: StreamRestore, origins: Sequence[StreamRestore]) -> StreamRestore:
        assert one.planned
        found = self._archives[one.stream]
        if one.planned.config.get("mirror"):
            lasts = [other.planned.last_seq for other in origins if other.planned]
            if lasts and lasts[0] < one.planned.last_seq:
                return self._judged(one.stream, one.archive, partial(self._archived, found, last=lasts[0]))
            return one
        ends = [other.archived_up_to for other in origins if other.planned and other.archived_up_to]
        if not ends or one.archived_up_to is None or min(ends) >= one.archived_up_to:
            return one
        end_ns = int(min(ends).timestamp() * SECOND_NS)
        if self._spec.to_ns is not None and self._spec.to_ns <= end_ns:
            return one
        return self._judged(one.stream, one.archive, partial(self._archived, found, to_ns=end_ns))


def _refusal(workspace: Workspace, streams: Iterable[StreamRestore]) -> Nats3Error | None:
    refused = [one for one in streams if one.action == "refused"]
    if refused:
        first = refused[0]
        assert first.reason
        count = f"{len(refused):,} streams cannot be restored. {first.stream}" if len(refused) > 1 else first.stream
        why = f"{first.reason.what}. {first.reason.hint}" if first.reason.hint else first.reason.what
        return WrongState(
            f"{count if len(refused) > 1 else f'Stream {count} cannot be restored'}: {why}",
            "Or leave out what cannot be restored; nothing was made",
        )
    return refusal(workspace.link, streams)


def _notes(left_out: Iterable[str], problem: Nats3Error | None) -> Iterable[str]:
    if settings := list(left_out):
        yield f"without {', '.join(settings)}"
    if problem:
        yield f"without its consumers: {problem.what}"


def _late(up_to: datetime | None, to_ns: int | None) -> Iterable[str]:
    """Says where the archive ends before the moment that is asked for."""
    if to_ns is None or up_to is None or up_to.timestamp() * SECOND_NS >= to_ns:
        return
    if to_ns > datetime.now(UTC).timestamp() * SECOND_NS:
        return
    yield f"archived up to {format_time(int(up_to.timestamp()) * SECOND_NS)} only"


def _is_made(state: StreamState, config: Mapping[str, Any]) -> bool:
    """True if a stream has the origins that it is to have."""
    return named_origins(state.config) == named_origins(config)
