"""Plans of declared archives, and what became of them, as JSON documents."""

from typing import Any

from nats3_dagster.archive.declared.apply import Applied, Planned
from nats3_dagster.exports.apply import AppliedExport, PlannedExport
from nats3_dagster.views.archives import Words, difference


def planned(one: Planned, words: Words) -> dict[str, Any]:
    """A step of a plan. `stream` is of the file, or of what is to be removed."""
    spec = one.declared.spec if one.declared else one.archive.spec if one.archive else None
    return {
        "name": one.name, "archive": spec.name if spec else one.name, "action": one.action,
        "place": one.declared.place if one.declared else None, "stream": spec.stream if spec else None,
        "changes": [difference(field) for field in one.differences], "chunks": one.chunks, "messages": one.messages,
        "refused": one.refusal.text_in(words) if one.refusal else None,
    }  # fmt: skip


def applied(one: Applied | None, words: Words) -> dict[str, Any]:
    """What became of a step; None where it was not begun."""
    return {
        "done": one.done if one else False, "by_other": one.by_other if one else False,
        "error": one.error.text_in(words) if one and one.error and not one.done else None,
        "warning": (one.warning or None) if one else None,
    }  # fmt: skip


def planned_export(one: PlannedExport, words: Words) -> dict[str, Any]:
    """A step of a plan for an export of an archive."""
    return {
        "archive": one.archive, "name": one.name, "action": one.action, "place": one.place or None,
        "changes": [difference(field) for field in one.differences],
        "refused": one.refusal.text_in(words) if one.refusal else None,
    }  # fmt: skip


def applied_export(one: AppliedExport | None, words: Words) -> dict[str, Any]:
    """What became of a step; None where it was not begun."""
    return {
        "done": one.done if one else False, "error": one.error.text_in(words) if one and one.error else None,
    }  # fmt: skip
