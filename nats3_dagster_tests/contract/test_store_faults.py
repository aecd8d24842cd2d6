"""What goes wrong with a store: bounded waiting, one line that says what to do, and no secret in it.

The faults are made between us and a real server, or by the operating system; the answers of the server are its own.
"""

import base64
import hashlib
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from nats3_dagster.dev.nats_server import NatsServer
from nats3_dagster.dev.process import Process
from nats3_dagster.dev.s3.server import S3Server
from nats3_dagster.errors import ObjectMissing, StoreError
from nats3_dagster.objects import (
    Bucket,
    Outlet,
    OutletOptions,
    StoreOptions,
    bucket_exists,
    create_bucket,
    delete_version,
    get_version,
    list_versions,
)
from nats3_dagster.objects.retries import Passing, of_code
from nats3_dagster_tests.support.servers.s3_proxy import Fault, Handler, S3Proxy, cut_body, refuse, store_and_lose

KEY = "team/a.parquet"
DATA = b"0123456789" * 100
EVERY = ("GET", "PUT", "HEAD", "DELETE", "POST")
ASKS: dict[str, Callable[[Bucket], Any]] = {
    "put": lambda b: put(b, KEY, DATA),
    "large put": lambda b: put(b, KEY, bytes(2 << 20)),
    "get": lambda b: b.get(KEY),
    "head": lambda b: b.head(KEY),
    "list": lambda b: list(b.list()),
    "delete": lambda b: b.delete(KEY),
}


def put(bucket: Bucket, key: str, data: bytes) -> bool:
    return bucket.put_new(key, data, hashlib.sha256(data).hexdigest())


def complaint(ask: Callable[[], Any], within: float = 20) -> str:
    """The error of `ask`: in time (obstore alone takes three minutes), in one line, with a hint, without a secret."""
    began = time.monotonic()
    with pytest.raises(StoreError) as caught:
        ask()
    assert not isinstance(caught.value, ObjectMissing)
    assert time.monotonic() - began < within
    assert caught.value.hint
    text = str(caught.value)
    assert "\n" not in text
    assert len(text) < 300
    for secret in ("hunter2", "Signature=", "StringToSign", "Debug source"):
        assert secret not in text
    return text


@contextmanager
def through(
    options: StoreOptions, fault: Fault, commands: tuple[str, ...] = EVERY, times: int = 1_000_000
) -> Iterator[StoreOptions]:
    """Options that lead to the same store through `fault`, with little patience."""
    with S3Proxy(options.endpoint or "") as proxy:
        proxy.break_at(fault, commands, times=times)
        yield replace(options, endpoint=proxy.endpoint, patience_s=3)


# Not there, not ours, not S3


def test_wrong_credentials(s3: StoreOptions, bucket: str) -> None:
    for wrong in (replace(s3, secret_access_key="hunter2"), replace(s3, access_key_id="nobody")):
        for name, ask in ASKS.items():
            text = complaint(partial(ask, Bucket(wrong, bucket)))
            assert "refuses the S3 credentials" in text, name
            assert "AWS_SECRET_ACCESS_KEY" in text, name
            assert list(Bucket(s3, bucket).list()) == [], name


def test_wrong_credentials_are_no_answer_to_whether_a_bucket_exists(s3: StoreOptions, bucket: str) -> None:
    wrong = replace(s3, secret_access_key="hunter2")
    assert "refuses the S3 credentials" in complaint(lambda: bucket_exists(wrong, bucket))
    assert "refuses the S3 credentials" in complaint(lambda: create_bucket(wrong, "another"))


