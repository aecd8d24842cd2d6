"""Rules for the streams of an account, and the archives that they made.

Invariant: a rule that ends, or does not take a stream any longer, leaves the archive as it is.
"""

import json
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from psycopg import errors

from nats3_dagster.catalog.session.pool import Session
from nats3_dagster.catalog.session.statements import Statements
from nats3_dagster.errors import Conflict, Unknown
from nats3_dagster.model import Archive
from nats3_dagster.model.account_rule import AccountArchive, AccountRule, KeptRule
from nats3_dagster.model.spec_table import by_key, to_document


@dataclass(slots=True, kw_only=True)
class _Row:
    id: int
    name: str
    settings: str
    created_at: datetime
    updated_at: datetime

    def kept(self) -> KeptRule:
        rule = AccountRule(**by_key(AccountRule, json.loads(self.settings)))
        return KeptRule(self.id, rule, self.created_at, self.updated_at)


@dataclass(slots=True, kw_only=True)
class _EndedRow:
    name: str


class Accounts:
    """Create, list, change and end rules; note what they made."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def rules(self) -> tuple[KeptRule, ...]:
        """All rules, the oldest first."""
        with self._session.reading() as sql:
            return tuple(row.kept() for row in sql.rows(_Row, "account_rules"))

    def get(self, name: str) -> KeptRule:
        """Raises Unknown when there is none of this name."""
        rules = self.rules()
        found = next((one for one in rules if one.name == name), None)
        if found is None:
            names = ", ".join(one.name for one in rules)
            raise Unknown(f"There is no rule {name} for an account", f"There is {names}" if names else "There is none")
        return found

    def create(self, rule: AccountRule) -> KeptRule:
        """Raises Conflict when there is one of this name."""
        with self._session.transaction() as sql:
            try:
                row = sql.row(_Row, "create_account_rule", name=rule.name, settings=_text(rule))
            except errors.UniqueViolation as error:
                raise rule_taken(rule.name) from error
        assert row is not None
        return row.kept()

    def change(self, kept: KeptRule, rule: AccountRule) -> KeptRule:
        """The rule with other settings. Raises Conflict when another process changed or ended it."""
        with self._session.transaction() as sql:
            row = sql.row(_Row, "change_account_rule", rule=kept.id, before=_text(kept.rule), settings=_text(rule))
        if row is None:
            raise Conflict(f"Another process changed the rule {kept.name}", "Look at it again, and repeat the change")
        return row.kept()

    def end(self, kept: KeptRule) -> None:
        """End a rule; ending it again does nothing."""
        with self._session.transaction() as sql:
            sql.run("end_account_rule", rule=kept.id)

    def ended_names(self) -> set[str]:
        """The names of rules that ended, and that no rule has again."""
        with self._session.reading() as sql:
            return {row.name for row in sql.rows(_EndedRow, "ended_account_rules")}

    def archives(self) -> list[AccountArchive]:
        """All archives that are not deleted, by name, those of no rule too; and the deleted ones that rules made."""
        with self._session.reading() as sql:
            return sql.rows(AccountArchive, "account_archives")

    def ended_at(self, archive: Archive) -> datetime | None:
        """Returns when the stream of the archive was found to be deleted; None while it is not known to be."""
        with self._session.reading() as sql:
            return sql.value_or_none(datetime, "ended_at", archive=archive.id)

    def mark_ended(self, archive_ids: Collection[int]) -> None:
        """Record that the streams of these archives were deleted."""
        with self._session.transaction() as sql:
            sql.run("end_account_archives", archives=[*archive_ids])

    def mark_present(self, archive_ids: Collection[int]) -> None:
        """Record that these archives have a stream again."""
        with self._session.transaction() as sql:
            sql.run("go_on_with_archives", archives=[*archive_ids])

    def release(self, archive_ids: Collection[int]) -> None:
        """Make archives of a rule archives like any other."""
        with self._session.transaction() as sql:
            sql.run("release_account_archives", archives=[*archive_ids])


def add_archive(sql: Statements, kept: KeptRule, archive: Archive) -> None:
    """Record that the rule has the archive. Raises Conflict when the rule was ended meanwhile."""
    try:
        sql.run("add_account_archive", archive=archive.id, rule=kept.id)
    except errors.ForeignKeyViolation as error:
        raise Conflict(f"The rule {kept.name} was deleted meanwhile", "Its archives stay as they are") from error


def rule_taken(name: str) -> Conflict:
    """The error of a name that a rule has already."""
    return Conflict(f"There is a rule {name} already", "Use another name, or change that rule")


def _text(rule: AccountRule) -> str:
    return json.dumps(to_document(rule))
