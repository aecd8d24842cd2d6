"""Tables of `nats3 account`: columns and lines, made from documents (documents.accounts)."""

from collections import Counter
from typing import Any

from nats3_dagster.cli.terminal.output import Columns, Prose, Size, when
from nats3_dagster.model.account_rule import AccountRule
from nats3_dagster.model.spec_table import settings_of

_STATES = {
    "create": "gets an archive",
    "archived": "archived",
    "remade": "made again",
    "restoring": "being restored",
    "ended": "stream is gone",
    "released": "goes on alone",
    "left_out": "left out",
}
PLAN: Columns = {
    "STREAM": lambda s: s["stream"],
    "STATE": lambda s: _STATES[s["action"]],
    "ARCHIVE": lambda s: s["archive"] or "none",
    "MESSAGES": lambda s: s["messages"],
    "SIZE": lambda s: s["bytes"] if s["bytes"] is None else Size(s["bytes"]),
    "WHY": lambda s: _why(s),
}
STREAMS: Columns = {
    "STREAM": lambda s: s["stream"],
    "STATE": lambda s: _STATES[s["action"]],
    "ARCHIVE": lambda s: s["archive"] or "none",
    "LAG": lambda s: s["lag"],
    "LOSS": lambda s: s["time_to_loss"]["text"] if s["time_to_loss"] else None,
    "WHY": lambda s: _why(s),
}
LIST: Columns = {
    "NAME": lambda r: r["name"],
    "MATCH": lambda r: r["match"],
    "EXCLUDE": lambda r: r["exclude"] or "none",
    "ARCHIVED": lambda r: r["archived"],
    "LEFT OUT": lambda r: r["left_out"],
    "ENDED": lambda r: r["ended"],
    "LAG": lambda r: sum(s["lag"] or 0 for s in r["streams"]),
    "NEAR LOSS": lambda r: sum((s["time_to_loss"] or {}).get("level") in ("warn", "error") for s in r["streams"]),
    "BUCKET": lambda r: "/".join(filter(None, (r["bucket"], r["prefix"]))),
}


def rule_lines(view: dict[str, Any]) -> dict[str, object]:
    """A rule: its settings that are not the default, and how many streams it has."""
    lines: dict[str, object] = {}
    for one in settings_of(AccountRule):
        value = view[one.body_key]
        if one.required or one.name in ("match", "exclude") or value != one.to_document(one.default):
            lines["rule" if one.name == "name" else one.label] = one.shown(value)
    counts = Counter(one["action"] for one in view["streams"])
    lines |= {
        "archived": view["archived"] - counts["create"],
        "to be archived": counts["create"] or None,
        "left out": view["left_out"],
        "streams gone": view["ended"] or None,
        "created": when(view["created"]),
    }
    return lines


def _why(view: dict[str, Any]) -> Prose | None:
    texts = [text for text in (view["why"], view["next"], view.get("error")) if text]
    return Prose(". ".join(texts)) if texts else None
