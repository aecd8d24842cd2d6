"""Clients of NATS that know nothing of nats3 read what deleted streams had: libraries of JavaScript, and `nats`."""

import asyncio
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from nats.aio.client import Client

from nats3_dagster.nats.serve import DomainServer
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.replays import archived
from nats3_dagster_tests.support.wire import Wire

ROOT = Path(__file__).parents[2]
CLIENTS = ROOT / ".nats3" / "clients"
PROGRAM = ROOT / "nats3_dagster_tests" / "data" / "domain_client.mjs"
pytestmark = pytest.mark.needs_nats("2.11")


@pytest.fixture
def url(workspace: Workspace, wire: Wire, bucket: str) -> Iterator[str]:
    """A domain whose streams are deleted: events, a key-value bucket, and an object store."""
    address = workspace.settings.nats.servers[0]
    wire.create_stream("EV", "ev.>")
    wire.publish((f"ev.{n % 3}", b"NATS/1.0\r\nN: 1\r\n\r\n" if n % 2 else b"", b"%d" % n) for n in range(1, 11))
    asyncio.run(_fill(address))
    for stream, name in (("EV", "events"), ("KV_settings", "settings"), ("OBJ_files", "files")):
        archived(workspace, wire, stream, bucket, name)
        wire.api(f"STREAM.DELETE.{stream}")
    with DomainServer(workspace.settings):
        yield address


async def _fill(url: str) -> None:
    client = Client()
    await client.connect(url)
    kv = await client.jetstream().create_key_value(bucket="settings", history=5)
    for value in (b"red", b"green", b"blue"):
        await kv.put("color", value)
    objects = await client.jetstream().create_object_store(bucket="files")
    await objects.put("file", b"x" * 1000)
    await client.close()


@pytest.mark.skipif(not (CLIENTS / "node_modules").is_dir(), reason="needs libraries of JavaScript: make nats-clients")
def test_the_libraries_of_javascript(url: str, tmp_path: Path) -> None:
    # Modules are looked for beside the program.
    program = tmp_path / PROGRAM.name
    program.write_text(PROGRAM.read_text())
    (tmp_path / "node_modules").symlink_to(CLIENTS / "node_modules")
    command = ["node", "--preserve-symlinks-main", str(program), url, "EV", "settings", "files"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    read: dict[str, Any] = json.loads(done.stdout)
    assert "nats3 stream restore" in read.pop("refused")
    assert read == {
        "names": ["EV", "KV_settings", "OBJ_files"],
        "messages": 10,
        "stored": "3",
        "direct": "3",
        "last": 10,
        "batch": [2, 3, 4],
        "lasts": [8, 9, 10],
        "kv": "blue",
        "revision": "red",
        "object": 1000,
    }


@pytest.mark.skipif(not (CLIENTS / "nats").is_file(), reason="needs the command nats: make nats-clients")
def test_the_command_nats(url: str, tmp_path: Path) -> None:
    def nats(*words: str) -> str:
        command = [str(CLIENTS / "nats"), "--server", url, "--js-domain", "archive", *words]
        home = os.environ | {"XDG_CONFIG_HOME": str(tmp_path), "HOME": str(tmp_path)}
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=home)
        return done.stdout + done.stderr

    assert sorted(nats("stream", "ls", "--names").split()) == ["EV", "KV_settings", "OBJ_files"]
    assert '"last_seq": 10' in nats("stream", "info", "EV", "--json")
    assert "Item: EV#3" in nats("stream", "get", "EV", "3")
    assert nats("kv", "get", "settings", "color", "--raw") == "blue"
    assert nats("kv", "get", "settings", "color", "--revision", "1", "--raw") == "red"
    assert "read only" in nats("consumer", "add", "EV", "c", "--pull", "--defaults")
    assert "nats3-archive" in nats("micro", "ls")
