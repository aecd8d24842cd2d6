"""The identity for S3 where no static keys are set: the AWS SDK's own search, in each process that connects.

Invariant: credentials that the SDK found never leave the process: a task takes a profile's name along, and Spark's
worker finds and renews its own.
"""

import os
from datetime import timedelta
from functools import cache
from typing import Any, Final

from nats3_dagster.errors import OperatorError, StoreError
from nats3_dagster.objects import faults
from nats3_dagster.objects.clouds import open_cloud
from nats3_dagster.objects.store_options import StoreOptions
from nats3_dagster.redaction import learn

# The SDK renews credentials 10 minutes before they end at the latest, and obstore asks again 5 minutes before this has
# passed: so it never uses what has expired. obstore's default of 30 minutes does.
_TTL: Final = timedelta(minutes=9)


def sdk_session(profile: str | None, *, has_keys: bool = False) -> Any:
    """A session of botocore of its own: the default one keeps what it read of the SDK's files for the life of the
    process. With static keys in the settings, AWS_PROFILE is ignored. botocore is imported only here, because that
    takes 0.3 s. Raises OperatorError where there is no such profile."""
    import botocore.session
    from botocore.exceptions import ConfigParseError, ProfileNotFound

    session = botocore.session.Session(session_vars={"profile": (None, None, None, None)} if has_keys else None)
    if profile and not has_keys:
        session.set_config_variable("profile", profile)
    try:
        session.get_scoped_config()
    except ProfileNotFound:
        name = profile or "that AWS_PROFILE names"
        raise OperatorError(
            f"There is no AWS profile {name} in the SDK's files",
            "Correct AWS_PROFILE, or AWS_CONFIG_FILE and AWS_SHARED_CREDENTIALS_FILE",
        ) from None
    except ConfigParseError as error:
        raise OperatorError(
            f"The AWS SDK cannot read {error.kwargs.get('path', 'its files')}",
            "Correct it: a line in brackets with the profile's name, then lines of the form key = value",
        ) from None
    return session


def _credentials(session: Any) -> Any:
    """The credentials that the SDK finds, or None. Raises StoreError."""
    from botocore.exceptions import BotoCoreError

    try:
        return session.get_credentials()
    except (BotoCoreError, ValueError, OSError, AttributeError, TypeError) as error:
        raise not_logged_in(error) from error


def not_logged_in(error: Exception) -> StoreError:
    """The StoreError for what the SDK raises while it looks for credentials or renews them. A process that a profile
    names may print anything, or not be there."""
    if isinstance(error, OSError):
        reason = f"the credential_process of its profile does not start: {os.strerror(error.errno or 0)}"
    elif isinstance(error, ValueError | AttributeError | TypeError):  # no JSON, no UTF-8, or a list
        reason = "the credential_process of its profile printed no JSON object"
    else:
        reason = type(error).__name__
    return StoreError(f"The AWS SDK cannot log in: {reason}", "Look at its profile and its files, or log in again")


@cache
def _descriptions(data_path: str | None) -> Any:
    """The SDK's descriptions of S3 and of its regions. For all sessions, because to read them takes 85 of the 94 ms of
    processor time of a client."""
    from botocore.loaders import create_loader  # pyright: ignore[reportMissingTypeStubs, reportUnknownVariableType]

    return create_loader(data_path)


def sdk_client(options: StoreOptions, config: Any) -> Any:
    """A client of S3, of botocore, with the identity of these options. Raises OperatorError where there is no such
    profile, StoreError where the SDK cannot log in."""
    session = sdk_session(options.profile, has_keys=bool(options.access_key_id))
    if not options.access_key_id:
        _credentials(session)  # the session keeps them
    session.register_component("data_loader", _descriptions(session.get_config_variable("data_path")))
    return session.create_client(
        "s3",
        region_name=options.region,
        endpoint_url=options.endpoint,
        aws_access_key_id=options.access_key_id,
        aws_secret_access_key=options.secret_access_key,
        aws_session_token=options.session_token,
        config=config,
    )


def profile_place(profile: str) -> tuple[str | None, str | None]:
    """Region and S3 endpoint of a profile. Raises OperatorError where there is none of that name."""
    session = sdk_session(profile)
    config: dict[str, Any] = session.get_scoped_config()
    service: dict[str, Any] = session.full_config.get("services", {}).get(config.get("services"), {}).get("s3", {})
    return config.get("region"), service.get("endpoint_url") or config.get("endpoint_url")


def sdk_credentials(options: StoreOptions, where: faults.Place) -> Any:
    """Returns the provider that gives obstore the credentials of the SDK, and renews them: profile, single sign-on, web
    identity, container or instance role. Raises OperatorError and StoreError.

    obstore's own search knows no profile, and waits minutes for an instance role where there is none."""
    import boto3
    from obstore.auth.boto3 import Boto3CredentialProvider

    session = sdk_session(options.profile)
    if _credentials(session) is None:
        raise faults.refused(where, "NoCredentials", 0, "")
    return Boto3CredentialProvider(boto3.Session(botocore_session=session), ttl=_TTL)


def static_keys(options: StoreOptions) -> tuple[str | None, str | None, str | None]:
    """Access key, secret and session token, for a client that takes nothing else: those that are set, or what the SDK
    has now, good for some minutes at least; all None where it finds none. Raises OperatorError, StoreError."""
    from botocore.exceptions import BotoCoreError

    if options.access_key_id:
        return options.access_key_id, options.secret_access_key, options.session_token
    found = _credentials(sdk_session(options.profile))
    try:
        keys = found.get_frozen_credentials() if found else None
    except (BotoCoreError, ValueError, OSError) as error:
        raise not_logged_in(error) from error
    if keys:
        learn(keys.secret_key, keys.token)
    return (keys.access_key, keys.secret_key, keys.token) if keys else (None, None, None)


# The SDK's names for the sources of credentials.
_WAYS: Final = {
    "env": "environment variables",
    "shared-credentials-file": "shared credentials file",
    "custom-process": "a process of the profile",
    "config-file": "config file",
    "assume-role": "a role of the profile",
    "assume-role-with-web-identity": "a role by web identity",
    "sso": "single sign-on",
    "container-role": "the container's role",
    "iam-role": "the instance's role",
}


def identity(options: StoreOptions) -> str:
    """Returns the identity for the store, in words, never with a secret. Raises OperatorError, and StoreError where the
    SDK finds no credentials."""
    if options.cloud is not None:
        return open_cloud(options.cloud, faults.Place(options.place, "none"), options.patience_s).identity()
    if options.access_key_id:
        return f"static keys, access key {options.access_key_id}"
    way = f"profile {options.profile}" if options.profile else "the AWS SDK's search"
    found = _credentials(sdk_session(options.profile))
    if found is None:
        raise faults.refused(faults.Place(options.place, "none"), "NoCredentials", 0, "")
    return f"{way}: {_WAYS.get(found.method, found.method)}"
