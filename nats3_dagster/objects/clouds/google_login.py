"""The login for Google Cloud Storage, as Google's own SDK finds it: a key file, a user's login, workload identity
federation, the metadata server of a machine or a pod. The SDK renews it.

Invariant: what the SDK found never leaves the process. Spark's workers find their own.
"""

import os
from functools import cache
from typing import Any, Final

from google.auth.exceptions import GoogleAuthError
from google.cloud import storage  # pyright: ignore[reportMissingTypeStubs]
from requests.adapters import HTTPAdapter

from nats3_dagster.errors import OperatorError

# What the SDK reads to find the project and the login.
_VARIABLES: Final = (
    "STORAGE_EMULATOR_HOST",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "GOOGLE_CLOUD_PROJECT",
    "CLOUDSDK_CONFIG",
    "HOME",
)
# Threads that ask at a time; the SDK's own pool of ten complains about more.
_CONNECTIONS: Final = 64


def client() -> Any:
    """The client of the environment as it is now. Raises what the SDK raises where it finds no login; OperatorError for
    one that it cannot use."""
    return _client(tuple(os.environ.get(name) for name in _VARIABLES))


@cache
def _client(_environment: tuple[str | None, ...]) -> Any:
    try:
        made: Any = storage.Client(project=os.environ.get("GOOGLE_CLOUD_PROJECT"))
    except GoogleAuthError:
        raise
    except ValueError:  # a key that is none, or a login of another cloud that Google runs
        raise OperatorError(
            "Google's SDK cannot use the login that it finds",
            "Correct the file of GOOGLE_APPLICATION_CREDENTIALS; for another domain set GOOGLE_CLOUD_UNIVERSE_DOMAIN",
        ) from None
    for scheme in ("https://", "http://"):
        made._http.mount(scheme, HTTPAdapter(pool_connections=_CONNECTIONS, pool_maxsize=_CONNECTIONS))
    return made


def described(made: Any) -> str:
    """The login of a client in words."""
    credentials = made._credentials
    kind = type(credentials).__module__.removeprefix("google.")
    email = getattr(credentials, "service_account_email", None)
    return f"{_KINDS.get(kind, kind)}{f' {email}' if email and email != 'default' else ''}"


_KINDS: Final = {
    "auth.credentials": "no login, as an emulator wants it",
    "auth.compute_engine.credentials": "the service account of this machine or pod",
    "oauth2.service_account": "the key file of service account",
    "oauth2.credentials": "a user's login",
    "auth.identity_pool": "workload identity federation",
    "auth.aws": "workload identity federation with AWS",
    "auth.impersonated_credentials": "the impersonated service account",
}
