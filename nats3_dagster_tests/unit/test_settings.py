"""Settings: which source wins, what is refused, and that no secret shows."""

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nats3_dagster.errors import Nats3Error, OperatorError
from nats3_dagster.settings import Settings
from nats3_dagster.settings.names import KEYS, variables

SECRET = "s3cr:e/t@,x"
ENCODED = "s3cr%3Ae%2Ft%40%2Cx"
SEED = "SUAMK2FG4MI6UE3ACF3FK3OIQBCEIEZV7NSWFFEW63UXMRLFM2XLAXK4GY"
SAY = Callable[..., None]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory, with an embedded stack and contexts of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NATS3_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    for name in ("home", "xdg/nats/context"):
        (tmp_path / name).mkdir(parents=True)
    return tmp_path


@pytest.fixture
def variable(monkeypatch: pytest.MonkeyPatch) -> SAY:
    def set_all(**variables: str) -> None:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)

    return set_all


def context(name: str, **fields: Any) -> None:
    Path("xdg/nats/context", f"{name}.json").write_text(json.dumps({"description": "", "nsc": ""} | fields))


def stack(**values: Any) -> None:
    Path("home/stack.json").write_text(json.dumps(values))


def toml(*lines: str) -> None:
    Path("nats3.toml").write_text("\n".join(lines))


def refused() -> str:
    with pytest.raises(OperatorError) as caught:
        _ = Settings.load().nats, Settings.load().store
    assert "s3cr" not in str(caught.value)
    assert SEED not in str(caught.value)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def sources(*keys: str) -> list[tuple[Any, str]]:
    settings = Settings.load()
    return [(getattr(settings, key), settings.source(key)) for key in keys]


# Which source wins


def test_the_environment_wins_over_the_file_and_that_over_the_stack(variable: SAY) -> None:
    stack(nats_url="nats://stack", store_url="file:///s", s3_region="of-stack", dagster_url="http://d")
    toml('store_url = "file:///t"', 'aws_region = "of-file"')
    variable(AWS_REGION="of-sdk", AWS_DEFAULT_REGION="of-default", NATS3_OWNERS="")
    assert sources("nats_url", "store_url", "s3_region", "owners") == [
        ("nats://stack", "embedded stack"),
        ("file:///t", "nats3.toml"),
        ("of-sdk", "environment variable AWS_REGION"),
        ("", "default"),
    ]
    variable(NATS3_S3_REGION="of-ours")
    assert sources("s3_region") == [("of-ours", "environment variable NATS3_S3_REGION")]


def test_another_file_by_nats3_config(folder: Path, variable: SAY) -> None:
    toml('owners = "here"')
    variable(NATS3_CONFIG=str(folder / "etc.toml"))
    assert "NATS3_CONFIG names a file that does not exist" in refused()
    Path("etc.toml").write_text('owners = "there"')
    assert sources("owners") == [("there", str(folder / "etc.toml"))]


def test_a_secret_from_a_file(folder: Path, variable: SAY) -> None:
    Path("secret").write_text(f"{SECRET}\n")
    variable(NATS3_NATS_PASSWORD_FILE=str(folder / "secret"), NATS3_NATS_URL="nats://h", NATS3_NATS_USER="u")
    settings = Settings.load()
    assert settings.nats.password == SECRET
    assert settings.source("nats_password") == f"file {folder / 'secret'} (NATS3_NATS_PASSWORD_FILE)"
    variable(NATS3_NATS_PASSWORD=SECRET)
    assert "NATS3_NATS_PASSWORD and NATS3_NATS_PASSWORD_FILE are both set" in refused()
    variable(NATS3_NATS_PASSWORD="", NATS3_NATS_PASSWORD_FILE=str(folder))
    assert "cannot be read" in refused()
    Path("secret").write_text("\n")
    variable(NATS3_NATS_PASSWORD_FILE=str(folder / "secret"))
    assert "NATS3_NATS_PASSWORD_FILE names is empty" in refused()


