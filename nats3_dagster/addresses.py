"""Addresses of servers: which are well-formed, so that no part of a password is taken for a host.

A password or token with an unencoded `@`, `:`, `/`, `?`, `#` or `,` splits an address elsewhere than meant. Its tail is
then a host, a port or the name of a database: it would be resolved, shown and stored.

Invariant: what a function here returns or raises has no part of the address.
"""

import ipaddress
import re
from typing import Final
from urllib.parse import SplitResult, quote, unquote, urlsplit

from nats3_dagster.errors import OperatorError
from nats3_dagster.plausible import fault, secret_in, subject_fault

_ENCODE: Final = "Percent-encode the characters @ : / ? # , and % of the password or token (@ is %40, / is %2F)"
_NATS: Final = (
    "Write it as nats://host:4222, tls://host:4222, ws://host:8080 or wss://host:443; several are joined by commas"
)
_HTTP: Final = "Write it as http://host:port or https://host"
_POSTGRES: Final = "Write it as postgresql://user:password@host:5432/database"
_CONNECT: Final = "Write it as sc://host:15002 or sc://host:15002/;token=..."
_MASTER: Final = "Write it as local[4], yarn, spark://host:7077 or k8s://https://host:443"
_STORE: Final = "Write one of them; the archive names the bucket, AWS_ENDPOINT_URL_S3 the endpoint"
_NATS_SCHEMES: Final = ("nats", "tls", "ws", "wss")
# Characters of names of hosts, also of containers and of other scripts.
_HOST = re.compile(r"[^\s@:/?#\[\]%,;&=\\'\"]+")


def http_fault(text: str) -> str | None:
    """Returns the reason why the text is no address of an HTTP server, and what to write; None if it is one. Such an
    address has no login: it would go out in clear, and stand in links."""
    parts = _split(text)
    if "@" in text:
        return f"not an address: an @ is in it, and it takes no user and no password. {_HTTP}"
    if parts is None or parts.scheme not in ("http", "https") or {"?", "#", ";"} & set(text) or ":" in parts.path:
        return f"not an address. {_HTTP}"
    return f"not an address. {_HTTP}" if _place_fault(parts, text) else None


def nats_fault(text: str) -> str | None:
    """Returns the reason why the text is no list of URLs of NATS servers, and what to write; None if it is one."""
    if subject_fault(text):
        return f"not the URL of a NATS server. {_NATS}"
    logins: list[bool] = []
    kinds = set[bool]()
    for server in text.split(","):
        parts = _split(with_scheme(server.strip()))
        if parts is None or parts.scheme not in _NATS_SCHEMES or _place_fault(parts, parts.netloc.rpartition("@")[2]):
            return f"not the URL of a NATS server. {_ENCODE if '@' in text else _NATS}"
        # What stands before a server's WebSocket may have it at a path.
        path = "" if parts.scheme in ("ws", "wss") and re.fullmatch(r"(/[\w.~-]+)*/?", parts.path) else parts.path
        if path not in ("", "/") or {"?", "#"} & set(server):
            return f"not the URL of a NATS server: it goes on after the host. {_ENCODE}"
        logins.append("@" in parts.netloc)
        kinds.add(parts.scheme in ("ws", "wss"))
    if len(kinds) > 1:
        return f"a list of servers with and without WebSocket. {_NATS}"
    if sorted(logins, reverse=True) != logins:
        # `nats://to,ken@host`: the comma of a token is no end of a server.
        return f"a login after a server without one: is its comma that of a password? {_ENCODE}, or give all the login"
    return None


def postgres_fault(text: str) -> str | None:
    """Returns the reason why the text is no URL of a Postgres, and what to write; None if it is one. libpq parses
    connection strings of keywords: see `postgres_parts_fault`."""
    scheme = re.match(r"postgres(?:ql)?://", text)
    if not scheme:
        return f"not the URL of a Postgres. {_POSTGRES}"
    authority, rest = re.fullmatch(r"([^/?#]*)(.*)", text[scheme.end() :], re.DOTALL).groups()  # pyright: ignore[reportOptionalMemberAccess]
    login, _, hosts = authority.rpartition("@")
    database, _, parameters = rest.removeprefix("/").partition("?")
    # libpq ends the login at the first @, and other parsers at the last.
    if {"@", "[", "]"} & set(login) or {"@", "#"} & set(rest) or {"/", ":"} & set(database) or re.search(r"\s", text):
        return f"not the URL of a Postgres. {_ENCODE}"
    if secret_in(hosts) or secret_in(database) or not all(map(_is_postgres_host, hosts.split(","))):
        return f"not the URL of a Postgres. {_ENCODE if login else _POSTGRES}"
    if not all("=" in parameter for parameter in parameters.split("&") if parameter):
        return f"not the URL of a Postgres: its parameters are malformed. {_ENCODE}"
    return None


