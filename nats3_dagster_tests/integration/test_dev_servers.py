"""The fixtures' promise: real servers and a clean state for each test."""

import asyncio
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import boto3
import nats as nats_py
import psycopg
import pytest


def _streams(url, make=None):
    async def go():
        client = await nats_py.connect(url)
        js = client.jetstream()
        if make:
            await js.add_stream(name=make, subjects=[f"{make}.>"])
            await js.publish(f"{make}.a", b"1")
        names = [s.config.name for s in await js.streams_info()]
        await client.close()
        return names

    return asyncio.run(go())


@pytest.mark.parametrize("turn", [1, 2])
def test_every_test_finds_no_stream(nats, turn):
    assert _streams(nats.url) == []
    assert _streams(nats.url, make=f"S{turn}") == [f"S{turn}"]


def test_a_server_killed_and_started_again_keeps_its_port_and_its_streams(own_nats):
    url = own_nats.url
    _streams(url, make="KEPT")
    own_nats.kill()
    own_nats.start()
    assert own_nats.url == url
    assert _streams(url) == ["KEPT"]


@pytest.mark.parametrize("turn", [1, 2])
def test_every_test_has_a_database_of_its_own(postgres_url, turn):
    with psycopg.connect(postgres_url) as connection:
        connection.execute("CREATE TABLE mine (turn int)")
        connection.execute("CREATE EXTENSION IF NOT EXISTS btree_gist")


@pytest.mark.parametrize("turn", [1, 2])
def test_every_test_has_an_empty_bucket(s3_client, bucket, turn):
    assert s3_client.list_objects_v2(Bucket=bucket)["KeyCount"] == 0
    s3_client.put_object(Bucket=bucket, Key="a", Body=b"1")


def test_of_many_creates_of_one_key_one_wins(s3_client, bucket):
    def create(number):
        try:
            s3_client.put_object(Bucket=bucket, Key="one", Body=b"%d" % number, IfNoneMatch="*")
        except s3_client.exceptions.ClientError as error:
            return error.response["Error"]["Code"]
        return b"%d" % number

    with ThreadPoolExecutor(32) as threads:
        said = Counter(threads.map(create, range(64)))
    assert said.pop("PreconditionFailed") == 63
    assert s3_client.get_object(Bucket=bucket, Key="one")["Body"].read() in said


def test_starting_the_endpoint_loads_no_eventlet_into_us(s3_server):
    assert "eventlet" not in sys.modules  # it warns at every fork


def test_the_endpoint_refuses_a_wrong_secret_and_keeps_objects_over_kill_9(own_s3):
    def client(secret):
        return boto3.client(
            "s3",
            endpoint_url=own_s3.endpoint,
            aws_access_key_id=own_s3.access_key,
            aws_secret_access_key=secret,
            region_name=own_s3.region,
        )

    mine = client(own_s3.secret_key)
    mine.create_bucket(Bucket="kept")
    mine.put_object(Bucket="kept", Key="a", Body=b"1" * 100_000)
    with pytest.raises(mine.exceptions.ClientError, match="SignatureDoesNotMatch"):
        client("wrong").get_object(Bucket="kept", Key="a")
    endpoint = own_s3.endpoint
    own_s3.kill()
    own_s3.start()
    assert own_s3.endpoint == endpoint
    assert mine.get_object(Bucket="kept", Key="a")["Body"].read() == b"1" * 100_000
