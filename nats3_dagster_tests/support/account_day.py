"""An account of 40 streams of every kind, its clients, and all that can be asked of it."""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import nats
from nats.js.api import ConsumerConfig, KeyValueConfig

from nats3_dagster_tests.support.wire import Wire

BUCKETS, STORES = ("settings", "users", "Cache_1", "ttl-d"), ("files", "images", "logs")
QUEUES, INTERESTS, COUNTERS = ("JOBS", "MAIL"), ("SEEN", "HEARD"), ("VISITS", "VOTES")
PLAIN = ("BIG", "Über=1+1", *(f"LIM_{n:02}" for n in range(19)))
DERIVED = ("MIRROR_BIG", "MIRROR_KV", "MIRROR_LIM", "SUM", "SUM_FILTERED")


@dataclass(slots=True)
class Day:
    """The clients of the account."""

    url: str
    # Messages of the largest stream at the beginning, and bytes of an object.
    messages: int
    object_bytes: int
    # Object and digest, by store.
    objects: dict[str, str] = field(default_factory=dict[str, str])

    def make(self, wire: Wire) -> None:
        """Make the streams and their consumers."""
        for name in PLAIN:
            wire.create_stream(name, f"{name.lower()}.>", **({"max_msgs": 10**9} if name == "LIM_03" else {}))
        wire.create_stream("EMPTY", "empty.>")
        for name in QUEUES:
            wire.create_stream(name, f"{name.lower()}.>", retention="workqueue")
        for name in INTERESTS:
            wire.create_stream(name, f"{name.lower()}.>", retention="interest")
        for name in COUNTERS:
            wire.create_stream(name, f"{name.lower()}.>", allow_msg_counter=True, allow_direct=True)
        self.run(self._make)
        for name, origin in (("MIRROR_BIG", "BIG"), ("MIRROR_KV", "KV_users"), ("MIRROR_LIM", "LIM_00")):
            wire.api(f"STREAM.CREATE.{name}", name=name, mirror={"name": origin}, storage="file")
        sources = [{"name": f"LIM_{n:02}"} for n in range(5)]
        wire.api("STREAM.CREATE.SUM", name="SUM", sources=sources)
        filtered = [{"name": "LIM_06", "filter_subject": "lim_06.1"}, {"name": "Über=1+1"}]
        wire.api("STREAM.CREATE.SUM_FILTERED", name="SUM_FILTERED", sources=filtered)

    async def _make(self, connection: Any) -> None:
        jetstream = connection.jetstream()
        for name in BUCKETS:
            ttl = 86_400.0 if name == "ttl-d" else None
            await jetstream.create_key_value(KeyValueConfig(bucket=name, history=5, ttl=ttl))
        for name in STORES:
            await jetstream.create_object_store(bucket=name)
        for stream in ("LIM_00", "LIM_01", "BIG", *INTERESTS):
            config = ConsumerConfig(durable_name=f"app_{stream}", ack_policy="explicit", ack_wait=5)  # type: ignore[arg-type]
            await jetstream.add_consumer(stream, config)

    def write(self, wire: Wire, round_: int) -> None:
        """Write into all of them, take from consumers, put keys and objects, and delete some."""
        few = 30
        for name in PLAIN:
            count = self.messages if name == "BIG" and not round_ else few
            wire.publish((f"{name.lower()}.{n % 4}", b"", b"%d %d" % (round_, n)) for n in range(count))
        for name in (*QUEUES, *INTERESTS):
            wire.publish((f"{name.lower()}.x", b"", b"%d %d" % (round_, n)) for n in range(few))
        increment = b"NATS/1.0\r\nNats-Incr: 2\r\n\r\n"
        for name in COUNTERS:
            wire.publish((f"{name.lower()}.all", increment, b"") for _ in range(5))
        # Before a capture has them.
        last = wire.state("BIG")["last_seq"]
        first = last - few if round_ else last - self.messages // 2
        for seq in range(first + 3, last, max(7, self.messages // 20)):
            wire.try_api("STREAM.MSG.DELETE.BIG", seq=seq)
        self.run(lambda connection: self._write(connection, round_))

    async def _write(self, connection: Any, round_: int) -> None:
        jetstream = connection.jetstream()
        for name in BUCKETS:
            bucket = await jetstream.key_value(name)
            for key in ("a", "b.c", "gone"):
                await bucket.put(key, b"%d of %s" % (round_, key.encode()))
            await bucket.delete("gone")
        for name in STORES:
            data = hashlib.sha256(f"{name} {round_}".encode()).digest() * (self.object_bytes // 32)
            store = await jetstream.object_store(name)
            await store.put("one", data)
        for stream in ("LIM_00", "LIM_01", "BIG", *INTERESTS):
            taken = await jetstream.pull_subscribe_bind(f"app_{stream}", stream)
            for n, message in enumerate(await taken.fetch(10, timeout=5)):
                if n % 3:
                    await message.ack_sync()

    def read(self) -> dict[str, Any]:
        """Everything that clients of buckets, stores and counters see."""
        return self.run(self._read)

    async def _read(self, connection: Any) -> dict[str, Any]:
        jetstream, found = connection.jetstream(), dict[str, Any]()
        for name in BUCKETS:
            bucket = await jetstream.key_value(name)
            for key in ("a", "b.c"):
                newest = await bucket.get(key)
                found[f"{name} {key}"] = (newest.revision, newest.value)
        for name in STORES:
            store = await jetstream.object_store(name)
            one = await store.get("one")
            found[f"{name} one"] = hashlib.sha256(one.data).hexdigest()
        for name in COUNTERS:
            message = await jetstream.get_last_msg(name, f"{name.lower()}.all")
            found[name] = message.data
        return found

    def run(self, work: Callable[[Any], Awaitable[Any]]) -> Any:
        """What `work` gives with a connection."""

        async def connected() -> Any:
            connection = await nats.connect(self.url)
            try:
                return await work(connection)
            finally:
                await connection.close()

        return asyncio.run(connected())


def digests(wire: Wire, stream: str) -> dict[int, bytes]:
    """A hash of each field that STREAM.MSG.GET gives of a message, by its sequence."""
    if not wire.state(stream)["messages"]:
        return {}
    return {
        one.seq: hashlib.blake2b(repr(tuple(one)).encode(), digest_size=8).digest() for one in wire.messages(stream)
    }


def consumers(wire: Wire) -> dict[str, Any]:
    """Where the application's consumers stand, by their names."""
    found: dict[str, Any] = {}
    for stream in ("LIM_00", "LIM_01", "BIG", *INTERESTS):
        info = wire.api(f"CONSUMER.INFO.{stream}.app_{stream}")
        found[stream] = (
            info["delivered"]["stream_seq"],
            info["ack_floor"]["stream_seq"],
            info["num_ack_pending"],
            info["num_pending"],
        )
    return found
