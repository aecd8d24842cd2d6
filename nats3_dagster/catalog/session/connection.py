"""One connection to Postgres: how it is made, and how its address is shown.

Invariant: the address as given goes to libpq and nowhere else, because a password may be in it.
"""

from typing import Any
from urllib.parse import urlencode

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from nats3_dagster.addresses import in_parts, is_url, postgres_fault, postgres_parts_fault
from nats3_dagster.catalog.session.multirange import SeqRangeLoader
from nats3_dagster.catalog.session.refusals import cannot_connect, server_answered, wrong_encoding
from nats3_dagster.catalog.session.sqlstate import refusal_of
from nats3_dagster.errors import CatalogError
from nats3_dagster.redaction import learn

Connection = psycopg.Connection[tuple[Any, ...]]
# A host that vanished is noticed within a minute. The system's own keepalive begins after two hours, and it sends again
# for 15 minutes what was not acknowledged.
_PATIENCE = {
    "connect_timeout": 10,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 60_000,
}

_SECRETS = ("password", "sslpassword", "oauth_client_secret", "scram_client_key", "scram_server_key")


def open_connection(url: str, *, autocommit: bool = True) -> Connection:
    """A connection, whatever is in the database. Raises CatalogError."""
    where = address(url)
    given = conninfo_to_dict(url)
    learn(*(str(given[name]) for name in _SECRETS if name in given))
    patience: dict[str, Any] = {name: value for name, value in _PATIENCE.items() if name not in given}
    try:
        # prepare_threshold: a plan made once for all values would not use the index that fits the filters given.
        connection = psycopg.connect(url, autocommit=autocommit, prepare_threshold=None, **patience)
    except psycopg.Error as error:
        raise cannot_connect(error, where, refusal_of(url) if server_answered(error) else None) from error
    encoding = connection.info.parameter_status("server_encoding")
    if encoding not in ("UTF8", None):  # texts would come as bytes, and sizes in bytes
        connection.close()
        raise wrong_encoding(where, encoding)
    connection.adapters.register_loader("int8range", SeqRangeLoader)
    return connection


def address(url: str) -> str:
    """`host:port/database` of a connection string. Raises CatalogError if it is invalid."""
    try:
        why = postgres_fault(url) if is_url(url) else None
        given = {} if why else conninfo_to_dict(url)
    except psycopg.Error:
        # Not chained: libpq repeats what it could not parse.
        given, why = {}, "not the address of a Postgres. Write it as postgresql://user:password@host:5432/database"
    if not why and not is_url(url):
        why = postgres_parts_fault(str(given.get("host") or ""), str(given.get("dbname") or ""))
    if why:
        what, hint = in_parts(why)
        raise CatalogError(f"NATS3_POSTGRES_URL is {what}", hint)
    host = given.get("host") or given.get("hostaddr") or "the local socket"
    return f"{host}:{given.get('port') or 5432}/{given.get('dbname') or given.get('user') or ''}"


def read_keywords(url: str) -> dict[str, str] | None:
    """The parameters of a connection string or URL, by libpq's own parser; None if it is malformed."""
    try:
        return {name: str(value) for name, value in conninfo_to_dict(url).items()}
    except psycopg.Error:
        return None


def write_keywords(given: dict[str, str]) -> str:
    """The connection string with these parameters."""
    return make_conninfo(**given)


def may_be_unencrypted(url: str) -> list[str]:
    """The hosts to which libpq would send a password without TLS. Raises CatalogError if the address is invalid."""
    address(url)
    given = conninfo_to_dict(url)
    mode = str(given.get("sslmode") or "prefer")
    if "password" not in given or mode in ("require", "verify-ca", "verify-full"):
        return []
    return str(given.get("host") or given.get("hostaddr") or "").split(",")


def sqlalchemy_url(url: str) -> str:
    """The same connection for a library that connects through SQLAlchemy; it may hold a password. Raises CatalogError
    if it is invalid."""
    address(url)
    given: dict[str, Any] = _PATIENCE | conninfo_to_dict(url)
    # All as parameters of the query, which the driver gives to libpq as they are.
    return f"postgresql+psycopg:///?{urlencode({name: str(value) for name, value in given.items()})}"
