"""Permissions: the subjects that a NATS user needs to archive an account by a rule, and no other."""

from nats3_dagster.archive.permissions import Names, Need, Permissions, captures
from nats3_dagster.archive.restore.permissions import restores
from nats3_dagster.model.account_rule import AccountRule


def to_follow(rule: AccountRule, names: Names) -> Permissions:
    """Returns the permissions for the ticks of a rule, and for captures of each stream that it takes: permissions know
    no pattern but a whole token, so they are for all streams."""
    listing = Need("List the streams of the account.", (f"{names.api}.STREAM.LIST",))
    durable = "*" if rule.take_queues else None
    return Permissions((listing,), ()) | captures("*", names, durable, owns_durable=True)


def to_restore_account(names: Names) -> Permissions:
    """Returns the permissions for a restore of an account, into the one that they are for."""
    api = names.api
    publish = (
        Need("See whether the account has room.", (f"{api}.INFO",)),
        Need("Make mirrors, and streams that only have sources.", (f"{api}.STREAM.CREATE.*",)),
    )
    return restores("*", "*", names) | Permissions(publish, ())
