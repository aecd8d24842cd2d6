"""Outlets of Google and Azure, against a server that speaks so much of both as an outlet needs."""

import json
import re
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from nats3_dagster.errors import StoreError
from nats3_dagster.objects import Outlet, OutletOptions

_DATE = "Sun, 22 Nov 2026 15:00:00 GMT"
_GS_ITEM = (
    "<Contents><Key>{0}</Key><Size>{1}</Size><LastModified>2026-11-22T15:00:00.000Z</LastModified><ETag>x</ETag>"
    "</Contents>"
)
_AZ_ITEM = (
    "<Blob><Name>{0}</Name><Properties><Last-Modified>" + _DATE + "</Last-Modified><Content-Length>{1}</Content-Length>"
    "<Content-Type>text/plain</Content-Type><Etag>x</Etag></Properties></Blob>"
)


class _Cloud(BaseHTTPRequestHandler):
    objects: dict[str, bytes]

    def log_message(self, format: str, *args: object) -> None:
        """Nothing on the terminal."""

    def _key(self, path: str) -> str:
        return re.sub(r"^/(devstoreaccount1/)?box/?", "", unquote(urlsplit(path).path))

    def _answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), "ETag": '"x"', "Last-Modified": _DATE, **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body if self.command != "HEAD" else b"")

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        query = parse_qs(urlsplit(self.path).query)
        if not re.match(r"^/(devstoreaccount1/)?box(/|\?|$)", self.path):
            self._answer(404, b"<Error><Code>NoSuchBucket</Code></Error>")
        elif query.get("comp") == ["batch"]:
            for path in re.findall(rb"DELETE (\S+)", body):
                self.objects.pop(self._key(path.decode()), None)
            part = "Content-Type: application/http\r\nContent-ID: 0\r\n\r\nHTTP/1.1 202 Accepted\r\n\r\n\r\n"
            self._answer(202, f"--b\r\n{part}--b--\r\n".encode(), Content_Type="multipart/mixed; boundary=b")
        elif source := self.headers.get("x-goog-copy-source") or self.headers.get("x-ms-copy-source"):
            key = self._key("/" + source if "://" not in source else source)
            if key in self.objects:
                self.objects[self._key(self.path)] = self.objects[key]
            self._answer(200 if key in self.objects else 404)
        else:
            self.objects[self._key(self.path)] = body
            self._answer(201)

    do_POST = do_PUT

    def do_GET(self) -> None:
        query = parse_qs(urlsplit(self.path).query)
        if "list-type" in query or query.get("comp") == ["list"]:
            prefix = query.get("prefix", [""])[0]
            item, outer = (_GS_ITEM, "ListBucketResult") if "list-type" in query else (_AZ_ITEM, "EnumerationResults")
            items = "".join(item.format(k, len(v)) for k, v in sorted(self.objects.items()) if k.startswith(prefix))
            inner = items if outer == "ListBucketResult" else f"<Blobs>{items}</Blobs><NextMarker />"
            self._answer(200, f"<{outer}>{inner}</{outer}>".encode(), Content_Type="application/xml")
        elif (data := self.objects.get(self._key(self.path))) is None:
            self._answer(404)
        else:
            self._answer(200, data)

    do_HEAD = do_GET

    def do_DELETE(self) -> None:
        self._answer(204 if self.objects.pop(self._key(self.path), None) is not None else 404)


@pytest.fixture
def cloud(tmp_path, monkeypatch) -> Iterator[dict[str, bytes]]:
    """What both clouds have; the environment leads there, as it would to the real ones."""
    objects: dict[str, bytes] = {}
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Cloud", (_Cloud,), {"objects": objects}))
    thread = Thread(target=server.serve_forever)
    thread.start()
    url = f"http://127.0.0.1:{server.server_port}"
    account = {"private_key": "", "private_key_id": "", "client_email": "", "gcs_base_url": url, "disable_oauth": True}
    (tmp_path / "account.json").write_text(json.dumps(account))
    monkeypatch.setenv("GOOGLE_SERVICE_ACCOUNT", str(tmp_path / "account.json"))
    monkeypatch.setenv("AZURE_STORAGE_USE_EMULATOR", "true")
    monkeypatch.setenv("AZURITE_BLOB_STORAGE_URL", url)
    yield objects
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize("scheme", ["gs", "az"])
def test_files_go_to_a_cloud(cloud, scheme):
    outlet = Outlet(OutletOptions(scheme, "box", "a/b"))
    assert (outlet.get("x"), outlet.size("x"), list(outlet.list("x"))) == (None, None, [])
    outlet.put("x/one", b"1")
    outlet.put("x/k=%2E two", b"22")
    assert cloud == {"a/b/x/one": b"1", "a/b/x/k=%2E two": b"22"}
    assert (outlet.get("x/one"), outlet.size("x/k=%2E two")) == (b"1", 2)
    assert sorted(outlet.list("x")) == ["x/k=%2E two", "x/one"]
    outlet.put("y", b"before")
    outlet.move("x/one", "y")
    outlet.delete("x/k=%2E two")
    assert cloud == {"a/b/y": b"1"}
    with pytest.raises(StoreError, match="is not at the destination any more"):
        outlet.move("x/one", "y")


@pytest.mark.parametrize(("scheme", "hint"), [("gs", "GOOGLE_APPLICATION"), ("az", "AZURE_STORAGE_ACCOUNT")])
def test_a_bucket_of_a_cloud_that_is_not_there(cloud, scheme, hint):
    with pytest.raises(StoreError) as refused:
        Outlet(OutletOptions(scheme, "other", "")).put("x", b"1")
    assert "other" in str(refused.value)
    assert hint in str(refused.value) or "does not exist" in str(refused.value)
    assert cloud == {}
