"""Tick: what Dagster has of one archive after the other against what the catalog has, as far as one call goes."""

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from dagster import AssetKey, AssetMaterialization, DagsterInstance

from nats3_dagster.defs.assets.events import Replayed, export_event, hour_event, replayed, seal_event
from nats3_dagster.defs.keys import Naming
from nats3_dagster.defs.sensors.cursor import ArchiveCursor
from nats3_dagster.defs.sensors.dagster_partitions import Exports, forget, newest_of
from nats3_dagster.errors import Nats3Error, OperatorError, StreamChanged, UnknownStream
from nats3_dagster.fault_points import fault_point
from nats3_dagster.hours import FIRST_HOUR
from nats3_dagster.model import Archive, Replay, Seal, SealedHour
from nats3_dagster.model.export import Export
from nats3_dagster.replay.status import replayed_hours
from nats3_dagster.workspace import Workspace

if TYPE_CHECKING:
    from nats3_dagster.archive.source.condition import Condition

# What one call reports: the daemon writes an event in 10 to 20 ms, after the tick and outside its time limit.
EVENTS = 500
# Seconds after which a call begins no other hour. Dagster gives a tick 60.
BUDGET_S = 20.0


@dataclass
class Reconciled:
    """The findings of one call."""

    # Name and id of each archive that was compared.
    archives: dict[str, int] = field(default_factory=dict[str, int])
    # By archive id: those that Dagster has completely.
    heard: dict[int, ArchiveCursor] = field(default_factory=dict[int, ArchiveCursor])
    # To be reported in this order.
    events: list[AssetMaterialization] = field(default_factory=list[AssetMaterialization])
    # Assets that had what the catalog has not, or of archives that are gone.
    wiped: list[AssetKey] = field(default_factory=list[AssetKey])
    # Of archives that could not be compared.
    problems: list[Nats3Error] = field(default_factory=list[Nats3Error])


