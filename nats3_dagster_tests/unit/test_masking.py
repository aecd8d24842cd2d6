"""What is shown of settings with secrets in them, and what the filter of texts learns of them."""

import pytest
from pydantic import SecretStr

from nats3_dagster.settings.masking import holds_secret, masked, secrets_of


@pytest.mark.parametrize(
    ("key", "value", "shown"),
    [
        # What has no secret is shown as it is.
        ("nats_url", "nats://h:4222,tls://h2", None),
        ("nats_url", "127.0.0.1:4222", None),
        ("postgres_url", "postgresql://h,h2:5433/d?sslmode=verify-full&target_session_attrs=read-write", None),
        ("postgres_url", "postgresql://%2Frun%2Fpostgresql/d", None),
        ("postgres_url", "host=/run/postgresql dbname=d", None),
        ("spark_remote", "sc://h:15002/;use_ssl=true;user_id=me", None),
        ("spark_master", "local[2]", None),
        ("spark_master", "k8s://https://h:6443", None),
        ("spark_master", "spark://h:7077,h2:7077", None),
        ("store_url", "s3://", None),
        ("store_url", "file:///data/nats3", None),
        ("dagster_url", "http://[::1]:3000/prefix", None),
        # Of what has one, the rest.
        ("nats_url", "nats://u:p@h:4222,nats://u:p@h2", "nats://u:***@h:4222,nats://u:***@h2"),
        ("nats_url", "nats://t0ken@h", "nats://***@h"),
        ("nats_url", "u:p@h", "u:***@h"),
        ("postgres_url", "postgresql://u:p@h:5432/d", "postgresql://u:***@h:5432/d"),
        ("postgres_url", "postgresql://h/d?%70assword=x&sslmode=require", "postgresql://h/d?***&sslmode=require"),
        ("postgres_url", "postgresql://h/d?scram_client_key=x", "postgresql://h/d?scram_client_key=***"),
        ("postgres_url", "host=h password='a b' scram_server_key=x", "password=*** host=h scram_server_key=***"),
        ("spark_remote", "sc://h:1/;token=a;user_id=b", "sc://h:1/;token=***;user_id=b"),
        ("spark_remote", "sc://h:1/;x-api-key=a;b", "sc://h:1/;x-api-key=***;***"),
        ("s3_endpoint", "http://h/?jwt=a", "http://h/?jwt=***"),
        ("dagster_url", "http://h/#a", "http://h/#***"),
        ("server_url", "http://h/x?a", "http://h/x?***"),
        # What is no address, or has a part that is none: nothing.
        ("postgres_url", "postgresql://u:p@ss@h/d", "***"),
        ("postgres_url", "postgresql://u:p/ss@h/d", "***"),
        ("postgres_url", "postgresql://h:p@ss/d", "postgresql://h:***@ss/d"),
        ("postgres_url", "host=h password='a b", "***"),
        ("postgres_url", "s3cret", "***"),
        ("nats_url", "nats://tok/en@h", "***"),
        ("nats_url", "nats://h/?x", "***"),
        ("nats_url", "nats://h:p4ss", "***"),
        ("spark_remote", "sc://h/path;x;a@b", "sc://h/path;***;***"),
        ("spark_master", "s3cret", "***"),
        ("store_url", "s3://u:p@h", "s3://u:***@h"),
        ("s3_endpoint", "h:9000", "***"),
        # No address.
        ("nats_password", "p", "***"),
        ("api_tokens", "a,b", "*** (2)"),
        ("s3_region", "eu-1", None),
        ("s3_region", "SUAIBDPBAUTWCWBKIO6XHQNINK5FWJW4OHLXC3HQ2KFE4PEJUA44CNHTC4", "***"),
    ],
)
def test_what_is_shown(key: str, value: str, shown: str | None) -> None:
    assert masked(key, SecretStr(value)) == (value if shown is None else shown)
    assert holds_secret(key, value) == (shown is not None)


@pytest.mark.parametrize(
    ("address", "secrets"),
    [
        ("nats://u:s3cret-1@h,nats://u:s3cret-2@h", {"s3cret-1", "s3cret-2"}),
        ("postgresql://u:s3cret@1/abcdef@h/d", {"s3cret@1/abcdef", "s3cret", "abcdef"}),
        ("postgresql://u:s3c%40ret@h/d", {"s3c@ret"}),
        ("host=h password='s3 cr\\'et' user=me", {"s3 cr'et"}),
        ("sc://h/;token=s3cret;user_id=me", {"s3cret"}),
        ("http://h:s3cret", {"s3cret"}),
        ("http://h/?x-api-key=s3cret#fragment", {"s3cret", "fragment"}),
        ("nats://s3cret,token@h", {"s3cret,token", "s3cret"}),
    ],
)
def test_what_the_filter_learns(address: str, secrets: set[str]) -> None:
    learned = set(secrets_of(address))
    assert secrets <= learned
    assert not {"u", "me", "h", "d", "user_id"} & learned
