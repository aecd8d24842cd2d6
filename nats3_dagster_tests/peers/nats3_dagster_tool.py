"""nats3-dagster: `nats3 store run`, and `nats3 load create` or `nats3 stream restore`."""

import os
import subprocess
import sys
from collections.abc import Iterator

from nats3_dagster_tests.peers.deliveries import stream_messages
from nats3_dagster_tests.peers.meter import PeerError, Usage
from nats3_dagster_tests.peers.place import PREFIX, STREAM, Place
from nats3_dagster_tests.peers.tool import first_line

NATS3 = (sys.executable, "-m", "nats3_dagster.cli")


class Nats3Dagster:
    """An archive and its replay under other subjects, both as one command."""

    name = "nats3-dagster"
    program = ""
    can_replay = True

    def version(self) -> str:
        return first_line(*NATS3, "--version")

    def prepare(self, place: Place) -> None:
        words = ["--name", place.name, "--stream", STREAM, "--bucket", place.bucket, "--create-bucket"]
        done = subprocess.run(
            [*NATS3, "store", "create", *words],
            capture_output=True,
            text=True,
            env=self._environment(place, place.source_url),
            timeout=place.limit_s,
            check=False,
        )
        if done.returncode:
            raise PeerError(f"nats3 store create: {done.stderr.strip()}")

    def archive(self, place: Place) -> Usage:
        return self._run(place, "store", "run", place.name)

    def stored_bytes(self, place: Place) -> int:
        return place.stored_bytes()

    def replay(self, place: Place) -> Usage:
        subjects = ["--read-subject", f"{PREFIX}>", "--write-subject", f"{place.back_prefix}>"]
        return self._run(place, "load", "create", "--archive", place.name, *subjects, "--create-stream", place.back)

    def returned(self, place: Place) -> tuple[Iterator[tuple[str, bytes]], str]:
        return stream_messages(place.source_url, place.back), place.back_prefix

    def _run(self, place: Place, *words: str, url: str = "") -> Usage:
        environment = self._environment(place, url or place.source_url)
        with place.run(*NATS3, *words, environment=environment) as meter:
            return meter.wait(place.limit_s)

    def _environment(self, place: Place, url: str) -> dict[str, str]:
        """The environment of this process, which names the servers, with a home of the trial's own."""
        home = {"NATS3_HOME": str(place.folder), "DAGSTER_HOME": str(place.folder), "NATS3_NATS_URL": url}
        return {**os.environ, **home, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}


class Nats3DagsterRestore(Nats3Dagster):
    """The same archive, and a stream made from it with its sequences and times, on the empty server. It compares every
    message by itself as well."""

    name = "nats3-dagster-restore"

    def replay(self, place: Place) -> Usage:
        return self._run(place, "stream", "restore", place.name, url=place.target_url)

    def returned(self, place: Place) -> tuple[Iterator[tuple[str, bytes]], str]:
        return stream_messages(place.target_url, STREAM), PREFIX
