"""Bad input in Dagster: run config of replays, and attributes of the component. Each value of a setting is refused by
the name of its field, or kept as it was meant, as in bodies and files (test_bad_input.py)."""

from typing import Any

import pytest
from dagster import DagsterInvalidConfigError, OpExecutionContext, job, op, validate_run_config
from pydantic import ValidationError

from nats3_dagster.defs.jobs.checked_config import schema_of
from nats3_dagster.defs.jobs.run_config import WindowConfig
from nats3_dagster.defs.project.component import ArchiveDeclaration, ExportDeclaration
from nats3_dagster.errors import OperatorError
from nats3_dagster.model import ArchiveSpec, ExportSpec, ReplaySpec
from nats3_dagster.model.dagster_settings import DAGSTER_SETTINGS
from nats3_dagster.model.spec_table import Kind, Setting, settings_of
from nats3_dagster_tests.support.bad_values import (
    NEEDED,
    WRONG,
    in_document,
    in_shell,
    is_kept,
    is_named,
    is_right,
    values,
)

Spec = type[Any]
OF_RUNS = [one for one in settings_of(ReplaySpec) if one.key in WindowConfig.model_fields]
DECLARATIONS: dict[Spec, Any] = {ArchiveSpec: ArchiveDeclaration, ExportSpec: ExportDeclaration}
DECLARED = [(spec, one) for spec in DECLARATIONS for one in settings_of(spec) if one.name not in DAGSTER_SETTINGS]


@op(config_schema=schema_of(WindowConfig))
def window(context: OpExecutionContext) -> None:
    """Reads its config, and does nothing."""


@job
def replaying() -> None:
    window()


def told(faults: list[str | None]) -> None:
    """Asserts that there are no faults."""
    listed = [ascii(fault)[:300] for fault in faults if fault is not None]
    assert not listed, "\n".join(listed[:10])


def is_blamed(one: Setting, error: Exception, name: str = "") -> bool:
    """True if the error names the setting, or has its name beside its text."""
    field = error.field if isinstance(error, OperatorError) else None
    return field in (one.name, one.key) or is_named(one, str(error)) or f"\n{name}\n" in str(error)


def of_run(one: Setting, value: Any) -> str | None:
    """What is wrong with how run config with this value is taken."""
    config = {"archive": "a", **NEEDED[ReplaySpec], one.key: value}
    try:
        read = validate_run_config(replaying, {"ops": {"window": {"config": config}}})
        kept = one.of(WindowConfig(**read["ops"]["window"]["config"]).window())
    except (DagsterInvalidConfigError, OperatorError, ValidationError) as error:
        is_wrong = not is_blamed(one, error) or (is_right(one, value) and value is not None)
        return f"{value!r} is refused: {error}" if is_wrong else None
    # A range of sequences is a text here.
    meant = in_shell(one, value) if one.kind is Kind.SEQUENCES and isinstance(value, str) else in_document(one, value)
    return None if is_kept(one, kept, one.default if value is None else meant) else f"{value!r} is kept as {kept!r}"


@pytest.mark.parametrize("one", OF_RUNS, ids=lambda one: one.key)
def test_a_field_of_run_config(one: Setting) -> None:
    # Dagster converts values for a field of float by itself: it takes true for 1, and fails at what no float holds.
    of_dagster = ("True", str(10**400)) if one.kind.type is float else ()
    told([of_run(one, value) for value in values(one) if str(value) not in of_dagster or isinstance(value, str)])


def of_component(spec: Spec, one: Setting, value: Any) -> str | None:
    """What is wrong with how a declaration with this value is taken."""
    name = f"{one.key}_file" if one.kind is Kind.FILE else one.key
    keys = {each.name: each.key for each in settings_of(spec)}
    fields = {keys[each]: needed for each, needed in NEEDED[spec].items()} | {name: value}
    try:
        declared = DECLARATIONS[spec](**fields)
        made = declared.spec() if spec is ExportSpec else declared.declaration()
        kept = one.of(made if spec is ExportSpec or made is None else made.spec)
    except (ValidationError, OperatorError) as error:
        is_wrong = not is_blamed(one, error, name) or (is_right(one, value) and value is not None)
        return f"{value!r} is refused: {error}" if is_wrong else None
    meant = one.default if value is None else in_template(one, value)
    return None if is_kept(one, kept, meant) else f"{value!r} is kept as {kept!r}"


def in_template(one: Setting, value: Any) -> Any:
    """The meaning of a value that a template may have made: a number and a yes are texts there."""
    if one.kind is Kind.FLAG and not isinstance(value, bool):
        texts = {"1": True, "true": True, "0": False}
        is_number = isinstance(value, int | float) and value in (0, 1)
        return texts.get(str(int(value)) if is_number else str(value), WRONG)
    if one.kind.type is int and not isinstance(value, bool):
        try:
            value = int(value) if isinstance(value, str) or int(value) == value else value
        except (TypeError, ValueError, OverflowError):
            return WRONG
    return in_document(one, value)


@pytest.mark.parametrize(
    ("spec", "one"), [pytest.param(*case, id=f"{case[0].__name__}.{case[1].key}") for case in DECLARED]
)
def test_an_attribute_of_the_component(spec: Spec, one: Setting) -> None:
    told([of_component(spec, one, value) for value in values(one)])