@pytest.mark.parametrize("name", ["put", "list"])
def test_an_endpoint_that_is_down(s3: StoreOptions, name: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    down = replace(s3, endpoint=f"http://127.0.0.1:{port}", patience_s=10 if name == "put" else 1)
    assert StoreOptions().patience_s == 10
    text = complaint(lambda: ASKS[name](Bucket(down, "archive")), within=30)
    assert f"http://127.0.0.1:{port} cannot be reached" in text
    assert "cannot be reached" in complaint(lambda: bucket_exists(down, "archive"))
    assert "cannot be reached" in complaint(lambda: create_bucket(down, "archive"))


def test_a_name_that_is_unknown(s3: StoreOptions) -> None:
    unknown = replace(s3, endpoint="http://s3.invalid:9000", patience_s=1)
    assert "its name is unknown" in complaint(lambda: Bucket(unknown, "archive").head(KEY))


@pytest.mark.parametrize("name", ["put", "get"])
def test_an_endpoint_that_never_answers(s3: StoreOptions, name: str) -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=64) as silent:
        dumb = replace(s3, endpoint=f"http://127.0.0.1:{silent.getsockname()[1]}", patience_s=1)
        assert "cannot be reached: no answer" in complaint(lambda: ASKS[name](Bucket(dumb, "archive")))


def test_tls_where_there_is_none(s3: StoreOptions, bucket: str) -> None:
    tls = replace(s3, endpoint=(s3.endpoint or "").replace("http:", "https:"), patience_s=1)
    assert "http:// in AWS_ENDPOINT_URL_S3" in complaint(lambda: Bucket(tls, bucket).head(KEY))
    assert "http:// in AWS_ENDPOINT_URL_S3" in complaint(lambda: bucket_exists(tls, bucket))


@pytest.mark.parametrize("name", ["put", "get", "head", "list"])
def test_a_server_that_speaks_something_else(s3: StoreOptions, nats: NatsServer, name: str) -> None:
    other = replace(s3, endpoint=nats.url.replace("nats://", "http://"))
    assert "does not answer as an S3 endpoint" in complaint(lambda: ASKS[name](Bucket(other, "archive")))


def test_a_web_page_is_not_a_store(s3: StoreOptions) -> None:
    """A console beside the S3 port, a load balancer: 200 and HTML to everything."""

    def page(request: Handler) -> None:
        request.reply(200, {"Content-Type": "text/html"}, b"<html>Welcome</html>")

    with through(s3, page) as console:
        assert "does not answer as an S3 endpoint" in complaint(lambda: put(Bucket(console, "archive"), KEY, DATA))
        assert "does not answer as an S3 endpoint" in complaint(lambda: bucket_exists(console, "archive"))


# There, and ailing


def test_a_flapping_endpoint_is_asked_again(s3: StoreOptions, bucket: str) -> None:
    attempts: list[str] = []

    def flap(request: Handler) -> None:
        attempts.append(request.command)
        if len(attempts) % 3:
            return request.reply(503, {}, b"<Error><Code>SlowDown</Code></Error>")
        return request.reply(*request.forward())

    with through(s3, flap) as flapping:
        store = Bucket(replace(flapping, patience_s=10), bucket)
        assert put(store, KEY, DATA)
        assert store.get(KEY) == DATA
    assert len(attempts) >= 9


def requests(options: StoreOptions, bucket: str) -> dict[str, Callable[[], Any]]:
    """Every kind of request, each as a call of it that answers the same each time."""
    store, outlet = Bucket(options, bucket), Outlet(OutletOptions("s3", bucket, "out", options))
    sha256, new = hashlib.sha256(DATA).hexdigest(), lambda: uuid.uuid4().hex
    return {
        "put": lambda: store.put_new(new(), DATA, sha256) or True,  # False where an answer was lost
        "put again": lambda: store.put_again("again", DATA, sha256),
        "get": lambda: bytes(store.get(KEY)),
        "range": lambda: bytes(store.get_range(KEY, 1, 2)),
        "head": lambda: store.head(KEY),
        "list": lambda: list(store.list("team")),
        "folders": lambda: store.folders("team"),
        "delete": lambda: store.delete(new()),
        "outlet create": lambda: outlet.create(new(), DATA) or True,
        "outlet put": lambda: outlet.put("again", DATA),
        "outlet get": lambda: outlet.get("again"),
        "outlet size": lambda: outlet.size("again"),
        "outlet list": lambda: "out/again" in outlet.list(""),
        "outlet move": lambda: (outlet.put("from", DATA), outlet.move("from", "to")),
        "exists": lambda: bucket_exists(options, bucket),
        "create bucket": lambda: create_bucket(options, f"{bucket}-{new()[:4]}"),
        "versions": lambda: [(one.key, one.size) for one in list_versions(options, bucket, "team")],
        "get version": lambda: get_version(options, bucket, KEY, "null"),
        "delete version": lambda: delete_version(options, bucket, new(), "null"),
    }


