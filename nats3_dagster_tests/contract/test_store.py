"""The store's promises, on a real S3 endpoint and in a real folder alike."""

import hashlib
import pickle
import re
import threading
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from nats3_dagster.archive.health.store_health import check
from nats3_dagster.dev.s3.server import S3Server
from nats3_dagster.errors import ChunkError, ObjectMissing, OperatorError, StoreError
from nats3_dagster.objects import (
    Bucket,
    ObjectInfo,
    Outlet,
    OutletOptions,
    StoreOptions,
    bucket_exists,
    create_bucket,
    foreign_keys,
)
from nats3_dagster.objects.sdk_calls import located
from nats3_dagster.settings import Settings

KEY = "team/archive=logs/date=2026-11-15/hour=07/a.parquet"
MakeOptions = Callable[[], StoreOptions]


def sha256(data: bytes | memoryview) -> str:
    return hashlib.sha256(data).hexdigest()


@pytest.fixture(params=["s3", "versitygw", "seaweedfs", "file_store", "az", "gs"])
def options(request: pytest.FixtureRequest) -> StoreOptions:
    return request.getfixturevalue(request.param)


@pytest.fixture
def store(options: StoreOptions) -> Bucket:
    name = f"test-{uuid.uuid4().hex[:12]}"
    assert create_bucket(options, name)
    return Bucket(options, name)


def put(bucket: Bucket, key: str, data: bytes) -> bool:
    return bucket.put_new(key, data, sha256(data))


def test_an_object_is_created_once_and_found_again(store: Bucket) -> None:
    data = bytes(range(256)) * 1000
    assert put(store, KEY, data)
    assert not put(store, KEY, data)
    assert store.get(KEY) == data
    assert store.head(KEY)[:2] == (KEY, len(data))
    assert store.exists(KEY)
    assert list(store.list()) == [(KEY, len(data))]


def test_a_key_is_in_the_store_as_it_is_written(s3: StoreOptions, s3_client: Any, bucket: str) -> None:
    """Clients have encoded keys twice, and read a `%` of theirs as the begin of a code."""
    store, keys = (
        Bucket(s3, bucket),
        ["mäggi/50%/a", "a b/c+d", "q?x=1&y/a#b", "100%25/%zz", "[x]/{y}~^`|\\z", "日本/*/<'>"],
    )
    for key in keys:
        assert put(store, key, key.encode())
        assert bytes(store.get(key)) == key.encode()
        assert [listed for listed, _ in store.list(key.partition("/")[0])] == [key]
    assert sorted(item["Key"] for item in s3_client.list_objects_v2(Bucket=bucket)["Contents"]) == sorted(keys)


def test_a_bad_object_is_put_again(store: Bucket) -> None:
    put(store, KEY, b"bad")
    for data in (b"good" * 1000, b"good" * 1000, b""):
        store.put_again(KEY, data, sha256(data))
        assert store.get(KEY) == data
    assert list(store.list()) == [(KEY, 0)]
    store.delete(KEY)
    store.put_again(KEY, b"x", sha256(b"x"))
    assert store.get(KEY) == b"x"


@pytest.mark.parametrize("data", [b"", b"x", b"\0" * (3 << 20)], ids=len)
def test_any_size_comes_back(store: Bucket, data: bytes) -> None:
    assert put(store, KEY, data)
    assert store.get(KEY) == data
    assert store.head(KEY).size == len(data)


def test_an_object_that_is_larger_than_it_was_written_is_not_read(store: Bucket) -> None:
    put(store, KEY, b"x" * 1000)
    assert store.get(KEY, 1000) == b"x" * 1000
    with pytest.raises(ChunkError, match="has 1,000 bytes, and 999 at most were written there"):
        store.get(KEY, 999)


def test_arrow_buffers_are_stored_as_they_are(store: Bucket) -> None:
    buffer = pa.py_buffer(b"PAR1" * 1000)
    assert store.put_new(KEY, buffer, sha256(memoryview(buffer)))
    assert store.get(KEY) == b"PAR1" * 1000


