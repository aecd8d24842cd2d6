"""Rules that are declared as code: made when they are first needed, and compared with the catalog each time.

Invariant: a declaration changes nothing that the catalog has, and does not create anything again that was ended.
"""

from collections.abc import Sequence

from nats3_dagster.archive.account import rules
from nats3_dagster.errors import Conflict, Nats3Error, OperatorError
from nats3_dagster.model.account_rule import KeptRule, RuleDeclaration
from nats3_dagster.steps import Next
from nats3_dagster.workspace import Workspace


def ensure_declared(workspace: Workspace, declared: Sequence[RuleDeclaration]) -> dict[str, Nats3Error]:
    """Creates those of the declared rules that there never were. Returns the errors by rule: where the catalog has
    other settings, or had a rule of this name that was ended, and what `create` raises. Raises CatalogError."""
    problems: dict[str, Nats3Error] = {}
    for one in declared:
        try:
            _ensure(workspace, one)
        except Nats3Error as error:
            if error.ends_all:
                raise
            problems[one.rule.name] = error
    return problems


def _ensure(workspace: Workspace, one: RuleDeclaration) -> None:
    name = one.rule.name
    kept = _find(workspace, name)
    if kept is None:
        if name in workspace.catalog.accounts.ended_names():
            raise OperatorError(
                f"Rule {name} is declared, and was ended", Next.DECLARE_NO_MORE_OR_CREATE_RULE(rule=name)
            )
        try:
            kept, _ = rules.create(workspace, one.rule, create_bucket=one.create_bucket)
        except Conflict:
            # Another process was faster.
            kept = _find(workspace, name)
            if kept is None:
                raise
    written = {field: getattr(one.rule, field) for field in sorted(one.given)}
    if found := rules.differences(kept.rule, written):
        texts = [f"{each.field} is {_text(each.old)}, and {_text(each.new)} is declared" for each in found]
        raise OperatorError(
            f"Rule {name} is not as declared: {'; '.join(texts)}", Next.DECLARE_OR_CHANGE_RULE(rule=name)
        )


def _find(workspace: Workspace, name: str) -> KeptRule | None:
    return next((one for one in workspace.catalog.accounts.rules() if one.name == name), None)


def _text(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(value) or "none"  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    return str(value) if value != "" else "empty"
