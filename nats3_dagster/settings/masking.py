"""Values as they may be shown, and the secrets in them.

An address is parsed, and what is shown of it is an allow list: scheme, user, host, port, path or database, and the
parameters named here. What does not parse, or has a part that cannot be one, is stars. The filter of texts learns more:
all that may be a secret if the address was misread.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from urllib.parse import unquote, unquote_plus, urlsplit

from pydantic import SecretStr

from nats3_dagster.addresses import host_of
from nats3_dagster.plausible import shown_path
from nats3_dagster.redaction import STARS, learn, redacted
from nats3_dagster.settings.names import is_secret
from nats3_dagster.settings.token_scopes import hashes_in

# Parameters of addresses that are no secrets, of libpq and of Spark Connect.
_SHOWN: Final = frozenset(
    {
        "application_name",
        "channel_binding",
        "client_encoding",
        "connect_timeout",
        "dbname",
        "gssencmode",
        "host",
        "hostaddr",
        "keepalives",
        "keepalives_count",
        "keepalives_idle",
        "keepalives_interval",
        "load_balance_hosts",
        "options",
        "port",
        "require_auth",
        "service",
        "session_id",
        "ssl_max_protocol_version",
        "ssl_min_protocol_version",
        "sslcert",
        "sslcrl",
        "sslkey",
        "sslmode",
        "sslnegotiation",
        "sslrootcert",
        "target_session_attrs",
        "tcp_user_timeout",
        "use_ssl",
        "user",
        "user_agent",
        "user_id",
    }
)
_HASHES: Final = ("api_tokens",)
# A host, several, or the folder of a socket; a port, or several; a path or the name of a database.
_HOST: Final = re.compile(r"(?:[^\s@:/?#\[\]%;&=\\'\"]|%[0-9A-Fa-f]{2})*|\[[0-9A-Fa-f:.%]+\]")
_PORT: Final = re.compile(r"[\d,]*")
_PATH: Final = re.compile(r"[^\s@:?#;&=\\'\"]*")
_MASTER: Final = re.compile(r"local(?:-cluster)?(?:\[[\d*, ]+\])?|yarn")
# Where a password or a token ends that was not percent-encoded.
_ENDS: Final = re.compile(r"[@:/?#,;&%'\"\\\s]+")


class _Hidden(Exception):
    """An address that is not as one is written: no part of it may be shown."""


def masked(key: str, value: object) -> object:
    """The value of a setting as it may be shown: text where a secret was, else the value itself."""
    if isinstance(value, SecretStr):
        value = value.get_secret_value()
    if isinstance(value, Path):
        # A secret in the place of a path is in no folder.
        return shown_path(value) or STARS
    if not isinstance(value, str) or not value:
        return value
    if key in _HASHES:
        return f"{STARS} ({len([part for part in value.split(',') if part.strip()])})"
    if _is_address(key):
        return _masked_address(key, value)
    return STARS if is_secret(key) else redacted(value)


def holds_secret(key: str, value: object) -> bool:
    """True if the value has a part that must not be shown."""
    if isinstance(value, SecretStr):
        value = value.get_secret_value()
    return masked(key, value) != value


def learn_setting(key: str, value: object) -> None:
    """Teach the filter of texts the secrets of a setting."""
    if isinstance(value, SecretStr):
        value = value.get_secret_value()
    if not isinstance(value, str):
        return
    if _is_address(key):
        learn(*secrets_of(value))
    elif is_secret(key) or key in _HASHES:
        learn(value, *(hashes_in(value) if key in _HASHES else ()))


def secrets_of(address: str) -> Iterator[str]:
    """Yields the possible secrets in an address or a connection string: passwords, tokens, values of all parameters
    that are not known to be none; if it is misread, also the parts that a sign in the middle of them leaves."""
    for login in _logins(address):
        user, colon, password = login.partition(":")
        # Without a password it is a token, as NATS has them.
        yield from _with_parts(password if colon else user)
    rest = address.partition("://")[2] or address
    for name, value in re.findall(r"([^\s?&;=/]+)\s*=\s*('(?:[^'\\]|\\.)*'|[^&;\s]*)", rest):
        if unquote(name).strip().lower() not in _SHOWN:
            yield from _with_parts(value.strip("'"))
            yield re.sub(r"\\(.)", r"\1", value.strip("'"))
    yield from _with_parts(rest.partition("#")[2])


def _masked_address(key: str, value: str) -> str:
    try:
        if key == "postgres_url" and "://" not in value:
            return _conninfo(value)
        if key == "spark_master" and _MASTER.fullmatch(value):
            return value
        if key == "store_url" and value.rstrip("/") in ("s3:", "s3"):
            return value
        servers = value.split(",") if key == "nats_url" else [value]
        return ",".join(_url(key, server.strip()) for server in servers)
    except (_Hidden, ValueError):
        return STARS


def _url(key: str, text: str) -> str:
    """One URL. Raises _Hidden, or ValueError of a port or an address in brackets that is none."""
    scheme, separator, rest = text.partition("://")
    if not separator:
        if key != "nats_url":  # it may do without
            raise _Hidden
        scheme, rest = "", text
    prefix = scheme + separator
    if key == "spark_master" and scheme == "k8s" and "://" in rest:
        return prefix + _url("server_url", rest)
    _require(re.compile(r"[a-z][a-z0-9+.-]*|"), scheme)
    # `,`: Postgres takes several hosts, and urlsplit then finds no port.
    rest, hash_, _ = rest.partition("#")
    rest, mark, query = rest.partition("?")
    authority, slash, path = rest.partition("/")
    login, at, hosts = authority.rpartition("@")
    if "@" in login or (hash_ and at and "@" in text.partition("#")[2]):
        raise _Hidden
    for place in hosts.split(","):
        _require_place(place)
    if key == "nats_url" and (path or mark):
        raise _Hidden
    path, parameters = _parameters_of_path(path) if key == "spark_remote" else (path, "")
    _require(_PATH, path)
    shown = prefix + _login(login) + at + hosts + slash + path + parameters
    if mark:
        shown += "?" + _parameters(query, "&")
    return redacted(shown + (f"#{STARS}" if hash_ else ""))


def _login(login: str) -> str:
    user, colon, _ = login.partition(":")
    if colon:
        _require(_PATH, user)
        return f"{user}:{STARS}"
    return STARS if login else ""


def _parameters_of_path(path: str) -> tuple[str, str]:
    """Spark Connect's: `/;name=value;...`."""
    path, separator, parameters = path.partition(";")
    return path, separator + _parameters(parameters, ";") if separator else ""


