"""Faults of the other clouds, from a proxy in front of servers that speak as they do: nothing is lost or made up, no
wait is without end, and each error says what to do."""

import base64
import gc
import hashlib
import json
import re
import time
import urllib.error
import urllib.request
import uuid
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from nats3_dagster.errors import AccessRefused, ObjectMissing, OperatorError, StoreError
from nats3_dagster.objects import (
    Bucket,
    StoreOptions,
    bucket_exists,
    create_bucket,
    delete_version,
    delete_versions,
    identity,
    list_versions,
)
from nats3_dagster_tests.support.servers.clouds import ACCOUNT
from nats3_dagster_tests.support.servers.s3_proxy import Handler, S3Proxy

# The SDKs leave the socket of a connection that was cut to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

DATA = b"payload" * 1000
SHA = hashlib.sha256(DATA).hexdigest()


class Cloud:
    """A new bucket behind a proxy."""

    def __init__(self, options: StoreOptions, proxy: S3Proxy) -> None:
        self.options, self.proxy = options, proxy
        self.name = f"test-{uuid.uuid4().hex[:12]}"
        assert create_bucket(options, self.name)
        self.bucket = Bucket(options, self.name)


@pytest.fixture(params=["az", "gs"])
def cloud(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cloud]:
    request.getfixturevalue(request.param)
    variable = {"az": "AZURE_STORAGE_CONNECTION_STRING", "gs": "STORAGE_EMULATOR_HOST"}[request.param]
    value = request.getfixturevalue({"az": "_azurite", "gs": "_fake_gcs"}[request.param])[variable]
    match = re.search(r"http://127\.0\.0\.1:\d+", value)
    assert match
    with S3Proxy(match[0]) as proxy:
        monkeypatch.setenv(variable, value.replace(match[0], proxy.endpoint))
        yield Cloud(StoreOptions(cloud=request.param, patience_s=2.0), proxy)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


def refuse(status: int, code: str = "") -> Callable[[Handler], None]:
    """The refusal as each cloud gives it: in XML and a header, or in JSON."""
    xml = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>no</Message></Error>".encode()
    document = json.dumps({"error": {"code": status, "errors": [{"reason": code}], "message": code}}).encode()

    def reply(request: Handler) -> None:
        if "x-ms-version" in request.headers:
            request.reply(status, {"x-ms-error-code": code, "Content-Type": "application/xml"}, xml)
        else:
            request.reply(status, {"Content-Type": "application/json"}, document)

    return reply


def lose_answer(request: Handler) -> None:
    request.forward()
    request.cut()


WRITES = ("PUT", "POST")


def test_what_passes_is_waited_for(cloud: Cloud) -> None:
    cloud.proxy.break_at(refuse(503, "ServerBusy"), (*WRITES, "GET", "HEAD"), times=3)
    assert cloud.bucket.put_new("a/b", DATA, SHA)
    cloud.proxy.break_at(refuse(503, "ServerBusy"), ("GET",), times=2)
    assert bytes(cloud.bucket.get("a/b")) == DATA
    cloud.proxy.break_at(refuse(500, "InternalError"), ("GET",), times=2)
    assert list(cloud.bucket.list()) == [("a/b", len(DATA))]
    cloud.proxy.break_at(lambda request: request.cut(), ("DELETE",), times=1)
    cloud.bucket.delete("a/b")
    assert not cloud.bucket.exists("a/b")


def test_an_upload_whose_answer_is_lost_is_there_once(cloud: Cloud) -> None:
    cloud.proxy.break_at(lose_answer, WRITES, times=1)
    cloud.bucket.put_new("a", DATA, SHA)
    assert bytes(cloud.bucket.get("a")) == DATA
    assert not cloud.bucket.create("a", b"other")
    assert bytes(cloud.bucket.get("a")) == DATA


def test_a_body_that_is_cut_is_no_object(cloud: Cloud) -> None:
    cloud.bucket.put_new("a", DATA, SHA)

    def cut(request: Handler) -> None:
        request.reply_in_part(*request.forward())

    for ask in (lambda: cloud.bucket.get("a"), lambda: cloud.bucket.get_range("a", 10, 5000)):
        cloud.proxy.break_at(cut, ("GET",), times=1)
        assert bytes(ask()) in (DATA, DATA[10:5010])
        cloud.proxy.break_at(cut, ("GET",))
        with pytest.raises(StoreError):
            ask()


