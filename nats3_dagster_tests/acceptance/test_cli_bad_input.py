"""Bad input from the command line: one clear line with the next step, the right status, and nothing written.

The rule kept here: every refusal is compared word by word where its words are the product, and the catalog, the buckets
and the streams are the same before and after.
"""

import hashlib
import io
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from nats3_dagster.catalog.session.schema import VERSION
from nats3_dagster.dev.nats_server import NatsServer
from nats3_dagster.dev.process import free_port
from nats3_dagster.settings import Settings
from nats3_dagster_tests.conftest import NatsFactory
from nats3_dagster_tests.support.commands import Command, everything
from nats3_dagster_tests.support.wire import Wire

SECRET = "Pl4nted-S3cret"


@pytest.fixture
def nats3(capfd: pytest.CaptureFixture[str], settings: Settings, wire: Wire, bucket: str) -> Command:
    """The command line, with a stream EV of two subjects and 100 messages, and an archive `taken` of it."""
    wire.create_stream("EV", "ev.>")
    wire.publish([(f"ev.{'a' if n % 2 else 'b'}", b"", b"%d" % n) for n in range(100)])
    command = Command(capfd)
    command.ok("store", "create", "--name", "taken", "--stream", "EV", "--bucket", bucket)
    return command


@pytest.fixture(autouse=True)
def nothing_is_written(request: pytest.FixtureRequest) -> Iterator[None]:
    """Whatever a test of this module does with the empty archive must change nothing."""
    if "captured" in request.fixturenames:  # those look for themselves
        yield
        return
    command = request.getfixturevalue("nats3")
    assert command is not None
    names = ("postgres_url", "nats", "s3_client", "bucket")
    postgres_url, nats, s3_client, bucket = (request.getfixturevalue(name) for name in names)
    before = everything(postgres_url, nats.url, s3_client, bucket)
    yield
    assert everything(postgres_url, nats.url, s3_client, bucket) == before


CREATE = {"--name": "new", "--stream": "EV", "--bucket": "{bucket}"}
NO_ARCHIVE = [
    ({"--stream": "EVV"}, "2 Error: There is no stream EVV at NATS {nats}. There is EV"),
    ({"--stream": "E.V"}, "2 Error: 'E.V' is not a stream name. It may not hold white space or any of . * > / \\"),
    (
        {"--bucket": "no-such-one"},
        (
            "2 Error: The bucket 'no-such-one' does not exist in {s3}. Create it, or have it created: "
            "--create-bucket, in a file create_bucket: true"
        ),
    ),
    ({"--bucket": "x"}, "2 Error: 'x' is not a bucket name. Use 3 to 63 letters, digits, dots and hyphens"),
    (
        {"--bucket": "s3://archive"},
        (
            "2 Error: The bucket holds a URL, and wants a name. Use 3 to 63 letters, digits, dots and hyphens: no "
            "s3:// and no prefix"
        ),
    ),
    (
        {"--stream": "nats://h/EV"},
        "2 Error: The stream holds a URL, and wants a name. It may not hold white space or any of . * > / \\",
    ),
    ({"--prefix": "s3://a/b"}, "2 Error: The prefix holds a URL, and wants a name. Give the name alone, without a"),
    ({"--subject": "orders.>"}, "2 Error: Stream EV has no subject that 'orders.>' takes. It captures ev.>"),
    (
        {"--subject": "ev..a"},
        "2 Error: 'ev..a' is not a subject filter: token 2 is empty. Subjects are tokens joined by dots; the token *",
    ),
    ({"--name": " my logs"}, "2 Error: ' my logs' is not a name. Use letters, digits, - and _; it cannot be empty"),
    ({"--name": ""}, "2 Error: '' is not a name. Use letters, digits, - and _; it cannot be empty"),
    (
        {"--name": "taken"},
        "1 Error: There is an archive taken already. Choose another name, or see archive taken: nats3 store get taken",
    ),
    (
        {"--name": "taken", "--bucket": "no-such-one", "--create-bucket": ""},
        "1 Error: There is an archive taken already.",
    ),
    ({"--max-messages": "0"}, "2 Error: max_messages is 0. Use 1 to 281,474,976,710,656"),
    ({"--max-messages": "-5"}, "2 Error: max_messages is -5. Use 1 to 281,474,976,710,656"),
    ({"--max-messages": "many"}, "2 Error: Invalid value for '--max-messages'"),
    ({"--max-bytes": "0"}, "2 Error: max_bytes is 0. Use 1 to 281,474,976,710,656"),
    ({"--max-bytes": "-1MiB"}, "2 Error: Invalid value for '--max-bytes': '-1MiB' is not a size. Write it as"),
    ({"--max-age": "0s"}, "2 Error: max_age_s is 0. Use 1 to 315,360,000"),
    ({"--max-age": "5 minutes"}, "2 Error: Invalid value for '--max-age': '5 minutes' is not a duration. Write"),
    ({"--zstd-level": "23"}, "2 Error: zstd_level is 23. Use 1 to 22"),
    ({"--prefix": "/a"}, "2 Error: The prefix '/a' has an empty part. Write it like team/logs"),
    ({"--prefix": "."}, "2 Error: The parts . and .. cannot be in the prefix '.'. Write it like team/logs"),
    ({"--prefix": ".."}, "2 Error: The parts . and .. cannot be in the prefix '..'. Write it like team/logs"),
    ({"--prefix": "a/../b"}, "2 Error: The parts . and .. cannot be in the prefix 'a/../b'. Write it like team/logs"),
    ({"--prefix": "a\nb"}, "2 Error: The prefix holds more than one line, and wants a name."),
    ({"--prefix": "a\udcff"}, "2 Error: The prefix 'a\\udcff' has a character that no key may have."),
    ({"--prefix": "team/archive=x"}, "2 Error: The prefix 'team/archive=x' has a part archive=, date= or hour=."),
    ({"--prefix": "a" * 900}, "2 Error: The prefix 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'... is too long: 900 bytes. Use"),
    ({"--subject": "ev.\udcff"}, "2 Error: 'ev.\\udcff' is not a subject filter: it is not UTF-8. Write * for"),
]