@pytest.mark.parametrize(
    ("refusal", "times"),
    [
        ("409 ConditionalRequestConflict", 2),
        ("400 RequestTimeout", 1),
        ("403 RequestTimeTooSkewed", 1),
        ("503 SlowDown", 1),
        ("a lost answer", 1),
    ],
)
def test_a_refusal_that_passes_is_not_seen(s3: StoreOptions, bucket: str, refusal: str, times: int) -> None:
    """Whichever request it is the answer to."""
    fault = store_and_lose if refusal == "a lost answer" else refuse(int(refusal[:3]), refusal[4:])
    put(Bucket(s3, bucket), KEY, DATA)
    with S3Proxy(s3.endpoint or "") as proxy:
        for name, ask in requests(replace(s3, endpoint=proxy.endpoint), bucket).items():
            clean = ask()
            # An answer to a HEAD has no code, so it is asked once more.
            for commands, most in ((("GET", "PUT", "DELETE", "POST"), times), (("HEAD",), 1)):
                proxy.break_at(fault, commands, times=most)
                assert ask() == clean, (name, commands)
            proxy.repair()


@pytest.mark.parametrize(
    ("code", "passing"),
    [
        ("OperationAborted", Passing.LONG),
        ("ConditionalRequestConflict", Passing.LONG),
        ("BadDigest", Passing.LONG),
        ("RequestTimeTooSkewed", Passing.ONCE),
        ("PreconditionFailed", Passing.NEVER),
        ("AccessDenied", Passing.NEVER),
        ("BucketAlreadyExists", Passing.NEVER),
        ("", Passing.NEVER),
    ],
)
def test_what_passes_is_known_by_its_code(code: str, passing: Passing) -> None:
    assert of_code(code) is passing


@pytest.mark.parametrize("refusal", ["409 ConditionalRequestConflict", "409 Odd", "400 RequestTimeout"])
def test_a_refusal_that_stays_is_told(s3: StoreOptions, bucket: str, refusal: str) -> None:
    """It is no news about an object: not that it is there, and not that it was lost."""
    status, code = int(refusal[:3]), refusal[4:]
    with through(s3, refuse(status, code), ("PUT",)) as refusing:
        refusing = replace(refusing, patience_s=1)
        store, outlet = Bucket(refusing, bucket), Outlet(OutletOptions("s3", bucket, "team", refusing))
        told = complaint(lambda: put(store, KEY, DATA))
        assert (code in told, "as if it were there" in told) == (code != "Odd", code == "Odd")
        for ask in (lambda: store.create(KEY, DATA), lambda: outlet.create("new", DATA)):
            if code == "Odd":  # some store's own way to say that an object is there
                assert not ask()
            else:
                assert code in complaint(ask)


@pytest.mark.parametrize("before", [None, DATA, b"0123456789" * 100 + b"x"])
def test_a_copy_that_failed_with_200_deletes_nothing(s3: StoreOptions, bucket: str, before: bytes | None) -> None:
    """An error may be in the body of the answer to a CopyObject, by S3's documentation."""
    source = b"x" * len(DATA)

    def fail(request: Handler) -> None:
        if "x-amz-copy-source" in {name.lower() for name in request.headers}:
            body = b"<?xml version='1.0'?><Error><Code>AccessDenied</Code></Error>"
            return request.reply(200, {"Content-Type": "application/xml"}, body)
        return request.reply(*request.forward())

    with through(s3, fail, ("PUT",)) as failing:
        outlet = Outlet(OutletOptions("s3", bucket, "out", replace(failing, patience_s=10)))
        outlet.put("new", source)
        if before:
            outlet.put("file", before)
        with pytest.raises(StoreError):
            outlet.move("new", "file")
        assert (outlet.get("new"), outlet.get("file")) == (source, before)
    # The proxy is gone: only connections that were kept open would still lead through it.
    outlet = Outlet(OutletOptions("s3", bucket, "out", s3))
    outlet.move("new", "file")
    assert (outlet.get("new"), outlet.get("file")) == (None, source)


