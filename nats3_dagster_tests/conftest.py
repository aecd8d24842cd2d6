"""Fixtures: real servers, started when the first test asks, and a clean state for every test.

The rule kept here: a test sees nothing of the machine's own settings and nothing of another test. Servers are shared by
the session; streams, databases and buckets are not.
"""

import asyncio
import atexit
import importlib.metadata
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import hypothesis
import nats as nats_py
import psutil
import psycopg
import pytest
from _pytest.terminal import TerminalReporter
from psycopg import sql

from nats3_dagster import redaction
from nats3_dagster.archive.source import condition
from nats3_dagster.catalog import Catalog, migrate
from nats3_dagster.dev.nats_server import NatsServer, find_nats_server, version_of
from nats3_dagster.dev.postgres import Postgres
from nats3_dagster.dev.s3.server import S3Server, require_xattrs
from nats3_dagster.errors import EngineError
from nats3_dagster.hours import CLOCKS_S
from nats3_dagster.jetstream.link import Link
from nats3_dagster.objects import StoreOptions
from nats3_dagster.pipeline import classes
from nats3_dagster.pipeline.java import find_java
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.commands import Command
from nats3_dagster_tests.support.seconds import seconds_by_folder
from nats3_dagster_tests.support.servers import clouds
from nats3_dagster_tests.support.thorough import is_thorough
from nats3_dagster_tests.support.wire import Wire

# A time limit for one example fails on a machine that is busy with something else, and says nothing of the code.
hypothesis.settings.register_profile("nats3", deadline=None)
hypothesis.settings.load_profile("nats3")

_HERE = Path(__file__).parent
_TEMPLATE = "nats3_template"
# How much of an hour a test gets that does not ask for more (`steady_hour`).
_STEADY_S = 20
# Fixtures by which a test speaks NATS itself; one that takes `settings` alone has a server that it may never ask.
_SPEAKING = {"wire", "link", "nats_factory"}
# Fixtures by which a test goes through a face or a JVM: what NATS answers below is tested without them.
_THROUGH = {"client", "instance", "dagster_home", "spark"}
# Folders whose tests start processes, JVMs or browsers: each takes seconds.
_SLOW_FOLDERS = {"browser", "faults"}
# What the packaged nats-server is asked again (marker `nats`): integration/ and the promises from outside. Faces,
# stores and Dagster do not depend on its version, nor do archives and replays above the edge that speaks NATS.
_NATS_FOLDER, _NATS_BESIDE = "integration", "test_promises.py"
_ABOVE_NATS = {
    "test_adoption.py",
    "test_apply.py",
    "test_archive_source.py",
    "test_cat.py",
    "test_change.py",
    "test_change_filter.py",
    "test_cursor.py",
    "test_dev_history.py",
    "test_folder.py",
    "test_follow.py",
    "test_grants.py",
    "test_older_copies.py",
    "test_postgres_killed.py",
    "test_repair.py",
    "test_selection_edges.py",
    "test_table_hooks.py",
    "test_task_progress.py",
    "test_use_case_races.py",
}
# Folders whose tests store in a folder unless they are about S3: a fixture or the marker `s3` says so. An object of the
# embedded S3 server costs 35 ms of processor time, and contract/ tests that both kinds of store do the same.
_IN_FOLDER = {"integration", "http", "orchestration"}
_OF_S3 = {"s3_server", "own_s3", "s3", "s3_client", "spark_with_settings"}
# Of a suite in two processes; the other folders follow.
_LONGEST_FIRST = ("browser", "orchestration", "acceptance", "faults")
# Of every JVM that spark-submit starts, and so PySpark.
_JVM_OPTIONS = "SPARK_SUBMIT_OPTS"
# A file system in memory, and the bytes that it and the machine must have free.
_MEMORY, _ROOM = Path("/dev/shm"), 6 << 30
NatsFactory = Callable[..., NatsServer]


def pytest_configure() -> None:
    """A shell's background process ignores Ctrl-C, and so would all that tests start and interrupt."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """A run of what the packaged nats-server is asked again imports no other test."""
    is_of_nats = config.option.markexpr.split(" and ")[0] == "nats"
    return True if is_of_nats and collection_path.suffix == ".py" and not _depends_on_nats(collection_path) else None


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Three processes share whole folders: on two cores a third one works while the others wait for servers. For files
    or single tests one is enough: each process starts servers of its own, and a file is never divided."""
    return 3 if all(Path(word).is_dir() for word in config.args) else 0


