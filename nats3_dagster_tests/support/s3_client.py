"""A plain client of an S3 API: the view of somebody who does not use our code."""

from typing import Any

import boto3

from nats3_dagster.objects import StoreOptions


def plain_client(options: StoreOptions) -> Any:
    """A client with the address and the login of these options, and nothing else of them."""
    return boto3.client(
        "s3",
        endpoint_url=options.endpoint,
        region_name=options.region,
        aws_access_key_id=options.access_key_id,
        aws_secret_access_key=options.secret_access_key,
    )
