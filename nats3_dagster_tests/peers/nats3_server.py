"""nats3-server of nats-s3-connector: a store job and a load job over HTTP, as its README shows.

The store job never ends. It is over when its consumer has nothing left to deliver and to acknowledge. Messages that do
not fill a batch wait for its timer of 10 s. A pause stores them at once, so the job is paused when all are delivered.
A load job publishes under one subject, whatever the subjects were.
"""

import json
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

from nats3_dagster.dev.process import answers, free_port, wait_for
from nats3_dagster.objects import create_bucket
from nats3_dagster_tests.peers.deliveries import stream_messages
from nats3_dagster_tests.peers.meter import Meter, PeerError, Usage
from nats3_dagster_tests.peers.place import PREFIX, STREAM, Place
from nats3_dagster_tests.peers.tool import first_line
from nats3_dagster_tests.support.wire import Wire

SUBJECT = f"{PREFIX}>"
# It names its consumer by the subject.
CONSUMER = SUBJECT.replace(".", "_").replace(">", "_")
LOOK_S = 0.1
# Looks without a change after a pause.
RESUMED_AFTER = 50


class Nats3Server:
    program = "nats3-server"
    can_replay = True

    def __init__(self, name: str, batch: dict[str, int]) -> None:
        self.name = name
        # The limits of a chunk; empty: its defaults.
        self._batch = batch

    def version(self) -> str:
        return first_line(self.program, "--version")

    def prepare(self, place: Place) -> None:
        create_bucket(place.s3.options, place.bucket)
        place.postgres.create_database(place.name)
        with Wire(place.source_url) as wire:
            wire.try_api(f"CONSUMER.DELETE.{STREAM}.{CONSUMER}")
            wire.create_stream(place.back, f"{place.back_prefix}>")

    def archive(self, place: Place) -> Usage:
        with self._server(place) as (meter, url):
            body = {"name": "peers", "stream": STREAM, "subject": SUBJECT, "bucket": place.bucket}
            job = _call("POST", f"{url}/store/job", body | {"batch": self._batch, "encoding": {}})
            job_url = f"{url}/store/job?job_id={job['id']}"
            looks = Looks()

            def is_stored() -> bool:
                _expect_running(meter, job_url)
                if step := looks.next_step(place.consumer(CONSUMER)):
                    _call("POST", f"{url}/store/job/{step}?job_id={job['id']}")
                return looks.is_over

            _wait(is_stored, place, f"{self.program} did not store every message")
            return meter.finish()

    def stored_bytes(self, place: Place) -> int:
        return place.stored_bytes()

    def replay(self, place: Place) -> Usage:
        with self._server(place) as (meter, url):
            body = {"name": "peers", "bucket": place.bucket, "read_stream": STREAM, "read_subject": SUBJECT}
            more = {"write_subject": f"{place.back_prefix}all", "delete_chunks": False}
            job = _call("POST", f"{url}/load/job", body | more)
            job_url = f"{url}/load/job?job_id={job['id']}"
            _wait(lambda: _expect_running(meter, job_url) == "Success", place, f"{self.program} did not load")
            return meter.finish()

    def returned(self, place: Place) -> tuple[Iterator[tuple[str, bytes]], str]:
        return stream_messages(place.source_url, place.back), place.back_prefix

    def _server(self, place: Place) -> "_Server":
        return _Server(self.program, place)


class Looks:
    """What was seen of the consumer of a store job, and what follows."""

    def __init__(self) -> None:
        self._counts = (-1, -1)
        self._unchanged = 0
        self._is_paused = False

    @property
    def is_over(self) -> bool:
        return self._counts == (0, 0)

    def next_step(self, consumer: dict[str, Any]) -> str:
        """Takes the state of the consumer, empty before there is one. Returns `pause`, `resume` or nothing."""
        counts = (consumer.get("num_pending", -1), consumer.get("num_ack_pending", -1))
        self._unchanged = self._unchanged + 1 if counts == self._counts else 0
        self._counts = counts
        if counts[0] or self.is_over:
            return ""
        if not self._is_paused and self._unchanged:
            self._is_paused, self._unchanged = True, 0
            return "pause"
        if self._is_paused and self._unchanged == RESUMED_AFTER:
            # Messages had reached it and not its buffer: they are delivered once more.
            self._is_paused, self._unchanged = False, 0
            return "resume"
        return ""


class _Server:
    """A running server: its meter, and the address of its API."""

    def __init__(self, program: str, place: Place) -> None:
        self._place, self._port = place, free_port()
        file = place.folder / "nats3.toml"
        file.write_text(configuration(place, self._port))
        self._meter = place.run(program, "--config", str(file))

    def __enter__(self) -> tuple[Meter, str]:
        meter = self._meter.__enter__()

        def is_up() -> bool:
            if meter.process.poll() is not None:
                raise PeerError(f"nats3-server ended by itself: {meter.last_line()}")
            return answers(self._port)

        try:
            _wait(is_up, self._place, "nats3-server does not answer")
        except PeerError:
            self._meter.__exit__(None, None, None)
            raise
        return meter, f"http://127.0.0.1:{self._port}/api/v1"

    def __exit__(self, *of_error: Any) -> None:
        self._meter.__exit__(*of_error)


def configuration(place: Place, port: int) -> str:
    """Returns the text of its configuration file."""
    sections = {
        "server": {"addr": f"127.0.0.1:{port}"},
        "nats": {"url": place.source_url},
        "postgres": {"url": place.postgres.url(place.name), "migrate": True},
        "s3": {
            "region": place.s3.region,
            "endpoint": place.s3.endpoint,
            "access": place.s3.access_key,
            "secret": place.s3.secret_key,
        },
    }
    lines = ['log = "warn"']
    for section, values in sections.items():
        lines += [f"[{section}]", *(f"{key} = {json.dumps(value)}" for key, value in values.items())]
    return "\n".join(lines) + "\n"


def _expect_running(meter: Meter, job_url: str) -> str:
    """Returns the state of a job. Raises PeerError if the server has ended or the job has failed."""
    if meter.process.poll() is not None:
        raise PeerError(f"nats3-server ended by itself: {meter.last_line()}")
    state = _call("GET", job_url)["status"]
    if state == "Failure":
        raise PeerError(f"the job of nats3-server has failed: {meter.last_line()}")
    return state


def _call(method: str, url: str, body: dict[str, Any] | None = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)
    except (OSError, ValueError) as error:
        raise PeerError(f"{method} {url}: {error}") from None


def _wait(condition: Callable[[], bool], place: Place, otherwise: str) -> None:
    if not wait_for(condition, place.limit_s, every_s=LOOK_S):
        raise PeerError(f"{otherwise} within {place.limit_s:g} s")