@dataclass
class Tick:
    """One call of `reconcile`."""

    instance: DagsterInstance
    workspace: Workspace
    naming: Naming
    # Archives that may have something to report.
    moved: Sequence[Archive]
    found: Reconciled
    exports: Exports
    # The newest event of each asset; see newest_events.
    newest: Mapping[AssetKey, int]
    # By time.monotonic().
    deadline: float = field(default_factory=lambda: time.monotonic() + BUDGET_S)
    # The conditions of the streams of `moved`, by archive id; empty until the first request.
    conditions: Mapping[int, "Condition"] = field(default_factory=dict[int, "Condition"])
    # Whether something of the archive could not be decided.
    undecided: bool = False

    @property
    def is_full(self) -> bool:
        return len(self.found.events) >= EVENTS or time.monotonic() > self.deadline

    def compare(self, archive: Archive, before: ArchiveCursor | None, now: ArchiveCursor) -> ArchiveCursor | None:
        """Returns the position of the archive after this tick."""
        if self.is_full:
            return before
        if before is not None and now == replace(before, open_hour=now.open_hour) and not self.nothing_waits(archive):
            return before
        # The first time, everything is compared: all of Dagster's events come after event 0.
        since = before or ArchiveCursor(now.revision, now.seals, -1, -1, "", 0, 0, 0, 0)
        began, self.undecided = (len(self.found.events), len(self.found.wiped)), False
        known = [self.instance.get_materialized_partitions(key) for key in self.naming.keys_of(archive.name)[:2]]
        fault_point("tick.partitions_read")
        seals = self.workspace.catalog.seals.hours(archive)
        fault_point("tick.seals_read")
        after = replace(
            now,
            open_hour=now.open_hour if now.open_hour in known[0] else "",
            chunks_event=self.chunks(archive, since, now, known[0], seals),
            sealed_event=self.sealed(archive, since, now, known[1], seals),
            replay_event=self.replay(archive, since, now),
            export_event=self.exported(archive, since, now),
        )
        did_something = began != (len(self.found.events), len(self.found.wiped))
        return before if did_something or self.undecided or self.is_full else after

    def chunks(
        self,
        archive: Archive,
        since: ArchiveCursor,
        now: ArchiveCursor,
        known: Collection[str],
        seals: Mapping[str, SealedHour],
    ) -> int:
        """Compare the hours of chunks that Dagster knows with those that have some and those that are sealed as empty;
        up to which event."""
        key, own = self.naming.chunks_key(archive.name), str(archive.id)
        revisions = self.revisions_of(archive)
        fault_point("tick.revisions_read")
        captured = [now.open_hour] if now.open_hour not in revisions and self.nothing_waits(archive) else []
        empty = {seal.hour for seal in seals.values() if seal.is_empty}
        expected = dict.fromkeys((*empty, *captured), 0) | revisions
        changed = {hour for hour, revision in revisions.items() if revision > since.revision}
        changed |= {hour for hour in empty if seals[hour].id > since.seals} | {now.open_hour}
        newest = newest_of(self.instance, key, since.chunks_event, now.chunks_event, known, expected, changed)
        # Of an hour that ended without a message, and is not sealed yet, it says no more than the catalog does.
        extra = {h for h in newest.extra if newest.says(h, "messages") != (own, 0)}
        emptied, surplus = self.divided(archive, extra)
        sealed = self.workspace.catalog.seals
        surplus = self.confirmed(surplus, lambda: {*sealed.hours(archive)} | {*self.revisions_of(archive)})
        if self.wiped(archive, key, surplus, is_foreign=newest.is_foreign(own)):
            wrong = expected.keys()
        else:
            said = {h for h in newest.metadata if h in expected}
            # Without chunks an hour has no revision that a loss could change.
            losses = {hour: seal.losses for hour, seal in self.seals_of(archive, said & empty).items()}
            wrong = {h for h in said if newest.says(h, "revision") != (own, expected[h])}
            wrong |= {h for h in said & losses.keys() if newest.says(h, "gaps") != (own, losses[h])}
            wrong |= expected.keys() - known
        self.report({*wrong, *emptied}, lambda hour: hour_event(self.naming, self.workspace, archive, hour))
        return newest.reached

    def sealed(
        self,
        archive: Archive,
        since: ArchiveCursor,
        now: ArchiveCursor,
        known: Collection[str],
        expected: Mapping[str, SealedHour],
    ) -> int:
        """Compare the sealed hours that Dagster knows; up to which event."""
        key, own = self.naming.sealed_key(archive.name), str(archive.id)
        changed = {seal.hour for seal in expected.values() if seal.id > since.seals}
        newest = newest_of(self.instance, key, since.sealed_event, now.sealed_event, known, expected, changed)
        # What changed since its seal and is complete is sealed again within a minute: to wipe and report all hours for
        # that would ask every asset that depends on them to run once more.
        _, surplus = self.divided(archive, newest.extra)
        surplus = self.confirmed(surplus, lambda: self.workspace.catalog.seals.hours(archive))
        if self.wiped(archive, key, surplus, is_foreign=newest.is_foreign(own)):
            wrong = {*expected}
        else:
            said = {h for h in newest.metadata if h in expected}
            has = self.seals_of(archive, said)
            wrong = {h for h in said & has.keys() if newest.says(h, "version") != (own, has[h].content)}
            wrong |= expected.keys() - known
        seals = self.seals_of(archive, sorted(wrong)[:EVENTS])
        total = self.workspace.catalog.seals.messages(archive) if seals else 0
        self.report(seals, lambda hour: seal_event(self.naming, archive, seals[hour], total, self.workspace.settings))
        return newest.reached

    def replay(self, archive: Archive, since: ArchiveCursor, now: ArchiveCursor) -> int:
        """Compare the replayed hours; up to which event."""
        if (since.replays, since.replay_event) == (now.replays, now.replay_event):
            return now.replay_event
        key = self.naming.replay_key(archive.name)
        known = self.instance.get_materialized_partitions(key)
        fault_point("tick.replayed_read")
        expected = self.replays_of(archive)
        # Nothing says which hours a replay changed: after one, all are compared.
        begin = since.replay_event if since.replays == now.replays else 0
        newest = newest_of(self.instance, key, begin, now.replay_event, known, expected, ())
        surplus = self.confirmed(newest.extra, lambda: self.replays_of(archive))
        if self.wiped(archive, key, surplus):
            wrong = expected.keys()
        else:
            said = {h: event for h, event in newest.metadata.items() if h in expected}
            wrong = {h for h, event in said.items() if event.get("replay") != expected[h].id}
            wrong |= expected.keys() - known
        described: dict[str, Replayed] = {}

        def event(hour: str) -> AssetMaterialization:
            one = expected[hour]
            if one.id not in described:
                described[one.id] = replayed(self.workspace, one)
            return described[one.id].event(self.naming, archive.name, hour)

        self.report(wrong, event)
        return newest.reached

    def exported(self, archive: Archive, since: ArchiveCursor, now: ArchiveCursor) -> int:
        """Compare the exported hours of each export; up to which event of all of them."""
        if (since.exports, since.export_event) == (now.exports, now.export_event):
            return now.export_event
        reached: list[int] = []
        for export in self.exports.of(archive):
            key, own = self.naming.export_key(archive.name, export.name), str(archive.id)
            known = self.instance.get_materialized_partitions(key)
            fault_point("tick.exported_read")
            expected = self.changes_of(export)
            changed = {hour for hour, number in expected.items() if number > since.exports}
            end = self.newest.get(key, 0)
            newest = newest_of(self.instance, key, since.export_event, end, known, expected, changed)
            surplus = self.confirmed(newest.extra, lambda e=export: self.changes_of(e))
            if self.wiped(archive, key, surplus, is_foreign=newest.is_foreign(own)):
                wrong = expected.keys()
            else:
                said = {h for h in newest.metadata if h in expected}
                wrong = {h for h in said if newest.says(h, "change") != (own, expected[h])}
                wrong |= expected.keys() - known
            rows = {h.hour: h for h in self.workspace.catalog.exports.hours(archive, export)} if wrong else {}
            total = sum(h.made.messages for h in rows.values() if h.made)
            self.report(
                wrong, lambda hour, e=export, r=rows, t=total: export_event(self.naming, archive, e, r[hour], t)
            )
            if newest.reached < end:
                reached.append(newest.reached)
        return min(reached, default=now.export_event)

    def nothing_waits(self, archive: Archive) -> bool:
        """True if the archive has everything that its stream has; False if the stream does not answer."""
        waiting = self.condition(archive).waiting
        return waiting is not None and waiting.is_empty

    def divided(self, archive: Archive, hours: Collection[str]) -> tuple[set[str], set[str]]:
        """Splits hours without chunks into complete and uncaptured ones; both are empty if NATS is unreachable.
        Neither, if NATS does not say."""
        # Imported here: see defs/__init__.py.
        from nats3_dagster.archive.proof.seal import complete_hours

        if not hours:
            return set(), set()
        if self.condition(archive).source == "unreachable":
            self.undecided = True
            return set(), set()
        complete, problem = complete_hours(self.workspace, archive, hours)
        if problem and not isinstance(problem, StreamChanged | UnknownStream | OperatorError):
            self.undecided = True
            return complete, set()
        return complete, {*hours} - complete

    def confirmed(self, surplus: Collection[str], read_again: Callable[[], Collection[str]]) -> set[str]:
        """Returns the hours that the catalog does not have by a second read either. If it has some by now, another
        process changed the archive during this tick, and the next tick decides."""
        if not surplus:
            return set()
        by_now = {*surplus}.intersection(read_again())
        self.undecided = self.undecided or bool(by_now)
        return {*surplus} - by_now

    def wiped(self, archive: Archive, key: AssetKey, surplus: Collection[str], *, is_foreign: bool = False) -> bool:
        """Wipe the asset if it has surplus hours, or events of another archive; whether it was. An archive that was
        deleted during this tick is left to the next one: the events may be those of its successor."""
        if not surplus and not is_foreign:
            return False
        now = self.workspace.catalog.archives.find(archive.name)
        if now is None or now.id != archive.id:
            self.undecided = True
            return False
        # Of an archive the newest results of its checks stay, but not those of a former one under its name.
        forget(self.instance, self.naming, archive.name, key, keep_checks=not is_foreign)
        self.found.wiped.append(key)
        return True

    def seals_of(self, archive: Archive, hours: Collection[str]) -> dict[str, Seal]:
        """The seals of these hours that hold. One that does not hold any more since the hours were read is left to the
        next tick."""
        found = self.workspace.catalog.seals.select(archive, hours=[*hours]) if hours else ()
        holding = {seal.hour: seal for seal in found if seal.valid}
        self.undecided = self.undecided or len(holding) < len(hours)
        return holding

    def revisions_of(self, archive: Archive) -> dict[str, int]:
        """The hours with messages. Dagster has no partitions for hours before the first one."""
        return {h: r for h, r in self.workspace.catalog.hours.revisions(archive).items() if h >= FIRST_HOUR}

    def replays_of(self, archive: Archive) -> dict[str, Replay]:
        """The replayed hours, each with the replay that succeeded last."""
        return {h: r for h, r in replayed_hours(self.workspace, archive).items() if h >= FIRST_HOUR}

    def changes_of(self, export: Export) -> dict[str, int]:
        """The exported hours, each with the number of its change."""
        return {h: n for h, n in self.workspace.catalog.exports.changes(export).items() if h >= FIRST_HOUR}

    def condition(self, archive: Archive) -> "Condition":
        from nats3_dagster.archive.source.condition import conditions

        if not self.conditions:
            self.conditions = conditions(self.workspace, self.moved)
        return self.conditions[archive.id]

    def report(self, hours: Iterable[str], event: Callable[[str], AssetMaterialization]) -> None:
        """Describe the hours, oldest first, as far as this tick goes."""
        for hour in sorted(hours):
            if self.is_full:
                return
            self.found.events.append(event(hour))
