"""Options made from the table of settings of a spec."""

import inspect
from collections.abc import Callable, Mapping
from enum import StrEnum
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer

from nats3_dagster.bodies.base import Interval
from nats3_dagster.cli.terminal.options import parse_duration, parse_size, parser
from nats3_dagster.hours import format_time, parse_time
from nats3_dagster.model import parse_sequences
from nats3_dagster.model.spec_table import Kind, Setting, file_at, settings_of

# The parameter of a command that gets the values of the options that were given, by the keys of bodies.
Given = dict[str, Any]


def with_settings(
    spec: type[Any], *, but: str = "", changes: bool = False, one_way: bool = False
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command an option for each setting of a spec in the place of its parameter `given`. `but`: the key of the
    setting that the command takes as an argument. `changes`: the command changes a spec, so that no default is named;
    what cannot change has a hidden option, for which the command says why. `one_way`: a flag has one option, for what
    is not its default."""
    settings = [one for one in settings_of(spec) if one.key != but]

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(command, eval_str=True)
        parameters = list[inspect.Parameter]()
        for parameter in signature.parameters.values():
            options = (_option(one, changes, one_way) for one in settings)
            parameters += options if parameter.name == "given" else [parameter]

        @wraps(command)
        def run(**values: Any) -> None:
            given = {one.body_key: _value(one, values.pop(_name(one))) for one in settings}
            command(given={key: value for key, value in given.items() if value is not None}, **values)

        # Options come after arguments; all of them are passed by name.
        parameters = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in parameters]
        run.__signature__ = signature.replace(parameters=parameters)  # pyright: ignore[reportAttributeAccessIssue]
        run.__annotations__ = {one.name: one.annotation for one in parameters}
        return run

    return decorate


def required_options(spec: type[Any], *, but: str = "") -> dict[str, str]:
    """The options that must be given, by the keys of bodies."""
    return {one.body_key: one.option for one in settings_of(spec) if one.required and one.key != but}


def _name(one: Setting) -> str:
    """The parameter of an option; arguments of commands may have the names of keys."""
    return f"option_{one.key}"


def _option(one: Setting, changes: bool, one_way: bool) -> inspect.Parameter:
    text = (one.help if changes else one.description_for_people) + (" May be repeated." if one.kind.is_list else "")
    hidden = changes and one.fixed is not None
    kind, option = one.kind.type, one.option
    if one.kind is Kind.FLAG:
        on, off = option, f"--no-{option[2:]}"
        flag = f"{on}/{off}" if not one_way else f" /{off}" if one.default else on
        text = f"Leave out: {text[0].lower()}{text[1:]}" if one_way and one.default else text
        made = typer.Option(flag, help=text, show_default=False, hidden=hidden)
    elif one.choices and not hidden:
        # No metavar: the help names the choices.
        kind = StrEnum(one.key, list(one.choices))
        made = typer.Option(option, help=text, hidden=hidden)
    else:
        made = typer.Option(option, metavar=one.metavar, help=text, parser=_PARSERS.get(one.kind), hidden=hidden)
    return inspect.Parameter(
        _name(one), inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind | None, made]
    )


def _value(one: Setting, value: Any) -> Any:
    """The value as documents have it: None where the option was not given."""
    if value is None:
        return None
    if one.kind is Kind.FILE:
        return file_at(value, Path.cwd())
    if one.choices:
        return str(value)
    return (list(value) or None) if one.kind.is_list else value


def _absolute(time: str) -> str:
    """A time that a person wrote, as -2h, as documents have it."""
    return format_time(parse_time(time))


def _interval(text: str) -> Interval:
    return Interval(secs=parse_duration(text), nanos=0)


_PARSERS: Mapping[Kind, Callable[[str], Any]] = {
    Kind.SIZE: parse_size,
    Kind.DURATION: parse_duration,
    Kind.INTERVAL: _interval,
    Kind.BYTE_RATE: parse_size,
    Kind.TIME: parser(_absolute),
    Kind.SEQUENCES: parser(parse_sequences),
}