def _parameters(text: str, separator: str) -> str:
    """Returns the parameters that are known to be none of a secret; of the others the name is shown if it can be
    one."""
    shown: list[str] = []
    for parameter in text.split(separator):
        name, equals, value = parameter.partition("=")
        plain = unquote_plus(name).lower()
        if plain in _SHOWN and not re.search(r"[@?#&;\s]", value):
            shown.append(f"{name}{equals}{value}")
        elif equals and re.fullmatch(r"[A-Za-z][A-Za-z0-9_%-]{0,39}", name):
            shown.append(f"{name}={STARS}")
        elif parameter:
            shown.append(STARS)
        else:
            shown.append("")
    return separator.join(shown)


def _conninfo(text: str) -> str:
    """A connection string of keywords, by libpq's own parser, in libpq's own order. Raises _Hidden."""
    if "=" not in text:
        raise _Hidden
    from nats3_dagster.catalog.session.connection import read_keywords, write_keywords  # it imports psycopg

    given = read_keywords(text)
    if given is None:
        raise _Hidden
    _require(re.compile(r"[^\s@=]*"), given.get("host", ""))
    _require(_PORT, given.get("port", ""))
    _require(_PATH, given.get("dbname", ""))
    shown = {name: value if name in _SHOWN else STARS for name, value in given.items()}
    return redacted(text if STARS not in shown.values() else write_keywords(shown))


def _require_place(place: str) -> None:
    """`host`, `host:port`, `[::1]:port`. Raises _Hidden."""
    host = host_of(place)
    if host is None:
        raise _Hidden
    _require(_HOST, host)


def _require(pattern: re.Pattern[str], text: str) -> None:
    if not pattern.fullmatch(text):
        raise _Hidden


def _is_address(key: str) -> bool:
    return key.endswith(("_url", "_endpoint", "_remote", "_master"))


def _logins(address: str) -> Iterator[str]:
    """Yields the text before the last @ of each address, or of all of them if they are one that was misread."""
    whole = address.partition("://")[2] or address
    texts = [whole, *(part.partition("://")[2] or part for part in address.split(","))]
    yield from dict.fromkeys(text.rpartition("@")[0] for text in texts if "@" in text)
    try:
        parts = urlsplit(address)
        if parts.port is None:
            return
    except ValueError:
        # A port that is none: it may be a password.
        yield f":{whole.partition(':')[2]}"


def _with_parts(secret: str) -> Iterator[str]:
    yield secret
    yield unquote(secret)
    if len(parts := _ENDS.split(secret)) > 1:
        # Short ones would be words.
        yield from (part for part in parts if len(part) > 5)