@pytest.hookimpl(tryfirst=True)  # marks are there before tests are chosen by them
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long files first, so that no process is left alone with one at the end; and mark what is slow or speaks NATS."""
    items.sort(key=_turn)
    for item in items:
        fixtures = {*_fixtures(item)}
        if item.path.parent.name in _SLOW_FOLDERS or "spark" in fixtures:
            item.add_marker(pytest.mark.slow)
        speaks = fixtures & _SPEAKING or ("nats_session" in fixtures and "settings" not in fixtures)
        if speaks and not fixtures & _THROUGH and _depends_on_nats(item.path) and not item.get_closest_marker("slow"):
            item.add_marker(pytest.mark.nats)
        # Tests of tests are in folders of their own.
        is_ours = item.path.is_relative_to(_HERE)
        if is_ours and is_thorough(f"{item.path.relative_to(_HERE).with_suffix('')}::{item.name}"):
            item.add_marker(pytest.mark.thorough)


def pytest_terminal_summary(terminalreporter: TerminalReporter) -> None:
    """Print the seconds of each folder, and which folder is over its budget: of the suite, not of `make containers`."""
    if "NATS3_TEST_ENGINE" not in os.environ and len(lines := seconds_by_folder(terminalreporter)) > 1:
        terminalreporter.section("seconds by folder")
        for line in lines:
            terminalreporter.line(line)


def _depends_on_nats(file: Path) -> bool:
    """True if what the tests of this file are about may differ between versions of nats-server."""
    return file.name == _NATS_BESIDE or (file.parent.name == _NATS_FOLDER and file.name not in _ABOVE_NATS)


def _turn(item: pytest.Item) -> int:
    folder = item.path.parent.name
    return _LONGEST_FIRST.index(folder) if folder in _LONGEST_FIRST else len(_LONGEST_FIRST)


def _fixtures(item: pytest.Item) -> list[str]:
    """All fixtures of the test, those that it takes by another one included."""
    return item.fixturenames if isinstance(item, pytest.Function) else []


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, bool, bool]:
    """Let no test that captures see two hours, nor the half minute after the turn of one that clocks may differ by:
    wait for it to pass, before the time limit of the test begins. Such a test takes `settings`, or is marked:
    `@pytest.mark.steady_hour(60)` asks for so many seconds."""
    asked = item.get_closest_marker("steady_hour")
    if asked or "settings" in _fixtures(item):
        gone = time.time() % 3600
        if gone < CLOCKS_S or gone > 3600 - (asked.args[0] if asked else _STEADY_S):
            time.sleep((CLOCKS_S + 1 - gone) % 3600)
    return (yield)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what the nats-server or the PySpark of this run is too old for: `@pytest.mark.needs_nats("2.14")`."""
    for marker in item.iter_markers("needs_nats"):
        needed = tuple(int(part) for part in marker.args[0].split("."))
        if (found := version_of(find_nats_server())) < needed:
            pytest.skip(f"needs nats-server {marker.args[0]}, and this is {'.'.join(map(str, found))}")
    for marker in item.iter_markers("needs_spark"):
        version = importlib.metadata.version("pyspark")
        if [int(part) for part in version.split(".")[:2]] < [int(part) for part in marker.args[0].split(".")]:
            pytest.skip(f"needs PySpark {marker.args[0]}, and this is {version}")


@atexit.register
def _hush() -> None:
    """Let pytest have the last word: duckdb's binding tells of 60 "leaked" objects when the interpreter ends.

    Registered before anything else is, it runs after everything else."""
    if "duckdb" in sys.modules:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


@pytest.fixture(scope="session", autouse=True)
def _own_settings() -> Iterator[None]:
    """No setting of the machine reaches a test, nor a stack that `nats3 dev` left running in the checkout."""
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory(prefix="nats3-home-") as home:
        with suppress(EngineError):  # a run of unit tests needs no nats-server
            patch.setenv("NATS_SERVER", str(find_nats_server()))
        for name in list(os.environ):
            if name.startswith(("NATS3_", "AWS_", "AZURE_", "GOOGLE_", "STORAGE_", "SPARK_", "PYSPARK_")):
                patch.delenv(name)
        patch.setenv("NATS3_HOME", home)
        patch.setenv("DAGSTER_DISABLE_TELEMETRY", "yes")
        # JVMs of users' own sessions, which know nothing of our settings, start as ours do: in half of the processor
        # time.
        with suppress(EngineError):
            patch.setenv(_JVM_OPTIONS, shlex.join(["-XX:TieredStopAtLevel=1", *classes.options(find_java())]))
        yield


