"""Options made from the table of settings of a spec."""

import inspect
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer

from nats3_dagster.model.spec_table import Kind, Setting, file_at, settings_of

# The parameter of a command that gets the values of the options that were given, by the keys of their settings.
Given = dict[str, Any]


def with_settings(spec: type[Any], *, but: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command an option for each setting of a spec in the place of its parameter `given`. `but`: the key of the
    setting that the command takes as an argument."""
    settings = [one for one in settings_of(spec) if one.key != but]

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(command, eval_str=True)
        parameters = list[inspect.Parameter]()
        for parameter in signature.parameters.values():
            parameters += map(_option, settings) if parameter.name == "given" else [parameter]

        @wraps(command)
        def run(**values: Any) -> None:
            given = {one.key: _value(one, values.pop(_name(one))) for one in settings}
            command(given={key: value for key, value in given.items() if value is not None}, **values)

        # Options come after arguments; all of them are passed by name.
        parameters = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in parameters]
        run.__signature__ = signature.replace(parameters=parameters)  # pyright: ignore[reportAttributeAccessIssue]
        run.__annotations__ = {one.name: one.annotation for one in parameters}
        return run

    return decorate


def required_options(spec: type[Any], *, but: str) -> dict[str, str]:
    """The options that must be given, by the keys of their settings."""
    return {one.key: one.option for one in settings_of(spec) if one.required and one.key != but}


def _name(one: Setting) -> str:
    """The parameter of an option; arguments of commands may have the names of keys."""
    return f"option_{one.key}"


def _option(one: Setting) -> inspect.Parameter:
    if one.kind is Kind.FLAG:
        option = typer.Option(f"{one.option}/--no-{one.option[2:]}", help=one.description, show_default=False)
    else:
        repeated = " May be repeated." if one.kind.is_list else ""
        option = typer.Option(one.option, metavar=one.metavar, help=one.description + repeated)
    return inspect.Parameter(
        _name(one), inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[one.kind.type | None, option]
    )


def _value(one: Setting, value: Any) -> Any:
    """The value as documents have it: None where the option was not given."""
    if one.kind is Kind.FILE and value is not None:
        return file_at(value, Path.cwd())
    return (list(value) or None) if one.kind.is_list and value is not None else value
