"""`nats stream backup` into a folder, and `nats stream restore` on an empty server: a restore keeps the stream's name.

Both names of these commands work in nats 0.5: `nats backup stream` is the newer one.
"""

from collections.abc import Iterator

from nats3_dagster_tests.peers.deliveries import stream_messages
from nats3_dagster_tests.peers.meter import Usage
from nats3_dagster_tests.peers.place import PREFIX, STREAM, Place, folder_bytes
from nats3_dagster_tests.peers.tool import first_line


class NatsBackup:
    name = "nats-backup"
    program = "nats"
    can_replay = True

    def version(self) -> str:
        return f"nats {first_line(self.program, '--version')}"

    def prepare(self, place: Place) -> None:
        pass

    def archive(self, place: Place) -> Usage:
        words = ["stream", "backup", STREAM, str(place.folder / "backup"), "--no-progress"]
        with place.run(self.program, "--server", place.source_url, *words) as meter:
            return meter.wait(place.limit_s)

    def stored_bytes(self, place: Place) -> int:
        return folder_bytes(place.folder / "backup")

    def replay(self, place: Place) -> Usage:
        words = ["stream", "restore", str(place.folder / "backup"), "--no-progress"]
        with place.run(self.program, "--server", place.target_url, *words) as meter:
            return meter.wait(place.limit_s)

    def returned(self, place: Place) -> tuple[Iterator[tuple[str, bytes]], str]:
        return stream_messages(place.target_url, STREAM), PREFIX