@pytest.mark.parametrize(
    ("status", "code", "kind", "text"),
    [
        (403, "forbidden", AccessRefused, "does not let this login use the bucket"),
        # Without a login, as a server that stands for Google's wants it, the SDK looks for one then.
        (401, "authError", StoreError, "refuses the login|finds no login that is valid"),
        (503, "ServerBusy", StoreError, "answered 503"),
        (429, "rateLimitExceeded", StoreError, "answered 429"),
        (400, "invalid", StoreError, "answered 400"),
    ],
)
def test_a_refusal_is_an_error_and_no_answer(
    cloud: Cloud, status: int, code: str, kind: type[StoreError], text: str
) -> None:
    cloud.bucket.put_new("of/a", DATA, SHA)
    version = next(iter(list_versions(cloud.options, cloud.name, "of"))).version_id
    cloud.proxy.break_at(refuse(status, code), (*WRITES, "GET", "HEAD", "DELETE"))
    asks: list[Callable[[], Any]] = [
        lambda: cloud.bucket.put_new("of/b", DATA, SHA),
        lambda: cloud.bucket.get("of/a"),
        lambda: cloud.bucket.get_range("of/a", 0, 5),
        lambda: cloud.bucket.exists("of/a"),
        lambda: cloud.bucket.delete("of/a"),
        lambda: list(cloud.bucket.list("of")),
        lambda: cloud.bucket.folders("of"),
        lambda: bucket_exists(cloud.options, cloud.name),
        lambda: list(list_versions(cloud.options, cloud.name, "of")),
        lambda: delete_version(cloud.options, cloud.name, "of/a", version),
        lambda: delete_versions(cloud.options, cloud.name, "of"),
    ]
    # What may pass is asked for again for two seconds each.
    for ask in asks if status not in (429, 503) else (asks[0], asks[-3]):
        started = time.monotonic()
        with pytest.raises(StoreError, match=text) as caught:
            ask()
        assert caught.value.hint
        assert isinstance(caught.value, kind)
        assert not isinstance(caught.value, ObjectMissing)
        assert time.monotonic() - started < 8
    cloud.proxy.repair()
    assert list(cloud.bucket.list()) == [("of/a", len(DATA))]


@pytest.mark.parametrize("fault", ["gone", "silent"])
def test_a_cloud_that_does_not_answer_is_not_waited_for_without_end(cloud: Cloud, fault: str) -> None:
    cloud.bucket.put_new("a", DATA, SHA)
    cloud.proxy.break_at(
        (lambda request: request.cut()) if fault == "gone" else (lambda request: time.sleep(20)),
        (*WRITES, "GET", "HEAD"),
    )
    started = time.monotonic()
    with pytest.raises(StoreError, match="cannot be reached") as caught:
        cloud.bucket.get("a")
    assert time.monotonic() - started < 8
    assert "then try again" in str(caught.value.hint)


def test_what_a_policy_keeps_is_named(cloud: Cloud) -> None:
    cloud.bucket.put_new("a", DATA, SHA)
    status, code = {"az": (409, "BlobImmutableDueToPolicy"), "gs": (403, "retentionPolicyNotMet")}[
        str(cloud.options.cloud)
    ]
    cloud.proxy.break_at(refuse(status, code), ("DELETE",))
    with pytest.raises(AccessRefused, match="A retention policy or a hold"):
        cloud.bucket.delete("a")


# Logins