# What is refused


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ('nats_ulr = "x"', "line 3 is not a setting. Did you mean nats_url?"),
        ('postgress_url = "postgresql://u:s3cr@h/d"', "line 3 is not a setting. Did you mean postgres_url?"),
        ('endpoint = "x"', "Did you mean s3_endpoint?"),
        ("[s3]\nregion = 1", "'s3' in "),
        ('zebra = "s3cr"', "Remove it, or correct its name"),
        ('owners = "b"', "is not TOML"),
        ('aws_region = "a"\ns3_region = "b"', "line 4 sets s3_region twice"),
        ("nats_tls_first = 3", "nats_tls_first (nats3.toml): Input should be a valid boolean"),
        ("nats_password = 53", "nats_password (nats3.toml): Input should be a valid string"),
        ('api_listen = "h:x"', "api_listen (nats3.toml): not an address to listen on"),
        ('api_listen = "h:70000"', "not an address to listen on"),
        ('api_tokens = "s3cr"', "not the SHA-256 of a token"),
        ('api_max_body = "0"', "api_max_body (nats3.toml): Input should be greater than 0"),
        ('delete_grace = "s3cr"', "not a duration. Write it as"),
        ("delete_grace = -1", "greater than or equal to 0"),
        ('server_url = "u:s3cr@h:80"', "server_url (nats3.toml): not an address"),
        ('output_format = "s3cr"', "'table', 'json' or 'yaml'"),
        ('s3_sse = "s3cr"', "'AES256' or 'aws:kms'"),
        ('s3_storage_class = "standard s3cr"', "s3_storage_class (nats3.toml): String should match"),
        ('s3_sse_kms_key_id = "k"', "Set NATS3_S3_SSE to aws:kms"),
        ('nats_user_jwt = "s3cr"', "Only one of a user's JWT and its seed is given"),
    ],
)
def test_a_wrong_file_is_refused_with_the_place(line: str, text: str) -> None:
    toml("# a comment", 'owners = "a"', line, "")
    stack(nats_url="nats://h")
    assert text in refused()


def test_values_have_the_types_that_they_are_used_as() -> None:
    digest = "A" * 64
    toml('delete_grace = "1h30m"', 'api_max_body = "2MiB"', 'api_listen = "[::1]:0"', f'api_tokens = "{digest}, "')
    settings = Settings.load()
    assert (settings.delete_grace, settings.api_max_body) == (5400, 2 << 20)
    assert settings.api_address == ("::1", 0)
    assert settings.api_token_scopes == {"a" * 64: {"read", "write"}}
    assert settings.api_tls is None
    Path("c").write_text("")
    toml('api_tls_cert = "c"')
    with pytest.raises(OperatorError, match="Only one of the API's TLS files"):
        _ = Settings.load().api_tls


def test_a_variable_that_is_nearly_a_setting_is_warned_of(variable: SAY, caplog: pytest.LogCaptureFixture) -> None:
    variable(NATS3_NATS_PASWORD="s3cr", NATS3_ELSEWHERE="1", NATS3_FAULTS_X="1", NATS3_NATS_TOKEN_FILE="")
    Settings.load()
    Settings.load()
    assert caplog.messages == ["NATS3_NATS_PASWORD is not a setting. Did you mean NATS3_NATS_PASSWORD?"]


# NATS contexts


def test_a_context_is_read_if_it_is_named(folder: Path, variable: SAY) -> None:
    Path("xdg/nats/context.txt").write_text("prod")
    context("prod", url="nats://c", creds="~/u.creds", ca="/ca", tls_first=True, inbox_prefix="_I", color_scheme="red")
    toml('nats_url = "nats://file"')
    assert sources("nats_url", "nats_creds") == [("nats://file", "nats3.toml"), (None, "default")]
    variable(NATS3_NATS_CONTEXT="prod", HOME="/me")
    settings = Settings.load()
    assert settings.nats.servers == ("nats://c",)
    assert (settings.nats.creds, settings.nats.tls_ca, settings.nats.tls_first) == ("/me/u.creds", "/ca", True)
    assert settings.nats.inbox_prefix == "_I"
    assert settings.source("nats_creds") == "NATS context prod"
    variable(NATS3_NATS_URL="nats://env", NATS3_NATS_TLS_CA="/other")
    settings = Settings.load()
    assert settings.nats.servers == ("nats://env",)
    assert (settings.nats.creds, settings.nats.tls_ca) == ("/me/u.creds", "/other")