def test_other_bytes_under_the_key_are_an_error_and_stay(store: Bucket) -> None:
    assert put(store, KEY, b"first")
    with pytest.raises(StoreError, match="with other bytes") as caught:
        put(store, KEY, b"secnd")
    assert caught.value.hint
    assert store.get(KEY) == b"first"


def test_ranges_are_whole_or_an_error(store: Bucket) -> None:
    put(store, KEY, b"0123456789")
    assert store.get_range(KEY, 3, 4) == b"3456"
    assert store.get_range(KEY, 0, 10) == b"0123456789"
    for start, length in (5, 6), (10, 1), (100, 1):
        with pytest.raises(StoreError, match="ends before"):
            store.get_range(KEY, start, length)


@pytest.mark.parametrize(
    "ask", [lambda b: b.get("no/such"), lambda b: b.head("no/such"), lambda b: b.get_range("no/such", 0, 1)]
)
def test_a_missing_object_has_an_error_of_its_own(store: Bucket, ask: Callable[[Bucket], Any]) -> None:
    put(store, "no/such-but-longer", b"x")
    with pytest.raises(ObjectMissing, match="no/such is not in the bucket") as caught:
        ask(store)
    assert caught.value.hint
    assert not store.exists("no/such")


def test_what_is_deleted_is_gone_and_deleting_again_is_no_error(store: Bucket) -> None:
    put(store, KEY, b"x")
    store.delete(KEY)
    assert not store.exists(KEY)
    store.delete(KEY)
    assert put(store, KEY, b"y")


def test_a_listing_is_lazy_and_keeps_to_its_prefix(store: Bucket, options: StoreOptions) -> None:
    keys = [f"a/{n:04}.parquet" for n in range(1020 if options.folder else 40)]  # others take 16 ms an object
    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(lambda key: put(store, key, key.encode()), [*keys, "ab/x", "b/x"]))
    listing = store.list("a")
    assert iter(listing) is listing
    next(listing)  # a listing that is dropped in the middle does no harm
    assert sorted(store.list("a")) == [(key, len(key)) for key in keys]
    assert sorted(key for key, _ in store.list()) == sorted([*keys, "ab/x", "b/x"])
    assert list(store.list("nothing")) == []