def wanting(*kinds: str) -> Fault:
    """A bucket with Object Lock and a default retention: it takes a PUT with one of these headers only, whose value is
    right. The texts are those of AWS and of Backblaze."""

    def answer(request: Handler) -> None:
        given = {name.lower(): value for name, value in request.headers.items()}
        right = {
            "content-md5": hashlib.md5(request.body, usedforsecurity=False),
            "x-amz-checksum-sha256": hashlib.sha256(request.body),
        }
        if request.command != "PUT":
            return request.reply(*request.forward())
        message = ""
        if strange := {*right} & {*given} - {*kinds}:
            message = f"Unsupported header '{strange.pop()}' received for this API call."
        elif not {*kinds} & {*given}:
            message = "Content-MD5 OR x-amz-checksum- HTTP header is required for Put Object requests with Object Lock"
        for kind in {*kinds} & {*given}:
            assert given[kind] == base64.b64encode(right[kind].digest()).decode()
        if message:
            body = f"<Error><Code>InvalidRequest</Code><Message>{message}</Message></Error>"
            return request.reply(400, {"Content-Type": "application/xml"}, body.encode())
        return request.reply(*request.forward())

    return answer


@pytest.mark.parametrize("kinds", [(), ("x-amz-checksum-sha256", "content-md5"), ("content-md5",)], ids=str)
def test_a_checksum_is_sent_where_the_bucket_wants_one(s3: StoreOptions, bucket: str, kinds: tuple[str, ...]) -> None:
    """And nowhere else: other stores refuse such headers."""
    puts: list[bool] = []

    def count(request: Handler) -> None:
        if request.command == "PUT":
            puts.append(bool({"content-md5", "x-amz-checksum-sha256"} & {name.lower() for name in request.headers}))
        (wanting(*kinds) if kinds else lambda plain: plain.reply(*plain.forward()))(request)

    with through(s3, count) as locked:
        store, outlet = Bucket(locked, bucket), Outlet(OutletOptions("s3", bucket, "out", locked))
        for key in ("a", "b", "c"):
            assert put(store, key, DATA)
            assert store.get(key) == DATA
        store.put_again("a", b"other", hashlib.sha256(b"other").hexdigest())
        refused = puts.count(False)
        assert outlet.create("d", DATA)
        outlet.put("d", b"other")
        assert (outlet.create("d", DATA), outlet.get("d")) == (False, b"other")
    assert refused == (min(len(kinds), 1) if kinds else 4)  # it is learned once


