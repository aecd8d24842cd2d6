"""Steps of a plan for declared archives, exports and rules, and what became of each."""

from typing import Any, Self

from pydantic import Field

from nats3_dagster.archive.declared.apply import Applied, Planned
from nats3_dagster.archive.declared.apply_accounts import AppliedRule, RuleStep
from nats3_dagster.documents.accounts import FailedChange
from nats3_dagster.documents.base import Document, Words
from nats3_dagster.documents.changes import Difference
from nats3_dagster.exports.apply import AppliedExport, PlannedExport


class PlannedArchive(Document):
    """The step of a plan for an archive."""

    name: str
    archive: str
    action: str
    place: str | None
    stream: str | None = Field(description="Of the file, or of what is to be removed.")
    changes: list[Difference]
    chunks: int
    messages: int
    refused: str | None

    @classmethod
    def of(cls, one: Planned, words: Words) -> "PlannedArchive":
        return PlannedArchive(**_planned(one, words))


class AppliedArchive(PlannedArchive):
    """A step of a plan, and what became of it. Nothing is done of a step that was not begun."""

    done: bool
    by_other: bool
    error: str | None
    warning: str | None

    @classmethod
    def of_step(cls, planned: Planned, one: Applied | None, words: Words) -> Self:
        return cls(
            **_planned(planned, words),
            done=one.done if one else False,
            by_other=one.by_other if one else False,
            error=one.error.text_in(words) if one and one.error and not one.done else None,
            warning=(one.warning or None) if one else None,
        )


class PlannedExportStep(Document):
    """The step of a plan for an export of an archive."""

    archive: str
    name: str
    action: str
    place: str | None
    changes: list[Difference]
    refused: str | None

    @classmethod
    def of(cls, one: PlannedExport, words: Words) -> "PlannedExportStep":
        return PlannedExportStep(**_planned_export(one, words))


class AppliedExportStep(PlannedExportStep):
    """A step of a plan for an export, and what became of it. Nothing is done of a step that was not begun."""

    done: bool
    error: str | None

    @classmethod
    def of_step(cls, planned: PlannedExport, one: AppliedExport | None, words: Words) -> Self:
        return cls(
            **_planned_export(planned, words),
            done=one.done if one else False,
            error=one.error.text_in(words) if one and one.error else None,
        )


class PlannedRuleStep(Document):
    """The step of a plan for a rule."""

    name: str
    action: str
    place: str | None
    match: list[str] = Field(description="Of the file, or of the rule that is to end.")
    changes: list[Difference]
    streams: int = Field(description="Streams that get an archive by it.")
    archives: int = Field(description="Archives that it has: they go on where it ends.")
    refused: str | None

    @classmethod
    def of(cls, one: RuleStep, words: Words) -> "PlannedRuleStep":
        return PlannedRuleStep(**_planned_rule(one, words))


class AppliedRuleStep(PlannedRuleStep):
    """A step of a plan for a rule, and what became of it. Nothing is done of a step that was not begun."""

    done: bool
    error: str | None
    failed: list[FailedChange]

    @classmethod
    def of_step(cls, planned: RuleStep, one: AppliedRule | None, words: Words) -> Self:
        failed = one.failed if one else {}
        return cls(
            **_planned_rule(planned, words),
            done=one.done if one else False,
            error=one.error.text_in(words) if one and one.error and not one.done else None,
            failed=[FailedChange(archive=name, error=error.text_in(words)) for name, error in failed.items()],
        )


class AppliedPlan(Document):
    """A plan with what became of its steps."""

    dry_run: bool
    archives: list[AppliedArchive]
    exports: list[AppliedExportStep]
    accounts: list[AppliedRuleStep]


def _planned(one: Planned, words: Words) -> dict[str, Any]:
    spec = one.declared.spec if one.declared else one.archive.spec if one.archive else None
    return {
        "name": one.name,
        "archive": spec.name if spec else one.name,
        "action": one.action,
        "place": one.declared.place if one.declared else None,
        "stream": spec.stream if spec else None,
        "changes": [Difference.of(field) for field in one.differences],
        "chunks": one.chunks,
        "messages": one.messages,
        "refused": one.refusal.text_in(words) if one.refusal else None,
    }


def _planned_export(one: PlannedExport, words: Words) -> dict[str, Any]:
    return {
        "archive": one.archive,
        "name": one.name,
        "action": one.action,
        "place": one.place or None,
        "changes": [Difference.of(field) for field in one.differences],
        "refused": one.refusal.text_in(words) if one.refusal else None,
    }


def _planned_rule(one: RuleStep, words: Words) -> dict[str, Any]:
    rule = one.declared.rule if one.declared else one.kept.rule if one.kept else None
    return {
        "name": one.name,
        "action": one.action,
        "place": one.declared.place if one.declared else None,
        "match": list(rule.match) if rule else [],
        "changes": [Difference.of(field) for field in one.differences],
        "streams": sum(stream.action == "create" for stream in one.streams),
        "archives": one.archives,
        "refused": one.refusal.text_in(words) if one.refusal else None,
    }
