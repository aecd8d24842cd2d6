"""Object Lock and versions on a real store that has them: versitygw, which `make object-lock-store` builds with Go."""

import hashlib

import pytest

from nats3_dagster.archive.health.store_health import check
from nats3_dagster.errors import AccessRefused
from nats3_dagster.objects import Bucket, StoreOptions, delete_version, delete_versions, get_version, list_versions
from nats3_dagster.objects import versions as versions_module
from nats3_dagster.settings import Settings
from nats3_dagster_tests.support.s3_client import plain_client

LOCKED, VERSIONED = "locked", "versioned"


@pytest.fixture(scope="module")
def gateway(versitygw: StoreOptions) -> StoreOptions:
    """The gateway, with a bucket that locks objects for a day and one that keeps versions."""
    client = plain_client(versitygw)
    client.create_bucket(Bucket=LOCKED, ObjectLockEnabledForBucket=True)
    retention = {"DefaultRetention": {"Mode": "COMPLIANCE", "Days": 1}}
    client.put_object_lock_configuration(
        Bucket=LOCKED, ObjectLockConfiguration={"ObjectLockEnabled": "Enabled", "Rule": retention}
    )
    client.create_bucket(Bucket=VERSIONED)
    client.put_bucket_versioning(Bucket=VERSIONED, VersioningConfiguration={"Status": "Enabled"})
    return versitygw


def put(bucket: Bucket, key: str, data: bytes) -> None:
    bucket.put_again(key, data, hashlib.sha256(data).hexdigest())


def test_a_locked_version_stays_and_is_named(gateway: StoreOptions) -> None:
    bucket = Bucket(gateway, LOCKED)
    for body in (b"old", b"newer"):
        put(bucket, "of/a", body)
    bucket.delete("of/a")
    assert not bucket.exists("of/a")
    listed = list(list_versions(gateway, LOCKED, "of"))
    assert sorted((one.size, one.is_delete_marker) for one in listed) == [(0, True), (3, False), (5, False)]
    with pytest.raises(AccessRefused, match="Object Lock"):
        delete_versions(gateway, LOCKED, "of")
    left = list(list_versions(gateway, LOCKED, "of"))
    assert {get_version(gateway, LOCKED, one.key, one.version_id) for one in left} == {b"old", b"newer"}


@pytest.mark.parametrize("checksum", ["none", "SHA256", "MD5"])
def test_the_store_takes_each_checksum(gateway: StoreOptions, checksum: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """And proves it: with another body it refuses."""
    monkeypatch.setattr("nats3_dagster.objects.s3_puts._CHECKSUMS", (checksum,))
    data = checksum.encode() * 100
    bucket = Bucket(gateway, LOCKED)
    assert bucket.put_new(f"sum/{checksum}", data, hashlib.sha256(data).hexdigest())
    assert bucket.get(f"sum/{checksum}") == data


def test_versions_are_listed_and_deleted(gateway: StoreOptions, monkeypatch: pytest.MonkeyPatch) -> None:
    bucket = Bucket(gateway, VERSIONED)
    for key in ("of/a", "of/b", "of2/a"):
        for body in (b"old", b"newer"):
            put(bucket, key, body)
    bucket.delete("of/b")
    monkeypatch.setattr(versions_module, "PAGE", 2)
    listed = list(list_versions(gateway, VERSIONED, "of"))
    assert (len(listed), {one.key for one in listed}) == (5, {"of/a", "of/b"})
    delete_version(gateway, VERSIONED, listed[0].key, listed[0].version_id)
    assert listed[0] not in list(list_versions(gateway, VERSIONED, "of"))
    # It begins its second page with a marker of the first one (versitygw 2178).
    left = list(list_versions(gateway, VERSIONED, "of"))
    assert sorted(left) == sorted(listed[1:])
    delete_versions(gateway, VERSIONED, "of")
    assert {one.key for one in list_versions(gateway, VERSIONED, "")} == {"of2/a"}


def test_doctor_on_such_buckets(gateway: StoreOptions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", gateway.endpoint or "")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", gateway.access_key_id or "")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", gateway.secret_access_key or "")
    monkeypatch.setenv("NATS3_STORE_URL", "s3://")
    found = list(check(Settings.load(), [LOCKED, VERSIONED]))
    assert {one.status for one in found} == {"ok"}, found
    assert [LOCKED in str(one) for one in found if "those of erased messages" in str(one)] == [True]
