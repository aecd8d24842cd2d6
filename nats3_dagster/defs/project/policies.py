"""Policies of assets as tables of settings: when a step is tried again, and how old an asset may be."""

from datetime import timedelta
from typing import Annotated, Any, Literal

from dagster import (
    Backoff,
    DagsterInvalidDefinitionError,
    FreshnessPolicy,
    Jitter,
    ResolutionContext,
    Resolver,
    RetryPolicy,
)
from pydantic import BaseModel, Field, InstanceOf

from nats3_dagster.archive.source.lateness import late_after_s
from nats3_dagster.defs.project.declared import Declared, doc
from nats3_dagster.errors import OperatorError
from nats3_dagster.model import ArchiveSpec


def kept_fresh(spec: ArchiveSpec) -> FreshnessPolicy:
    """The default policy of an archive's hours, chunks and sealed ones: late as the check of its captures has it."""
    late_s, error_s = late_after_s(spec.max_age_s)
    return FreshnessPolicy.time_window(timedelta(seconds=error_s), timedelta(seconds=late_s))


class RetrySettings(Declared):
    """Retries of a step that failed, in the same run. Dagster's RetryPolicy."""

    max_retries: Annotated[int, doc("How often, at most.", {"type": "integer", "minimum": 1, "maximum": 100})] = Field(
        default=1, ge=1, le=100
    )
    delay_s: Annotated[float, doc("Seconds before the first retry.", {"type": "number", "minimum": 0})] = Field(
        default=0, ge=0
    )
    backoff: Annotated[
        Literal["linear", "exponential"] | None,
        doc("How the delay grows. Without it, it does not.", {"enum": ["linear", "exponential", None]}),
    ] = None
    jitter: Annotated[
        Literal["full", "plus_minus"] | None,
        doc("How the delay varies. Without it, it does not.", {"enum": ["full", "plus_minus", None]}),
    ] = None

    def policy(self) -> RetryPolicy:
        return RetryPolicy(
            max_retries=self.max_retries,
            delay=self.delay_s,
            backoff=Backoff[self.backoff.upper()] if self.backoff else None,
            jitter=Jitter[self.jitter.upper()] if self.jitter else None,
        )


class FreshnessSettings(Declared):
    """The age that the newest materialization may have: Dagster's FreshnessPolicy, by a window or a schedule."""

    fail_window_s: Annotated[
        int | None,
        doc("Seconds after which the asset is stale.", {"type": ["integer", "null"], "minimum": 60}),
    ] = None
    warn_window_s: Annotated[
        int | None,
        doc(
            "Seconds after which a warning is shown; below fail_window_s.", {"type": ["integer", "null"], "minimum": 60}
        ),
    ] = None
    deadline_cron: Annotated[str | None, doc("By when it must be materialized, as a cron schedule: `0 10 * * *`.")] = (
        None
    )
    lower_bound_s: Annotated[
        int | None,
        doc(
            "How long before the deadline a materialization counts, in seconds.",
            {"type": ["integer", "null"], "minimum": 60},
        ),
    ] = None
    timezone: Annotated[str, doc("Of the cron schedule.")] = "UTC"

    def policy(self) -> FreshnessPolicy | None:
        """Returns the policy; None without any field. Raises OperatorError for fields that do not go together."""
        if not self.model_fields_set:
            return None
        warn, window, cron, bound = self.warn_window_s, self.fail_window_s, self.deadline_cron, self.lower_bound_s
        if (window is None) == (cron is None) or (cron is None) != (bound is None) or (cron and warn is not None):
            raise OperatorError(
                "The freshness_policy is neither of a time window nor of a cron schedule",
                "Give fail_window_s, with a warn_window_s or without; or deadline_cron and lower_bound_s",
            )
        try:
            if window is not None:
                warn_window = None if warn is None else timedelta(seconds=warn)
                return FreshnessPolicy.time_window(timedelta(seconds=window), warn_window)
            assert cron is not None
            assert bound is not None
            return FreshnessPolicy.cron(cron, timedelta(seconds=bound), self.timezone)
        except (DagsterInvalidDefinitionError, ValueError) as error:
            raise OperatorError(f"The freshness_policy is invalid: {error}", "Correct it") from None


def _policy(settings: type[RetrySettings] | type[FreshnessSettings], description: str) -> Resolver:
    """Returns the resolver of a policy: a table of settings, or a template that gives Dagster's own object."""

    def resolve(context: ResolutionContext, value: Any) -> Any:
        return settings.resolve_from_model(context, value) if isinstance(value, BaseModel) else value

    return Resolver(resolve, model_field_type=settings.model() | None, description=description)


Retry = Annotated[
    InstanceOf[RetryPolicy] | RetrySettings | None,
    _policy(RetrySettings, "When a step that failed is tried again, if that can help."),
]
Freshness = Annotated[
    FreshnessPolicy | FreshnessSettings | None,
    _policy(
        FreshnessSettings,
        "How old the newest materialization may be. Without it that of nats3, if there is one; an empty table is none.",
    ),
]