def test_an_archive_that_cannot_be_is_refused(nats3: Command, settings: Settings, bucket: str) -> None:
    places = {"nats": urlsplit(settings.nats_url or "").netloc, "s3": settings.store.place}
    cases: list[tuple[list[str], str]] = []
    for changed, said in NO_ARCHIVE:
        options = {**CREATE, **changed}
        words = [w.format(bucket=bucket) for pair in options.items() for w in pair if w or pair[0] == "--name"]
        cases.append((["store", "create", *words], said.format(**places)))
    assert nats3.differences(cases) == []


OF_AN_ARCHIVE = [
    "store get {}",
    "store run {}",
    "store pause {}",
    "store resume {}",
    "store delete {} --yes --purge",
    "chunk list {}",
    "chunk get {} 1",
    "chunk verify {}",
    "load list --archive {}",
    "load create --archive {} --write-subject back.>",
]


def test_an_unknown_archive_is_named_with_one_that_is_near(nats3: Command) -> None:
    said = "2 Error: There is no archive takem. Did you mean taken?"
    assert nats3.differences((words.format("takem").split(), said) for words in OF_AN_ARCHIVE) == []


UNKNOWN = [
    ("store run taken --hour 2001-01-01-00:00", "2 Error: Stream EV has nothing of the hour 2001-01-01-00:00, nor has"),
    ("store run taken --hour yesterday", "2 Error: 'yesterday' is not an hour. Write it as YYYY-MM-DD-HH:00, in UTC"),
    ("store run taken --hour 2026-02-30-00:00", "2 Error: '2026-02-30-00:00' is not an hour. No such date;"),
    (
        "store run taken --all --hour 2001-01-01-00:00",
        "2 Error: --hour and --all exclude each other. Give one of them,",
    ),
    ("chunk list taken --hour 2001-01-01-00:00", "2 Error: Archive taken has nothing of the hour 2001-01-01-00:00."),
    ("chunk verify taken --hour 2001-01-01-01:30", "2 Error: '2001-01-01-01:30' is not an hour."),
    (
        f"chunk get taken {'4711' * 9}",
        (
            f"2 Error: Archive taken has no chunk {'4711' * 9}. See the chunks of archive "
            "taken, each with its id and key: nats3 chunk list taken"
        ),
    ),
    (
        "chunk get taken some/key",
        (
            "2 Error: Archive taken has no chunk some/key. See the chunks of archive "
            "taken, each with its id and key: nats3 chunk list taken"
        ),
    ),
    ("load get 00", "2 Error: There is no replay 00. See the list of replays: nats3 load list"),
    ("load resume 00", "2 Error: There is no replay 00. See the list of replays: nats3 load list"),
    ("load delete 00", "2 Error: There is no replay 00. See the list of replays: nats3 load list"),
]


