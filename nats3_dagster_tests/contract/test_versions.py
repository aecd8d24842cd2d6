"""Versions of objects: all of them, page by page; a refusal is never an answer of none."""

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from nats3_dagster.errors import AccessRefused, NotOffered, ObjectMissing, StoreError
from nats3_dagster.objects import (
    Bucket,
    ObjectVersion,
    StoreOptions,
    delete_version,
    delete_versions,
    get_version,
    list_versions,
    unended_uploads,
    versions,
)
from nats3_dagster_tests.contract.test_store_faults import put, through
from nats3_dagster_tests.support.servers.s3_proxy import Fault, Handler, refuse

OLD, NEW = b"old", b"newer"
# What each request about versions needs, as its refusal says.
ASKS: dict[str, Callable[[StoreOptions, str], Any]] = {
    "s3:ListBucketVersions": lambda s, b: list(list_versions(s, b, "of")),
    "s3:GetObjectVersion": lambda s, b: get_version(s, b, "of/logs/a", "1"),
    "s3:DeleteObjectVersion": lambda s, b: delete_version(s, b, "of/logs/a", "1"),
}


@pytest.fixture
def versioned(bucket: str, s3_client: Any) -> str:
    """A bucket with old versions, delete markers, and neighbours whose names begin alike."""
    s3_client.put_object(Bucket=bucket, Key="of/logs/first", Body=OLD)  # before it kept versions
    s3_client.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    for key in ("of/logs/a", "of/logs/b", "of/logs", "of/logs2/c"):
        for body in (OLD, NEW):
            s3_client.put_object(Bucket=bucket, Key=key, Body=body)
    for key in ("of/logs/a", "of/logs/b/", "of/logs/never"):
        s3_client.delete_object(Bucket=bucket, Key=key)
    return bucket


@pytest.mark.parametrize("page", [1000, 2, 1])
def test_all_versions_are_listed(s3: StoreOptions, versioned: str, page: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(versions, "PAGE", page)
    listed = list(list_versions(s3, versioned, "of/logs"))
    bodies = [
        (one.key, get_version(s3, versioned, one.key, one.version_id)) for one in listed if not one.is_delete_marker
    ]
    assert sorted(bodies) == sorted(
        [("of/logs/first", OLD), *((k, b) for k in ("of/logs/a", "of/logs/b", "of/logs") for b in (OLD, NEW))]
    )
    assert sorted(one.size for one in listed if not one.is_delete_marker) == [3, 3, 3, 3, 5, 5, 5]
    markers = {one.key for one in listed if one.is_delete_marker}
    assert markers >= {"of/logs/a", "of/logs/never"}
    assert len({(one.key, one.version_id) for one in listed}) == len(listed)
    assert len(list(list_versions(s3, versioned, ""))) == len(listed) + 2
    assert list(list_versions(s3, versioned, "of/log")) == []


def test_versions_are_deleted_with_their_markers(s3: StoreOptions, versioned: str, s3_client: Any) -> None:
    first = next(one for one in list_versions(s3, versioned, "of/logs/b") if one.size == len(OLD))
    delete_version(s3, versioned, first.key, first.version_id)
    delete_version(s3, versioned, first.key, first.version_id)
    with pytest.raises(ObjectMissing):
        get_version(s3, versioned, first.key, first.version_id)
    assert s3_client.get_object(Bucket=versioned, Key="of/logs/b")["Body"].read() == NEW
    delete_versions(s3, versioned, "of/logs")
    assert {one.key for one in list_versions(s3, versioned, "")} == {"of/logs2/c"}


def asked_of(request: Handler, grant: str) -> bool:
    """True for the request that needs the grant."""
    query = request.path.partition("?")[2]
    is_one = "versionId=" in query
    return {
        "s3:ListBucketVersions": "versions" in re.split("[&=]", query),
        "s3:GetObjectVersion": is_one and request.command == "GET",
        "s3:DeleteObjectVersion": is_one and request.command == "DELETE",
    }[grant]


def only(grant: str, fault: Fault) -> Fault:
    """The fault for requests that need the grant; the others are forwarded."""
    return lambda request: fault(request) if asked_of(request, grant) else request.reply(*request.forward())


@pytest.mark.parametrize("grant", ASKS)
@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [(403, "AccessDenied", AccessRefused), (503, "SlowDown", StoreError), (400, "InvalidRequest", StoreError)],
)
def test_a_refusal_is_no_answer(
    s3: StoreOptions, versioned: str, grant: str, status: int, code: str, kind: type[StoreError]
) -> None:
    with through(s3, only(grant, refuse(status, code))) as refusing:
        with pytest.raises(StoreError) as caught:
            ASKS[grant](refusing, versioned)
        assert type(caught.value) is kind
        assert (grant in str(caught.value)) == (kind is AccessRefused)
        if "GetObject" not in grant:
            with pytest.raises(kind):
                delete_versions(refusing, versioned, "of")


def listing(request: Handler) -> None:
    """A store that does not know `versions` and `uploads`, and lists its objects."""
    request.reply(
        200,
        {"Content-Type": "application/xml"},
        b"<?xml version='1.0'?>\n<ListBucketResult><Name>b</Name><IsTruncated>false</IsTruncated></ListBucketResult>",
    )


@pytest.mark.parametrize("fault", [refuse(501, "NotImplemented"), listing], ids=["501", "listing"])
def test_a_store_without_versions_has_its_objects(s3: StoreOptions, bucket: str, fault: Fault) -> None:
    put(Bucket(s3, bucket), "of/logs/a", NEW)
    put(Bucket(s3, bucket), "of/logs2/a", NEW)
    with through(s3, only("s3:ListBucketVersions", fault)) as simple:
        _has_one_object(simple, bucket)
    with through(s3, fault, ("GET",)) as simple, pytest.raises(NotOffered, match="ListMultipartUploads"):
        unended_uploads(simple, bucket, "of", datetime.now(UTC))


def test_a_folder_has_no_versions(file_store: StoreOptions) -> None:
    put(Bucket(file_store, "archive"), "of/logs/a", NEW)
    _has_one_object(file_store, "archive")


def _has_one_object(store: StoreOptions, bucket: str) -> None:
    (one,) = list_versions(store, bucket, "of/logs")
    assert one == ObjectVersion("of/logs/a", None, is_delete_marker=False, size=len(NEW))
    assert get_version(store, bucket, one.key, one.version_id) == NEW
    delete_versions(store, bucket, "of/logs")
    assert list(list_versions(store, bucket, "of/logs")) == []


def test_a_web_page_is_no_list_of_versions(s3: StoreOptions, bucket: str) -> None:
    def page(request: Handler) -> None:
        request.reply(200, {"Content-Type": "text/html"}, b"<html>Welcome</html>")

    with through(s3, page) as console, pytest.raises(StoreError, match="does not answer as an S3 endpoint"):
        list(list_versions(console, bucket, ""))


def test_a_list_that_does_not_go_on_is_an_error(s3: StoreOptions, versioned: str) -> None:
    """It would else be taken for the whole, or asked for ever."""

    def again(request: Handler) -> None:
        status, headers, content = request.forward()
        headers.pop("Content-Length", None)
        request.reply(status, headers, content.replace(b"<IsTruncated>false", b"<IsTruncated>true"))

    with through(s3, again) as stuck, pytest.raises(StoreError, match="does not go on"):
        list(list_versions(stuck, versioned, ""))
