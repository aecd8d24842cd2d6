"""Contexts of the `nats` CLI: files in `~/.config/nats/context`, each with a server and a login.

Invariant: a context is read only if a setting names it, never because the CLI has selected it.
"""

import json
import os
import re
from pathlib import Path
from typing import Any, Final

from nats3_dagster.errors import OperatorError

# Our key for each field of a context; those with a path may begin with ~.
_KEYS: Final = {
    "url": "nats_url", "user": "nats_user", "password": "nats_password", "token": "nats_token",
    "jetstream_domain": "nats_domain", "jetstream_api_prefix": "nats_api_prefix", "inbox_prefix": "nats_inbox_prefix",
    "tls_first": "nats_tls_first", "user_jwt": "nats_user_jwt", "user_seed": "nats_user_seed",
}  # fmt: skip
_PATHS: Final = {
    "creds": "nats_creds", "nkey": "nats_nkey", "cert": "nats_tls_cert", "key": "nats_tls_key", "ca": "nats_tls_ca",
}  # fmt: skip
# What changes nothing for us: names, colours, and the prefix of events that we do not listen to.
_IGNORED: Final = frozenset({"name", "description", "color_scheme", "jetstream_event_prefix"})
# The CLI's own default.
_DEFAULT_URL: Final = "nats://127.0.0.1:4222"


def read_context(name: str) -> dict[str, Any]:
    """The settings of the context, by key. Raises OperatorError where it is missing, malformed, or has a field that
    would change the connection and that we do not support."""
    fields = _read(name)
    known = _KEYS | _PATHS
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
    values = {key: fields[field] for field, key in _KEYS.items() if field in fields}
    values |= {key: _path(fields[field]) for field, key in _PATHS.items() if field in fields}
    return {"nats_url": _DEFAULT_URL} | values


def context_names() -> list[str]:
    """The contexts that there are."""
    return sorted(path.stem for path in _folder().glob("*.json"))


def _folder() -> Path:
    config = os.environ.get("XDG_CONFIG_HOME")
    return (Path(config) if config else Path("~/.config").expanduser()) / "nats" / "context"


def _path(text: str) -> str:
    return str(Path(text).expanduser())


def _read(name: str) -> dict[str, Any]:
    """The fields that are set: the CLI writes empty ones as well."""
    if not re.fullmatch(r"[^/\\\s]+", name) or ".." in name:
        raise OperatorError("The name of the NATS context is invalid", "Give the name that nats context ls shows")
    path = _folder() / f"{name}.json"
    try:
        fields = json.loads(path.read_bytes())
    except FileNotFoundError:
        known = ", ".join(context_names()) or "none"
        raise OperatorError(f"There is no NATS context {name}: {path}", f"Name one of those there: {known}") from None
    except OSError as error:
        raise OperatorError(f"The NATS context {path} cannot be read: {error.strerror}", "Correct its mode") from None
    except ValueError:
        raise OperatorError(f"The NATS context {path} is not JSON", "Save it anew with nats context edit") from None
    if not isinstance(fields, dict):
        raise OperatorError(f"The NATS context {path} is not an object", "Save it anew with nats context edit")
    for field, value in fields.items():
        kind = bool if field == "tls_first" else str
        if (field in _KEYS or field in _PATHS) and value is not None and not isinstance(value, kind):
            raise OperatorError(f"The NATS context {path} has an invalid {field}", "Correct it: nats context edit")
    return {field: value for field, value in fields.items() if value not in (None, "", False, [], {})}