def test_unknown_hours_chunks_and_replays(nats3: Command) -> None:
    assert nats3.differences((words.split(), said) for words, said in UNKNOWN) == []


NO_REPLAY = [
    ("", "2 Error: No archive is named. Give --bucket and --read-stream, or --archive"),
    (
        "--bucket nope --read-stream EV",
        "2 Error: No archive of stream EV is in bucket nope. There is taken (stream EV, ",
    ),
    (
        "--archive taken --read-stream EVV",
        "2 Error: No archive of stream EVV is in bucket of any name. There is taken (",
    ),
    (
        "--archive taken --from-time 2026-01-02 --to-time 2026-01-01",
        "2 Error: The selection's start is not before its end. Give an earlier start or a later end",
    ),
    ("--archive taken --from-time noon", "2 Error: Invalid value for '--from-time': 'noon' is not a time."),
    (
        "--archive taken --sequences 9-1",
        "2 Error: 9-1 is not a sequence range. Write first-last, from 1, first not above last",
    ),
    ("--archive taken --sequences all", "2 Error: Invalid value for '--sequences': 'all' is not a sequence"),
    (
        "--archive taken --order random",
        "2 Error: Invalid value for '--order': 'random' is not one of 'stream', 'subject', 'none'",
    ),
    (
        "--archive taken --rate 5 --speed 2",
        "2 Error: The original timing cannot be kept under a limit of messages or bytes a second. Give a speed,",
    ),
    ("--archive taken --from-time 2300-01-01", "2 Error: Invalid value for '--from-time': '2300-01-01' is not a"),
    ("--archive taken --from-time=-999999d", "2 Error: Invalid value for '--from-time': '-999999d' is not a"),
    ("--archive taken --sequences 1-99999999999999999999", "2 Error: 1-99999999999999999999 is not a sequence range."),
    ("--archive taken --rate nan", "2 Error: rate is nan. A pace must be above 0; leave it out for no limit"),
    ("--archive taken --rate 0", "2 Error: rate is 0.0. A pace must be above 0; leave it out for no limit"),
    ("--archive taken --speed 2 --order none", "2 Error: The original timing needs one publisher."),
    ("--archive taken --hour 2001-01-01-00:00", "2 Error: Archive taken has nothing of the hour 2001-01-01-00:00."),
    (
        "--archive taken",
        "2 Error: Archive taken holds nothing of this selection. See the chunks of archive taken: nats3 chunk list",
    ),
    (
        "--archive taken --read-subject ev.>.a",
        "2 Error: 'ev.>.a' is not a subject filter: > may only be the last token.",
    ),
]


@pytest.mark.parametrize("dry", [[], ["--dry-run"]])
def test_a_replay_that_cannot_be_is_refused(nats3: Command, dry: list[str]) -> None:
    create = ["load", "create", "--write-subject", "back.>"]
    assert nats3.differences(([*create, *words.split(), *dry], said) for words, said in NO_REPLAY) == []


