"""Contexts of the `nats` command: files in `~/.config/nats/context`, each with a server and a login.

Invariants: a context is read only if a setting names it, never because the command has selected it. No error repeats
the value of a field.
"""

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from nats3_dagster.addresses import in_parts, nats_fault
from nats3_dagster.errors import OperatorError
from nats3_dagster.plausible import NAME, check, fault
from nats3_dagster.settings.context_values import Field, scheme_of

# Our key for each field of a context: names and addresses, secrets, and files.
_NAMES: Final = {
    "url": "nats_url",
    "user": "nats_user",
    "jetstream_domain": "nats_domain",
    "jetstream_api_prefix": "nats_api_prefix",
    "inbox_prefix": "nats_inbox_prefix",
}
_SECRETS: Final = {
    "password": "nats_password",
    "token": "nats_token",
    "user_jwt": "nats_user_jwt",
    "user_seed": "nats_user_seed",
}
_FILES: Final = {
    "creds": "nats_creds",
    "nkey": "nats_nkey",
    "cert": "nats_tls_cert",
    "key": "nats_tls_key",
    "ca": "nats_tls_ca",
}
_FLAGS: Final = {"tls_first": "nats_tls_first"}
FIELDS: Final = (*_NAMES, *_SECRETS, *_FILES, *_FLAGS)
# Keys without an effect here: names, colours, and the prefix of events that nats3 does not listen to.
_IGNORED: Final = frozenset({"name", "description", "color_scheme", "jetstream_event_prefix"})
# The command's own default.
_DEFAULT_URL: Final = "nats://127.0.0.1:4222"
# Of several logins the command takes the first of these.
_LOGINS: Final = ("user", "creds", "nkey", "user_jwt")


def read_context(name: str) -> dict[str, Any]:
    """The settings of the context, by key. Raises OperatorError where it is missing, malformed, or has a field that
    would change the connection and that we do not support."""
    fields = _read(name)
    known = _NAMES | _SECRETS | _FILES | _FLAGS
    if unsupported := sorted(field for field in fields if field not in known and field not in _IGNORED):
        raise OperatorError(
            f"The NATS context {name} sets {unsupported[0]}, which is not supported here",
            "Make a context without it, or set NATS3_NATS_URL and a login instead",
        )
    if bool(fields.get("user_jwt")) != bool(fields.get("user_seed")):
        field, other = ("user_jwt", "user_seed") if fields.get("user_jwt") else ("user_seed", "user_jwt")
        raise OperatorError(
            f"The NATS context {name} sets {field} without {other}, which is not supported here",
            "Set both, or use a creds file",
        )
    fields = _one_login(fields)
    values = {key: fields[field] for field, key in _FLAGS.items() if field in fields}
    values |= {key: _name(name, field, fields[field]) for field, key in _NAMES.items() if field in fields}
    values |= {key: Field(name, field).text(fields[field]) for field, key in _SECRETS.items() if field in fields}
    values |= {key: Field(name, field).file(fields[field]) for field, key in _FILES.items() if field in fields}
    return {"nats_url": _DEFAULT_URL} | values


def context_names() -> list[str]:
    """The contexts that there are."""
    return sorted(path.stem for path in _folder().glob("*.json"))


def context_file(name: str) -> Path:
    """Returns the path of the context of this name. Raises OperatorError for a name that none can have."""
    check("The name of the NATS context", name)
    if not re.fullmatch(r"[^/\\\s]+", name) or ".." in name:
        raise OperatorError("The name of the NATS context is invalid", "Give the name that nats context ls shows")
    return _folder() / f"{name}.json"


def context_has_secret(name: str) -> bool:
    """True if the file of the context holds a secret itself, and no path to one. Raises OperatorError."""
    fields = _read(name)
    return (
        any(field in fields and scheme_of(fields[field])[0] in ("", "data") for field in _SECRETS)
        or any(scheme_of(fields.get(field, ""))[0] == "data" for field in _FILES)
        or "@" in fields.get("url", "")
    )


def _folder() -> Path:
    config = os.environ.get("XDG_CONFIG_HOME")
    return (Path(config) if config else Path("~/.config").expanduser()) / "nats" / "context"


def _name(context: str, field: str, value: str) -> str:
    """The value of a field that is a name or an address. Raises OperatorError."""
    if field == "url" and (why := nats_fault(value)):
        what, hint = in_parts(why)
        raise Field(context, field).wrong(f"is {what}", hint)
    if field != "url" and (why := fault(value)):
        raise Field(context, field).wrong(f"holds {why}, and wants {NAME.what}")
    return value


def _one_login(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields with one login, as the command takes the first one."""
    others = [field for field in _LOGINS if field in fields][1:]
    if "user_jwt" in others:
        others.append("user_seed")
    return {field: value for field, value in fields.items() if field not in others}


def _read(name: str) -> dict[str, Any]:
    """The fields that are set: the command writes empty ones as well."""
    path = context_file(name)
    try:
        fields = json.loads(path.read_bytes())
    except FileNotFoundError:
        known = ", ".join(context_names()) or "none"
        raise OperatorError(f"There is no NATS context {name}: {path}", f"Name one of those there: {known}") from None
    except OSError as error:
        raise OperatorError(f"The NATS context {path} cannot be read: {error.strerror}", "Correct its mode") from None
    except ValueError:
        raise OperatorError(f"The NATS context {path} is not JSON", "Save it again: nats context edit") from None
    if not isinstance(fields, dict):
        raise OperatorError(f"The NATS context {path} is not an object", "Save it again: nats context edit")
    for field, value in fields.items():
        kind = bool if field in _FLAGS else str
        if field in _NAMES | _SECRETS | _FILES | _FLAGS and value is not None and not isinstance(value, kind):
            raise OperatorError(f"The NATS context {path} has an invalid {field}", "Correct it: nats context edit")
    return {field: value for field, value in fields.items() if value not in (None, "", False, [], {})}
