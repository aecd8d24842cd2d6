"""Who may ask the API: tokens, names, origins, TLS, and how long a connection may take."""

import hashlib
import json
import logging
import os
import socket
import ssl
import uuid
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest
import trustme
from fastapi.testclient import TestClient
from starlette.datastructures import Headers

from nats3_dagster.actor import actor
from nats3_dagster.api import connections
from nats3_dagster.api.app import PREFIXES, create_app
from nats3_dagster.api.connections import tls_context
from nats3_dagster.api.security import check_reach, names_of
from nats3_dagster.api.tokens import Tokens, new_token
from nats3_dagster.archive.stored import folder
from nats3_dagster.errors import OperatorError
from nats3_dagster.settings import Settings
from nats3_dagster.settings.token_scopes import Scope, token_scopes
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.commands import Command
from nats3_dagster_tests.support.servers.serving import serving
from nats3_dagster_tests.support.small_chunks import small
from nats3_dagster_tests.support.stored import made

PROBLEM = "application/problem+json"
WRITE, OLD, READ, ERASE, HOLD, BOTH = (new_token() for _ in range(6))
# Every way to ask, and none of it is somewhere.
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


@pytest.fixture
def guarded(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[TestClient]:
    """The API with two tokens that may write, one that may read, one that may erase and one that may hold."""
    tokens = (
        OLD[1],
        WRITE[1].upper(),
        f"{READ[1]}:read",
        f"{ERASE[1]}:erase",
        f"{HOLD[1]}:hold",
        f"{BOTH[1]}:write+hold",
    )
    monkeypatch.setenv("NATS3_API_TOKENS", ", ".join(tokens))
    with TestClient(create_app(Settings.load()), raise_server_exceptions=False) as client:
        yield client


@pytest.fixture
def local(settings: Settings) -> Iterator[TestClient]:
    """The API as it listens on 127.0.0.1 without a token."""
    app = create_app(settings, names_of(Tokens(), "127.0.0.1"))
    with TestClient(app, base_url="http://localhost:8080", raise_server_exceptions=False) as client:
        yield client


def test_without_a_token_no_route_but_the_open_ones_answers(guarded: TestClient) -> None:
    """Asked of the OpenAPI document, and of names that are nowhere: whatever is added later is closed as well."""
    paths = [path for path in guarded.get("/openapi.json").json()["paths"] if not path.endswith(("/ping", "/ready"))]
    assert len(paths) > 4
    for path in [*paths, *(path.removeprefix("/api/v1") for path in paths), "/nowhere", "/", "/docs/files", "//ping"]:
        for method in METHODS:
            answer = guarded.request(method, path)
            assert (answer.status_code, answer.headers["content-type"]) == (401, PROBLEM), (method, path)
            assert answer.headers["www-authenticate"] == 'Bearer realm="nats3"'
    for path in ("/ping", "/api/v1/ping", "/docs", "/openapi.json", "/docs/files/swagger-ui.css"):
        assert guarded.get(path).status_code == 200, path


def test_a_wrong_token_is_refused_and_not_repeated(guarded: TestClient) -> None:
    wrong = [
        {"Authorization": WRITE[0]},
        {"Authorization": f"Basic {WRITE[0]}"},
        bearer(WRITE[0] + "x"),
        bearer(WRITE[0][:-1]),
        bearer(WRITE[1]),
        bearer(""),
        {"Authorization": ""},
        {"Authorization": "Bearer"},
        bearer("\u00e4"),
    ]
    for headers in wrong:
        encoded = {name: value.encode("latin-1") for name, value in headers.items()}
        answer = guarded.get("/store/jobs", headers=encoded)  # pyright: ignore[reportArgumentType]
        assert (answer.status_code, answer.json()["error"]) == (401, "That token is not valid"), headers
        assert WRITE[0][:20] not in answer.text + str(answer.headers)


def test_what_tokens_may(guarded: TestClient) -> None:
    for prefix in PREFIXES:
        for token in (WRITE, OLD, READ):
            assert guarded.get(f"{prefix}/store/jobs", headers=bearer(token[0])).json() == []
        for token in (WRITE, OLD):  # both are valid while one is replaced by the other
            assert guarded.post(f"{prefix}/store/job", headers=bearer(token[0]), json={}).status_code == 422
        for method in ("POST", "PUT", "PATCH", "DELETE"):
            answer = guarded.request(method, f"{prefix}/store/job", headers=bearer(READ[0]))
            assert (answer.status_code, answer.json()["error"]) == (403, "This token may only read")
    # As HTTP has it: the scheme in any case. Two headers are no login.
    assert guarded.get("/store/jobs", headers={"Authorization": f"bEARER  {READ[0]}"}).status_code == 200
    twice = [("Authorization", f"Bearer {READ[0]}"), ("Authorization", f"Bearer {WRITE[0]}")]
    assert guarded.get("/store/jobs", headers=twice).status_code == 401


def test_erasures_and_holds_need_scopes_of_their_own(guarded: TestClient) -> None:
    """One token cannot place a hold, end it and erase what it held. With the scope there is nothing to be found."""
    replay: dict[str, object] = {
        "bucket": "b",
        "read_stream": "s",
        "write_subject": "a.>",
        "delete_chunks": True,
        "read_subject": "x.>",
    }
    requests: list[tuple[str, str, dict[str, Any] | None, set[str]]] = [
        ("POST", "/archive/x/erase", {"reason": "a", "sequences": [1, 1]}, {"erase"}),
        ("POST", "/archive/x/holds", {"name": "a", "reason": "b"}, {"hold"}),
        ("DELETE", "/archive/x/holds/a?reason=b", None, {"hold"}),
        ("POST", "/archive/x/expire", None, {"write"}),
        ("POST", "/archive/x/copy", None, {"write"}),
        ("DELETE", f"/store/job?job_id={uuid.uuid4()}", None, {"write"}),
        ("DELETE", f"/store/job?job_id={uuid.uuid4()}&purge=true", None, set()),
        ("POST", "/load/job", replay, set()),
        ("POST", "/load/job", replay | {"delete_chunks": False}, {"write"}),
        ("GET", "/store/jobs", None, {"read", "write", "erase", "hold"}),
    ]
    tokens = {"read": READ, "write": WRITE, "erase": ERASE, "hold": HOLD}
    for method, path, body, scopes in requests:
        for prefix in PREFIXES:
            said = {
                scope: guarded.request(method, prefix + path, headers=bearer(token[0]), json=body)
                for scope, token in tokens.items()
            }
            allowed = {scope for scope, answer in said.items() if answer.status_code != 403}
            assert allowed == scopes, (method, path, {scope: answer.text for scope, answer in said.items()})
    told = guarded.post("/archive/x/erase", headers=bearer(WRITE[0]), json={}).json()
    assert told["error"] == "This token may read and write only"
    assert told["next"] == "Ask with a token that has the scope erase in NATS3_API_TOKENS"


def test_a_token_with_all_scopes_is_in_the_history(
    settings: Settings, workspace: Workspace, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NATS3_API_TOKENS", f"{WRITE[1]}:write+erase+hold")
    archive = made(workspace, bucket, "logs")
    folder.claim(workspace, archive)
    small(workspace, archive, 1)
    asked = bearer(WRITE[0])
    with TestClient(create_app(Settings.load()), headers=asked) as client:
        for method, path, body in (
            ("POST", "holds", {"name": "a", "reason": "order 1"}),
            ("POST", "erase", {"reason": "request 1", "sequences": [1, 1]}),
            ("DELETE", "holds/a?reason=over", None),
            ("POST", "erase", {"reason": "request 1", "sequences": [1, 1]}),
        ):
            client.request(method, f"/archive/logs/{path}", json=body)
        history = client.get("/store/job/history", params={"job_id": str(archive.job_id)}).json()
        assert client.delete("/store/job", params={"job_id": str(archive.job_id), "purge": True}).status_code == 200
    of_people = ("held", "erasure_refused", "released", "erased")
    told = [(one["what"], one["who"].partition(",")[0]) for one in reversed(history) if one["what"] in of_people]
    token = f"token {WRITE[1][:8]}"
    assert told == [("held", token), ("erasure_refused", token), ("released", token), ("erased", token)]


def test_a_body_is_not_read_for_nobody(guarded: TestClient) -> None:
    parts_read = 0

    def parts() -> Iterator[bytes]:
        nonlocal parts_read
        parts_read += 1
        yield b"{"

    assert guarded.post("/store/job", content=parts(), headers=bearer(READ[0])).status_code == 403
    answer = guarded.post("/store/job", content=b"{", headers={"Content-Type": "application/json"})
    assert answer.status_code == 401  # and not what is wrong with the body


def test_readiness_without_a_token_names_no_reason(guarded: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guarded.app.state.workspace.settings, "nats_url", "nats://127.0.0.1:1")  # pyright: ignore
    part = guarded.get("/ready").json()["parts"]["nats"]
    assert part == {"ok": False, "error": None, "next": None}
    part = guarded.get("/ready", headers=bearer(READ[0])).json()["parts"]["nats"]
    assert "127.0.0.1:1" in part["error"]


def test_a_token_in_the_address_is_refused_though_it_is_valid(guarded: TestClient) -> None:
    for name in ("token", "access_token", "API_KEY", "api%5Ftoken"):
        answer = guarded.get(f"/store/jobs?{name}={WRITE[0]}", headers=bearer(WRITE[0]))
        assert (answer.status_code, answer.headers["content-type"]) == (400, PROBLEM), name
        assert WRITE[0] not in answer.text


def test_the_log_of_requests_has_no_token(guarded: TestClient, caplog: pytest.LogCaptureFixture) -> None:
    """Of addresses the log has paths of routes, and values of their parameters."""
    # By name: a Dagster run in this process sets the level of nats3_dagster (managed_python_loggers of dagster.yaml).
    caplog.set_level(logging.DEBUG, "nats3_dagster")
    secret = "planted-7Zq-4xK"
    for address in (
        f"/store/jobs?limit=5&sig={secret}",
        f"/store/jobs?token={secret}",
        f"/{secret}",
        f"/store/{secret}?limit=5",
        f"/api/v1/store/jobs?{secret}",
        f"/store/jobs?limit={WRITE[0]}",
        f"/docs/files/{secret}?limit={secret}",
        f"/archive/{WRITE[0]}/message?seq=1",
        f"/store/jobs;{secret}?x-api-key={secret}",
    ):
        for headers in ({}, bearer(WRITE[0]), bearer(secret)):
            guarded.get(address, headers=headers)
    log = "\n".join(record.getMessage() for record in caplog.records if record.name.startswith("nats3_dagster.api"))
    assert secret not in log
    assert WRITE[0] not in log
    for line in ("GET /store/jobs?limit=5&***: 401 in", "GET /...: 401 in", "GET /store/jobs?***: 400 in"):
        assert line in log, log


def test_the_document_says_which_operations_need_a_token(guarded: TestClient, local: TestClient) -> None:
    document = guarded.get("/openapi.json").json()
    assert document["security"] == [{"token": []}]
    open_paths = {p for p, operations in document["paths"].items() for o in operations.values() if "security" in o}
    assert open_paths == {"/api/v1/ping", "/api/v1/ready"}
    for operations in document["paths"].values():
        for operation in operations.values():
            assert {"400", "401", "403", "421"} <= set(operation["responses"])
    assert "security" not in local.get("/openapi.json").json()


def test_a_server_without_tokens_answers_to_localhost_only(local: TestClient) -> None:
    hosts = [
        ("localhost:8080", True),
        ("LOCALHOST", True),
        ("127.0.0.1:9", True),
        ("[::1]:8080", True),
        ("evil.example:8080", False),
        ("localhost.evil.example", False),
        ("127.0.0.1.evil.example", False),
        ("localhost@evil.example", False),
        ("evil@localhost", False),
        ("localhost/evil", False),
        ("", False),
        ("localhost?a", False),
        ("localhost#a", False),
        ("localhost:8080/evil", False),
        ("local\thost", False),
        ("localhost:a", False),
        ("[::1", False),
        ("LocalHost:", True),
        ("[", False),
        ("10.0.0.1:8080", False),
    ]
    for host, is_ours in hosts:
        answer = local.get("/store/jobs", headers={"Host": host})
        assert answer.status_code == (200 if is_ours else 421), host
        if not is_ours:
            assert answer.json()["error"] == "This server answers to localhost only", host


def test_with_tokens_a_server_answers_to_any_name(guarded: TestClient) -> None:
    assert names_of(Tokens({READ[1]: frozenset({Scope.read})}), "127.0.0.1") is None
    assert guarded.get("/store/jobs", headers={"Host": "nats3.example", **bearer(READ[0])}).status_code == 200


def test_a_page_of_another_server_may_not_write(local: TestClient) -> None:
    origins = [
        ("http://localhost:8080", True),
        ("https://localhost:8080", True),
        (None, True),
        ("null", False),
        ("", False),
        ("http://evil.example", False),
        ("http://localhost:3000", False),
        ("http://localhost", False),
    ]
    for origin, is_ours in origins:
        headers = {"Content-Type": "text/plain"} | ({} if origin is None else {"Origin": origin})
        assert local.get("/store/jobs", headers=headers).status_code == 200
        answer = local.post("/store/job", content="{}", headers=headers)
        assert (answer.status_code == 403) is not is_ours, origin
        assert "access-control-allow-origin" not in Headers(answer.headers)


def test_only_loopback_may_do_without_a_token() -> None:
    for host in ("127.0.0.1", "127.9.9.9", "::1"):
        check_reach(Tokens(), host)
    for host in ("0.0.0.0", "::", "10.0.0.1", "fe80::1%eth0"):
        with pytest.raises(OperatorError, match="no token is set"):
            check_reach(Tokens(), host)
        check_reach(Tokens({READ[1]: frozenset({Scope.read})}), host)


def test_serve_refuses_what_is_not_safe_or_not_set(
    nats3: Command, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert nats3.refused("serve", "--listen", "0.0.0.0:0") == (
        "2 Error: The API would answer everybody who reaches 0.0.0.0: no token is set. Make one with nats3 token "
        "create and set NATS3_API_TOKENS, or listen on 127.0.0.1"
    )
    (tmp_path / "bad.pem").write_text("no certificate")
    monkeypatch.setenv("NATS3_API_TLS_CERT", str(tmp_path / "bad.pem"))
    assert nats3.refused("serve").startswith("2 Error: Only one of the API's TLS files is set.")
    monkeypatch.setenv("NATS3_API_TLS_KEY", str(tmp_path / "no.pem"))
    assert nats3.refused("serve").startswith(f"2 Error: The API's TLS file {tmp_path}/no.pem cannot be read: No such")
    monkeypatch.setenv("NATS3_API_TLS_KEY", str(tmp_path / "bad.pem"))
    assert "cannot be used: one of them is not PEM, or the key is encrypted" in nats3.refused("serve")
    # A token where its hash belongs is refused, and not shown.
    monkeypatch.setenv("NATS3_API_TOKENS", WRITE[0])
    assert WRITE[0] not in nats3.refused("serve")


def test_a_new_token_is_printed_once_with_its_setting(nats3: Command) -> None:
    for words, scopes, end in (
        ((), ["read", "write"], ""),
        (("--scope", "read"), ["read"], ":read"),
        (("--scope", "hold", "--scope", "erase"), ["read", "erase", "hold"], ":read+erase+hold"),
    ):
        made = nats3.ok("token", "create", *words, "-o", "json").json
        digest = hashlib.sha256(made["token"].encode()).hexdigest()
        assert made == {"token": made["token"], "scopes": scopes, "setting": f"NATS3_API_TOKENS={digest}{end}"}
        assert token_scopes(made["setting"].partition("=")[2]) == {digest: set(scopes)}
        assert len(made["token"]) == len("nats3_") + 43
    assert nats3.ok("token", "create").out != nats3.ok("token", "create").out


def test_tls_by_certificate_files(settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    authority = trustme.CA()
    certificate = authority.issue_cert("127.0.0.1")
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    cert.write_bytes(b"".join(blob.bytes() for blob in certificate.cert_chain_pems))
    certificate.private_key_pem.write_to_path(key)
    for name, value in (("CERT", cert), ("KEY", key)):
        monkeypatch.setenv(f"NATS3_API_TLS_{name}", str(value))
    monkeypatch.setenv("NATS3_API_TOKENS", WRITE[1])
    ours = ssl.create_default_context()
    authority.configure_trust(ours)
    with serving() as (process, url):
        port = int(url.rpartition(":")[2])
        assert url.startswith("https://")
        with httpx.Client(base_url=url, verify=ours) as client:
            assert client.get("/store/jobs", headers=bearer(WRITE[0])).json() == []
        with pytest.raises(httpx.ConnectError, match="certificate verify failed"):
            httpx.get(f"{url}/ping")
        ours.maximum_version = ssl.TLSVersion.TLSv1_2
        plain = socket.create_connection(("127.0.0.1", port), 10)
        with ours.wrap_socket(plain, server_hostname="127.0.0.1") as wrapped:
            assert wrapped.version() == "TLSv1.2"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            ours.minimum_version, ours.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
        ours.set_ciphers("ALL:@SECLEVEL=0")
        with socket.create_connection(("127.0.0.1", port), 10) as plain, pytest.raises(ssl.SSLError):
            ours.wrap_socket(plain, server_hostname="127.0.0.1")
        assert process.poll() is None
    other = authority.issue_cert("127.0.0.1").private_key_pem.write_to_path
    other(key)
    with pytest.raises(OperatorError, match="the key is not that of the certificate"):
        tls_context((str(cert), str(key)))


def test_a_log_of_requests_has_no_token(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NATS3_API_TOKENS", WRITE[1])
    with serving("--port", "0", "--debug") as (process, url):
        assert httpx.get(f"{url}/store/jobs?token={WRITE[0]}").status_code == 400
        assert httpx.get(f"{url}/store/jobs", headers=bearer(WRITE[0])).json() == []
        assert httpx.get(f"{url}/store/jobs", headers=bearer(READ[0])).status_code == 401
        process.terminate()
        assert process.stderr
        log = process.stderr.read()
    assert "GET /store/jobs?***: 400 in" in log
    assert WRITE[0] not in log
    assert READ[0] not in log


def test_slow_clients_large_headers_and_many_connections(settings: Settings, tmp_path: Path) -> None:
    """The limits are made small in the server's process, so that the test does not take half a minute."""
    (tmp_path / "sitecustomize.py").write_text(
        "from nats3_dagster.api import connections as c\nc.REQUEST_S, c.MOST_ANSWERED, c.MOST_OPEN = 1.0, 4, 6\n"
    )
    assert (connections.REQUEST_S, connections.MOST_ANSWERED, connections.MOST_OPEN) == (30.0, 500, 700)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}")
        with serving() as (_, url):
            address = ("127.0.0.1", int(url.rpartition(":")[2]))
            body = b"POST /store/job HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{"
            for began in (b"", b"GET /pi", body):
                with socket.create_connection(address, 20) as slow:
                    slow.sendall(began)
                    assert _all(slow) == b"", began  # ended by the server, after a second
            with socket.create_connection(address, 20) as again:  # a slow second request
                again.sendall(b"GET /ping HTTP/1.1\r\nHost: localhost\r\n\r\n")
                assert again.recv(4096).startswith(b"HTTP/1.1 200")
                again.sendall(b"GET /pi")
                _all(again)
            assert httpx.get(f"{url}/ping", headers={"X": "y" * 12_000}).status_code == 200
            with socket.create_connection(address, 20) as large:
                large.sendall(b"GET /ping HTTP/1.1\r\nHost: localhost\r\nX: " + b"y" * 20_000)
                assert _refused(large) == (431, "The request's line and headers have more than 16,384 bytes")
            # Also in one read, and whatever follows them.
            begin, end = b"GET /ping HTTP/1.1\r\nHost: localhost\r\n", b"\r\n\r\n"
            for head in (
                begin + b"X: " + b"y" * 60_000 + end,
                b"GET /" + b"y" * 70_000 + begin[9:] + end,
                begin + b"\r\n".join(b"X%d: y" % n for n in range(3000)) + end + begin + b"\r\n",
            ):
                with socket.create_connection(address, 20) as large:
                    large.sendall(head)
                    assert _refused(large) == (431, "The request's line and headers have more than 16,384 bytes")
            refusals = [
                (b"GET /\0 HTTP/1.1\r\n\r\n", (400, "The request is no HTTP/1.1")),
                (b"\x16\x03\x01\r\n\r\n", (400, "The request is no HTTP/1.1")),
                (
                    begin + b"Transfer-Encoding: rot13" + end,
                    (501, "The request's transfer encoding is none that this server knows"),
                ),
            ]
            for head, refusal in refusals:
                with socket.create_connection(address, 20) as wrong:
                    wrong.sendall(head)
                    assert _refused(wrong) == refusal
            assert httpx.head(f"{url}/ping").headers["content-length"] == "4"
            idle = [socket.create_connection(address, 20) for _ in range(4)]
            busy = httpx.get(f"{url}/ping")
            assert (busy.status_code, busy.json()["error"]) == (503, "The server has too many connections")
            idle += [socket.create_connection(address, 20) for _ in range(2)]
            with socket.create_connection(address, 20) as more:
                more.settimeout(0.9)
                assert _all(more) == b""  # closed at once, before the second in which the others are
            for connection in idle:
                _all(connection)
                connection.close()
            assert httpx.get(f"{url}/ping").status_code == 200


def _refused(connection: socket.socket) -> tuple[int, str]:
    """The status and the error of the problem that the server answers before it closes."""
    head, _, body = _all(connection).partition(b"\r\n\r\n")
    assert b"content-type: application/problem+json" in head.lower()
    document = json.loads(body)
    assert head.startswith(b"HTTP/1.1 %d " % document["status"])
    return document["status"], document["error"]


def _all(connection: socket.socket) -> bytes:
    """What comes until the server ends the connection."""
    parts = list[bytes]()
    try:
        while part := connection.recv(65536):
            parts.append(part)
    except ConnectionResetError:
        pass
    return b"".join(parts)


def test_history_names_the_token_of_each_request(guarded: TestClient, workspace: Workspace, bucket: str) -> None:
    """On the connections of one pool, whichever request had one before."""
    archive = made(workspace, bucket, "logs")
    folder.claim(workspace, archive)
    process = actor()
    for number, (token, _) in enumerate((HOLD, BOTH, HOLD)):
        placed = guarded.post(
            "/archive/logs/holds", json={"name": f"hold-{number}", "reason": "order 5"}, headers=bearer(token)
        )
        assert placed.status_code == 201, placed.text
        assert guarded.get("/store/jobs", headers=bearer(READ[0])).status_code == 200
    holds = workspace.catalog.holds.all(archive)
    assert {hold.name: hold.actor for hold in holds} == {
        f"hold-{number}": f"token {digest[:8]}, {process}" for number, (_, digest) in enumerate((HOLD, BOTH, HOLD))
    }
