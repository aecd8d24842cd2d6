"""Logins of the other clouds, as their SDKs find them and renew them: identities of machines and pods, and files.

Azurite takes tokens by TLS alone. Nothing here that stands for Google's store looks at a login."""

import json
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import jwt
import pytest
import trustme
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from nats3_dagster.errors import Nats3Error
from nats3_dagster.objects import Bucket, StoreOptions, create_bucket, identity
from nats3_dagster_tests.support.servers import clouds
from nats3_dagster_tests.support.servers.answering import Request, answering

DATA = b"x" * 100


class Tokens:
    """The identity service of a machine of Azure, or of one of Google, on loopback."""

    def __init__(self) -> None:
        self.asked: list[dict[str, str]] = []
        self.place = ""

    def answer(self, request: Request) -> None:
        self.asked.append(dict(parse_qsl(urlsplit(request.path).query)) | dict(request.headers))
        if request.path.startswith("/azure"):
            body = json.dumps(self.of_azure())
        elif "token" in request.path:
            body = json.dumps({"access_token": "t", "expires_in": 3600, "token_type": "Bearer"})
        elif "service-accounts" in request.path:
            body = json.dumps({"email": "pod@p.iam.gserviceaccount.com", "scopes": [], "aliases": ["default"]})
        else:
            body = "googleapis.com" if "universe" in request.path else "p"
        kind = "application/json" if body.startswith("{") else "text/plain"
        request.answer(body.encode(), {"Metadata-Flavor": "Google", "Content-Type": kind})

    def of_azure(self) -> dict[str, str]:
        """A token that ends in a minute: the SDK renews what ends in five."""
        now = int(time.time())
        claims = {"aud": "https://storage.azure.com", "iss": "https://sts.windows.net/t/", "oid": "o", "tid": "t"}
        token = jwt.encode(claims | {"iat": now - 9, "nbf": now - 9, "exp": now + 60}, "k" * 32, "HS256")
        return {"access_token": token, "expires_on": str(now + 60), "resource": claims["aud"], "token_type": "Bearer"}


@pytest.fixture
def tokens() -> Iterator[Tokens]:
    running = Tokens()
    with answering(running.answer) as running.place:
        yield running


def test_a_managed_identity_of_azure_is_asked_again_before_it_ends(
    tokens: Tokens, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    (tmp_path / "azurite").mkdir()
    with clouds.azurite(tmp_path / "azurite", authority.issue_cert("127.0.0.1")) as variables:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(tmp_path / "ca.pem"))
        monkeypatch.setenv("IDENTITY_ENDPOINT", f"http://{tokens.place}/azure")
        monkeypatch.setenv("IDENTITY_HEADER", "of the machine")
        store = StoreOptions(cloud="az")
        assert identity(store) == f"the identity that Azure's SDK finds, for account {clouds.ACCOUNT}"
        create_bucket(store, name := f"test-{uuid.uuid4().hex[:12]}")
        assert tokens.asked[0]["resource"] == "https://storage.azure.com"
        assert tokens.asked[0]["X-IDENTITY-HEADER"] == "of the machine"
        bucket, before = Bucket(store, name), len(tokens.asked)
        assert bucket.create("a", DATA)
        assert bytes(bucket.get("a")) == DATA
        assert len(tokens.asked) > before


_IDENTITY = """
from nats3_dagster.objects import StoreOptions, identity
print(identity(StoreOptions(cloud="gs")))
"""


def test_the_logins_that_google_has(tokens: Tokens, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = StoreOptions(cloud="gs")
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("GCE_METADATA_HOST", "GCE_METADATA_IP"):  # the SDK reads them when it is imported
        monkeypatch.setenv(name, tokens.place)
    command = [sys.executable, "-c", _IDENTITY]
    said = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout.strip()
    assert said == "the service account of this machine or pod"
    assert {name.lower(): value for name, value in tokens.asked[0].items()}["metadata-flavor"] == "Google"
    key = rsa.generate_private_key(65537, 2048).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    files = {
        "the key file of service account me@p.iam.gserviceaccount.com": {
            "type": "service_account",
            "client_email": "me@p.iam.gserviceaccount.com",
            "private_key": key.decode(),
            "token_uri": "http://127.0.0.1:9/",
        },
        "a user's login": {"type": "authorized_user", "client_id": "c", "client_secret": "s", "refresh_token": "r"},
        "workload identity federation": {
            "type": "external_account",
            "audience": "//iam.googleapis.com/locations/global/workforcePools/p/providers/q",
            "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
            "token_url": "https://sts.googleapis.com/v1/token",
            "credential_source": {"file": str(tmp_path / "token")},
        },
    }
    for number, (words, content) in enumerate(files.items()):
        (file := tmp_path / f"{number}.json").write_text(json.dumps(content))
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(file))
        assert identity(store) == words
    (bad := tmp_path / "bad.json").write_text(json.dumps(next(iter(files.values())) | {"private_key": "k"}))
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(bad))
    with pytest.raises(Nats3Error, match="login") as caught:
        identity(store)
    assert caught.value.hint
