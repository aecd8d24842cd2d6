"""jet-capture: a Go library. Its sample application `jet-capture-ndjson` (`make build` there) writes whole messages as
lines of JSON into a folder, and has no way back: what came back is what its files hold.

It reads through a durable consumer that must be there. This one has no limit of outstanding acknowledgements: then the
application stores and acknowledges what it has when a second passes without a message. That second is in its time. It
is not asked to end before: it would drop what it has received and not yet looked at.
"""

import base64
import gzip
import json
from collections.abc import Iterable, Iterator
from pathlib import Path

from nats3_dagster.dev.process import wait_for
from nats3_dagster_tests.peers.meter import PeerError, Usage
from nats3_dagster_tests.peers.place import PREFIX, STREAM, Place, folder_bytes
from nats3_dagster_tests.support.wire import Wire

CONSUMER = "jetcapture"
# Messages of one request. The application asks for as many as the consumer allows.
BATCH = 1000


class JetCapture:
    program = "jet-capture-ndjson"
    can_replay = False

    def __init__(self, name: str, compression: str) -> None:
        self.name = name
        self._compression = compression

    def version(self) -> str:
        return "does not print its version"

    def prepare(self, place: Place) -> None:
        config = {
            "durable_name": CONSUMER,
            "ack_policy": "explicit",
            "ack_wait": 3600 * 10**9,
            "max_ack_pending": -1,
            "max_batch": BATCH,
        }
        with Wire(place.source_url) as wire:
            wire.try_api(f"CONSUMER.DELETE.{STREAM}.{CONSUMER}")
            wire.api(f"CONSUMER.CREATE.{STREAM}.{CONSUMER}", stream_name=STREAM, config=config)

    def archive(self, place: Place) -> Usage:
        output = str(place.folder / "output")
        words = ["--nats-server", place.source_url, "--stream-name", STREAM, "--consumer-name", CONSUMER]
        with place.run(self.program, *words, "--output", output, "--compression", self._compression) as meter:

            def is_stored() -> bool:
                if meter.process.poll() is not None:
                    raise PeerError(f"{self.program} ended by itself: {meter.last_line()}")
                state = place.consumer(CONSUMER)
                return (state["num_pending"], state["num_ack_pending"]) == (0, 0)

            if not wait_for(is_stored, place.limit_s, every_s=0.1):
                raise PeerError(f"{self.program} did not store every message within {place.limit_s:g} s")
            return meter.finish()

    def stored_bytes(self, place: Place) -> int:
        return folder_bytes(place.folder / "output")

    def replay(self, place: Place) -> Usage:
        raise PeerError(f"{self.program} has no replay")

    def returned(self, place: Place) -> tuple[Iterator[tuple[str, bytes]], str]:
        return file_messages(sorted((place.folder / "output").rglob("*.json*"))), PREFIX


def file_messages(files: Iterable[Path]) -> Iterator[tuple[str, bytes]]:
    """Yields subject and payload of each line of these files."""
    for file in files:
        with gzip.open(file) if file.suffix == ".gz" else file.open("rb") as lines:
            for line in lines:
                message = json.loads(line)
                yield message["subject"], base64.b64decode(message["data"])
