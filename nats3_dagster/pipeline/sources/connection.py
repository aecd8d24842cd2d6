"""Options that say where NATS is and how to log in there, the same for all Spark data sources.

Invariant: what the options say of the server and what the settings say of the login are never mixed, for the settings'
login is for the settings' server.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from nats3_dagster.errors import OperatorError
from nats3_dagster.jetstream.nats_options import NatsOptions
from nats3_dagster.pipeline.sources.options import ENV, FILE, FLAG, TEXT, Kind, Option
from nats3_dagster.secret_files import secret_text
from nats3_dagster.settings import Settings
from nats3_dagster.settings.nats_context import read_context


def _text_for(field: str) -> Callable[[str], str]:
    """Takes what this field of NatsOptions can be, whose errors name settings and not options."""

    def parse(text: str) -> str:
        try:
            if field == "servers":
                NatsOptions(tuple(server.strip() for server in text.split(",")))
            else:
                replace(NatsOptions(("nats://localhost",)), **{field: text})
        except OperatorError:
            raise ValueError from None
        return text

    return parse


_URL = "nats://host:4222 or tls://host:4222, several joined by commas, and percent-encode a password in it"
URL = Kind("text", _text_for("servers"), _URL)
DOMAIN = Kind("text", _text_for("domain"), "the domain's name: one word without dots, spaces, * and >")
_WORDS = "words joined by dots, without spaces, *, > and a dot at its end"
_SETTINGS = "of the settings"
CONNECTION = (
    Option("context", TEXT, "none", "The context of the `nats` CLI that names the server and the login."),
    Option("url", URL, _SETTINGS, "The server's URL; several are joined by commas.", secret=True),
    Option("user", TEXT, "none", "The user's name."),
    Option("passwordFile", FILE, "none", "The file with the user's password."),
    Option("passwordEnv", ENV, "none", "The variable of the driver's environment with the user's password."),
    Option("password", TEXT, "none", "The user's password; rather name a file or a variable.", secret=True),
    Option("tokenFile", FILE, "none", "The file with a token."),
    Option("tokenEnv", ENV, "none", "The variable of the driver's environment with a token."),
    Option("token", TEXT, "none", "A token; rather name a file or a variable.", secret=True),
    Option("credsFile", FILE, "none", "The creds file, at the same path on every executor."),
    Option("nkeyFile", FILE, "none", "The file with an nkey's seed, at the same path on every executor."),
    Option("tlsCa", FILE, "none", "The authority's certificate (PEM), at the same path on every executor."),
    Option("tlsCert", FILE, "none", "The client's certificate (PEM), at the same path on every executor."),
    Option("tlsKey", FILE, "none", "The key of `tlsCert` (PEM), at the same path on every executor."),
    Option("tlsFirst", FLAG, "false", "Whether TLS begins before the server's first line."),
    Option("domain", DOMAIN, "that of the server", "The JetStream domain of the stream."),
    Option(
        "apiPrefix",
        Kind("text", _text_for("api_prefix"), _WORDS),
        "none",
        "What the subjects of JetStream's API begin with; instead of a domain.",
    ),
    Option(
        "inboxPrefix",
        Kind("text", _text_for("inbox_prefix"), _WORDS),
        "_INBOX",
        "What the subjects begin with on which answers come.",
    ),
)
# The setting that each option stands for; secrets also come from a file or a variable.
_KEYS = {
    "url": "nats_url",
    "user": "nats_user",
    "password": "nats_password",
    "token": "nats_token",
    "credsFile": "nats_creds",
    "nkeyFile": "nats_nkey",
    "tlsCa": "nats_tls_ca",
    "tlsCert": "nats_tls_cert",
    "tlsKey": "nats_tls_key",
    "tlsFirst": "nats_tls_first",
    "domain": "nats_domain",
    "apiPrefix": "nats_api_prefix",
    "inboxPrefix": "nats_inbox_prefix",
}
_LOGINS = ("nats_user", "nats_token", "nats_creds", "nats_nkey")
_ALL_LOGINS = (*_LOGINS, "nats_password", "nats_user_jwt", "nats_user_seed")


def nats_options(source: str, values: Mapping[str, Any]) -> NatsOptions:
    """Returns the options to reach NATS: by the options of the table CONNECTION, as `parse_options` gave them; by the
    settings if neither `url` nor `context` is given. Reads the files and variables with secrets. Raises
    OperatorError."""
    own = {_KEYS[name]: value for name, value in values.items() if name in _KEYS}
    for name in ("password", "token"):
        _add_secret(source, name, values, own)
    if "nats_password" in own and "user" not in values:
        raise OperatorError(f"The options of {source} give a password without a user", "Give the option user as well")
    logins = [name for name in _LOGINS if name in own]
    if len(logins) > 1:
        raise OperatorError(
            f"The options of {source} give more than one login", "Give one of user, token, credsFile and nkeyFile"
        )
    if {"nats_domain", "nats_api_prefix"} <= own.keys():
        raise OperatorError(
            f"The options domain and apiPrefix of {source} are both given", "A domain is the prefix $JS.<domain>.API"
        )
    base = _base(values)
    if logins or "@" in str(own.get("nats_url", "")):
        base = {key: value for key, value in base.items() if key not in _ALL_LOGINS}
    if {"nats_domain", "nats_api_prefix"} & own.keys():
        base = {key: value for key, value in base.items() if key not in ("nats_domain", "nats_api_prefix")}
    if "tlsKey" in values and "nats_tls_cert" not in base | own:
        raise OperatorError(f"The option tlsKey of {source} needs the option tlsCert", "Give it as well")
    return Settings(**base | own).nats


def _base(values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the settings that the options add to: the context that they name, nothing where they name a server, else
    the settings."""
    if "context" in values:
        return read_context(values["context"])
    if "url" in values:
        return {}
    settings = Settings.load()
    return {
        key: getattr(settings, key)
        for key in Settings.model_fields
        if key.startswith("nats_") and getattr(settings, key) is not None
    }


def _add_secret(source: str, name: str, values: Mapping[str, Any], own: dict[str, Any]) -> None:
    given = [option for option in (name, f"{name}File", f"{name}Env") if option in values]
    if len(given) > 1:
        raise OperatorError(f"The options {' and '.join(given)} of {source} are both given", "Give one of them")
    if f"{name}File" in values:
        own[_KEYS[name]] = secret_text(values[f"{name}File"], f"the option {name}File of {source}")
    elif f"{name}Env" in values:
        variable = values[f"{name}Env"]
        own[_KEYS[name]] = os.environ.get(variable, "")
        if not own[_KEYS[name]]:
            raise OperatorError(
                f"The option {name}Env of {source} names a variable that is not set",
                "Set it in the environment of the driver, before its JVM starts",
            )
