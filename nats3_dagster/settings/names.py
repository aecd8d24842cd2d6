"""The names of settings: keys in nats3.toml, variables of the environment, and which is nearest to a wrong one."""

import os
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any, get_args

from pydantic import SecretStr

from nats3_dagster.settings.fields import Fields

PREFIX = "NATS3_"
# Variables of nats3 that are not settings: they name the place of settings, or are for dagster.yaml, tests and `make`.
OTHERS = frozenset(
    {
        "NATS3_HOME",
        "NATS3_CONFIG",
        "NATS3_COMPUTE_LOGS_BUCKET",
        "NATS3_FAULT",
        "NATS3_SCREENSHOTS",
        "NATS3_WRITE_INTERFACE",
    }
)
# Those of the fault tests and of the tests.
_OTHER_PREFIXES = ("NATS3_FAULTS_", "NATS3_TEST_")
# Variables of nats-s3-connector that have another name here; None: there is no such setting.
_PEERS = {
    "NATS3_LOG": "NATS3_LOG_LEVEL",
    "NATS3_SERVER_ADDR": "NATS3_API_LISTEN",
    "NATS3_S3_ACCESS": "NATS3_S3_ACCESS_KEY_ID",
    "NATS3_S3_SECRET": "NATS3_S3_SECRET_ACCESS_KEY",
    "NATS3_POSTGRES_MIGRATE": None,
}
_HOST = "_SERVICE_HOST"
KEYS = tuple(Fields.model_fields)
# For keys of documents, which are short: difflib's own default.
ALIKE = 0.6


def variables(key: str) -> tuple[str, ...]:
    """The environment variables of a setting: the first one that is set counts."""
    extra: Any = Fields.model_fields[key].json_schema_extra or {}
    return (PREFIX + key.upper(), *extra.get("variables", ()))


def is_secret(key: str) -> bool:
    """True if all of the value is a secret, or a URL that may hold one."""
    annotation = Fields.model_fields[key].annotation
    return SecretStr in (annotation, *get_args(annotation))


def has_file(key: str) -> bool:
    """True if the value may come from the file that `<variable>_FILE` names: Docker's and Kubernetes' secrets."""
    return is_secret(key) or key in ("nats_url", "api_tokens")


def key_of(text: str) -> str | None:
    """The key that `server-url`, `NATS3_SERVER_URL` or an SDK's name in lower case (`aws_region`) stands for."""
    return _KEY_OF.get(text.lower().replace("-", "_"))


def nearest(text: str, known: Iterable[str], likeness: float = 0.75) -> str | None:
    """The known name that is most like this one; None if none is as like it as this (difflib's ratio)."""
    return next(iter(get_close_matches(text, list(known), 1, likeness)), None)


def nearest_key(text: str) -> str | None:
    name = text.lower().replace("-", "_")
    return nearest(name, KEYS) or next((key for key in KEYS if name and key.endswith(f"_{name}")), None)


def unknown_variables() -> dict[str, str | None]:
    """The NATS3_* variables of the environment that nothing reads, each with the known one that is meant: that of
    nats-s3-connector's, or the one that is most like it."""
    ignored = (*_OTHER_PREFIXES, *_service_links())
    return {
        name: _PEERS[name] if name in _PEERS else nearest(name, _VARIABLES)
        for name in sorted(os.environ)
        if name.startswith(PREFIX) and name not in _VARIABLES and not name.startswith(ignored)
    }


def _service_links() -> list[str]:
    """Returns the beginnings of the variables that Kubernetes sets in each pod of a namespace with a service called
    `nats3-...`: it has NATS3_API_SERVICE_HOST, NATS3_API_PORT=tcp://... and more of the service `nats3-api`."""
    services = [name.removesuffix(_HOST) for name in os.environ if name.startswith(PREFIX) and name.endswith(_HOST)]
    return [service + end for service in services for end in ("_SERVICE_", "_PORT")]


_VARIABLES = OTHERS | {
    name + suffix for key in KEYS for name in variables(key) for suffix in (("", "_FILE") if has_file(key) else ("",))
}
_KEY_OF = {name.lower(): key for key in KEYS for name in (key, *variables(key))}