def test_an_empty_setting_says_what_to_set(nats3: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.delenv("NATS3_POSTGRES_URL")
        assert nats3.refused("store", "list") == (
            f"2 Error: The address of Postgres is not set. No embedded stack runs in {os.environ['NATS3_HOME']}. Set "
            "NATS3_POSTGRES_URL; or start a stack: nats3 dev; or name the folder of one that runs: NATS3_HOME"
        )
    with monkeypatch.context() as patch:
        patch.delenv("NATS3_NATS_URL")
        assert "Set NATS3_NATS_URL" in nats3.refused("store", "run", "taken")


WAYS = ["store create --name new --stream EV --bucket {bucket}", "store run taken"]


def test_wrong_nats_credentials(
    nats3: Command, bucket: str, nats_factory: NatsFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = nats_factory(config='authorization: {user: "nats3", password: "the-right-one"}')
    monkeypatch.setenv("NATS3_NATS_URL", server.url.replace("//", f"//nats3:{SECRET}@"))
    for words in WAYS:
        said = nats3.refused(*words.format(bucket=bucket).split())
        assert said.startswith("1 Error: NATS at 127.0.0.1:")
        assert "refuse" in said
        assert SECRET not in said


def test_wrong_postgres_credentials(
    nats3: Command, bucket: str, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = urlsplit(postgres_url)
    wrong = at._replace(netloc=f"{at.username}:{SECRET}@{at.hostname}:{at.port}").geturl()
    monkeypatch.setenv("NATS3_POSTGRES_URL", wrong)
    for words in [*WAYS, "chunk verify taken", "store list"]:
        said = nats3.refused(*words.format(bucket=bucket).split())
        assert said.startswith("1 Error: Postgres at 127.0.0.1:")
        assert said.endswith("Correct the user or password in NATS3_POSTGRES_URL")
        assert SECRET not in said


def test_wrong_s3_credentials(nats3: Command, bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    for words in WAYS:
        said = nats3.refused(*words.format(bucket=bucket).split())
        assert said.startswith("1 Error: http://127.0.0.1:")
        assert said.endswith("Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY to a pair that this store knows")
        assert SECRET not in said


@pytest.mark.parametrize(
    ("setting", "scheme", "said"),
    [
        ("NATS3_NATS_URL", "nats://user:{secret}@127.0.0.1:{port}", "Nothing listens for NATS at 127.0.0.1:"),
        ("NATS3_POSTGRES_URL", "postgresql://user:{secret}@127.0.0.1:{port}/nats3", "Postgres at 127.0.0.1:"),
        ("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:{port}", "http://127.0.0.1:"),
    ],
)
def test_a_server_that_is_down(
    nats3: Command, bucket: str, monkeypatch: pytest.MonkeyPatch, setting: str, scheme: str, said: str
) -> None:
    monkeypatch.setenv(setting, scheme.format(secret=SECRET, port=free_port()))
    for words in WAYS:
        error = nats3.refused(*words.format(bucket=bucket).split())
        assert error.startswith(f"1 Error: {said}")
        assert SECRET not in error


def test_a_setting_that_cannot_be_read_is_not_repeated(nats3: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    for setting in ("NATS3_NATS_URL", "NATS3_POSTGRES_URL"):
        with monkeypatch.context() as patch:
            patch.setenv(setting, f"::nonsense {SECRET}@@")
            assert SECRET not in nats3.refused("store", "run", "taken")


def test_a_schema_that_is_newer_than_this_release(nats3: Command, postgres_url: str) -> None:
    with psycopg.connect(postgres_url) as connection:
        connection.execute("UPDATE nats3.alembic_version SET version_num = '9999'")
    for words in ("store list", "store run taken", "migrate"):
        said = nats3.refused(*words.split())
        assert "has schema 9999, newer than" in said
        assert ". Upgrade nats3-dagster" in said
    with psycopg.connect(postgres_url) as connection:
        connection.execute("UPDATE nats3.alembic_version SET version_num = %s", [VERSION])


def test_a_database_without_a_catalog(nats3: Command, empty_postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NATS3_POSTGRES_URL", empty_postgres_url)
    assert nats3.refused("store", "list").endswith("Make the catalog's schema: nats3 migrate")
    nats3.ok("migrate")
    assert nats3.ok("store", "list", "-o", "json").json == []


# With an archive that holds messages


@pytest.fixture
def captured(spark: SparkSession, nats3: Command, wire: Wire) -> Command:
    """The archive `taken` with all 100 messages, and a stream BACK that listens on `back.>`."""
    wire.create_stream("BACK", "back.>")
    nats3.ok("store", "run", "taken")
    return nats3


@pytest.fixture
def unchanged(
    captured: Command, settings: Settings, nats: NatsServer, s3_client: Any, bucket: str
) -> Callable[[], None]:
    """Asserts that nothing was written since this fixture was made, or since it was called last."""

    def now() -> Any:
        return everything(settings.postgres, nats.url, s3_client, bucket)

    before = now()

    def check() -> None:
        assert now() == before

    return check


NOWHERE = [
    (
        "--read-subject ev.> --write-subject nowhere.>",
        "2 Error: No stream listens on nowhere.>. Create a stream that captures it first, or let the replay do",
    ),
    (
        "--read-subject ev.> --write-subject ev.>",
        "2 Error: ev.> is captured by EV, the stream that archive taken archives. The replay would be archived again.",
    ),
    (
        "--read-subject ev.a --write-subject ev.copy",
        "2 Error: ev.copy is captured by EV, the stream that archive taken",
    ),
    (
        "--read-subject ev.* --write-subject back.*",
        "2 Error: The destination 'back.*' holds a bare *. Write {{wildcard(1)}}",
    ),
    ("--read-subject ev.a --write-subject back.>", "2 Error: 'back.>' ends with > but 'ev.a' does not."),
    ("--read-subject ev.> --write-subject back.{{wildcard(2)}}", "2 Error: 'back.{{wildcard(2)}}' asks for wildcard 2"),
    (
        "--read-subject orders.> --write-subject back.>",
        "2 Error: No subject of archive taken in this selection matches 'orders.>'",
    ),
    (
        "--write-subject back.x --from-time 2001-01-01 --to-time 2001-01-02",
        "2 Error: Archive taken holds nothing of this",
    ),
    ("--write-subject back.x --sequences 1000-2000", "2 Error: Archive taken holds nothing of this selection."),
    (
        "--write-subject back.x --hour 2001-01-01-00:00",
        "2 Error: Archive taken has nothing of the hour 2001-01-01-00:00.",
    ),
]


def test_a_replay_into_nowhere_or_into_its_own_source(captured: Command, unchanged: Callable[[], None]) -> None:
    create = ["load", "create", "--archive", "taken"]
    for more in ([], ["--dry-run"]):
        assert captured.differences(([*create, *words.split(), *more], said) for words, said in NOWHERE) == []
    unchanged()


def test_a_server_that_takes_no_message_so_large(
    captured: Command, unchanged: Callable[[], None], nats_factory: NatsFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = nats_factory(config="max_payload: 256")
    with Wire(small.url) as wire:
        wire.create_stream("BACK", "back.>")
        with monkeypatch.context() as patch:
            patch.setenv("NATS3_NATS_URL", small.url)
            said = captured.refused("load", "create", "--archive", "taken", "--write-subject", "back.x")
        assert wire.state("BACK")["messages"] == 0
    words = r"takes (\d+) bytes with its headers when replayed; the server's max_payload is 256\. .* at least (\d+)"
    match = re.fullmatch(f"1 Error: The largest message {words}", said)
    assert match is not None
    assert 256 < int(match[1]) == int(match[2]) < 400
    unchanged()


def the_chunk(captured: Command) -> dict[str, Any]:
    return captured.ok("chunk", "list", "taken", "-o", "json").json[-1]


def bad_objects(data: bytes) -> dict[str, bytes | None]:
    """What may become of an object outside: the bytes that are there instead (None: nothing)."""
    flipped = bytearray(data)
    flipped[len(data) // 2] ^= 1
    return {"missing": None, "truncated": data[:-100], "flipped": bytes(flipped), "empty": b""}


@pytest.mark.parametrize("defect", ["missing", "truncated", "flipped", "empty", "foreign"])
def test_a_chunk_that_is_not_what_was_written(
    captured: Command, s3_client: Any, bucket: str, wire: Wire, settings: Settings, defect: str
) -> None:
    chunk = the_chunk(captured)
    data = s3_client.get_object(Bucket=bucket, Key=chunk["key"])["Body"].read()
    if defect == "foreign":
        captured.ok("store", "create", "--name", "other", "--stream", "EV", "--bucket", bucket)
        captured.ok("store", "run", "other")
        other = captured.ok("chunk", "list", "other", "-o", "json").json[-1]
        bad = s3_client.get_object(Bucket=bucket, Key=other["key"])["Body"].read()
    else:
        bad = bad_objects(data)[defect]
    if bad is None:
        s3_client.delete_object(Bucket=bucket, Key=chunk["key"])
    else:
        s3_client.put_object(Bucket=bucket, Key=chunk["key"], Body=bad)

    ran = captured("chunk", "verify", "taken", "-o", "json")
    assert ran.status == 1
    assert [b["key"] for b in ran.json["bad"]] == [chunk["key"]]
    assert ran.json["bad"][0]["hint"]
    assert ran.error.startswith("Error: 1 of ")
    (line,) = [
        line for line in ran.err.splitlines() if line.startswith(f"Bad chunk {chunk['id']}, {chunk['hour']}, seq")
    ]
    assert chunk["key"] in line
    for words in ("--archive taken --write-subject back.x", "--archive taken --write-subject back.y --order none"):
        said = captured.refused("load", "create", *words.split())
        assert said.startswith("1 Error: ")
        assert chunk["key"] in said
    assert wire.state("BACK")["messages"] <= 100 - chunk["messages"]
    # With its own bytes again, all is well again.
    s3_client.put_object(Bucket=bucket, Key=chunk["key"], Body=data)
    captured.ok("chunk", "verify", "taken")


def test_a_chunk_of_a_newer_format(
    captured: Command, s3_client: Any, bucket: str, wire: Wire, postgres_url: str
) -> None:
    chunk = the_chunk(captured)
    table = pq.read_table(io.BytesIO(s3_client.get_object(Bucket=bucket, Key=chunk["key"])["Body"].read()))
    version = next(key for key in table.schema.metadata if key.endswith(b"version"))
    newer = io.BytesIO()
    pq.write_table(table.replace_schema_metadata({**table.schema.metadata, version: b"2"}), newer)
    s3_client.put_object(Bucket=bucket, Key=chunk["key"], Body=newer.getvalue())
    with psycopg.connect(postgres_url) as connection:
        connection.execute("ALTER TABLE nats3.chunk DISABLE TRIGGER USER")
        connection.execute(
            "UPDATE nats3.chunk SET sha256 = %s, stored_bytes = %s WHERE id = %s",
            (hashlib.sha256(newer.getvalue()).hexdigest(), len(newer.getvalue()), chunk["id"]),
        )
    said = "format version 2, and this release reads up to 1. Upgrade nats3-dagster to read it"
    assert said in captured("chunk", "verify", "taken").err
    refused = captured("chunk", "repair", "taken", "-o", "json")
    assert (refused.status, refused.json["repaired"]) == (1, 0)
    assert "1 chunks of archive taken cannot be read, and are what was written" in refused.error
    assert s3_client.head_object(Bucket=bucket, Key=chunk["key"])
    assert said in captured.refused("load", "create", "--archive", "taken", "--write-subject", "back.x")
    assert wire.state("BACK")["messages"] <= 100 - chunk["messages"]


def test_spark_without_java(
    captured: Command, unchanged: Callable[[], None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, wire: Wire
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    said = captured.refused("load", "create", "--archive", "taken", "--write-subject", "back.x")
    assert said.startswith(
        f"1 Error: Spark needs Java, and there is none in JAVA_HOME {tmp_path}. Install a Java runtime, 17"
    )
    unchanged()
    wire.publish([("ev.a", b"", b"one more")])
    assert "Spark needs Java" in captured.refused("store", "run", "taken")
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "Spark needs Java, and there is none. Install" in captured.refused("store", "run", "taken")


def test_nothing_leaks_and_no_traceback_unless_asked_for(
    nats3: Command, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("NATS3_POSTGRES_URL", f"postgresql://user:{SECRET}@127.0.0.1:{free_port()}/nats3")
    ran = nats3("store", "list", "--debug")
    assert "Traceback" in ran.err
    assert ran.err.splitlines()[-1].startswith("Error: Postgres at 127.0.0.1:")
    assert "Traceback" not in nats3("store", "list").err


def test_a_defect_of_ours_is_one_line_without_what_the_exception_says(
    nats3: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(cls: type[Settings]) -> Settings:
        raise RuntimeError(f"a library says {SECRET}")

    monkeypatch.setattr(Settings, "load", classmethod(broken))
    said = nats3.refused("store", "list")
    assert said.startswith("1 Error: internal error, RuntimeError in ")
    assert said.endswith(". Run it again with --debug")
    assert SECRET not in said
    assert "Traceback" in nats3("--debug", "store", "list").err