@pytest.mark.parametrize(
    "foreign", ["pre/a.b//x", "pre/./x", "pre/../y", "pre/a\nb", "pre//", "pre/m/.", "pre/a", "//pre/a"]
)
def test_keys_of_others_hide_none_of_ours(
    s3: StoreOptions, s3_client: Any, bucket: str, foreign: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(foreign_keys, "PAGE", 2)
    ours = ["pre/a.b/c", "pre/m/n", "pre/z"]
    for key in [*ours, "prefix/x", foreign]:
        s3_client.put_object(Bucket=bucket, Key=key, Body=b"12")
    store, outlet = Bucket(s3, bucket), Outlet(OutletOptions("s3", bucket, "pre", s3))
    listed = [(key, 2) for key in sorted([*ours, foreign] if foreign == "pre/a" else ours)]
    assert list(store.list("pre")) == listed
    assert list(store.put_before("pre", datetime.now(UTC) + timedelta(hours=1))) == listed
    assert list(outlet.list("")) == [key.removeprefix("pre/") for key, _ in listed]
    assert store.folders("pre") == ("pre/a.b", "pre/m")
    assert [key for key, _ in store.list() if key != "pre/a"] == [*ours, "prefix/x"]
    assert store.folders() == ("pre", "prefix")
    following = foreign_keys.listing(*located(s3, bucket), "pre")("pre/m/n")  # where a later page has such a key
    assert [item["path"] for page in following for item in page] == ["pre/z"]


def test_a_file_whose_name_cannot_be_listed_is_named(file_store: StoreOptions) -> None:
    assert create_bucket(file_store, "odd")
    store = Bucket(file_store, "odd")
    put(store, KEY, b"1")
    assert file_store.folder
    (file_store.folder / "odd" / "team" / "a\nb").touch()
    for ask in (lambda: list(store.list("team")), lambda: store.folders("team")):
        with pytest.raises(StoreError, match=r"'.*a\\nb' in the bucket 'odd' .* has a name that cannot be listed"):
            ask()


def test_a_bucket_that_is_missing_is_named_with_what_to_do(
    options: StoreOptions, request: pytest.FixtureRequest
) -> None:
    missing = Bucket(options, "no-such-bucket")
    # SeaweedFS 4.53 makes the bucket of a PUT by its administrator.
    puts = [] if request.node.callspec.params["options"] == "seaweedfs" else [b"x", bytes(2 << 20)]
    asks: list[Callable[[], Any]] = [
        *(partial(put, missing, KEY, data) for data in puts),
        lambda: missing.get(KEY),
        lambda: missing.get_range(KEY, 0, 1),
        lambda: missing.head(KEY),
        lambda: missing.exists(KEY),
        lambda: missing.delete(KEY),
        lambda: list(missing.list()),
    ]
    for ask in asks:
        with pytest.raises(StoreError, match="bucket 'no-such-bucket' does not exist") as caught:
            ask()
        assert not isinstance(caught.value, ObjectMissing)
        assert caught.value.hint == "Create it there, or name the store that has it"
    assert not bucket_exists(options, "no-such-bucket")


def test_a_bucket_is_made_once(options: StoreOptions) -> None:
    name = f"test-{uuid.uuid4().hex[:12]}"
    assert not bucket_exists(options, name)
    assert create_bucket(options, name)
    assert bucket_exists(options, name)
    assert not create_bucket(options, name)


@pytest.mark.parametrize("key", ["../x", "a/../../x", "a//b", "/a", "a/", "."])
def test_no_key_leads_out_of_the_bucket(store: Bucket, key: str) -> None:
    with pytest.raises(StoreError, match="cannot be the key") as caught:
        put(store, key, b"x")
    assert caught.value.hint
    assert list(store.list()) == []


def test_one_of_many_wins_and_the_others_find_its_bytes(store: Bucket) -> None:
    for turn in range(3):
        data = b"%d" % turn * 100_000
        gate = threading.Barrier(32)

        def attempt(_: int, turn: int = turn, data: bytes = data, gate: threading.Barrier = gate) -> bool:
            gate.wait()
            return put(store, f"race/{turn}", data)

        with ThreadPoolExecutor(32) as pool:
            assert sum(pool.map(attempt, range(32))) == 1
        assert store.get(f"race/{turn}") == data


def test_one_of_many_different_ones_wins_and_stays(store: Bucket) -> None:
    gate = threading.Barrier(32)

    def attempt(n: int) -> bytes | None:
        data = b"%02d" % n * 50_000
        gate.wait()
        try:
            return data if put(store, "race", data) else None
        except StoreError:
            return None

    with ThreadPoolExecutor(32) as pool:
        winners = [data for data in pool.map(attempt, range(32)) if data]
    assert [bytes(store.get("race"))] == winners


def test_options_travel_and_keep_their_secrets(s3: StoreOptions) -> None:
    assert pickle.loads(pickle.dumps(s3)) == s3
    options = StoreOptions(
        endpoint="https://s3.example.com:9000",
        access_key_id="AKIA",
        secret_access_key="hunter3",
        session_token="hunter4",
    )
    assert "hunter3" not in repr(options)
    assert "hunter4" not in repr(options)
    assert options.place == "https://s3.example.com:9000"


@pytest.mark.parametrize(
    "made",
    [
        {"url": "gs://x"},
        {"url": "s3://bucket"},
        {"url": "file://host/x"},
        {"url": "file:x"},
        {"url": ""},
        {"endpoint": "127.0.0.1:9000"},
        {"endpoint": "nats://127.0.0.1:4222"},
        {"endpoint": "http://"},
        {"endpoint": "https://user:hunter2@s3.example.com:9000"},
        {"access_key_id": "AKIA"},
        {"secret_access_key": "hunter2"},
    ],
    ids=str,
)
def test_options_made_wrong_are_refused(made: dict[str, Any]) -> None:
    with pytest.raises(OperatorError) as caught:
        StoreOptions(**made)
    assert caught.value.hint
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("name", ["", "../x", "a/b", ".", ".."])
def test_what_is_no_bucket_name_is_refused(options: StoreOptions, name: str) -> None:
    with pytest.raises(StoreError, match="is not a bucket name"):
        Bucket(options, name)
    with pytest.raises(StoreError, match="is not a bucket name"):
        create_bucket(options, name)


# What only a folder has


def test_a_folder_with_spaces_is_one(tmp_path: Path) -> None:
    options = StoreOptions(url=(tmp_path / "my store").as_uri())
    assert create_bucket(options, "archive")
    assert put(Bucket(options, "archive"), KEY, b"x")
    assert (tmp_path / "my store" / "archive" / KEY).read_bytes() == b"x"


def test_nothing_is_left_beside_an_object(file_store: StoreOptions) -> None:
    bucket = Bucket(file_store, "archive")
    put(bucket, KEY, b"x")
    put(bucket, KEY, b"x")
    folder = Path(file_store.url.removeprefix("file://")) / "archive"
    assert [path.name for path in folder.rglob("*") if path.is_file()] == ["a.parquet"]


def test_the_draft_of_a_killed_process_is_not_listed(file_store: StoreOptions) -> None:
    bucket = Bucket(file_store, "archive")
    put(bucket, KEY, b"x")
    folder = Path(file_store.url.removeprefix("file://")) / "archive"
    (folder / (KEY + "#12345")).write_bytes(b"half")
    assert list(bucket.list()) == [(KEY, 1)]
    assert put(bucket, KEY.replace("/a", "/b"), b"x")


# What only S3 has


def test_the_etag_is_the_md5(s3: StoreOptions, bucket: str) -> None:
    store = Bucket(s3, bucket)
    put(store, KEY, b"hello")
    assert store.head(KEY) == ObjectInfo(KEY, 5, hashlib.md5(b"hello").hexdigest())


def test_without_its_lock_the_servers_conditional_put_fails_us(tmp_path: Path) -> None:
    """Why the catalog has a constraint of its own: the store's If-None-Match alone may let several of us win."""
    with S3Server(tmp_path / "s3", create_lock=False) as server:
        create_bucket(server.options, "race")
        store = Bucket(server.options, "race")
        winners = 0
        for turn in range(20):
            gate = threading.Barrier(16)

            def attempt(_: int, turn: int = turn, gate: threading.Barrier = gate) -> bool:
                gate.wait()
                return put(store, f"race/{turn}", b"x" * 50_000)

            with ThreadPoolExecutor(16) as pool:
                winners = max(winners, sum(pool.map(attempt, range(16))))
            assert store.get(f"race/{turn}") == b"x" * 50_000
            if winners > 1:
                break
        assert winners > 1


def test_the_sdks_credentials_are_found_where_none_are_given(
    s3: StoreOptions, bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = StoreOptions(endpoint=s3.endpoint, region=s3.region)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    for ask in (lambda: put(Bucket(found, bucket), KEY, b"x")), (lambda: bucket_exists(found, bucket)):
        with pytest.raises(StoreError, match="finds no S3 credentials"):
            ask()
    (tmp_path / "credentials").write_text(
        f"[cold]\naws_access_key_id = {s3.access_key_id}\naws_secret_access_key = {s3.secret_access_key}\n"
    )
    monkeypatch.setenv("AWS_PROFILE", "cold")
    assert bucket_exists(found, bucket)
    assert put(Bucket(found, bucket), KEY, b"x")


def test_the_endpoint_of_the_options_wins_over_the_environment(
    s3: StoreOptions, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    assert put(Bucket(s3, bucket), KEY, b"x")
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+", s3.place)


def test_doctor_leaves_no_version_behind(s3_server: S3Server, bucket: str, s3_client: Any, settings: Settings) -> None:
    """A bucket with versions keeps what is deleted, and a marker that it was."""
    s3_client.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    s3_client.put_object(Bucket=bucket, Key="theirs", Body=b"a")
    s3_client.delete_object(Bucket=bucket, Key="theirs")
    found = list(check(settings, [bucket]))
    assert {finding.status for finding in found} == {"ok"}, found
    assert "writes, reads, lists and deletes" in str(found)
    listed = s3_client.list_object_versions(Bucket=bucket)
    assert [one["Key"] for one in (*listed.get("Versions", ()), *listed.get("DeleteMarkers", ()))] == ["theirs"] * 2
