"""`nats3 config`: the settings in force, where each comes from, and changes of nats3.toml."""

import sys
from typing import Annotated

import typer
from pydantic import ValidationError

from nats3_dagster.cli.loading import LazyGroup
from nats3_dagster.cli.terminal.options import Output
from nats3_dagster.cli.terminal.output import Columns, Format, show, show_one
from nats3_dagster.cli.terminal.progress import note
from nats3_dagster.documents.installation import ChangedSetting, Setting
from nats3_dagster.errors import Nats3Error, OperatorError
from nats3_dagster.settings import Settings
from nats3_dagster.settings.config_file import config_label, config_path, set_config, unset_config
from nats3_dagster.settings.fields import Fields
from nats3_dagster.settings.masking import holds_secret, masked
from nats3_dagster.settings.names import KEYS, key_of, nearest_key, unknown_variables
from nats3_dagster.settings.sources import environment_source

app = typer.Typer(cls=LazyGroup, no_args_is_help=True, add_completion=False)
_COLUMNS: Columns = {"KEY": lambda i: i["key"], "VALUE": lambda i: i["value"], "FROM": lambda i: i["source"]}


def complete_key(incomplete: str) -> list[str]:
    """The keys that begin so, with hyphens as options have them, or with underscores where some are typed."""
    names = KEYS if "_" in incomplete else [key.replace("_", "-") for key in KEYS]
    return [name for name in names if name.startswith(incomplete)]


Key = Annotated[
    str, typer.Argument(metavar="KEY", help="A key, as server-url or server_url.", autocompletion=complete_key)
]


@app.command("show")
def show_(output: Output = Format.table) -> None:
    """Every setting with its value in force and where that comes from. Secrets are stars."""
    settings = Settings.load()
    show(output, [Setting.of(settings, key).plain() for key in KEYS], _COLUMNS)
    for name, near in unknown_variables().items():
        if not near:  # of the others every command warns
            note(f"Warning: {name} is not a setting")


@app.command()
def get(key: Key, output: Output = Format.table) -> None:
    """One value in force, alone on its line. A secret is stars; exit status 1 if nothing is set."""
    settings = Settings.load()
    name = _key_named(key)
    value = settings.shown(name)
    if value in (None, ""):
        raise Nats3Error(f"{name} is not set", f"Set it: nats3 config set {name.replace('_', '-')} VALUE")
    if output is Format.table:
        print(_text(value))
    else:
        item = Setting.of(settings, name).plain()
        show_one(output, item, item)


@app.command("set")
def set_(
    key: Key,
    value: Annotated[
        str | None, typer.Argument(metavar="VALUE", help="The value; - reads it from standard input, as for a secret.")
    ] = None,
    unset: Annotated[bool, typer.Option("--unset", help="Remove the key from the file.")] = False,
    output: Output = Format.table,
) -> None:
    """Write one setting into nats3.toml, or the file that NATS3_CONFIG names. The environment wins over it."""
    if unset:
        if value is not None:
            raise OperatorError("--unset takes no value", "Leave one of them out")
        if not unset_config(key_of(key) or key):
            raise OperatorError(f"{config_label()} does not set {key}", "See what is set: nats3 config show")
        _show_change(output, key_of(key) or key, None)
        return
    if value is None:
        raise OperatorError("No value is given", "Write nats3 config set KEY VALUE, or KEY --unset")
    name = _key_named(key)
    is_in_command_line = value != "-"
    written = _valid(name, value if is_in_command_line else _read_value(name))
    if is_in_command_line and holds_secret(name, value):
        raise OperatorError(
            f"{name} would hold a secret, and every user of this machine can read a command line",
            f"Give it on standard input: nats3 config set {name.replace('_', '-')} -",
        )
    set_config(name, written)
    _show_change(output, name, written)
    if above := environment_source(name):
        note(f"Warning: {above} wins over it")


def _show_change(output: Format, key: str, value: bool | int | str | None) -> None:
    item = ChangedSetting.of(key, masked(key, value), str(config_path())).plain()
    show_one(output, item, item)


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _key_named(text: str) -> str:
    if key := key_of(text):
        return key
    near = nearest_key(text)
    hint = f"Did you mean {near.replace('_', '-')}?" if near else "See all of them: nats3 config show"
    raise OperatorError(f"{text!r} is not a setting", hint)


def _read_value(key: str) -> str:
    """Reads the value from standard input; on a terminal without an echo."""
    if sys.stdin.isatty():
        return str(typer.prompt(key, hide_input=True, err=True))
    return sys.stdin.readline().rstrip("\r\n")


def _valid(key: str, text: str) -> bool | int | str:
    """The value as the file has it. Raises OperatorError for one that the setting does not take."""
    if not text:
        raise OperatorError(f"The value of {key} is empty", f"To remove it: nats3 config set {key} --unset")
    try:
        value = getattr(Fields.model_validate({key: text}), key)
    except ValidationError as error:
        reason = error.errors(include_input=False, include_context=False)[0]["msg"].removeprefix("Value error, ")
        raise OperatorError(f"{key} cannot be set: {reason}", f"Nothing was written to {config_label()}") from None
    return value if isinstance(value, bool) else text
