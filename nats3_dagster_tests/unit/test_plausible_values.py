"""A secret in the place of a path or a name, and an address that a password splits: refused, and nothing repeated."""

import base64
import io
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from nats3_dagster import addresses
from nats3_dagster.archive.declared import entries
from nats3_dagster.errors import OperatorError
from nats3_dagster.model import ArchiveSpec, ExportSpec
from nats3_dagster.objects import StoreOptions
from nats3_dagster.plausible import PATH, check, fault, shown_path
from nats3_dagster.settings import Settings
from nats3_dagster.settings.fields import Address, Fields
from nats3_dagster.settings.names import KEYS, has_file, is_secret, variables
from nats3_dagster_tests.support.commands import Command
from nats3_dagster_tests.support.spark_sources import CASES, Case

# What each value must not show; `planted` in small and in capital letters, as base32 and base64 have it.
PLANTED = "PLANTED7Q"
SEED = f"SUA{PLANTED.replace('7', '2')}IBDPBAUTWCWBKIO6XHQNINK5FWJW4OHLXC3HQ2KFE4PEJU"
JWT = f"eyJ0eXAiOiJKV1QiLCJhbGciOiJlZDI1NTE5LW5rZXkifQ.{PLANTED}.c2lnbmF0dXJl"
PEM = f"-----BEGIN PRIVATE KEY-----\n{PLANTED}\n-----END PRIVATE KEY-----\n"
CREDS = f"-----BEGIN NATS USER JWT-----\n{JWT}\n------END NATS USER JWT------\n"
EMBEDDED = "data:;base64," + base64.b64encode(SEED.encode()).decode()
# Secrets in the place of something else, and what they are called.
MISPLACED = {
    SEED: "the seed of an nkey",
    f"/keys/{SEED}": "the seed of an nkey",
    JWT: "a JWT",
    PEM: "the content of a key or creds file",
    CREDS: "the content of a key or creds file",
    PEM.replace("\n", " "): "the content of a key or creds file",
    EMBEDDED: "embedded data (data:)",
    f" DATA:,{PLANTED}": "embedded data (data:)",
    f"nats3_{PLANTED}{'a' * 40}": "a token of the API",
    f"postgresql://u:{PLANTED}@h/d": "a URL",
    f"{PLANTED}\nsecond": "more than one line",
    f"{PLANTED}\x00": "a control character",
    PLANTED * 600: "more text than any path has",
}
PLAUSIBLE = (
    "/etc/nats/user.creds",
    "~/u.nk",
    "file",
    "a b",
    "orders",
    "ORDERS-1",
    "team:data",
    "arn:aws:kms:eu:1:key/a-b",
    "UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4.nk",
    "C:\\keys\\user.nk",
    "eyJ",
    "SUAREZ",
    "päth/ü",
)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory without settings."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NATS3_HOME", str(tmp_path / "home"))
    return tmp_path


def forms(text: str) -> Iterator[str]:
    """The planted part of a value, and all of it, as outputs may have them."""
    yield from (PLANTED, PLANTED.lower(), PLANTED.replace("7", "2"), text, repr(text)[1:-1])
    yield base64.b64encode(SEED.encode()).decode()[:40]


def shows(said: str, text: str) -> list[str]:
    return [form for form in forms(text) if form in said]


# What can be a path or a name


def test_what_can_be_no_path_and_no_name() -> None:
    assert {text: fault(text) for text in MISPLACED} == MISPLACED
    assert [text for text in PLAUSIBLE if fault(text)] == []
    with pytest.raises(OperatorError, match="NATS3_NATS_NKEY holds the seed of an nkey, and wants the path of a file"):
        check("NATS3_NATS_NKEY", SEED, PATH)


def test_a_path_is_shown_if_it_or_its_folder_is_there(folder: Path) -> None:
    (folder / "there").write_text("")
    shown = [str(folder / "there"), str(folder / "missing"), "there", "/etc/passwd"]
    hidden = ["missing", PLANTED, f"/{PLANTED}", f"{PLANTED}/x", f"/{PLANTED}/x", SEED, "~nobody-such/x", "x" * 5000]
    assert [path for path in shown if shown_path(path) != path] == []
    assert [path for path in hidden if shown_path(path)] == []


# Settings: each, so that a new one is here by itself


