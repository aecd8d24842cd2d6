"""The login for Azure Blob Storage: an account key, a SAS token, or what Azure's own SDK finds: a service principal,
workload identity, managed identity, the login of the az command. The SDK renews it.

Invariant: what the SDK found never leaves the process. Spark's workers find their own. No key shows in an error.
"""

import base64
import logging
import os
from functools import cache
from typing import Any, Final

from azure.core.credentials import AzureNamedKeyCredential, AzureSasCredential
from azure.storage.blob import BlobServiceClient

from nats3_dagster.errors import OperatorError
from nats3_dagster.redaction import learn

# As the az command names them; the others are those that obstore and other programs read.
_ACCOUNT: Final = ("AZURE_STORAGE_ACCOUNT", "AZURE_STORAGE_ACCOUNT_NAME")
_KEY: Final = ("AZURE_STORAGE_KEY", "AZURE_STORAGE_ACCOUNT_KEY")
_SAS: Final = ("AZURE_STORAGE_SAS_TOKEN",)
_CONNECTION: Final = ("AZURE_STORAGE_CONNECTION_STRING",)
_ENDPOINT: Final = ("AZURE_STORAGE_SERVICE_ENDPOINT", "AZURE_STORAGE_ENDPOINT")
# What the SDK reads to find an identity.
_IDENTITY: Final = (
    "AZURE_CLIENT_ID",
    "AZURE_TENANT_ID",
    "AZURE_CLIENT_SECRET",
    "AZURE_FEDERATED_TOKEN_FILE",
    "AZURE_AUTHORITY_HOST",
    "IDENTITY_ENDPOINT",
    "HOME",
)
# An object is one request each way, however large it is: chunks have 256 MiB and some.
_ONE_REQUEST: Final = 1 << 30
_CONNECTIONS: Final = 64


# A page of each way that led to no identity, in the middle of a command: the error that follows says it in one line.
logging.getLogger("azure.identity").setLevel(logging.ERROR)


def service() -> Any:
    """The client of the environment as it is now. Raises OperatorError where nothing names the account, or a value is
    malformed."""
    names = (*_ACCOUNT, *_KEY, *_SAS, *_CONNECTION, *_ENDPOINT, *_IDENTITY)
    return _service(tuple(os.environ.get(name) for name in names))


@cache
def _service(_environment: tuple[str | None, ...]) -> Any:
    key, sas, connection = _read(_KEY), _read(_SAS), _read(_CONNECTION)
    learn(key, sas, connection)
    options: dict[str, Any] = {
        "retry_total": 0,
        "max_single_put_size": _ONE_REQUEST,
        "max_single_get_size": _ONE_REQUEST,
    }
    try:
        if connection:
            return _signing(BlobServiceClient.from_connection_string(connection, **options))
        account = _read(_ACCOUNT)
        if not account:
            raise OperatorError(
                "Nothing names the storage account of Azure",
                "Set AZURE_STORAGE_ACCOUNT, or AZURE_STORAGE_CONNECTION_STRING",
            )
        url = _read(_ENDPOINT) or f"https://{account}.blob.core.windows.net"
        if key:
            return _signing(BlobServiceClient(url, AzureNamedKeyCredential(account, key), **options))
        if sas:
            return BlobServiceClient(url, AzureSasCredential(sas), **options)
        return BlobServiceClient(url, _identity(), **options)
    except ValueError:
        raise OperatorError(
            "The SDK of Azure cannot read the settings of the storage account",
            "Correct AZURE_STORAGE_CONNECTION_STRING, or AZURE_STORAGE_ACCOUNT and AZURE_STORAGE_KEY",
        ) from None


def _signing(client: Any) -> Any:
    """The client, if its account key can sign requests. Raises OperatorError."""
    key = getattr(client.credential, "account_key", "")
    try:
        base64.b64decode(key)
    except ValueError:
        raise OperatorError(
            f"The key of the Azure account {client.account_name} is not one: it is not base64",
            "Copy the whole access key of the account into AZURE_STORAGE_KEY, or after AccountKey= into "
            "AZURE_STORAGE_CONNECTION_STRING",
        ) from None
    return client


def _identity() -> Any:
    from azure.identity import DefaultAzureCredential

    return DefaultAzureCredential()


def _read(names: tuple[str, ...]) -> str | None:
    return next(filter(None, (os.environ.get(name) for name in names)), None)


def described(made: Any) -> str:
    """The login of a client in words."""
    credential = made.credential
    if hasattr(credential, "account_key") or isinstance(credential, AzureNamedKeyCredential):
        return f"a key of account {made.account_name}"
    if credential is None or isinstance(credential, AzureSasCredential):
        return f"a SAS token of account {made.account_name}"
    return f"the identity that Azure's SDK finds, for account {made.account_name}"