def postgres_parts_fault(host: str, database: str) -> str | None:
    """Returns the reason why these cannot be a host and a database of a connection string of keywords; None if they
    can."""
    hosts = host.split(",") if host else []
    if not all(name.startswith("/") or _is_address(name) or _HOST.fullmatch(name) for name in hosts):
        return f"not the address of a Postgres: its host is none. {_POSTGRES}"
    if {"@", ":", "/", "="} & set(database) or secret_in(host) or fault(database):
        return f"not the address of a Postgres: the name of its database is none. {_POSTGRES}"
    return None


def connect_fault(text: str) -> str | None:
    """Returns the reason why the text is no address of a Spark Connect server, and what to write; None if it is one."""
    parts = _split(text)
    if parts is None or parts.scheme != "sc" or "@" in parts.netloc or _place_fault(parts, parts.netloc):
        return f"not the address of a Spark Connect server. {_CONNECT}"
    if not re.fullmatch(r"/?|/;[^/?#@\s]*", text[len("sc://") + len(parts.netloc) :]):
        return f"not the address of a Spark Connect server. {_ENCODE}"
    return None


def connect_with_token(address: str, token: str) -> str:
    """Returns the address of a Spark Connect server with this token, unless it has one. It is then a secret."""
    return address if ";token=" in address else connect_with(address, f"token={quote(token, safe='')}")


def connect_with(address: str, parameters: str) -> str:
    """Returns the address of a Spark Connect server with these parameters after its own."""
    return f"{address.rstrip('/;')}{';' if '/;' in address else '/;'}{parameters}"


def master_fault(text: str) -> str | None:
    """Returns the reason why the text is no master of Spark, and what to write; None if it can be one."""
    if "@" in text or subject_fault(text) or re.search(r"\s", text):
        return f"not a master of Spark. {_MASTER}"
    return None


def store_fault(text: str) -> str | None:
    """Returns the reason why the text is no address of a store, and what to write; None if it is one."""
    try:
        parts = urlsplit(text)
    except ValueError:
        parts = None
    is_folder = parts and parts.scheme == "file" and not parts.netloc and parts.path.startswith("/")
    if (is_folder and not secret_in(text)) or text.rstrip("/") in ("s3:", "s3"):
        return None
    if parts and parts.scheme in ("gs", "az"):
        return "that of a cloud. Leave it out, and write gs:// or az:// before the names of buckets: gs://BUCKET"
    return f"neither s3:// nor file:///folder. {_STORE}"


def is_url(text: str) -> bool:
    """True if the text begins as a URL does."""
    return re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", text) is not None


def malformed(name: str, why: str) -> OperatorError:
    """The error of an address, by what it is of and what a function here said."""
    what, step = in_parts(why)
    return OperatorError(f"{name} is {what}", step)


def in_parts(why: str) -> tuple[str, str]:
    """Returns the two parts of a fault: the problem, and the fix."""
    what, _, step = why.partition(". ")
    return what, step


def host_of(place: str) -> str | None:
    """The host of `host`, `host:port` or `[::1]:port`; None for a text that is none of these."""
    match = re.fullmatch(r"(\[[^\[\]]*\]|[^:\[\]]*)(?::\d{0,5})?", place)
    return match[1] if match else None


def with_scheme(server: str) -> str:
    """The URL of a NATS server, which may be written without its scheme."""
    return server if "://" in server else f"nats://{server}"


def _split(text: str) -> SplitResult | None:
    """The parts; None for a text that is no URL, or has a port that is none."""
    try:
        parts = urlsplit(text)
        return parts if parts.hostname and parts.port != 0 and not re.search(r"[\s\0-\x1f\x7f]", text) else None
    except ValueError:
        return None


def _place_fault(parts: SplitResult, text: str) -> bool:
    """True if the host cannot be one; `text` is the part of the address that may be shown."""
    host = parts.hostname or ""
    is_host = bool(_HOST.fullmatch(host)) or _is_address(host.partition("%")[0])
    return not is_host or secret_in(text) is not None


def _is_postgres_host(place: str) -> bool:
    """`host:port`, `[::1]:5432`, `%2Frun%2Fpostgresql`, or nothing: libpq's own default."""
    host = host_of(place)
    if host is None:
        return False
    if host.startswith("["):
        return _is_address(host[1:-1])
    return not host or unquote(host).startswith("/") or bool(_HOST.fullmatch(host))


def _is_address(host: str) -> bool:
    """True if the text is an address of IPv4 or IPv6."""
    try:
        ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True
