"""Bodies of rules for an account."""

from contextlib import AbstractContextManager
from typing import Any

from pydantic import ConfigDict, Field

from nats3_dagster.bodies.base import Body, named, with_settings
from nats3_dagster.model.account_rule import AccountRule
from nats3_dagster.model.spec_table import by_key, cleared

_BESIDE = {"create_bucket"}


class CreateAccountRule(with_settings("AccountRuleSettings", Body, AccountRule)):
    """A new rule. `name` and `bucket` must be given."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"name": "everything", "bucket": "archive"},
                {
                    "name": "buckets",
                    "match": ["KV_*"],
                    "exclude": ["KV_tmp*"],
                    "bucket": "archive",
                    "prefix": "kv/{stream}",
                },
            ]
        }
    )

    create_bucket: bool = Field(False, description="Create the bucket, and those of copies, that do not exist.")

    def named(self) -> AbstractContextManager[None]:
        """Has errors of the block name fields as this body has them."""
        return named(AccountRule)

    def rule(self) -> AccountRule:
        """Raises OperatorError if a field is invalid."""
        document = self.model_dump(by_alias=True, exclude_none=True, exclude=_BESIDE)
        with self.named():
            return AccountRule(**by_key(AccountRule, document))


class ChangeAccountRule(with_settings("AccountRuleChanges", Body, AccountRule, optional=("name", "bucket"))):
    """Other values of settings. A setting that is left out stays as it is."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"exclude": ["tmp*"], "max_age_s": 300}]})

    create_bucket: bool = Field(False, description="Create buckets of copies that do not exist.")

    def named(self) -> AbstractContextManager[None]:
        """Has errors of the block name fields as this body has them."""
        return named(AccountRule)

    def wanted(self) -> dict[str, Any]:
        """The settings by field. Raises OperatorError if one is invalid."""
        document = self.model_dump(by_alias=True, exclude_unset=True, exclude_none=True, exclude=_BESIDE)
        with named(AccountRule):
            return cleared(AccountRule, by_key(AccountRule, document))
