"""An account of 40 streams, archived by one rule while clients write, destroyed, and restored as of a moment in the
middle; the `nats` command looks at it too, where it is there. `make account` does the same with a million messages and
objects of 64 MB, and says how long each step takes."""

import os
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from nats3_dagster.archive.account_restore.plan import plan
from nats3_dagster.archive.account_restore.run import run
from nats3_dagster.archive.account_restore.spec import AccountRestoreSpec
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.conftest import NatsFactory
from nats3_dagster_tests.support import account_day
from nats3_dagster_tests.support.account_day import DERIVED, INTERESTS, QUEUES, Day, consumers, digests
from nats3_dagster_tests.support.accounts import capture_all, make_rule, moment, tick
from nats3_dagster_tests.support.waiting import eventually
from nats3_dagster_tests.support.wire import Wire

pytestmark = pytest.mark.needs_nats("2.15")
MESSAGES = int(os.environ.get("MESSAGES", "2000"))
OBJECT_BYTES = int(os.environ.get("OBJECT_MB", "1")) << 20


@contextmanager
def timed(what: str) -> Iterator[None]:
    began = time.monotonic()
    yield
    print(f"{what}: {time.monotonic() - began:.1f} s")


def test_an_account_as_of_a_moment_in_the_middle(workspace: Workspace, bucket: str, nats_factory: NatsFactory) -> None:
    server = nats_factory()
    settings = workspace.settings.model_copy(update={"nats_url": server.url})
    with Workspace(settings) as there, Wire(server.url) as wire:
        day = Day(server.url, MESSAGES, OBJECT_BYTES)
        day.make(wire)
        # Before the first messages: what the consumers of an interest stream have acknowledged is gone.
        make_rule(there, bucket, take_queues=True)
        capture_all(there, wire)
        with timed("clients wrote"):
            day.write(wire, 0)
        writer = threading.Thread(target=_write, args=(server.url,))
        writer.start()
        with timed("captured while clients wrote"):
            capture_all(there, wire)
        writer.join()
        with timed("captured the rest"):
            day.write(wire, 1)
            for name in DERIVED:
                wire.quiet(name, 0.3)
            kept = [name for name in wire.api("STREAM.NAMES")["streams"] if name not in QUEUES + INTERESTS]
            capture_all(there, wire)
        to_ns, _ = moment()
        with timed("looked at all messages"):
            before = {name: digests(wire, name) for name in kept}
        seen, stood = day.read(), consumers(wire)
        day.write(wire, 2)
        wire.create_stream("LATER", "later.>")
        wire.publish([("later.x", b"", b"x")])
        tick(there)
        with timed("captured what came after the moment"):
            capture_all(there, wire)
        assert len(kept) + len(QUEUES) + len(INTERESTS) == 40

        for name in wire.api("STREAM.NAMES")["streams"]:
            wire.api(f"STREAM.DELETE.{name}")
        tick(there)

        with timed("planned the restore"):
            planned = plan(there, AccountRestoreSpec("all", to_ns=to_ns))
        left_out = [one.stream for one in planned.streams if one.action == "left_out"]
        assert (planned.refusal, left_out) == (None, ["LATER"])
        with timed(f"restored {sum(one.messages for one in planned.streams):,} messages"):
            done = run(there, planned)
        assert {one.one.stream: one.error for one in done if one.error} == {}
        assert wire.api("STREAM.NAMES")["total"] == 40
        for name in (name for name in kept if name not in DERIVED):
            now = digests(wire, name)
            assert {seq: now.get(seq) for seq in before[name]} == before[name], name
            # An object that is put again deletes the chunks of the one before, which are in the archive.
            assert name.startswith("OBJ_") or len(now) == len(before[name]), name
        for name, origin in (("MIRROR_BIG", "BIG"), ("MIRROR_KV", "KV_users"), ("MIRROR_LIM", "LIM_00")):
            assert digests(wire, name) == digests(wire, origin), name
        for name in ("SUM", "SUM_FILTERED"):
            # Filled by the server: as many, and not at the same times.
            assert wire.state(name)["messages"] == len(before[name])
        assert day.read() == seen
        assert consumers(wire) == stood
        if nats_command := shutil.which("nats"):
            asked = [nats_command, "--server", server.url, "kv", "get", "settings", "b.c", "--raw"]
            answer = subprocess.run(asked, capture_output=True, timeout=60, check=True).stdout
            assert answer.strip() == seen["settings b.c"][1]
        # The clients go on.
        day.write(wire, 3)
        eventually(lambda: wire.state("MIRROR_BIG")["last_seq"] == wire.state("BIG")["last_seq"], "mirrors go on")
        assert day.read() != seen


def _write(url: str) -> None:
    with Wire(url) as wire:
        for n in range(40):
            names = (*account_day.PLAIN[1:], "BIG")
            wire.publish((f"{name.lower()}.{n % 4}", b"", b"beside %d" % n) for name in names)
            time.sleep(0.02)
