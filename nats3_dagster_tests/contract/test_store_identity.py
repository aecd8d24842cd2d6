"""Who we are to the store, by the AWS SDK's ways; and how each PUT asks for the object to be kept."""

import hashlib
import json
import pickle
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from nats3_dagster.dev.s3.server import S3Server
from nats3_dagster.errors import OperatorError, StoreError
from nats3_dagster.objects import Bucket, StoreOptions, bucket_exists, create_bucket, identity, static_keys
from nats3_dagster.settings import Settings
from nats3_dagster_tests.support.servers.answering import Request, answering
from nats3_dagster_tests.support.servers.s3_proxy import Handler, S3Proxy

DATA = b"data" * 1000
SHA256 = hashlib.sha256(DATA).hexdigest()
ROLE = "arn:aws:iam::123456789012:role/archive"
KMS_KEY = "arn:aws:kms:us-east-1:123456789012:key/abcd-1234"


@pytest.fixture(autouse=True)
def aws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the SDK's files, and no others."""
    for name, file in (("AWS_CONFIG_FILE", "config"), ("AWS_SHARED_CREDENTIALS_FILE", "credentials")):
        monkeypatch.setenv(name, str(tmp_path / file))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    return tmp_path


@pytest.mark.parametrize(
    ("file", "text", "says"),
    [
        ("credentials", "aws_access_key_id = hunter2\n[default\n", "cannot read "),
        ("credentials", b"[default]\naws_access_key_id = \xff\xfe\n", "cannot read "),
        ("config", "not a file of the SDK", "cannot read "),
        ("config", "[default]\ncredential_process = echo hunter2\n", "printed no JSON object"),
        ("config", "[default]\ncredential_process = true\n", "printed no JSON object"),
        ("config", "[default]\ncredential_process = /no/such/program\n", "does not start: No such file"),
        ("config", "[default]\ncredential_process = false\n", "cannot log in: CredentialRetrievalError"),
        ("config", '[default]\ncredential_process = echo {"Version":2}\n', "cannot log in"),
        ("config", '[default]\ncredential_process = echo {"Version":1}\n', "cannot log in"),
        ("config", "[default]\ncredential_process = echo []\n", "cannot log in"),
    ],
)
def test_what_the_sdk_cannot_read_is_named(
    aws: Path, s3: StoreOptions, file: str, text: str | bytes, says: str
) -> None:
    (aws / file).write_bytes(text if isinstance(text, bytes) else text.encode())
    found = StoreOptions(endpoint=s3.endpoint)
    asks: tuple[Callable[[], object], ...] = (
        lambda: bucket_exists(found, "archive"),
        lambda: Bucket(found, "archive").head("a"),
        lambda: identity(found),
        lambda: static_keys(found),
    )
    for ask in asks:
        with pytest.raises((StoreError, OperatorError)) as caught:
            ask()
        assert says in str(caught.value)
        assert "hunter2" not in str(caught.value)


# Headers


@contextmanager
def recorded(options: StoreOptions, client: Any) -> Iterator[tuple[StoreOptions, list[dict[str, str]]]]:
    """Options that lead to the same store, and the headers of each PUT. The tests' S3 server knows no KMS and no
    storage class: the objects are stored without."""
    puts: list[dict[str, str]] = []

    def put(handler: Handler) -> None:
        puts.append({name.lower(): value for name, value in handler.headers.items()})
        bucket, _, key = unquote(urlsplit(handler.path).path).lstrip("/").partition("/")
        create = {"IfNoneMatch": "*"} if "if-none-match" in puts[-1] else {}
        stored = client.put_object(Bucket=bucket, Key=key, Body=handler.body, **create)
        handler.reply(200, {"ETag": stored["ETag"]}, b"")

    with S3Proxy(options.endpoint or "") as proxy:
        proxy.break_at(put, ("PUT",))
        yield replace(options, endpoint=proxy.endpoint), puts


