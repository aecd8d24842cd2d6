"""The S3 store of obstore: where a bucket is, with which credentials, and how long it is waited for."""

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from obstore.store import S3Store

from nats3_dagster.objects import faults
from nats3_dagster.objects.store_options import StoreOptions

if TYPE_CHECKING:
    from obstore.store import S3Config

_WHOLE: Final = timedelta(seconds=600)


def s3_store(options: StoreOptions, where: faults.Place, silence_s: float) -> S3Store:
    """A store of the bucket `where`, which may be silent for `silence_s` after a request. Raises StoreError where the
    AWS SDK finds no credentials."""
    config: S3Config = {"region": options.region, "disable_bulk_delete": True}
    if options.endpoint is not None:
        # Both, because obstore would let the environment's AWS_ENDPOINT_URL_S3 win over a plain `endpoint`.
        config["endpoint"] = config["aws_endpoint_url_s3"] = options.endpoint
    provider: Any = None
    if options.access_key_id and options.secret_access_key:
        config["access_key_id"] = options.access_key_id
        config["secret_access_key"] = options.secret_access_key
        if options.session_token:
            config["session_token"] = options.session_token
    else:
        provider = _sdk_credentials(where)
    return S3Store(
        where.bucket,
        config=config,
        client_options={
            "allow_http": True,
            "connect_timeout": timedelta(seconds=options.patience_s * 0.4),
            "read_timeout": timedelta(seconds=silence_s),
            "timeout": _WHOLE,
        },
        retry_config={
            "max_retries": 30,  # the time decides
            "retry_timeout": timedelta(seconds=options.patience_s),
            "backoff": {
                "init_backoff": timedelta(milliseconds=100),
                "max_backoff": timedelta(seconds=2),
                "base": 2,
            },
        },
        credential_provider=provider,
    )


def _sdk_credentials(where: faults.Place) -> Any:
    """The credentials that the AWS SDK finds: profile, single sign-on, web identity, container or instance role.

    obstore's own search knows no profile, and waits minutes for an instance role where there is none."""
    from botocore.exceptions import BotoCoreError
    from obstore.auth.boto3 import Boto3CredentialProvider

    try:
        return Boto3CredentialProvider()
    except (BotoCoreError, ValueError) as error:
        raise faults.refused(where, "NoCredentials", 0, "") from error