def test_an_endpoint_that_comes_back_is_waited_for(
    s3: StoreOptions, own_s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the one of its servers that knows the account comes back after the one that answers."""
    options = own_s3.options
    create_bucket(options, "archive")
    own_s3.stop()
    start = own_s3._start

    def late(name: str) -> Process:
        if name == "account":
            time.sleep(2)
        return start(name)

    monkeypatch.setattr(own_s3, "_start", late)
    monkeypatch.setattr("nats3_dagster.dev.s3.server.SERVERS", ("proxy", "container", "object", "account"))
    timer = threading.Timer(3, own_s3.start)
    timer.start()
    try:
        assert put(Bucket(replace(options, patience_s=60), "archive"), KEY, DATA)
    finally:
        timer.join()


def test_an_answer_that_is_lost_does_no_harm(s3: StoreOptions, bucket: str) -> None:
    """The object was written and we do not know: the next try finds our own bytes."""
    with through(s3, store_and_lose, ("PUT",)) as lossy:
        complaint(lambda: put(Bucket(lossy, bucket), KEY, DATA))
    assert not put(Bucket(s3, bucket), KEY, DATA)
    assert Bucket(s3, bucket).get(KEY) == DATA


def test_a_copy_that_is_refused_in_a_good_answer_is_made_again(s3: StoreOptions, bucket: str) -> None:
    """S3 answers 200 to a copy before it is done, and says SlowDown in the body."""
    refused: list[str] = []

    def slow_down(request: Handler) -> None:
        if request.headers.get("x-amz-copy-source") and not refused:
            refused.append(request.path)
            body = b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"
            request.reply(200, {"Content-Type": "application/xml"}, body)
        else:
            request.reply(*request.forward())

    with through(s3, slow_down, ("PUT",)) as slow:
        outlet = Outlet(OutletOptions("s3", bucket, "files", slow))
        outlet.put("staged", b"new")
        outlet.put("a.csv", b"old")
        outlet.move("staged", "a.csv")
        assert (outlet.get("a.csv"), outlet.get("staged"), len(refused)) == (b"new", None, 1)


@pytest.mark.parametrize("stored", [DATA[:-1], b"X" + DATA[1:], b""], ids=["cut", "altered", "empty"])
def test_a_store_that_holds_something_else_is_found_out(
    s3: StoreOptions, bucket: str, s3_client: Any, stored: bytes
) -> None:
    def spoil(request: Handler) -> None:
        answer = request.forward()
        if request.command == "PUT":
            s3_client.put_object(Bucket=bucket, Key=KEY, Body=stored)
        request.reply(*answer)

    with through(s3, spoil) as spoilt:
        assert "holds something else" in complaint(lambda: put(Bucket(spoilt, bucket), KEY, DATA))


def test_a_size_is_checked_where_the_etag_says_nothing(s3: StoreOptions, bucket: str, s3_client: Any) -> None:
    def spoil(request: Handler) -> None:
        status, headers, content = request.forward()
        if request.command == "PUT":
            s3_client.put_object(Bucket=bucket, Key=KEY, Body=DATA[:-1])
        request.reply(status, {**headers, "ETag": '"some-other-kind"'} if status == 200 else headers, content)

    with through(s3, spoil) as spoilt:
        assert "holds something else" in complaint(lambda: put(Bucket(spoilt, bucket), KEY, DATA))


@pytest.mark.parametrize("etag", ['"some-other-kind"', '"0123456789abcdef0123456789abcdef-1"'])
def test_an_etag_of_another_kind_proves_nothing(s3: StoreOptions, bucket: str, s3_client: Any, etag: str) -> None:
    """The size is right, the content is not: the object is read back."""

    def spoil(request: Handler) -> None:
        status, headers, content = request.forward()
        if request.command == "PUT":
            s3_client.put_object(Bucket=bucket, Key=KEY, Body=b"x" * len(DATA))
        request.reply(status, {**headers, "ETag": etag} if status == 200 else headers, content)

    with through(s3, spoil) as spoilt:
        assert "holds something else" in complaint(lambda: put(Bucket(spoilt, bucket), KEY, DATA))


def test_an_etag_that_is_no_md5_is_not_taken_for_damage(s3: StoreOptions, bucket: str) -> None:
    """Buckets that encrypt with keys of their own have ETags of 32 digits that are no MD5: the bytes decide then."""

    def encrypt(request: Handler) -> None:
        status, headers, content = request.forward()
        request.reply(status, {**headers, "ETag": '"0123456789abcdef0123456789abcdef"'}, content)

    with through(s3, encrypt) as encrypted:
        assert put(Bucket(encrypted, bucket), KEY, DATA)


@pytest.mark.parametrize(
    ("status", "body", "says"),
    [
        (507, "", "is full"),
        (501, "<Error><Code>NotImplemented</Code></Error>", "does not know create-only PUT"),
        (403, "<Error><Code>AccessDenied</Code></Error>", "s3:PutObject"),
        (403, "<Error><Code>InvalidObjectState</Code></Error>", "was moved to cold storage"),
        (403, "<Error><Code>RequestTimeTooSkewed</Code></Error>", "clock"),
        (400, "<Error><Code>ExpiredToken</Code></Error>", "expired"),
        (301, "<Error><Code>PermanentRedirect</Code></Error>", "AWS_REGION"),
        (400, "<Error><Code>Odd</Code><Message>Because hunter.</Message></Error>", "answered 400 Odd Because hunter."),
        (500, "<Error><Code>InternalError</Code></Error>", "answered 500 InternalError"),
        (503, "<Error><Code>SlowDown</Code></Error>", "It limits how often it is asked"),
    ],
)
def test_each_answer_has_its_next_step(s3: StoreOptions, status: int, body: str, says: str) -> None:
    def refuse(request: Handler) -> None:
        request.reply(status, {}, body.encode())

    with through(s3, refuse, ("GET", "PUT")) as refusing:
        assert says in complaint(lambda: put(Bucket(refusing, "archive"), KEY, DATA))


def test_a_download_that_breaks_off_is_taken_up_or_told(s3: StoreOptions, bucket: str) -> None:
    data = os.urandom(1 << 20)
    put(Bucket(s3, bucket), KEY, data)
    broken: list[str] = []

    def break_off(request: Handler) -> None:
        broken.append(request.path)
        cut_body(request)

    with through(s3, break_off, ("GET",), times=1) as breaking:
        assert Bucket(breaking, bucket).get(KEY) == data
    assert broken


def test_a_list_that_ends_too_early_is_gone_on_with_or_told(s3: StoreOptions, bucket: str) -> None:
    """The store says that a page is not the last one, and not how to go on."""

    def truncate(request: Handler) -> None:
        status, headers, content = request.forward()
        entry = rb"<(Contents|CommonPrefixes)>.*?</\1>"
        entries = [found[0] for found in re.finditer(entry, content, re.DOTALL)]
        for one in entries[2:]:
            content = content.replace(one, b"")
        if entries[2:]:
            content = re.sub(rb"<IsTruncated>\w+<", b"<IsTruncated>true<", content)
        request.reply(status, {**headers, "Content-Length": str(len(content))}, content)

    for number in range(5):
        put(Bucket(s3, bucket), f"team/{number}/a", DATA)
    with through(s3, truncate, ("GET",)) as cut:
        store, outlet = Bucket(cut, bucket), Outlet(OutletOptions("s3", bucket, "team", cut))
        assert [key for key, _ in store.list("team")] == [f"team/{number}/a" for number in range(5)]
        assert len(list(store.put_before("team", datetime(2100, 1, 1, tzinfo=UTC)))) == 5
        assert list(outlet.list("")) == [f"{number}/a" for number in range(5)]
        assert list(store.list("none")) == []
        assert "does not go on with its list of objects" in complaint(lambda: store.folders("team"))


# Folders


def in_process(code: str, *arguments: str, before: Sequence[str] = ()) -> str:
    """What `code` prints in a process of its own, with `put`, `Bucket` and the like at hand."""
    start = (
        "import hashlib, sys\n"
        "from nats3_dagster.errors import StoreError\n"
        "from nats3_dagster.objects import Bucket, StoreOptions\n"
        "bucket = Bucket(StoreOptions(url=sys.argv[1]), 'archive')\n"
        "def put(key, data):\n"
        "    try: print(bucket.put_new(key, data, hashlib.sha256(data).hexdigest()))\n"
        "    except StoreError as error: print(error)\n"
    )
    done = subprocess.run(
        [*before, sys.executable, "-c", start + code, *arguments], capture_output=True, text=True, check=True
    )
    return done.stdout


def test_a_file_that_does_not_fit_leaves_nothing(file_store: StoreOptions) -> None:
    """The kernel's limit on the size of a file stands for a disk that fills up in the middle of a write."""
    code = (
        "import resource, signal\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))\n"
        "put('a/small', bytes(1000)); put('a/large', bytes(200_000))\n"
    )
    first, second = in_process(code, file_store.url).splitlines()
    assert first == "True"
    assert "does not take files of this size" in second
    bucket = Bucket(file_store, "archive")
    assert list(bucket.list()) == [("a/small", 1000)]
    assert [p.name for p in (file_store.folder or Path()).rglob("*") if p.is_file()] == ["small"]
    assert put(bucket, "a/large", bytes(200_000))


@pytest.mark.skipif(sys.platform != "linux", reason="mounts a small file system of its own")
def test_a_full_disk_leaves_nothing() -> None:
    with tempfile.TemporaryDirectory() as folder:
        mounted = f"mount -t tmpfs -o size=300k none {folder} && mkdir {folder}/archive && exec "
        command = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", mounted + '"$@"', "sh"]
        if subprocess.run([*command, "true"], capture_output=True, check=False).returncode:
            pytest.skip("this user may not mount")
        code = (
            "put('a/first', bytes(200_000)); put('a/second', bytes(200_000))\n"
            "import pathlib\n"
            "print(sorted(p.name for p in pathlib.Path(sys.argv[2]).rglob('*') if p.is_file()))\n"
        )
        first, second, files = in_process(code, f"file://{folder}", folder, before=command).splitlines()
        assert first == "True"
        assert second.startswith(f"The disk of {folder} is full. Make room")
        assert files == "['first']"


def test_a_folder_that_may_not_be_used() -> None:
    """Root may do everything, unless it gives up that right."""
    before = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search"] if os.geteuid() == 0 else []
    if before and not shutil.which("setpriv"):
        pytest.skip("root here cannot give up its rights")
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "archive").mkdir()
        (Path(folder) / "archive").chmod(0o500)
        said = in_process("put('a/b', b'x')", f"file://{folder}", before=before)
        assert f"This user may not use {folder}/archive" in said
        (Path(folder) / "archive").chmod(0o000)
        listing = "try: list(bucket.list())\nexcept StoreError as error: print(error)"
        said = in_process(listing, f"file://{folder}", before=before)
        (Path(folder) / "archive").chmod(0o755)
        assert f"This user may not use {folder}/archive" in said