@pytest.mark.parametrize(
    ("asked", "headers"),
    [
        ({}, {}),
        ({"storage_class": "GLACIER_IR"}, {"x-amz-storage-class": "GLACIER_IR"}),
        ({"sse": "AES256"}, {"x-amz-server-side-encryption": "AES256"}),
        ({"sse": "aws:kms"}, {"x-amz-server-side-encryption": "aws:kms"}),
        (
            {"sse": "aws:kms", "sse_kms_key_id": KMS_KEY, "storage_class": "STANDARD_IA"},
            {
                "x-amz-server-side-encryption": "aws:kms",
                "x-amz-server-side-encryption-aws-kms-key-id": KMS_KEY,
                "x-amz-storage-class": "STANDARD_IA",
            },
        ),
    ],
)
def test_every_put_asks_for_class_and_encryption(
    s3: StoreOptions, s3_client: Any, bucket: str, asked: dict[str, str], headers: dict[str, str]
) -> None:
    with recorded(replace(s3, **asked), s3_client) as (options, puts):
        store = Bucket(options, bucket)
        assert store.put_new("a.parquet", DATA, SHA256)
        store.put_again("a.parquet", DATA, SHA256)
        assert store.create("b.manifest.json", DATA)
    assert ["if-none-match" in put for put in puts] == [True, False, True]
    for put in puts:
        ours = {n: v for n, v in put.items() if n.startswith(("x-amz-server-side", "x-amz-storage"))}
        assert ours == headers
        # Else who stands between could take them away.
        assert all(name in put["authorization"] for name in headers)


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        ({"sse": "aws:kms"}, "does not encrypt as it is asked to: NotImplemented"),
        ({"storage_class": "GLACIER"}, "does not know the storage class. Correct or unset NATS3_S3_STORAGE_CLASS"),
    ],
)
def test_a_store_that_cannot_is_an_error(s3: StoreOptions, bucket: str, asked: dict[str, str], text: str) -> None:
    store = Bucket(replace(s3, **asked), bucket)
    with pytest.raises(StoreError) as caught:
        store.put_new("a", DATA, SHA256)
    assert text in str(caught.value)
    assert not Bucket(s3, bucket).exists("a")


# Profiles


@pytest.fixture
def profile(aws: Path, s3_server: S3Server) -> str:
    """A profile of the tests' S3 server: keys in one file, region and endpoint in the other."""
    keys = f"aws_access_key_id = {s3_server.access_key}\naws_secret_access_key = {s3_server.secret_key}\n"
    (aws / "credentials").write_text(f"[default]\naws_access_key_id = x\naws_secret_access_key = x\n[archive]\n{keys}")
    place = f"region = {s3_server.region}\nendpoint_url = {s3_server.endpoint}\n"
    (aws / "config").write_text(f"[profile archive]\n{place}")
    return "archive"


def use(options: StoreOptions) -> None:
    """Everything that we do with a bucket."""
    name = f"test-{uuid.uuid4().hex[:12]}"
    assert not bucket_exists(options, name)
    assert create_bucket(options, name)
    store = Bucket(options, name)
    assert store.put_new("a", DATA, SHA256)
    assert bytes(store.get("a")) == DATA
    assert list(store.list()) == [("a", len(DATA))]
    store.delete("a")


@pytest.mark.parametrize("variable", ["AWS_PROFILE", "NATS3_S3_PROFILE"])
def test_a_profile(
    profile: str, variable: str, monkeypatch: pytest.MonkeyPatch, s3_server: S3Server, bucket: str
) -> None:
    monkeypatch.setenv(variable, profile)
    options = Settings.load().store
    assert (options.endpoint, options.region) == (s3_server.endpoint, s3_server.region)
    use(options)
    assert identity(options) == "profile archive: shared credentials file"
    # To Spark's workers goes its name, and no key; each finds its own, without the driver's variable.
    monkeypatch.delenv(variable)
    task = pickle.dumps(options)
    assert s3_server.secret_key.encode() not in task
    program = (
        "import pickle, sys; from nats3_dagster.objects import Bucket\n"
        f"Bucket(pickle.loads(bytes.fromhex(sys.argv[1])), {bucket!r}).create('of-a-worker', b'x')"
    )
    subprocess.run([sys.executable, "-c", program, task.hex()], check=True, timeout=60)
    assert Bucket(options, bucket).exists("of-a-worker")


def test_keys_need_no_profile(s3: StoreOptions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "of-other-work")
    use(s3)


def test_a_profile_that_is_not_there(profile: str, s3: StoreOptions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "other")
    with pytest.raises(OperatorError, match="There is no AWS profile other in the SDK's files"):
        _ = Settings.load().store
    there = replace(s3, access_key_id=None, secret_access_key=None, profile="gone")
    for ask in (lambda: Bucket(there, "b").exists("a"), lambda: bucket_exists(there, "b")):
        with pytest.raises(OperatorError, match="There is no AWS profile gone"):
            ask()


