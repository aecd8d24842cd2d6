"""The place where a tool works: the same servers and the same stream for each, and a folder and a bucket of its own."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nats3_dagster.dev.postgres import Postgres
from nats3_dagster.dev.s3.server import S3Server
from nats3_dagster_tests.peers.meter import Meter, ServerPids
from nats3_dagster_tests.support.s3_client import plain_client
from nats3_dagster_tests.support.wire import Wire

STREAM, PREFIX = "BENCH", "bench.in."


@dataclass(frozen=True)
class Place:
    """One trial of one tool."""

    # Its own, empty. Backups and files of a tool are stored here.
    folder: Path
    # Its own name, for streams, subjects, databases and archives: letters and digits.
    name: str
    # The server that has the stream, and an empty one for restores that keep the stream's name.
    source_url: str
    target_url: str
    postgres: Postgres
    s3: S3Server
    pids: ServerPids
    # Messages in the stream.
    messages: int
    # The longest that one command may take, in seconds.
    limit_s: float

    @property
    def bucket(self) -> str:
        return f"peers-{self.name}"

    @property
    def back(self) -> str:
        """The stream that a replay fills."""
        return f"BACK{self.name}"

    @property
    def back_prefix(self) -> str:
        """The subjects of a replay begin with it."""
        return f"back.{self.name}."

    @property
    def plain_environment(self) -> dict[str, str]:
        """The environment of a program that is none of ours: no settings of this process or its user."""
        (temporary := self.folder / "tmp").mkdir(exist_ok=True)
        return {"PATH": os.environ["PATH"], "HOME": str(self.folder), "TMPDIR": str(temporary), "LANG": "C.UTF-8"}

    def run(self, *argv: str, environment: Mapping[str, str] | None = None) -> Meter:
        """A meter for this command; its output is in the folder."""
        chosen = self.plain_environment if environment is None else environment
        return Meter(self.pids, argv, chosen, self.folder / "output.log")

    def consumer(self, name: str) -> dict[str, Any]:
        """The state of a consumer of the stream; empty where it has none of this name."""
        with Wire(self.source_url) as wire:
            answer = wire.try_api(f"CONSUMER.INFO.{STREAM}.{name}")
        return {} if "error" in answer else answer

    def stored_bytes(self) -> int:
        """Bytes of all objects in the bucket."""
        return sum(size for _, size in self._objects())

    def clear(self) -> None:
        """Removes the objects of the bucket: the next trial has the disk and the store as this one had them."""
        client = plain_client(self.s3.options)
        for key, _ in self._objects():
            client.delete_object(Bucket=self.bucket, Key=key)

    def _objects(self) -> Iterator[tuple[str, int]]:
        """Yields key and size of each object; nothing where the bucket was not made."""
        client = plain_client(self.s3.options)
        if self.bucket not in (bucket["Name"] for bucket in client.list_buckets()["Buckets"]):
            return
        for page in client.get_paginator("list_objects_v2").paginate(Bucket=self.bucket):
            yield from ((entry["Key"], entry["Size"]) for entry in page.get("Contents", ()))


def folder_bytes(folder: Path) -> int:
    """Bytes of all files under a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