def test_a_bucket_that_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "archive").write_text("a file")
    options = StoreOptions(url=f"file://{tmp_path}")
    assert "does not exist" in complaint(lambda: put(Bucket(options, "archive"), KEY, DATA))


def test_a_bucket_that_vanishes_is_not_made_again(file_store: StoreOptions) -> None:
    bucket = Bucket(file_store, "archive")
    put(bucket, KEY, DATA)
    (bucket_folder := (file_store.folder or Path()) / "archive").rename(bucket_folder.with_name("moved"))
    for ask in ASKS.values():
        with pytest.raises(StoreError, match="does not exist") as caught:
            ask(bucket)
        assert not isinstance(caught.value, ObjectMissing)
    assert not bucket_folder.exists()


@pytest.mark.skipif(sys.platform != "linux", reason="watches system calls with strace")
def test_the_file_and_its_folders_reach_the_disk_before_success(file_store: StoreOptions, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    strace = ["strace", "-f", "-y", "-e", "trace=fsync,linkat,link", "-o", str(trace)]
    try:
        subprocess.run([*strace, "true"], check=True, capture_output=True)
    except (FileNotFoundError, subprocess.CalledProcessError):
        pytest.skip("strace does not run here")
    assert in_process("put('a/b', b'x')", file_store.url, before=strace) == "True\n"
    calls = [line.split(maxsplit=1)[1] for line in trace.read_text().splitlines() if "sync(" in line or "link" in line]
    folder = f"{file_store.folder}/archive"
    order = [
        call.split("(")[0] + ":" + path
        for call in calls
        for path in (f"{folder}/a/b", f"{folder}/a", folder)
        if f"<{path}>" in call or f"<{path}#" in call or f'"{path}"' in call
    ]
    assert [o for o in order if o.startswith("fsync")] == [
        f"fsync:{folder}/a/b",
        f"fsync:{folder}/a",
        f"fsync:{folder}",
    ]
    assert order[0] == f"fsync:{folder}/a/b"
    assert "link" in order[1]
