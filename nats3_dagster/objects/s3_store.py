"""The S3 store of obstore: where a bucket is, with which credentials, and how long it is waited for."""

from collections.abc import Mapping
from datetime import timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from obstore.store import S3Store

from nats3_dagster.objects import faults
from nats3_dagster.objects.identity import sdk_credentials
from nats3_dagster.objects.store_options import StoreOptions

if TYPE_CHECKING:
    from obstore.store import S3Config

_WHOLE: Final = timedelta(seconds=600)


def s3_store(
    options: StoreOptions,
    where: faults.Place,
    silence_s: float,
    *,
    checksum: str = "",
    headers: Mapping[str, str] = MappingProxyType({}),
) -> S3Store:
    """A store of the bucket `where`, which may be silent for `silence_s` after a request. `checksum`: of all uploads;
    `headers`: of all requests. Raises StoreError where the AWS SDK finds no credentials."""
    config: S3Config = {"region": options.region, "disable_bulk_delete": True}
    if options.endpoint is not None:
        # Both, because obstore would let the environment's AWS_ENDPOINT_URL_S3 win over a plain `endpoint`.
        config["endpoint"] = config["aws_endpoint_url_s3"] = options.endpoint
    # Of every PUT, the create-only one as well. The storage class is an attribute of the PUT itself (s3_puts.py).
    if options.sse:
        config["server_side_encryption"] = options.sse
    if options.sse_kms_key_id:
        config["sse_kms_key_id"] = options.sse_kms_key_id
    if checksum:
        config["checksum_algorithm"] = checksum
    provider: Any = None
    if options.access_key_id and options.secret_access_key:
        config["access_key_id"] = options.access_key_id
        config["secret_access_key"] = options.secret_access_key
        if options.session_token:
            config["session_token"] = options.session_token
    else:
        provider = sdk_credentials(options, where)
    return S3Store(
        where.bucket,
        config=config,
        client_options={
            "allow_http": True,
            "connect_timeout": timedelta(seconds=options.patience_s * 0.4),
            "read_timeout": timedelta(seconds=silence_s),
            "timeout": _WHOLE,
            "default_headers": {**headers},
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