def test_a_context_named_in_the_file_ranks_below_the_file() -> None:
    context("prod", url="nats://c", user="u", password=SECRET)
    toml('nats_context = "prod"')
    stack(nats_url="nats://stack")
    assert sources("nats_url") == [("nats://c", "NATS context prod")]
    toml('nats_context = "prod"', 'nats_url = "nats://file"')
    assert sources("nats_url") == [("nats://file", "nats3.toml")]
    assert Settings.load().nats.password == SECRET


def test_a_context_without_a_url_is_that_of_the_cli(variable: SAY) -> None:
    context("local", user="u")
    stack(nats_url="nats://stack")
    variable(NATS3_NATS_CONTEXT="local")
    assert Settings.load().nats.servers == ("nats://127.0.0.1:4222",)


@pytest.mark.parametrize("ours", ["NATS3_NATS_TOKEN", "NATS3_NATS_CREDS", "NATS3_NATS_USER", "NATS3_NATS_URL"])
def test_a_login_is_taken_from_one_place(variable: SAY, ours: str) -> None:
    context("prod", url="nats://c", user="u", password=SECRET, nkey="/n", jetstream_domain="d")
    variable(NATS3_NATS_CONTEXT="prod", NATS3_NATS_API_PREFIX="JS.acme.API")
    Path("mine").write_text("")
    variable(**{ours: "nats://me@h" if ours.endswith("URL") else "mine"})
    nats = Settings.load().nats
    assert (nats.password, nats.nkey, nats.domain) == (None, None, None)
    assert nats.user in (None, "mine")


def test_a_password_of_ours_goes_with_the_contexts_user(variable: SAY) -> None:
    context("prod", url="nats://c", user="u")
    variable(NATS3_NATS_CONTEXT="prod", NATS3_NATS_PASSWORD=SECRET)
    assert (Settings.load().nats.user, Settings.load().nats.password) == ("u", SECRET)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ({"nsc": "nsc://s3cr"}, "sets nsc, which is not supported here"),
        ({"creds": "nsc://op/acc/s3cr"}, "odd: its creds comes from nsc (nsc://), which is not supported here"),
        ({"creds": "OP://vault/s3cr/f"}, "its creds comes from 1Password (op://), which is not supported here"),
        ({"nkey": "op://vault/s3cr/f"}, "its nkey comes from 1Password (op://)"),
        ({"user": "u", "password": "op://v/s3cr/f"}, "its password comes from 1Password (op://)"),
        ({"token": "nsc://s3cr"}, "its token comes from nsc (nsc://)"),
        ({"cert": "op://s3cr"}, "its cert comes from 1Password (op://)"),
        ({"creds": "vault://s3cr"}, "its creds holds a URL, and wants the path of a file"),
        ({"nkey": "data:s3cr"}, "its nkey is embedded data that is not in base64"),
        ({"nkey": "data:;base64,s3cr!"}, "its nkey is embedded data that is not in base64"),
        ({"key": "data:;base64"}, "its key is embedded data that is not in base64"),
        ({"token": "data:,s3cr"}, "its token is embedded data that is not in base64"),
        ({"token": "data:;base64,/////w=="}, "its token is not text"),
        ({"nkey": "env://s3cr_UNSET"}, "its nkey comes from a variable (env://) that is not set"),
        ({"token": "env://"}, "its token comes from a variable (env://) that is not set"),
        ({"token": "file:///s3cr"}, "its token names a file that cannot be read: No such file"),
        ({"nkey": SEED}, "its nkey holds the seed of an nkey, and wants the path of a file"),
        ({"ca": "-----BEGIN s3cr"}, "its ca holds the content of a key or creds file"),
        ({"url": "nats://to/s3cr@h"}, "its url is not the URL of a NATS server"),
        ({"jetstream_domain": "nats://s3cr"}, "its jetstream_domain holds a URL, and wants a name"),
        ({"socks_proxy": "socks5://u:s3cr@h"}, "sets socks_proxy, which"),
        ({"windows_cert_store": "user"}, "sets windows_cert_store, which"),
        ({"novelty": 1}, "sets novelty, which"),
        ({"user_jwt": "s3cr"}, "sets user_jwt without user_seed"),
        ({"user": 5}, "has an invalid user"),
        ({"tls_first": "yes"}, "has an invalid tls_first"),
    ],
)
def test_a_context_that_cannot_be_followed_is_refused(variable: SAY, content: dict[str, Any], text: str) -> None:
    context("odd", **{"url": "nats://c"} | content)
    variable(NATS3_NATS_CONTEXT="odd")
    assert text in refused()


