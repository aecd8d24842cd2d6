"""The Python face of rules that give each stream of an account an archive.

from nats3_dagster import Account, AccountRule

with Account.open() as account:
    account.create(AccountRule("everything", "archive", exclude=("tmp*",)))
    for one in account.status("everything").streams:
        print(one.plan.stream, one.plan.archive_name)
"""

from typing import Any, Self

from nats3_dagster.archive.account import rules
from nats3_dagster.archive.account.plan import StreamPlan
from nats3_dagster.archive.account.rules import ChangedRule
from nats3_dagster.archive.account.status import AccountStatus, status
from nats3_dagster.errors import OperatorError
from nats3_dagster.model.account_rule import AccountRule, KeptRule
from nats3_dagster.model.spec_table import Setting, settings_of
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace

_SETTINGS = {one.name: one for one in settings_of(AccountRule)}


class Account:
    """The rules for the account that the settings name. All methods raise errors of `nats3_dagster.errors`. Only one
    thread at a time may use it."""

    def __init__(self, workspace: Workspace) -> None:
        """Use `open`."""
        self._workspace = workspace

    @classmethod
    def open(cls, settings: Settings | None = None) -> Self:
        """Opens the account with the settings of the environment and of nats3.toml, unless others are given."""
        return cls(Workspace(settings or Settings.load()))

    def close(self) -> None:
        self._workspace.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def rules(self) -> tuple[KeptRule, ...]:
        """All rules, the oldest first: of two that take one stream the older one has it. NATS is not asked."""
        return self._workspace.catalog.accounts.rules()

    def status(self, name: str) -> AccountStatus:
        """The rule with each stream of the account: its archive, what is not captured yet and how near to loss that is,
        or why it has none. Raises Unknown, SourceError."""
        (found,) = status(self._workspace, [name])
        return found

    def preview(self, rule: AccountRule, *, create_bucket: bool = False) -> tuple[StreamPlan, ...]:
        """Returns what a new rule would do with each stream. Raises as `create` does; nothing is written."""
        return rules.preview(self._workspace, rule, create_bucket=create_bucket)

    def create(self, rule: AccountRule, *, create_bucket: bool = False) -> tuple[StreamPlan, ...]:
        """Makes a rule, and returns what it will do with each stream: `account_sensor` of Dagster's daemon makes the
        archives within a tick. Raises Conflict when the name is taken, OperatorError for a missing bucket unless
        `create_bucket` makes it, SourceError."""
        return rules.create(self._workspace, rule, create_bucket=create_bucket)[1]

    def set(self, name: str, *, create_bucket: bool = False, **settings: Any) -> ChangedRule:
        """Gives a rule other settings, by the fields of AccountRule; its archives get them too. Raises Unknown,
        OperatorError for what cannot change, Conflict when another process changed the rule meanwhile, SourceError."""
        for field in settings:
            if field not in _SETTINGS:
                raise OperatorError(f"A rule has no field {field!r}", f"It has {', '.join(_SETTINGS)}")
        wanted = {field: _value(_SETTINGS[field], value) for field, value in settings.items()}
        return rules.change(self._workspace, name, wanted, create_bucket=create_bucket)

    def end(self, name: str) -> int:
        """Ends a rule; returns the number of its archives, which go on as they are. Raises Unknown."""
        return rules.end(self._workspace, name)


def _value(setting: Setting, value: Any) -> Any:
    """A value as rules keep it: a single text of a list is one, and not its letters."""
    if not setting.kind.is_list:
        return value
    return (value,) if isinstance(value, str) else tuple(value)
