"""A file that declares what the catalog has."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from nats3_dagster.archive.declared.accounts import entry_of_rule
from nats3_dagster.archive.declared.entries import entry_of
from nats3_dagster.model import Archive
from nats3_dagster.model.account_rule import KeptRule
from nats3_dagster.workspace import Workspace


def declared_now(workspace: Workspace, names: Sequence[str] | None = None) -> dict[str, Any]:
    """Returns a file of these archives; without names of all rules, and of all archives but those that are as their
    rule makes them. Raises Unknown."""
    catalog = workspace.catalog
    rules = () if names is not None else catalog.accounts.rules()
    archives = catalog.archives.all() if names is None else [catalog.archives.get(name) for name in names]
    exports = {archive.id: [one.spec for one in catalog.exports.all(archive)] for archive in archives}
    of_rules = _of_rules(workspace, rules) if rules else {}
    entries = [
        entry_of(archive, exports[archive.id])
        for archive in archives
        if exports[archive.id] or not _is_as_made(archive, of_rules.get(archive.id))
    ]
    declared: dict[str, Any] = {"archives": entries}
    return declared | ({"accounts": [entry_of_rule(one.rule) for one in rules]} if rules else {})


def _of_rules(workspace: Workspace, rules: Sequence[KeptRule]) -> dict[int, KeptRule]:
    by_id = {one.id: one for one in rules}
    every = workspace.catalog.accounts.archives()
    return {one.archive_id: by_id[one.rule_id] for one in every if one.rule_id in by_id}


def _is_as_made(archive: Archive, kept: KeptRule | None) -> bool:
    """True if the rule would make the archive as it is."""
    if kept is None or archive.paused or archive.presets:
        return False
    made = kept.rule.archive(archive.spec.stream, taken=archive.spec.mode == "consumer")
    return entry_of(archive) == entry_of(replace(archive, spec=made))