def test_a_context_with_several_logins_has_the_first_one_as_the_command_has_it(variable: SAY) -> None:
    fields = {"user": "u", "password": SECRET, "creds": "/c", "nkey": "/n", "user_jwt": "j", "user_seed": "s"}
    variable(NATS3_NATS_CONTEXT="all")
    for first, *rest in (("user", "password", "creds"), ("creds", "nkey", "user_jwt", "user_seed"), ("nkey",)):
        context("all", url="nats://c", **{field: fields[field] for field in (first, *rest)})
        nats = Settings.load().nats
        logins = {"user": nats.user, "creds": nats.creds, "nkey": nats.nkey, "user_jwt": nats.user_jwt}
        assert [name for name, value in logins.items() if value] == [first]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("other", "There is no NATS context other"),
        ("../prod", "is invalid"),
        ("bad", "is not JSON"),
        ("list", "is not an object"),
    ],
)
def test_a_context_that_is_missing_or_malformed_is_refused(variable: SAY, name: str, text: str) -> None:
    context("prod")
    Path("xdg/nats/context/bad.json").write_text('{"password": "s3cr')
    Path("xdg/nats/context/list.json").write_text("[]")
    variable(NATS3_NATS_CONTEXT=name)
    said = refused()
    assert text in said
    assert name != "other" or "Name one of those there: bad, list, prod" in said


# The S3 identity

STACK = {"s3_endpoint": "http://stack", "s3_region": "stack", "s3_access_key_id": "k", "s3_secret_access_key": "s"}
KEYS_ENV = {"AWS_ACCESS_KEY_ID": "ek", "AWS_SECRET_ACCESS_KEY": "es"}
KEYS_FILE = ('s3_access_key_id = "fk"', 's3_secret_access_key = "fs"')


@pytest.mark.parametrize(
    ("environment", "lines", "expected"),
    [
        ({}, (), ("http://stack", "k", None)),
        ({"AWS_PROFILE": "p"}, (), ("http://stack", "k", None)),  # it may be there for something else
        ({"NATS3_S3_PROFILE": "p"}, (), (None, None, "p")),
        ({}, ('s3_profile = "p"',), (None, None, "p")),
        ({"AWS_PROFILE": "p"}, ('s3_endpoint = "http://f"',), ("http://f", None, "p")),
        ({"AWS_ENDPOINT_URL_S3": "http://e"}, (), ("http://e", None, None)),
        ({"AWS_PROFILE": "p"}, KEYS_FILE, ("http://stack", "fk", None)),
        ({"NATS3_S3_PROFILE": "p"}, KEYS_FILE, (None, None, "p")),
        (KEYS_ENV, ('s3_profile = "p"', 's3_endpoint = "http://f"'), ("http://f", "ek", None)),
        (KEYS_ENV | {"NATS3_S3_PROFILE": "p", "AWS_ENDPOINT_URL": "http://e"}, (), ("http://e", "ek", None)),
    ],
)
def test_one_s3_identity_is_in_force(
    variable: SAY, folder: Path, environment: dict[str, str], lines: tuple[str, ...], expected: tuple[Any, ...]
) -> None:
    (folder / "aws").write_text("[profile p]\n")
    variable(AWS_CONFIG_FILE=str(folder / "aws"), **environment)
    stack(**STACK)
    toml(*lines)
    store = Settings.load().store
    assert (store.endpoint, store.access_key_id, store.profile) == expected


