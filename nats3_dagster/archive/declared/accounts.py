"""Rules for an account as a file of archives declares them: a list below `accounts:`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from nats3_dagster.archive.declared.document import Table, place
from nats3_dagster.archive.declared.settings import Written, entry, keys_of, missing, with_place, written
from nats3_dagster.errors import OperatorError
from nats3_dagster.model.account_rule import AccountRule
from nats3_dagster.model.spec_table import Kind, setting, settings_of


@dataclass(frozen=True, slots=True)
class DeclaredRule:
    """A rule that a file declares."""

    rule: AccountRule
    # The file and the line: `archives.yaml:12`.
    place: str
    create_bucket: bool = field(default=False, metadata=setting(Kind.FLAG, "Create buckets that do not exist."))

    @property
    def name(self) -> str:
        return self.rule.name

    @property
    def wanted(self) -> Mapping[str, Any]:
        """Returns the intended rule, by field: one that the file leaves out has its default."""
        return {one.name: one.of(self.rule) for one in settings_of(AccountRule)}


def read_rule(table: Table, defaults: Written, file: str) -> tuple[DeclaredRule | None, list[OperatorError]]:
    """The rule of an entry, or every problem of it with its line, without those of `defaults`: of these counts for a
    rule what it has too."""
    at = place(file, table.line)
    own = written(table, _KEYS, file, "a rule")
    common = {name: value for name, value in defaults.values.items() if name in _FIELDS}
    places = {name: at for name, at in defaults.places.items() if name in _FIELDS} | own.places
    both = Written(common | own.values, places, meant=own.meant | defaults.meant)
    if problems := own.problems + missing(both, AccountRule, at, "a rule"):
        return None, problems
    values = dict(both.values)
    create_bucket = values.pop("create_bucket", False)
    if any(one.required and one.name not in values for one in settings_of(AccountRule)):
        return None, []  # the value that it has from `defaults` is wrong
    try:
        return DeclaredRule(AccountRule(**values), at, create_bucket), []
    except OperatorError as error:
        return None, [with_place(error, places.get(error.field, at))]


def rules_twice(rules: Sequence[DeclaredRule]) -> list[OperatorError]:
    """A problem for each rule whose name another one has."""
    first: dict[str, DeclaredRule] = {}
    problems: list[OperatorError] = []
    for one in rules:
        if (other := first.setdefault(one.name, one)) is not one:
            what = f"{one.place}: rule {one.name} is declared at {other.place} already"
            problems.append(OperatorError(what, "Leave one of them out, or give it another name"))
    return problems


def entry_of_rule(rule: AccountRule) -> dict[str, Any]:
    """The rule as an entry that declares it: what differs from a new one's defaults."""
    return entry(rule)


_KEYS = keys_of(AccountRule, DeclaredRule)
_FIELDS = {one.name for one in _KEYS.values()}
RULE_KEYS = tuple(_KEYS)