# Roles: a token service and a container's service on loopback


class Service:
    """Gives the keys of the tests' S3 server to who asks, and notes what was asked."""

    def __init__(self, server: S3Server) -> None:
        self.asked: list[dict[str, str]] = []
        self.url = ""
        self._keys = {"AccessKeyId": server.access_key, "SecretAccessKey": server.secret_key}

    def answer(self, request: Request) -> None:
        if not request.body:
            self.asked.append({"Authorization": request.headers["Authorization"]})
            fields = self._keys | {"Token": "session", "Expiration": self.expiration}
            request.answer(json.dumps(fields).encode())
            return
        self.asked.append({name: values[0] for name, values in parse_qs(request.body.decode()).items()})
        fields = self._keys | {"SessionToken": "session", "Expiration": self.expiration}
        given = "".join(f"<{name}>{value}</{name}>" for name, value in fields.items())
        name = "AssumeRoleWithWebIdentity"
        request.answer(
            f'<{name}Response xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><{name}Result><Credentials>{given}'
            f"</Credentials></{name}Result></{name}Response>".encode()
        )

    @property
    def expiration(self) -> str:
        """So near that the SDK asks again at each use."""
        return (datetime.now(UTC) + timedelta(minutes=5)).strftime("%Y-%m-%dT%H:%M:%SZ")


@pytest.fixture
def service(s3_server: S3Server) -> Iterator[Service]:
    running = Service(s3_server)
    with answering(running.answer) as place:
        running.url = f"http://{place}"
        yield running


@pytest.fixture
def nameless(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings of the store without keys."""
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", s3_server.endpoint)
    monkeypatch.setenv("AWS_REGION", s3_server.region)


def test_web_identity_reads_its_token_file_again(
    nameless: None, service: Service, aws: Path, monkeypatch: pytest.MonkeyPatch, bucket: str
) -> None:
    token = aws / "token"
    token.write_text("first")
    for name, value in (
        ("AWS_ROLE_ARN", ROLE),
        ("AWS_WEB_IDENTITY_TOKEN_FILE", str(token)),
        ("AWS_ENDPOINT_URL_STS", service.url),
    ):
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(identities_module(), "_TTL", timedelta(0))
    options = Settings.load().store
    assert identity(options) == "the AWS SDK's search: a role by web identity"
    store = Bucket(options, bucket)
    assert store.create("a", DATA)
    assert {asked["WebIdentityToken"] for asked in service.asked} == {"first"}
    assert service.asked[0]["RoleArn"] == ROLE
    token.write_text("second")
    assert bytes(store.get("a")) == DATA
    assert service.asked[-1]["WebIdentityToken"] == "second"


def test_a_containers_role(nameless: None, service: Service, aws: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (aws / "authorization").write_text("of the pod")
    monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{service.url}/credentials")
    monkeypatch.setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", str(aws / "authorization"))
    options = Settings.load().store
    use(options)
    assert identity(options) == "the AWS SDK's search: the container's role"
    assert service.asked[0] == {"Authorization": "of the pod"}


def test_nobody(nameless: None) -> None:
    options = Settings.load().store
    for ask in (lambda: identity(options), lambda: Bucket(options, "b").exists("a")):
        with pytest.raises(StoreError, match="The AWS SDK finds no S3 credentials"):
            ask()


def test_credentials_are_asked_for_again_before_the_sdk_lets_them_end(
    nameless: None, service: Service, aws: Path, monkeypatch: pytest.MonkeyPatch, bucket: str
) -> None:
    """obstore asks 5 minutes before the time that it was given has passed; the SDK renews what ends in 10."""
    monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{service.url}/credentials")

    def asked_again(ttl: timedelta) -> bool:
        monkeypatch.setattr(identities_module(), "_TTL", ttl)
        store = Bucket(Settings.load().store, bucket)
        store.create("a", DATA)
        store.get("a")
        before, until = len(service.asked), time.monotonic() + 0.5
        while len(service.asked) == before and time.monotonic() < until:  # it asks once in 0.1 s at most
            store.get("a")
        return len(service.asked) > before

    ours = identities_module()._TTL
    assert timedelta(minutes=5, seconds=30) < ours < timedelta(minutes=10)
    assert not asked_again(ours)
    assert not asked_again(timedelta(minutes=5, seconds=30))
    assert asked_again(timedelta(minutes=4, seconds=30))


def identities_module() -> Any:
    return sys.modules[identity.__module__]
