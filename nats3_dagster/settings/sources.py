"""The source of each value: environment, NATS context, nats3.toml, embedded stack, or the default.

Invariant: an empty variable is as good as none, and a variable and its _FILE are never both used.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from nats3_dagster.errors import OperatorError
from nats3_dagster.plausible import PATH, check
from nats3_dagster.secret_files import secret_text
from nats3_dagster.settings.config_file import config_label, read_config
from nats3_dagster.settings.home import stack_settings
from nats3_dagster.settings.masking import learn_setting
from nats3_dagster.settings.names import KEYS, has_file, variables
from nats3_dagster.settings.nats_context import read_context

DEFAULT: Final = "default"
STACK: Final = "embedded stack"
# A login is taken whole, from the first source that has one; a password or a seed alone adds to it.
_LOGINS: Final = ("nats_user", "nats_token", "nats_creds", "nats_nkey", "nats_user_jwt")
_PARTS: Final = (*_LOGINS, "nats_password", "nats_user_seed")
# Two ways to say where JetStream's API is.
_APIS: Final = ("nats_domain", "nats_api_prefix")
_S3_KEYS: Final = ("s3_access_key_id", "s3_secret_access_key", "s3_session_token")


@dataclass(frozen=True, slots=True)
class SourcedValue:
    """A value as its source has it."""

    value: Any = field(repr=False)
    # `environment variable NATS3_NATS_URL`, `nats3.toml`, `NATS context prod`, `embedded stack`.
    source: str
    # The file that a variable with _FILE at its end names.
    file: str | None = None


def find_values() -> dict[str, SourcedValue]:
    """The values in force, by key; a setting that is missing here has its default. Raises OperatorError."""
    environment, config, stack = _environment(), _named(read_config(), config_label()), _named(stack_settings(), STACK)
    # A context ranks just below the source that names it.
    if "nats_context" in environment:
        layers = [environment, _context(environment), config, stack]
    elif "nats_context" in config:
        layers = [environment, config, _context(config), stack]
    else:
        layers = [environment, config, stack]
    values: dict[str, SourcedValue] = {}
    for layer in layers:
        rest = {key: found for key, found in layer.items() if key not in values}
        for key in _displaced(values, layer):
            rest.pop(key, None)
        values |= rest
    return _one_spark(_one_identity(values, environment, config))


def environment_source(key: str) -> str | None:
    """Returns the part of the environment that sets a key, and so wins over nats3.toml; None if nothing does. Raises
    OperatorError."""
    found = _environment().get(key)
    return found.source if found else None


def _environment() -> dict[str, SourcedValue]:
    values: dict[str, SourcedValue] = {}
    for key in KEYS:
        for name in variables(key):
            text, file = os.environ.get(name), os.environ.get(f"{name}_FILE") if has_file(key) else None
            learn_setting(key, text)  # also where another source wins: a library may read it by itself
            if text and file:
                raise OperatorError(f"{name} and {name}_FILE are both set", "Unset one of them")
            if text or file:
                path = check(f"{name}_FILE", file or "", PATH)
                source = f"environment variable {name}" if text else f"file {path} ({name}_FILE)"
                values[key] = SourcedValue(text or secret_text(path, f"{name}_FILE"), source, path or None)
                learn_setting(key, values[key].value)
                break
    return values


def _context(layer: Mapping[str, SourcedValue]) -> dict[str, SourcedValue]:
    name = layer["nats_context"].value
    if not isinstance(name, str):
        raise OperatorError(f"nats_context in {config_label()} is not a text", 'Write nats_context = "name"')
    return _named(read_context(name), f"NATS context {name}")


def _named(values: Mapping[str, Any], source: str) -> dict[str, SourcedValue]:
    for key, value in values.items():
        if key in KEYS:
            learn_setting(key, value)
    return {key: SourcedValue(value, source) for key, value in values.items() if key in KEYS}


def _displaced(values: Mapping[str, SourcedValue], layer: Mapping[str, SourcedValue]) -> set[str]:
    """Returns the keys that a layer does not add to the values of the higher ones."""
    displaced: set[str] = set()
    if _names_login(values) and any(key in layer for key in _LOGINS):
        displaced.update(_PARTS)
    if any(key in values for key in _APIS):
        displaced.update(_APIS)
    return displaced


def _names_login(values: Mapping[str, SourcedValue]) -> bool:
    return any(key in values for key in _LOGINS) or ("nats_url" in values and "@" in str(values["nats_url"].value))


def _one_identity(
    values: dict[str, SourcedValue], environment: Mapping[str, SourcedValue], config: Mapping[str, SourcedValue]
) -> dict[str, SourcedValue]:
    """One S3 identity: static keys, or a profile. The higher source wins, and of one source the keys, as in the SDKs.
    AWS_PROFILE wins over nothing: it may be there for something else. The stack's values go together."""
    if (endpoint := values.get("s3_endpoint")) and endpoint.source != STACK:
        values = _without_stack(values)
    profile = values.get("s3_profile")
    keys = [values[key].source for key in _S3_KEYS if key in values]
    if profile is None or not keys:
        return values
    ranks = {id(found): rank for rank, layer in enumerate((environment, config)) for found in layer.values()}
    of_keys = min(ranks.get(id(values[key]), 2) for key in _S3_KEYS if key in values)
    of_profile = 2 if profile.source.endswith(" AWS_PROFILE") else ranks.get(id(profile), 2)
    if of_profile < of_keys:
        return {key: found for key, found in _without_stack(values).items() if key not in _S3_KEYS}
    return {key: found for key, found in values.items() if key != "s3_profile"}


def _one_spark(values: dict[str, SourcedValue]) -> dict[str, SourcedValue]:
    """The stack's server of Spark Connect is left out where a master is set: it was asked for."""
    remote, master = values.get("spark_remote"), values.get("spark_master")
    if master and master.source != STACK and remote and remote.source == STACK:
        return {key: found for key, found in values.items() if key != "spark_remote"}
    return values


def _without_stack(values: dict[str, SourcedValue]) -> dict[str, SourcedValue]:
    return {key: found for key, found in values.items() if not (key.startswith("s3_") and found.source == STACK)}
