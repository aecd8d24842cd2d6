"""The server as a process: where it listens, how it ends, many clients at once, and Postgres killed under it."""

import signal
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx2 as httpx
import pytest

from nats3_dagster.api.serve import address
from nats3_dagster.catalog import migrate
from nats3_dagster.dev.postgres import Postgres
from nats3_dagster.errors import OperatorError
from nats3_dagster.settings import Settings
from nats3_dagster_tests.support.commands import Command
from nats3_dagster_tests.support.servers.serving import serving
from nats3_dagster_tests.support.wire import Wire


def test_a_server_ends_by_sigterm_when_it_has_answered(settings: Settings, jobs_stream: Wire, bucket: str) -> None:
    with serving() as (process, url):
        assert httpx.get(f"{url}/ping").text == "pong"
        job = {"name": "job-1", "stream": "jobs", "subject": "subjects.1", "bucket": bucket}
        host, port = url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), 10) as slow:
            body = str(job).replace("'", '"').encode()
            head = f"Host: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
            slow.sendall(f"POST /store/job HTTP/1.1\r\n{head}".encode() + body[:10])
            # An answer shows that the server has read what came before on the other connection.
            assert httpx.get(f"{url}/ping").text == "pong"
            process.send_signal(signal.SIGTERM)
            while True:  # until it listens no more
                try:
                    socket.create_connection((host, int(port)), 1).close()
                except OSError:
                    break
            slow.sendall(body[10:])
            assert b" 201 " in slow.recv(65536).splitlines()[0]
        assert process.wait(30) == 0
        assert process.stderr
        assert process.stderr.read() == ""
    # Another process: the job is in the catalog, not in the memory of the first.
    with serving() as (_, url):
        (job,) = httpx.get(f"{url}/store/jobs").json()
        assert (job["name"], job["status"]) == ("job-1", "Created")
        assert httpx.post(f"{url}/store/job/pause", params={"job_id": job["id"]}).json()["status"] == "Paused"
    with serving() as (_, url):
        assert httpx.get(f"{url}/store/job", params={"job_id": job["id"]}).json()["status"] == "Paused"


def test_a_port_in_use_is_one_line(nats3: Command) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        error = nats3.refused("serve", "--port", str(port))
        assert error.startswith(f"1 Error: Port {port} of 127.0.0.1 is in use. End what listens there")
        assert nats3.refused("serve", "--listen", f"127.0.0.1:{port}") == error
    error = nats3.refused("serve", "--host", "nowhere.invalid")
    assert error.startswith("2 Error: There is no address nowhere.invalid")


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("127.0.0.1:8080", ("127.0.0.1", 8080)),
        ("[::1]:80", ("::1", 80)),
        (":9000", ("0.0.0.0", 9000)),
        ("9000", ("127.0.0.1", 9000)),
        ("example.org", ("example.org", 8080)),
    ],
)
def test_an_address_to_listen_on(text: str, parts: tuple[str, int]) -> None:
    assert address(text) == parts
    for bad in ("a:b", "a:70000", "::1", "1:2:3"):
        with pytest.raises(OperatorError, match="not an address to listen on"):
            address(bad)


def test_fifty_clients_at_once(settings: Settings, jobs_stream: Wire, bucket: str) -> None:
    """More than the server has threads, and far more than it has connections to Postgres."""
    limits = httpx.Limits(max_connections=50)
    with serving() as (_, url), httpx.Client(base_url=url, timeout=60, limits=limits) as client:
        body = {"name": "job-1", "stream": "jobs", "subject": "subjects.1", "bucket": bucket}
        job_id = client.post("/store/job", json=body).json()["id"]
        together = threading.Barrier(50)

        def ask(number: int) -> list[int]:
            together.wait(30)
            paths = [f"/store/job?job_id={job_id}", "/store/jobs", f"/chunks?job_id={job_id}"]
            answers = [client.get(paths[(number + at) % 3]).status_code for at in range(3)]
            pausing = client.post(f"/store/job/{'pause' if number % 2 else 'resume'}?job_id={job_id}")
            return [*answers, pausing.status_code]

        with ThreadPoolExecutor(50) as pool:
            assert [one for many in pool.map(ask, range(50)) for one in many] == [200] * 200


def test_postgres_killed_and_back(settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Postgres(tmp_path / "own", fast=True) as server:
        server.create_database("own")
        migrate(server.url("own"))
        monkeypatch.setenv("NATS3_POSTGRES_URL", server.url("own"))
        with serving() as (_, url):
            assert httpx.get(f"{url}/store/jobs").json() == []
            server.kill()
            refused = httpx.get(f"{url}/store/jobs")
            assert (refused.status_code, refused.json()["dependency"]) == (503, "postgres")
            assert httpx.get(f"{url}/ready").json()["parts"]["postgres"]["ok"] is False
            server.start()
            assert httpx.get(f"{url}/store/jobs").json() == []
            assert httpx.get(f"{url}/ready").status_code == 200