@pytest.mark.parametrize("key", KEYS)
def test_no_setting_takes_a_secret_for_something_else(
    key: str, nats3: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, variable = Path("nats3.toml"), variables(key)[0]
    path.write_text("# kept\n")
    is_address = any(isinstance(part, Address) for part in _hints(key))
    for text in MISPLACED:
        if (is_secret(key) and not is_address) or (key == "postgres_url" and text.startswith("postgresql://")):
            continue  # it may hold any secret
        if "\0" not in text:  # which no variable can hold
            with monkeypatch.context() as patch:
                patch.setenv(variable, text)
                said = nats3.refused("config", "show")
                assert said.startswith("2 Error: "), (key, text)
                assert key in said.replace("NATS context", "nats_context"), (key, said)
                assert shows(said, text) == [], (key, text)
        # From standard input as well, which a secret is read from.
        monkeypatch.setattr(sys, "stdin", io.StringIO(text))
        for words in ((text,), ("-",)) if "\n" not in text else ((text,),):
            ran = nats3("config", "set", key, *words)
            assert ran.status == 2, (key, words)
            assert shows(ran.out + ran.err, text) == [], (key, words)
    assert path.read_text() == "# kept\n"


def _hints(key: str) -> Iterator[object]:
    field = Fields.model_fields[key]
    yield from field.metadata
    for part in getattr(field.annotation, "__args__", ()):
        yield from getattr(part, "__metadata__", ())


@pytest.mark.parametrize(
    "variable", ["NATS3_CONFIG", "NATS3_HOME", *(f"{variables(key)[-1]}_FILE" for key in KEYS if has_file(key))]
)
def test_no_variable_takes_a_secret_for_a_path(variable: str, nats3: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    for text in (*MISPLACED, PLANTED, f"/{PLANTED}", f"{PLANTED}/x"):
        if "\0" in text or (variable == "NATS3_HOME" and PLANTED in text and not fault(text)):
            continue  # a folder that is not there has no stack
        monkeypatch.setenv(variable, text)
        said = nats3.refused("config", "show")
        assert variable in said, (text, said)
        assert shows(said, text) == [], text


def test_a_path_that_is_none_is_not_repeated_when_it_is_used(nats3: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NATS3_NATS_URL", "nats://127.0.0.1:1")
    for name in ("NATS3_NATS_CREDS", "NATS3_NATS_NKEY", "NATS3_NATS_TLS_CA", "NATS3_NATS_TLS_KEY"):
        with monkeypatch.context() as patch:
            patch.setenv(name, PLANTED)
            if name.endswith("KEY"):
                patch.setenv("NATS3_NATS_TLS_CERT", PLANTED)
            said = nats3("stream", "list", "--debug")
            assert said.status in (1, 2)
            assert shows(said.out + said.err.replace(str(Path.cwd()), ""), PLANTED) == [], name


# Options of Spark, fields of archives


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_no_option_of_spark_takes_a_secret_for_something_else(case: Case) -> None:
    for option in case.table:
        for text in MISPLACED:
            if option.secret or (option.kind.want is None and "://" in text):
                continue
            with pytest.raises(OperatorError) as caught:
                case.ask(case.needed | {option.name: text})
            assert option.name in str(caught.value), (option.name, text)
            assert shows(f"{caught.value}{caught.value.__context__}", text) == [], (option.name, text)
    if any(option.name == "passwordEnv" for option in case.table):
        for options in ({"user": "u", "passwordEnv": PLANTED}, {"tokenFile": PLANTED}, {"tokenEnv": PLANTED}):
            said = _said(lambda options=options: _connection(options))
            assert shows(said, PLANTED) == [], options


def _connection(options: dict[str, str]) -> object:
    from nats3_dagster.pipeline.sources.connection import nats_options

    return nats_options("jetstream", {"url": "nats://h"} | options)


def _said(ask: Callable[[], object]) -> str:
    with pytest.raises(OperatorError) as caught:
        ask()
    return str(caught.value)


ARCHIVE = {"name": "a", "stream": "S", "bucket": "bucket"}
EXPORT = {"name": "e", "to": "s3://bucket/x"}
# Of a document and its export: texts that are no numbers.
FIELDS = ("name", "stream", "bucket", "prefix", "subjects", "mode", "consumer", "max_age", "max_bytes", "paused")
EXPORT_FIELDS = ("name", "to", "subjects", "decode", "schema", "key", "format", "compression", "columns", "path")


@pytest.mark.parametrize("text", MISPLACED)
def test_no_field_of_an_archive_takes_a_secret(text: str) -> None:
    import yaml

    for field in FIELDS:
        if field == "subjects" and ("://" in text or len(text) > 4096):
            continue  # a subject may
        for document in ({"archives": [ARCHIVE | {field: text}]}, {"archives": [ARCHIVE], "defaults": {field: text}}):
            written = yaml.safe_dump(document)
            said = _said(lambda written=written: entries.read([("archives.yaml", written)]))
            assert shows(said, text) == [], (field, said)
    for field in EXPORT_FIELDS:
        if (field == "subjects" and "://" in text) or len(text) > 4096:
            continue
        document = {"archives": [ARCHIVE | {"exports": [EXPORT | {field: text}]}]}
        written = yaml.safe_dump(document)
        said = _said(lambda written=written: entries.read([("archives.yaml", written)]))
        assert shows(said, text) == [], (field, said)
    for field in ("name", "stream", "bucket", "prefix", "durable"):
        said = _said(lambda field=field: ArchiveSpec(**ARCHIVE | {"mode": "consumer", field: text}))  # type: ignore[arg-type]
        assert shows(said, text) == []
    for field in ("name", "decode", "schema", "key", "path"):
        fields = {"name": "e", "destination": "s3://bucket/x", "decode": "json", field: text}
        said = _said(lambda fields=fields: ExportSpec(**fields))  # type: ignore[arg-type]
        assert shows(said, text) == []


# Addresses

P = PLANTED
MISREAD = {
    addresses.nats_fault: (
        f"nats://{P}/x@h",
        f"nats://x/{P}@h",
        f"nats://x?{P}@h:4222",
        f"nats://x#{P}@h",
        f"nats://x,{P}@h",
        f"nats://u:1234,{P}@h",
        f"nats://h,{P}@h2",
        f"nats://u:12/{P}@h",
        f"nats://u:p:{P}/@h",
        f"tls://{P}[@h",
        f"x/{P}@h",
        f"nats://h/{P}",
        f"nats://h?{P}",
        f"http://{P}@h",
        f"nats://u:{P}@",
        f"nats://h:{P}",
        f"nats://u:p@h {P}",
        SEED,
        JWT,
        EMBEDDED,
        f"nats://{SEED}",
        f"nats://{JWT}:4222",
        f"nats://h:4222,{SEED}",
    ),
    addresses.http_fault: (
        f"http://u:{P}@h",
        f"http://{P}@h",
        f"http://u:x/{P}@h",
        f"http://u:12/{P}@h:80",
        f"http://u:x?{P}@h",
        f"http://u:x#{P}@h",
        f"http://h/?token={P}",
        f"http://h/#{P}",
        f"http://h/a:{P}",
        f"{P}:80",
        f"nats://{P}",
        f"http://h:{P}",
        f"http://h {P}",
        f"http://:{P}",
        f"http://{SEED}",
        f"http://h/{JWT}",
        EMBEDDED,
        f"ftp://{P}/",
    ),
    addresses.postgres_fault: (
        f"postgresql://u:a@{P}@h/d",
        f"postgresql://u:a/{P}@h/d",
        f"postgresql://u:12/{P}@h/d",
        f"postgres://u:a?{P}@h/d",
        f"postgresql://u:a#{P}@h/d",
        f"postgresql://u:12?{P}@h/d",
        f"postgresql://h/d@{P}",
        f"postgresql://h/d/{P}",
        f"postgresql://h/d:{P}",
        f"postgresql://h:{P}/d",
        f"postgresql://h/d?{P}",
        f"postgresql://u:p@h/d?password=a&{P}",
        f"mysql://{P}@h/d",
        f"postgresql://u:a {P}@h/d",
        f"postgresql://u:[{P}@h/d",
        f"postgresql://h/{SEED}",
    ),
    addresses.connect_fault: (
        f"sc://u:{P}@h",
        f"sc://h/;token=a/{P}",
        f"sc://h/;token=a?{P}",
        f"sc://h/;token=a#{P}",
        f"sc://h:{P}",
        f"sc://h/{P}",
        f"http://{P}",
        f"sc://{SEED}",
    ),
    addresses.store_fault: (f"s3://key:{P}@bucket", f"https://{P}@h", P, f"file://{P}/x", f"file:///{JWT}"),
    addresses.master_fault: (f"spark://u:{P}@h:7077", SEED, f"local\n{P}"),
}
WELL_FORMED = {
    addresses.nats_fault: (
        "nats://h",
        "h:4222",
        "nats://u:p@h",
        "nats://token@h:4222/",
        "tls://a.b-c_d:4222,h2",
        "nats://[::1]:4222",
        "nats://u:p%40%2F%2C@h,nats://u:p%40%2F%2C@h2,h3",
        "nats://u:p@ss@h",
        "nats://127.0.0.1:4222",
        "nats://höst",
    ),
    addresses.http_fault: (
        "http://h:3000",
        "https://a.b/dagster",
        "http://[::1]:9000",
        "https://s3.eu-west-1.amazonaws.com",
        "http://h/",
    ),
    addresses.postgres_fault: (
        "postgresql://u:p@h:5432/d",
        "postgres://h/d",
        "postgresql://u:p%40%2F%3A@h1:5432,h2/d?sslmode=verify-full",
        "postgresql:///d?host=/var/run/postgresql",
        "postgresql://%2Fvar%2Frun%2Fpg/d",
        "postgresql://[::1]:5432/d",
        "postgresql://u:a:b@h/d?sslrootcert=/etc/ssl/pg.pem&options=-csearch_path%3Dpublic",
        "postgresql://u@h",
    ),
    addresses.connect_fault: ("sc://h", "sc://h:15002/", "sc://h:15002/;token=a%2Fb==;use_ssl=true"),
    addresses.store_fault: ("s3://", "file:///a/b@c"),
    addresses.master_fault: ("local[2]", "local[*,4]", "yarn", "spark://h1:7077,h2:7077", "k8s://https://h:443"),
}
# The setting of each kind of address.
SETTINGS = {
    addresses.nats_fault: ("nats_url",),
    addresses.postgres_fault: ("postgres_url",),
    addresses.http_fault: ("dagster_url", "nats_monitor_url", "server_url", "s3_endpoint"),
    addresses.connect_fault: ("spark_remote",),
    addresses.store_fault: ("store_url",),
    addresses.master_fault: ("spark_master",),
}


@pytest.mark.parametrize("kind", MISREAD, ids=lambda kind: kind.__name__)
def test_an_address_that_is_misread_is_refused_and_not_repeated(
    kind: Any, nats3: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert {text: kind(text) for text in WELL_FORMED[kind] if kind(text)} == {}
    assert [text for text in MISREAD[kind] if not kind(text)] == []
    Path("nats3.toml").write_text("")
    for key in SETTINGS[kind]:
        for text in MISREAD[kind]:
            with monkeypatch.context() as patch:
                patch.setenv(variables(key)[0], text)
                said = nats3.refused("config", "show")
                assert said.startswith(f"2 Error: A setting is wrong: {key} (environment variable "), text
                assert shows(said, text) == [], (key, text)
            ran = nats3("config", "set", key, text)
            assert ran.status == 2, (key, text)
            assert shows(ran.out + ran.err, text) == [], (key, text)
        for text in WELL_FORMED[kind]:
            with monkeypatch.context() as patch:
                patch.setenv(variables(key)[0], text)
                assert getattr(Settings.load(), key), text
    assert Path("nats3.toml").read_text() == ""


@pytest.mark.parametrize(
    "text",
    [
        f"host=h dbname=postgresql://u:{P}@h/d",
        f"host=u:{P}@h dbname=d",
        f"host=h dbname=d@{P}",
        f"host=h password=a {P}",
        f"dbname=d/{P}",
        P,
    ],
)
def test_keywords_of_libpq_that_are_misread_are_refused(
    text: str, nats3: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NATS3_POSTGRES_URL", text)
    said = nats3.refused("config", "show")
    assert "not the address of a Postgres" in said
    assert shows(said, text) == []
    for keywords in ("host=/var/run/postgresql dbname=d", "host=::1 user=u password='p@/: x' dbname=d", "dbname=d"):
        monkeypatch.setenv("NATS3_POSTGRES_URL", keywords)
        assert Settings.load().postgres == keywords


def test_a_store_of_another_program_is_checked_as_well() -> None:
    wrong: list[dict[str, Any]] = [{"endpoint": f"http://u:{P}@h"}, {"url": f"s3://{P}@b"}, {"region": SEED}]
    for fields in wrong:
        assert shows(_said(lambda fields=fields: StoreOptions(**fields)), P) == []


@pytest.mark.parametrize("words", [("store", "list"), ("message", "last", "a", "--subject", "b"), ("doctor",)])
def test_a_server_takes_no_login_in_its_address(words: tuple[str, ...], nats3: Command) -> None:
    for url in (f"http://u:{P}@h:8080", f"http://u:12/{P}@h", f"https://{P}@h"):
        ran = nats3(*words, "--server", url)
        assert "server_url (environment variable NATS3_SERVER_URL): not an address: an @ is in it" in ran.out + ran.err
        assert shows(ran.out + ran.err, url) == []
