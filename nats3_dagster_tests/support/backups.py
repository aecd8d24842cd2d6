"""Backups in folders, taken and restored over the JetStream API as the `nats` command does it."""

import asyncio
import json
from pathlib import Path
from typing import Any

import nats

# Bytes of a part, as the command sends them.
_PART = 64 << 10


def take_backup(url: str, stream: str, folder: Path, file: str = "stream.tar.s2", **asked: Any) -> dict[str, Any]:
    """Write the backup of a stream; its `backup.json`."""
    return asyncio.run(_take(url, stream, folder, file, asked))


def restore_backup(url: str, folder: Path, **config: Any) -> dict[str, Any]:
    """Restore the folder; the server's last answer. `config` is added to the configuration."""
    return asyncio.run(_restore(url, folder, config))


async def _take(url: str, stream: str, folder: Path, file: str, asked: dict[str, Any]) -> dict[str, Any]:
    client = await nats.connect(url)
    try:
        inbox = client.new_inbox()
        parts = await client.subscribe(inbox, pending_msgs_limit=-1, pending_bytes_limit=-1)
        request = {"deliver_subject": inbox, "chunk_size": 128 << 10, **asked}
        answer = await client.request(f"$JS.API.STREAM.SNAPSHOT.{stream}", json.dumps(request).encode(), timeout=10)
        described = json.loads(answer.data)
        assert "error" not in described, described
        folder.mkdir(parents=True)
        with (folder / file).open("wb") as out:
            while data := (part := await parts.next_msg(timeout=20)).data:
                if part.reply:
                    await part.respond(b"")
                out.write(data)
        assert "204" in (part.headers or {}).get("Status", "204"), part.headers
        meta = {"config": described["config"], "state": described["state"]}
        (folder / "backup.json").write_text(json.dumps(meta, indent=2))
        return meta
    finally:
        await client.close()


async def _restore(url: str, folder: Path, config: dict[str, Any]) -> dict[str, Any]:
    client = await nats.connect(url)
    try:
        meta = json.loads((folder / "backup.json").read_text())
        meta["config"] |= config
        name = meta["config"]["name"]
        body = json.dumps({"config": meta["config"], "state": meta["state"]}).encode()
        begun = json.loads((await client.request(f"$JS.API.STREAM.RESTORE.{name}", body, timeout=10)).data)
        assert "error" not in begun, begun
        (file,) = {*folder.iterdir()} - {folder / "backup.json"}
        with file.open("rb") as parts:
            while part := parts.read(_PART):
                answer = (await client.request(begun["deliver_subject"], part, timeout=20)).data
                assert not answer, answer
        ended = json.loads((await client.request(begun["deliver_subject"], b"", timeout=60)).data)
        assert "error" not in ended, ended
        return ended
    finally:
        await client.close()