def test_a_key_that_azure_does_not_know(az: StoreOptions, monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    wrong = base64.b64encode(b"another key of thirty-two chars!").decode()
    url = re.search(r"BlobEndpoint=([^;]+)", os.environ["AZURE_STORAGE_CONNECTION_STRING"])
    assert url
    monkeypatch.delenv("AZURE_STORAGE_CONNECTION_STRING")
    with pytest.raises(OperatorError, match="Nothing names the storage account"):
        bucket_exists(az, "any")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT", ACCOUNT)
    monkeypatch.setenv("AZURE_STORAGE_SERVICE_ENDPOINT", url[1])
    monkeypatch.setenv("AZURE_STORAGE_KEY", wrong)
    with pytest.raises(AccessRefused, match="Azure Blob Storage (refuses the login|does not let this login)") as caught:
        bucket_exists(az, "any")
    assert wrong not in f"{caught.value}{caught.value.hint}"
    assert identity(az) == f"a key of account {ACCOUNT}"
    monkeypatch.setenv("AZURE_STORAGE_KEY", "no base64")
    with pytest.raises(StoreError):
        bucket_exists(az, "any")


@pytest.mark.parametrize("key", ["abc", "a key that was cut%"])
def test_a_key_of_azure_that_cannot_be_one(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The SDK finds it out where it signs a request, and names the account and no setting."""
    asks: tuple[Callable[[], object], ...] = (
        lambda: bucket_exists(StoreOptions(), "az://archive"),
        lambda: Bucket(StoreOptions(), "az://archive").head("a"),
        lambda: identity(StoreOptions(cloud="az")),
    )
    whole = {"AZURE_STORAGE_ACCOUNT": "me", "AZURE_STORAGE_KEY": key}
    text = f"DefaultEndpointsProtocol=https;AccountName=me;AccountKey={key};EndpointSuffix=core.windows.net"
    for variables in (whole, {"AZURE_STORAGE_CONNECTION_STRING": text}):
        with monkeypatch.context() as patched:
            for name, value in variables.items():
                patched.setenv(name, value)
            for ask in asks:
                with pytest.raises(OperatorError, match="The key of the Azure account me is not one: it is") as caught:
                    ask()
                assert key not in str(caught.value)
                assert "AZURE_STORAGE_KEY, or after AccountKey=" in str(caught.value.hint)


def test_google_without_a_login(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    store = StoreOptions(cloud="gs", patience_s=2.0)
    for ask in (lambda: bucket_exists(store, "any"), lambda: identity(store)):
        with pytest.raises(StoreError, match="finds no login that is valid") as caught:
            ask()
        assert "GOOGLE_APPLICATION_CREDENTIALS" in str(caught.value.hint)
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "none.json"))
    with pytest.raises(StoreError, match="finds no login that is valid"):
        bucket_exists(store, "any")


# Presigned URLs


def test_a_signed_url_of_azure(az: StoreOptions) -> None:
    """Azurite proves the signature."""
    create_bucket(az, name := f"test-{uuid.uuid4().hex[:12]}")
    bucket = Bucket(az, name)
    bucket.put_new("a/b c%", DATA, SHA)
    signed = bucket.sign("a/b c%", 60)
    with urllib.request.urlopen(signed.url) as answer:
        assert answer.read() == DATA
    assert signed.expires_at is not None
    assert 55 < signed.expires_at.timestamp() - time.time() < 61
    for url in (signed.url.replace("a/b%20c", "a/c"), re.sub(r"se=[^&]*", "se=2030-01-01T00%3A00%3A00Z", signed.url)):
        with pytest.raises(urllib.error.HTTPError, match="403"):
            urllib.request.urlopen(url)


def test_a_signed_url_of_google(gs: StoreOptions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server at hand does not look at the signature: the key's own public half proves it."""
    key = rsa.generate_private_key(65537, 2048)
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()
    account = {"type": "service_account", "client_email": "me@p.iam.gserviceaccount.com", "private_key": pem}
    account |= {"token_uri": "http://127.0.0.1:9/", "private_key_id": "1", "project_id": "p"}
    (tmp_path / "key.json").write_text(json.dumps(account))
    create_bucket(gs, name := f"test-{uuid.uuid4().hex[:12]}")
    Bucket(gs, name).put_new("a/b c%", DATA, SHA)
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "key.json"))
    signed = Bucket(gs, name).sign("a/b c%", 60)
    with urllib.request.urlopen(signed.url) as answer:
        assert answer.read() == DATA
    assert "X-Goog-Expires=60" in signed.url
    assert "X-Goog-Algorithm=GOOG4-RSA-SHA256" in signed.url
    assert signed.expires_at is not None
    assert 55 < signed.expires_at.timestamp() - time.time() < 61
