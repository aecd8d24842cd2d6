"""The user's Iceberg catalog: the one that a name or an address stands for, its connection, and its failures as nats3
errors.

Invariant: credentials go to pyiceberg in this process, and into no table, no row and no text.
"""

import importlib.util
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from nats3_dagster.catalog.session.connection import sqlalchemy_url
from nats3_dagster.errors import EngineError, Nats3Error, OperatorError, TableError
from nats3_dagster.objects import static_keys
from nats3_dagster.plausible import NAME, check, secret_in
from nats3_dagster.redaction import learn
from nats3_dagster.settings import Settings
from nats3_dagster.settings.masking import secrets_of

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

# The catalog in our own Postgres, unless pyiceberg's configuration has one of this name.
DEFAULT: Final = "nats3"
# Addresses that need nothing else to be known.
_SCHEMES: Final = ("http", "https", "thrift")
# What pyiceberg and the clients that it uses raise has no common class, but these modules.
_LIBRARIES: Final = frozenset(
    {
        "pyiceberg",
        "sqlalchemy",
        "psycopg",
        "requests",
        "urllib3",
        "botocore",
        "boto3",
        "thrift",
        "pyarrow",
        "fsspec",
        "s3fs",
        "google",
        "hive_metastore",
        "pydantic",
        "pydantic_core",
    }
)
# In the names of its properties that hold secrets.
_SECRETS: Final = ("credential", "token", "secret", "password", "key", "authorization", "sas", "header.")
# Seconds for S3.
_PATIENCE: Final = {"s3.connect-timeout": "5", "s3.request-timeout": "20"}


def check_catalog(catalog: str) -> None:
    """Raises OperatorError for an address that holds a login or that no client knows; EngineError without pyiceberg."""
    _require_library()
    if "://" not in catalog:
        check("The Iceberg catalog", catalog, NAME)
        return
    try:
        parts = urlsplit(catalog)
        is_plain = not ({"@", "?", "#", ";"} & set(catalog) or secret_in(catalog)) and parts.port != 0
    except ValueError:
        parts, is_plain = None, False
    if parts is None or not is_plain:
        learn(*secrets_of(catalog))
        raise OperatorError(
            "The address of the Iceberg catalog holds a login, or more than scheme, host, port and path, and would be "
            "stored",
            "Give the catalog a name in .pyiceberg.yaml or by PYICEBERG_CATALOG__<NAME>__URI, and use the name",
        )
    if parts.scheme not in _SCHEMES:
        raise OperatorError(
            f"An Iceberg catalog is not reached by {parts.scheme}://",
            "Use the http:// or https:// of a REST catalog, the thrift:// of a Hive metastore, or the name of a "
            "catalog in .pyiceberg.yaml",
        )


@contextmanager
def opened(settings: Settings, catalog: str) -> "Generator[Catalog]":
    """The catalog, closed at the end. Raises TableError for whatever its client raises inside, OperatorError for a name
    that nothing configures, EngineError without pyiceberg."""
    check_catalog(catalog)
    from pyiceberg.catalog import load_catalog

    properties = _properties(settings, catalog)
    with asking(catalog):
        try:
            loaded = load_catalog(DEFAULT if "://" in catalog else catalog, **properties)
        except (ValueError, KeyError) as error:
            raise TableError(
                f"The configuration of the Iceberg catalog {catalog} cannot be used: {type(error).__name__}",
                "Correct it in .pyiceberg.yaml, or in the variables PYICEBERG_CATALOG__*",
            ) from error
        with loaded:
            yield loaded


@contextmanager
def asking(catalog: str) -> Iterator[None]:
    """Turns what pyiceberg and its clients raise into TableError: by the name of its class, because a text may repeat a
    login."""
    try:
        yield
    except Nats3Error:
        raise
    except Exception as error:
        if not (isinstance(error, OSError) or _is_of_library(error)):
            raise
        raise TableError(
            f"The Iceberg catalog {catalog}, or its store, failed: {_names(error)}",
            "Look whether it is up, and at its settings. Nothing of the archive was changed",
        ) from error


def _properties(settings: Settings, catalog: str) -> dict[str, Any]:
    """Returns the properties that the catalog is opened with. pyiceberg's own configuration wins over nats3's
    settings."""
    from pyiceberg.utils.config import Config

    try:
        configured = dict(Config().get_catalog_config(catalog) or {})
    except ValueError as error:
        raise OperatorError("pyiceberg's configuration cannot be read", "Correct .pyiceberg.yaml") from error
    _learn(configured)
    if "://" in catalog:
        configured = {"uri": catalog}
    elif not configured and catalog != DEFAULT:
        raise OperatorError(
            f"pyiceberg's configuration has no catalog {catalog}",
            f"Add it to .pyiceberg.yaml or set PYICEBERG_CATALOG__{catalog.upper()}__URI; or leave it out: the catalog "
            f"is then in the same Postgres",
        )
    ours: dict[str, Any] = {}
    if not configured:
        ours = {
            "py-catalog-impl": "nats3_dagster.tables.postgres_catalog.PostgresCatalog",
            "uri": sqlalchemy_url(settings.postgres),
            # The tables are there already: who may not create tables would be refused here.
            "init_catalog_tables": "false",
        }
    if not any(name.startswith(("s3.", "client.")) for name in configured):
        ours |= _file_io(settings)
    if not any(name.startswith(("gcs.", "adls.")) for name in configured):
        ours["py-io-impl"] = "nats3_dagster.tables.cloud_files.CloudFiles"
    return ours | configured


def _learn(configured: Mapping[str, Any]) -> None:
    """Teach the filter of texts what the configuration of a catalog may hide: all but what is known to be no secret."""
    for name, value in configured.items():
        text = str(value)
        if "://" in text:
            learn(*secrets_of(text))
        elif any(word in name.lower() for word in _SECRETS):
            learn(text, *text.split(":"))  # `credential` is client:secret


def _file_io(settings: Settings) -> dict[str, str]:
    """Returns the options with which pyiceberg reaches the store that the archive is in."""
    options = settings.store
    if options.folder is not None:
        return {}
    key, secret, token = static_keys(options)
    given = {
        "s3.endpoint": options.endpoint,
        "s3.region": options.region,
        "s3.access-key-id": key,
        "s3.secret-access-key": secret,
        "s3.session-token": token,
    }
    return _PATIENCE | {name: value for name, value in given.items() if value}


def _require_library() -> None:
    if importlib.util.find_spec("pyiceberg") is None:
        raise EngineError(
            "Iceberg tables need pyiceberg, which is not installed", "pip install 'nats3-dagster[iceberg]'"
        )


def _is_of_library(error: Exception) -> bool:
    return any(kind.__module__.partition(".")[0] in _LIBRARIES for kind in type(error).__mro__)


def _names(error: BaseException) -> str:
    """The classes of the error and of its causes, the outermost first."""
    names: list[str] = []
    cause: BaseException | None = error
    while cause is not None and len(names) < 3:
        if type(cause).__name__ not in names:
            names.append(type(cause).__name__)
        cause = cause.__cause__ or cause.__context__
    return ", ".join(names)
