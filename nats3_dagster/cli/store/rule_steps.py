"""Steps for rules in `nats3 store apply`: their rows in its table, and sentences."""

from collections.abc import Mapping, Sequence
from typing import Any

from nats3_dagster.archive.declared.apply_accounts import AppliedRule, RuleStep
from nats3_dagster.cli.store.store_views import change_lines
from nats3_dagster.cli.terminal.output import counted
from nats3_dagster.cli.terminal.progress import note
from nats3_dagster.cli.wording import WORDS
from nats3_dagster.documents.declared import PlannedRuleStep
from nats3_dagster.errors import Nats3Error
from nats3_dagster.model.account_rule import AccountRule

_DONE = {"create": "Created", "change": "Changed", "remove": "Ended"}
_ENDS = {"create": "creates", "change": "changes", "remove": "ends"}


def rule_rows(planned: Sequence[RuleStep]) -> list[dict[str, Any]]:
    """The rules of a plan as rows of its table."""
    views = [PlannedRuleStep.of(one, WORDS).plain() for one in planned]
    return [
        {
            "name": f"rule {view['name']}",
            "action": "end" if view["action"] == "remove" else view["action"],
            "stream": view["match"],
            "refused": view["refused"],
            "what": _what(view),
        }
        for view in views
    ]


def rule_parts(planned: Sequence[RuleStep]) -> list[str]:
    """Returns the kinds of steps with their numbers, for the question."""
    counts = {action: sum(one.action == action for one in planned) for action in _ENDS}
    return [f"{_ENDS[action]} {counted(count, 'rule')}" for action, count in counts.items() if count]


def ended_text(planned: Sequence[RuleStep]) -> str:
    """Returns the sentences of the rules that end; empty without any."""
    texts = [
        f". Ended: rule {one.name}, whose {counted(one.archives, 'archive')} "
        f"{'goes on, and is' if one.archives == 1 else 'go on, and are'} pruned later if no file declares "
        f"{'it' if one.archives == 1 else 'them'}"
        for one in planned
        if one.action == "remove"
    ]
    return "".join(texts)


def note_rule(one: AppliedRule) -> None:
    name = one.planned.name
    if one.done:
        by_other = " by another process meanwhile" if one.error else ""
        note(f"{_DONE[one.planned.action]} rule {name}{by_other}")
    elif one.error:
        note(f"rule {name}: {one.error.text_in(WORDS)}")
    for archive, error in one.failed.items():
        note(f"Archive {archive} keeps its settings: {error.text_in(WORDS)}")


def failed_rules(done: Sequence[AppliedRule]) -> list[tuple[str, Nats3Error | None]]:
    """Returns the rules and archives that are not as declared, each with its error."""
    failed = [(f"rule {one.planned.name}", one.error) for one in done if not one.done]
    archives: list[Mapping[str, Nats3Error]] = [one.failed for one in done]
    return failed + [(name, error) for some in archives for name, error in some.items()]


def _what(view: dict[str, Any]) -> str:
    """Returns the text of a plan for a rule."""
    if view["refused"]:
        return view["refused"]
    if view["action"] == "remove":
        return f"{counted(view['archives'], 'archive')} stay"
    texts = [f"{name}: {text}" for name, text in change_lines(AccountRule, view["changes"]).items()]
    if view["action"] == "create" or view["streams"]:
        texts.append(f"{counted(view['streams'], 'stream')} to be archived")
    return "; ".join(texts)
