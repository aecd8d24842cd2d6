"""Rules for an account: what each says of the streams that the account has."""

from collections.abc import Iterable, Sequence
from typing import Any, Self

from pydantic import Field

from nats3_dagster.archive.account.plan import Action, StreamPlan
from nats3_dagster.archive.account.rules import ChangedRule
from nats3_dagster.archive.account.status import AccountStatus, StreamStatus
from nats3_dagster.documents.base import Document, Words, stamp, stamp_of, with_settings
from nats3_dagster.documents.holdings import TimeToLoss
from nats3_dagster.model.account_rule import AccountRule, KeptRule
from nats3_dagster.model.spec_table import to_body


class AccountStream(Document):
    """A stream of the account, as a rule has it."""

    stream: str
    action: Action = Field(
        description="create: it gets an archive within a tick. archived: the rule's archive has it. remade: it does, "
        "and the stream was deleted and made again. restoring: it does, and the stream is being restored, or was left "
        "by a restore that was cut. ended: the stream is gone, and its archive stays. released: the "
        "rule's archive has it, and goes on without the rule. left_out: the rule gives it none."
    )
    archive: str | None = Field(description="The rule's archive; null where it has none.")
    why: str | None = Field(description="Why it is left out or released; null for the others.")
    next: str | None = Field(description="What to do so that it is archived.")
    messages: int | None = Field(description="Messages that the stream has now; null where there is none.")
    bytes: int | None
    ended: str | None = Field(description="When the stream was found to be gone.")

    @classmethod
    def of_plan(cls, one: StreamPlan, words: Words) -> Self:
        return cls(**_fields(one, words))


class AccountStreamStatus(AccountStream):
    """A stream of the account, with what its archive has not captured."""

    lag: int | None = Field(description="Sequences that the stream has and the archive has not; null: not known.")
    seconds: float | None = Field(description="Since the oldest of them was stored; null where there is none.")
    time_to_loss: TimeToLoss | None = Field(description="How near the stream is to deleting them; null: not known.")
    error: str | None = Field(description="What is wrong with the stream of the archive, or why it gets none.")

    @classmethod
    def of(cls, one: StreamStatus, words: Words) -> Self:
        waiting = one.condition.waiting if one.condition else None
        error = one.condition.error if one.condition else one.problem
        return cls(
            **_fields(one.plan, words),
            lag=waiting.behind if waiting else None,
            seconds=round(waiting.behind_s, 3) if waiting and waiting.behind else None,
            time_to_loss=TimeToLoss.of(one.loss) if one.loss else None,
            error=error.text_in(words) if error else None,
        )


class Rule(with_settings("RuleSettings", AccountRule)):
    """A rule, and the numbers of streams that it has, or will have."""

    created: str | None = Field(description="Null for a preview.")
    updated: str | None
    archived: int = Field(description="Streams whose archive is the rule's, or will be within a tick.")
    left_out: int
    ended: int = Field(description="Archives of the rule whose streams are gone.")


class PlannedRule(Rule):
    """A rule as it would be, or is, with what it says of each stream."""

    streams: list[AccountStream]

    @classmethod
    def of_preview(cls, rule: AccountRule, streams: Sequence[StreamPlan], words: Words) -> Self:
        return cls(**_rule(rule, None, streams), streams=[AccountStream.of_plan(one, words) for one in streams])

    @classmethod
    def of_kept(cls, kept: KeptRule, streams: Sequence[StreamPlan], words: Words) -> Self:
        return cls(**_rule(kept.rule, kept, streams), streams=[AccountStream.of_plan(one, words) for one in streams])


class FailedChange(Document):
    """An archive that did not get the settings of its rule."""

    archive: str
    error: str


class ChangedAccountRule(PlannedRule):
    """A rule after a change."""

    changed: list[str] = Field(description="The archives that got other settings.")
    failed: list[FailedChange]

    @classmethod
    def of_change(cls, done: ChangedRule, words: Words) -> Self:
        return cls(
            **_rule(done.after.rule, done.after, done.streams),
            streams=[AccountStream.of_plan(one, words) for one in done.streams],
            changed=list(done.archives),
            failed=[FailedChange(archive=name, error=error.text_in(words)) for name, error in done.failed.items()],
        )


class Account(Rule):
    """A rule with each stream of the account."""

    streams: list[AccountStreamStatus]

    @classmethod
    def of(cls, now: AccountStatus, words: Words) -> Self:
        plans = [one.plan for one in now.streams]
        streams = [AccountStreamStatus.of(one, words) for one in now.streams]
        return cls(**_rule(now.kept.rule, now.kept, plans), streams=streams)


class EndedRule(Document):
    """A rule that was ended."""

    name: str
    archives: int = Field(description="The archives that it had; they go on as they are.")


def _rule(rule: AccountRule, kept: KeptRule | None, streams: Iterable[StreamPlan]) -> dict[str, Any]:
    actions = [one.action for one in streams]
    return {
        **to_body(rule),
        "created": stamp(kept.created_at) if kept else None,
        "updated": stamp(kept.updated_at) if kept else None,
        "archived": sum(actions.count(action) for action in ("create", "archived", "remade", "restoring")),
        "left_out": actions.count("left_out"),
        "ended": actions.count("ended"),
    }


def _fields(one: StreamPlan, words: Words) -> dict[str, Any]:
    return {
        "stream": one.stream,
        "action": one.action,
        "archive": one.archive_name or None,
        "why": one.reason.what if one.reason else None,
        "next": (one.reason.hint_in(words) or None) if one.reason else None,
        "messages": one.state.messages if one.state else None,
        "bytes": one.state.bytes if one.state else None,
        "ended": stamp_of(one.archive.ended_at) if one.archive else None,
    }
