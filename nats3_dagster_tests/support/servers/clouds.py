"""Real servers that speak as the clouds do: Azurite and fake-gcs-server, which `make cloud-stores` installs, and the S3
gateway of `make object-lock-store`, and SeaweedFS where it is on the search path."""

import base64
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trustme

from nats3_dagster.dev.process import answers, free_port
from nats3_dagster.errors import StoreError
from nats3_dagster.objects import StoreOptions, create_bucket
from nats3_dagster_tests.support.waiting import eventually

FOLDER, BIN = (Path(__file__).parents[3] / ".nats3" / name for name in ("clouds", "bin"))
ACCOUNT, KEY = "archiver", base64.b64encode(b"a key of thirty-two characters!!").decode()


def _program(name: str, path: Path, target: str = "cloud-stores") -> str:
    """The server's path. Without one the test is skipped by its name."""
    found = shutil.which(name, path=f"{path}{os.pathsep}{os.environ['PATH']}")
    if not found:
        pytest.skip(f"needs {name}: make {target}")
    return found


@contextmanager
def azurite(folder: Path, certificate: trustme.LeafCert | None = None) -> Iterator[dict[str, str]]:
    """Azurite, and the variables that lead to it. With a certificate it speaks TLS and takes tokens, and the variables
    have no key."""
    program, port = _program("azurite-blob", FOLDER / "node_modules/.bin"), free_port()
    command = [program, "--blobPort", str(port), "--location", folder, "--silent", "--skipApiVersionCheck"]
    environment = {**os.environ, "AZURITE_ACCOUNTS": f"{ACCOUNT}:{KEY}"}
    if certificate:
        certificate.private_key_pem.write_to_path(folder / "key.pem")
        certificate.cert_chain_pems[0].write_to_path(folder / "cert.pem")
        command += ["--oauth", "basic", "--cert", folder / "cert.pem", "--key", folder / "key.pem"]
    with _running([*command, "--disableTelemetry"], port, environment):
        if certificate:
            endpoint = f"https://127.0.0.1:{port}/{ACCOUNT}"
            yield {"AZURE_STORAGE_ACCOUNT": ACCOUNT, "AZURE_STORAGE_SERVICE_ENDPOINT": endpoint}
            return
        url = f"http://127.0.0.1:{port}/{ACCOUNT}"
        yield {
            "AZURE_STORAGE_CONNECTION_STRING": f"DefaultEndpointsProtocol=http;AccountName={ACCOUNT};"
            f"AccountKey={KEY};BlobEndpoint={url};"
        }


@contextmanager
def fake_gcs(folder: Path) -> Iterator[dict[str, str]]:
    """fake-gcs-server, and the variable that leads to it."""
    program, port = _program("fake-gcs-server", FOLDER), free_port()
    url = f"http://127.0.0.1:{port}"
    command = [program, "-scheme", "http", "-host", "127.0.0.1", "-port", str(port), "-backend", "memory"]
    command += ["-external-url", url, "-public-host", f"127.0.0.1:{port}", "-filesystem-root", str(folder)]
    with _running(command, port, {**os.environ}):
        yield {"STORAGE_EMULATOR_HOST": url}


@contextmanager
def versitygw(folder: Path) -> Iterator[StoreOptions]:
    """versitygw, an S3 gateway with versions and Object Lock before a folder."""
    program, port = _program("versitygw", BIN, "object-lock-store"), free_port()
    objects, old, metadata = (folder / name for name in ("objects", "versions", "metadata"))
    for made in (objects, old, metadata):
        made.mkdir(parents=True)
    user, secret = "me", "sixteen-letters!"
    command = [program, "--port", f"127.0.0.1:{port}", "--quiet", "posix", "--sidecar", str(metadata)]
    environment = {**os.environ, "ROOT_ACCESS_KEY_ID": user, "ROOT_SECRET_ACCESS_KEY": secret}
    with _running([*command, "--versioning-dir", str(old), str(objects)], port, environment):
        yield StoreOptions(endpoint=f"http://127.0.0.1:{port}", access_key_id=user, secret_access_key=secret)


@contextmanager
def seaweedfs(folder: Path) -> Iterator[StoreOptions]:
    """SeaweedFS as compose.yaml starts it, on ports of its own."""
    program = _program("weed", BIN, "a release of SeaweedFS on the search path")
    folder.mkdir(parents=True)
    user, secret, port = "me", "sixteen-letters!", free_port()
    ports = [f"-s3.port={port}", "-s3.port.iceberg=0", "-s3.port.lance=0", "-admin.port.legacy=0"]
    ports += [f"-{name}.port.grpc={free_port()}" for name in ("s3", "master", "filer", "volume", "admin")]
    ports += [f"-{name}.port={free_port()}" for name in ("master", "filer", "volume", "admin")]
    command = [program, "mini", f"-dir={folder}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1"]
    environment = {**os.environ, "AWS_ACCESS_KEY_ID": user, "AWS_SECRET_ACCESS_KEY": secret}
    with _running([*command, "-webdav=false", "-admin.ui=false", *ports], port, environment):
        options = StoreOptions(endpoint=f"http://127.0.0.1:{port}", access_key_id=user, secret_access_key=secret)
        # It answers before it can create.
        eventually(lambda: _creates(options), "weed creates a bucket")
        yield options


def _creates(options: StoreOptions) -> bool:
    try:
        return create_bucket(options, "ready")
    except StoreError:
        return False


@contextmanager
def careless_gcs() -> Iterator[dict[str, str]]:
    """gcp-storage-emulator, which overwrites where an upload is create-only, and the variable that leads to it."""
    program, port = Path(sys.executable).with_name("gcp-storage-emulator"), free_port()
    command = [str(program), "start", "--host", "127.0.0.1", "--port", str(port), "--in-memory"]
    with _running(command, port, {**os.environ}):
        yield {"STORAGE_EMULATOR_HOST": f"http://127.0.0.1:{port}"}


@contextmanager
def _running(command: list[str], port: int, environment: dict[str, str]) -> Iterator[None]:
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            eventually(lambda: answers(port), f"{Path(command[0]).name} answers")
            yield
        finally:
            server.terminate()