@pytest.fixture(autouse=True)
def _own_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    """A secret of one test, such as the word `plain`, is no secret in the texts of the next."""
    monkeypatch.setattr(redaction, "_known", dict(redaction._known))
    monkeypatch.setattr(redaction, "_longest_first", redaction._longest_first)


@pytest.fixture(autouse=True)
def _own_spark(_own_settings: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a process hands to its Spark (`session.prepare`) reaches no process that a later test starts."""
    for name in list(os.environ):
        if name.startswith(("SPARK_", "PYSPARK_")) and name != _JVM_OPTIONS:
            monkeypatch.delenv(name)


@pytest.fixture(scope="session")
def server_folder(request: pytest.FixtureRequest) -> Iterator[Path]:
    """A folder for servers: in the temporary folder, else in the checkout where that one has no xattrs."""
    root = Path(tempfile.gettempdir())
    try:
        require_xattrs(root)
    except EngineError:
        root = request.config.rootpath / ".nats3"
        root.mkdir(exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="nats3-test-", dir=root))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def session_folder(server_folder: Path) -> Iterator[Path]:
    """Where the session's servers store: in memory where that has room, else in `server_folder`. A test that stops or
    kills a server has one of its own, on the disk (docs/decisions.md, 120)."""
    try:
        require_xattrs(_MEMORY)
        is_large = min(shutil.disk_usage(_MEMORY).free, psutil.virtual_memory().available) > _ROOM
    except (EngineError, OSError):
        is_large = False
    if not is_large:
        yield server_folder
        return
    for left in _MEMORY.glob("nats3-test-*-*"):  # of a session that was killed: it would hold memory until a restart
        if not psutil.pid_exists(int(left.name.split("-")[2])):
            shutil.rmtree(left, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix=f"nats3-test-{os.getpid()}-", dir=_MEMORY))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


# NATS


@pytest.fixture(scope="session")
def nats_session(session_folder: Path) -> Iterator[NatsServer]:
    """The session's server. Tests take `nats`."""
    with NatsServer(session_folder / "nats") as server:
        yield server


@pytest.fixture
def nats(nats_session: NatsServer) -> Iterator[NatsServer]:
    """A clean JetStream with `.url` and `.options`. A test must not stop it: that is what `own_nats` is for."""
    yield nats_session
    asyncio.run(_delete_streams(nats_session.url))


async def _delete_streams(url: str) -> None:
    client = await nats_py.connect(url)
    try:
        js = client.jetstream()
        while found := await js.streams_info():  # a page of 256
            for stream in found:
                await js.delete_stream(str(stream.config.name))
    finally:
        await client.close()


@pytest.fixture
def wire(nats: NatsServer) -> Iterator[Wire]:
    """A client of `nats` that shares nothing with the code under test."""
    with Wire(nats.url) as client:
        yield client


@pytest.fixture
def link(nats: NatsServer) -> Iterator[Link]:
    """Our own connection to `nats`."""
    with Link(nats.options) as opened:
        yield opened


@pytest.fixture
def nats_factory(tmp_path: Path) -> Iterator[NatsFactory]:
    """Starts servers of the test's own: `nats_factory(config="max_payload: 4KB")`. See NatsServer for the arguments."""
    servers: list[NatsServer] = []

    def start(config: str = "", **more: Any) -> NatsServer:
        servers.append(NatsServer(tmp_path / f"nats-{len(servers)}", config=config, **more))
        return servers[-1].start()

    yield start
    for server in servers:
        server.kill()


@pytest.fixture
def old_nats(
    nats_factory: NatsFactory, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Callable[..., NatsServer]:
    """Starts a nats-server of an older release: `old_nats("2.9.6")`. It is built with Go where it is not built yet; the
    test is skipped where that cannot be."""
    checkout = request.config.rootpath

    def start(version: str, **more: Any) -> NatsServer:
        folder = checkout / ".nats3/old-nats-servers"
        script = checkout / "scripts/old-nats-servers.sh"
        built = subprocess.run([script, folder, version], capture_output=True, text=True, timeout=280, check=False)
        if built.returncode:
            pytest.skip(f"nats-server {version} is not here: {built.stderr.strip().splitlines()[-1]}")
        with monkeypatch.context() as patch:
            patch.setenv("NATS_SERVER", str(folder / version / "nats-server"))
            return nats_factory(**more)

    return start


def freeze(server: NatsServer) -> None:
    """Pause a server of this process, and return when none of its threads runs any more."""
    server.pause()
    assert server.process
    os.waitpid(server.process.pid, os.WUNTRACED)


@pytest.fixture
def own_nats(nats_factory: NatsFactory) -> NatsServer:
    """A server that the test may stop, kill and restart."""
    return nats_factory()


# Postgres


@pytest.fixture(scope="session")
def postgres_session(session_folder: Path) -> Iterator[Postgres]:
    """The session's cluster, with a template database that has the catalog's schema. Tests take `postgres_url`."""
    with Postgres(session_folder / "postgres", fast=True) as server:
        _execute(server, "CREATE DATABASE {}", _TEMPLATE)
        migrate(server.url(_TEMPLATE))
        yield server


@pytest.fixture
def postgres_url(postgres_session: Postgres) -> Iterator[str]:
    """A migrated database of the test's own."""
    name = f"test_{uuid.uuid4().hex[:12]}"
    _execute(postgres_session, "CREATE DATABASE {} TEMPLATE {} STRATEGY FILE_COPY", name, _TEMPLATE)
    yield postgres_session.url(name)
    _execute(postgres_session, "DROP DATABASE {} WITH (FORCE)", name)


@pytest.fixture
def catalog(postgres_url: str) -> Iterator[Catalog]:
    """The catalog in it."""
    with Catalog.connect(postgres_url) as opened:
        yield opened


@pytest.fixture
def empty_postgres_url(postgres_session: Postgres) -> Iterator[str]:
    """A database of the test's own without our schema."""
    name = f"test_{uuid.uuid4().hex[:12]}"
    _execute(postgres_session, "CREATE DATABASE {} STRATEGY FILE_COPY", name)
    yield postgres_session.url(name)
    _execute(postgres_session, "DROP DATABASE {} WITH (FORCE)", name)


def _execute(server: Postgres, statement: str, *names: str) -> None:
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute(sql.SQL(statement).format(*map(sql.Identifier, names)))  # type: ignore[arg-type]


# Object storage


@pytest.fixture(scope="session")
def s3_server(session_folder: Path) -> Iterator[S3Server]:
    """The session's S3 endpoint. A test must not stop it: that is what `own_s3` is for."""
    with S3Server(session_folder / "s3") as server:
        yield server


@pytest.fixture
def own_s3(tmp_path: Path) -> Iterator[S3Server]:
    """An endpoint that the test may stop, kill and restart."""
    with S3Server(tmp_path / "s3") as server:
        yield server


@pytest.fixture(scope="session")
def s3(s3_server: S3Server) -> StoreOptions:
    """StoreOptions for the session's endpoint."""
    return s3_server.options


@pytest.fixture(scope="session")
def _azurite(server_folder: Path) -> Iterator[dict[str, str]]:
    (folder := server_folder / "azurite").mkdir()
    with clouds.azurite(folder) as variables:
        yield variables


@pytest.fixture(scope="session")
def _fake_gcs(server_folder: Path) -> Iterator[dict[str, str]]:
    (folder := server_folder / "gcs").mkdir()
    with clouds.fake_gcs(folder) as variables:
        yield variables


@pytest.fixture
def az(_azurite: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> StoreOptions:
    """StoreOptions for Azure, with the environment of the session's Azurite."""
    for name, value in _azurite.items():
        monkeypatch.setenv(name, value)
    return StoreOptions(cloud="az")


@pytest.fixture
def gs(_fake_gcs: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> StoreOptions:
    """StoreOptions for Google Cloud Storage, with the environment of the session's fake-gcs-server."""
    for name, value in _fake_gcs.items():
        monkeypatch.setenv(name, value)
    return StoreOptions(cloud="gs")


@pytest.fixture(scope="session")
def versitygw(server_folder: Path) -> Iterator[StoreOptions]:
    """StoreOptions for the session's versitygw: another S3 endpoint than the embedded one."""
    with clouds.versitygw(server_folder / "versitygw") as options:
        yield options


@pytest.fixture(scope="session")
def seaweedfs(server_folder: Path) -> Iterator[StoreOptions]:
    """StoreOptions for the session's SeaweedFS."""
    with clouds.seaweedfs(server_folder / "seaweedfs") as options:
        yield options


@pytest.fixture(scope="session")
def s3_client(s3_server: S3Server) -> Iterator[Any]:
    """A plain boto3 client: the view of somebody who does not use our code."""
    from nats3_dagster_tests.support.s3_client import plain_client

    client = plain_client(s3_server.options)
    yield client
    client.close()


@pytest.fixture
def store_folder(request: pytest.FixtureRequest, session_folder: Path) -> Iterator[Path | None]:
    """The folder in which a test has its buckets; None if it stores in S3."""
    item = request.node
    if item.path.parent.name not in _IN_FOLDER or item.get_closest_marker("s3") or _OF_S3 & {*_fixtures(item)}:
        yield None
        return
    folder = Path(tempfile.mkdtemp(prefix="store-", dir=session_folder))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def bucket(request: pytest.FixtureRequest, store_folder: Path | None) -> str:
    """The name of a new, empty bucket."""
    name = f"test-{uuid.uuid4().hex[:12]}"
    if store_folder is None:
        request.getfixturevalue("s3_client").create_bucket(Bucket=name)
    else:
        (store_folder / name).mkdir()
    return name


@pytest.fixture
def file_store(tmp_path: Path) -> StoreOptions:
    """StoreOptions for a local folder that holds one empty bucket, `archive`."""
    (tmp_path / "store" / "archive").mkdir(parents=True)
    return StoreOptions(url=f"file://{tmp_path / 'store'}")


# The whole


@pytest.fixture
def settings(
    request: pytest.FixtureRequest,
    nats: NatsServer,
    postgres_url: str,
    store_folder: Path | None,
    monkeypatch: pytest.MonkeyPatch,
) -> Any:
    """Settings for the test's clean servers, also in the environment, so that processes it starts find them. A test
    that takes them starts where its hour goes on for a while."""
    from nats3_dagster.settings import Settings

    environment = {"NATS3_NATS_URL": nats.url, "NATS3_POSTGRES_URL": postgres_url}
    if store_folder is not None:
        environment["NATS3_STORE_URL"] = f"file://{store_folder}"
    else:
        s3: S3Server = request.getfixturevalue("s3_server")
        environment |= {
            "AWS_ENDPOINT_URL_S3": s3.endpoint,
            "AWS_REGION": s3.region,
            "AWS_ACCESS_KEY_ID": s3.access_key,
            "AWS_SECRET_ACCESS_KEY": s3.secret_key,
        }
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    return Settings.load()


@pytest.fixture
def unshared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every request asks NATS: a test need not wait until what was kept for others is old."""
    monkeypatch.setattr(condition, "FRESH_S", 0.0)


@pytest.fixture
def workspace(settings: Any) -> Iterator[Workspace]:
    """What use cases work with, on the test's clean servers."""
    with Workspace(settings) as opened:
        yield opened


@pytest.fixture
def nats3(capfd: pytest.CaptureFixture[str]) -> Command:
    """The command line: `nats3("store", "list")`."""
    return Command(capfd)


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """The session's Spark: a JVM takes 5 s to start. Its environment has no settings of the test that comes first."""
    from nats3_dagster.pipeline.session import session

    with ExitStack() as opened:
        with pytest.MonkeyPatch.context() as patch:
            for name in [name for name in os.environ if name.startswith("NATS3_") and name != "NATS3_HOME"]:
                patch.delenv(name)
            running = opened.enter_context(session())
        yield running


@pytest.fixture
def spark_with_settings(spark: Any, settings: Any) -> Iterator[Any]:
    """The session's Spark, in which planners of sources have the test's settings. Its JVM was started before there were
    any, but it looks for those of an embedded stack, as every process does."""
    names = ("nats_url", "postgres_url", "s3_endpoint", "s3_region", "s3_access_key_id", "s3_secret_access_key")
    values = {name: getattr(settings, name) for name in names}
    plain = {name: v.get_secret_value() if hasattr(v, "get_secret_value") else v for name, v in values.items()}
    file = Path(os.environ["NATS3_HOME"], "stack.json")
    file.write_text(json.dumps(plain))
    yield spark
    file.unlink()
