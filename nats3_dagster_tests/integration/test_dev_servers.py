"""The fixtures' promise: real servers and a clean state for each test."""

import asyncio

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

