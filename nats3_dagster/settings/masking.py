"""Values as they may be shown: without secrets, and without the passwords that URLs hold."""

import re

from pydantic import SecretStr

from nats3_dagster.settings.names import is_secret

STARS = "***"
# The login of a URL: all between `//` and the last `@` before another `//`. A password may hold any other character.
_LOGIN = re.compile(r"(//)((?:(?!//).)*)@", re.DOTALL)
_PARAMETER = re.compile(
    r"((?:password|passwd|token|secret)\w*\s*=\s*)('(?:[^'\\]|\\.)*'|[^&;\s]+)", re.IGNORECASE
)
# Secrets that are URLs: all but the login in them may be shown.
_SECRET_URLS = frozenset({"postgres_url", "spark_remote"})


def masked(key: str, value: object) -> object:
    """The value of a setting as it may be shown: text where a secret was, else the value itself."""
    if value is None:
        return None
    if isinstance(value, SecretStr):
        value = value.get_secret_value()
    if not isinstance(value, str):
        return value
    if key in ("api_tokens", "api_read_tokens"):
        count = len([part for part in value.split(",") if part.strip()])
        return f"{STARS} ({count})" if count else ""
    if is_secret(key) and not (key in _SECRET_URLS and ("://" in value or "=" in value)):
        return STARS
    if "url" in key or key in ("s3_endpoint", "spark_remote"):
        return masked_url(value)
    return value


def masked_url(text: str) -> str:
    """`nats://user:***@host`; without a password in it, the text itself."""
    if "//" not in text and "@" in text:  # nats_url may do without a scheme
        return f"{STARS}@{text.rpartition('@')[2]}"
    return _LOGIN.sub(_stars, _PARAMETER.sub(rf"\g<1>{STARS}", text))


def holds_secret(key: str, value: object) -> bool:
    """Whether the value has a part that must not be shown."""
    return value is not None and masked(key, value) != (
        value.get_secret_value() if isinstance(value, SecretStr) else value
    )


def _stars(login: re.Match[str]) -> str:
    user, colon, _ = login[2].partition(":")
    return f"//{user}:{STARS}@" if colon else f"//{STARS}@"