# Secrets


def test_spark_connect_of_the_stack_gives_way_to_a_master_that_was_asked_for(variable: SAY) -> None:
    stack(spark_remote="sc://127.0.0.1:1/;token=s3cr")
    assert Settings.load().connect == "sc://127.0.0.1:1/;token=s3cr"
    variable(NATS3_SPARK_MASTER="local[4]")
    assert Settings.load().connect is None
    variable(NATS3_SPARK_REMOTE="sc://h:2")
    assert Settings.load().connect == "sc://h:2"


@pytest.mark.parametrize(
    ("remote", "connect"),
    [
        ("sc://h:1", "sc://h:1/;token=a%2Fb"),
        ("sc://h:1/", "sc://h:1/;token=a%2Fb"),
        ("sc://h:1/;use_ssl=true", "sc://h:1/;use_ssl=true;token=a%2Fb"),
        ("sc://h:1/;token=own;user_id=x", "sc://h:1/;token=own;user_id=x"),
    ],
)
def test_the_token_of_spark_connect_goes_with_an_address_that_has_none(
    variable: SAY, remote: str, connect: str
) -> None:
    stack(spark_remote="sc://127.0.0.1:1/;token=s3cr")
    variable(NATS3_SPARK_REMOTE=remote, NATS3_SPARK_TOKEN="a/b")
    assert Settings.load().connect == connect


def test_no_secret_shows(variable: SAY) -> None:
    variable(
        NATS3_NATS_URL=f"nats://u:{ENCODED}@h:1,nats://s3crtoken@h2",
        NATS3_NATS_TOKEN=SECRET,
        NATS3_POSTGRES_URL=f"postgresql://u:{ENCODED}@h/d",
        NATS3_SPARK_REMOTE=f"sc://h:1/;token={ENCODED}",
        NATS3_NATS_USER_SEED=SECRET,
        NATS3_SPARK_TOKEN="s3cr-e/t",
        AWS_SECRET_ACCESS_KEY=SECRET,
        NATS3_API_TOKENS="c" * 64,
        AWS_SESSION_TOKEN=SECRET,
    )
    settings = Settings.load()
    shown = {key: settings.shown(key) for key in KEYS}
    text = f"{settings!r} {settings} {shown}"
    assert "s3cr" not in text
    assert "e/t" not in text
    assert "e%2F" not in text
    assert "cccc" not in text
    assert shown["postgres_url"] == "postgresql://u:***@h/d"
    assert shown["nats_url"] == "nats://u:***@h:1,nats://***@h2"
    assert shown["spark_remote"] == "sc://h:1/;token=***"
    assert shown["nats_token"] == "***"
    assert pickle.loads(pickle.dumps(settings)).source("nats_token") == "environment variable NATS3_NATS_TOKEN"


@pytest.mark.parametrize("text", ["host=h password='s3cr x' user=u", "host=h password=s3cr", "postgresql://s3cr@h"])
def test_an_odd_address_of_postgres_shows_no_password(variable: SAY, text: str) -> None:
    variable(NATS3_POSTGRES_URL=text)
    assert "s3cr" not in str(Settings.load().shown("postgres_url"))


def test_every_setting_has_a_variable_of_its_own() -> None:
    names = [name for key in KEYS for name in variables(key)]
    assert len(names) == len(set(names))


def test_errors_have_a_next_step() -> None:
    toml("x = ")
    with pytest.raises(Nats3Error) as caught:
        Settings.load()
    assert caught.value.hint
