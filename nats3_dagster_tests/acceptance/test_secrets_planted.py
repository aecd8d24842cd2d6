"""Secrets are planted in every setting, option and file, right and wrong, and no text of ours has one.

What is planted is made from the tables of settings, options and keys (planting.py): a new one is tried by itself.
test_secrets.py plants right ones and looks at all that runs leave behind.
"""

import base64
import itertools
import json
import logging
import os
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest
from dagster import DagsterInstance, OpExecutionContext, job, op
from fastapi.testclient import TestClient
from psycopg import sql

from nats3_dagster.api.app import create_app
from nats3_dagster.archive.declared.accounts import RULE_KEYS
from nats3_dagster.archive.declared.entries import ARCHIVE_KEYS
from nats3_dagster.archive.declared.exports import EXPORT_KEYS
from nats3_dagster.archive.declared.replays import REPLAY_KEYS
from nats3_dagster.defs.jobs.failures import step_failures
from nats3_dagster.defs.keys import PROJECT
from nats3_dagster.errors import Nats3Error
from nats3_dagster.settings import Settings
from nats3_dagster.settings.names import KEYS, is_secret, variables
from nats3_dagster.settings.nats_context import FIELDS
from nats3_dagster_tests.support.commands import Command, root_command
from nats3_dagster_tests.support.planting import (
    MARK,
    api_token,
    creds,
    jwt,
    misplaced,
    places,
    plants,
    secret,
    seed,
    shown_in,
)
from nats3_dagster_tests.support.wire import Wire

# Commands that go on until they are ended, ask, or print a secret because they are asked to.
_LEFT_OUT = {("serve",), ("demo",), ("token", "create"), ("config", "set"), ("dev",)}


def text_of(work: Callable[[], object]) -> str:
    """What it returns, or the error, in all forms in which a text or a log would have them."""
    try:
        result = work()
    except Nats3Error as error:
        return f"{error} {error!r} {error.to_json()} {error.__cause__!r} {error.args}"
    return f"{result} {result!r}"


def test_no_setting_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each value at each place where it may stand."""
    config = tmp_path / "nats3.toml"
    monkeypatch.setenv("NATS3_CONFIG", str(config))
    leaks = list[tuple[str, ...]]()
    for plant in plants():
        for place, environment, text in places(plant, tmp_path):
            config.write_text(text or "")
            with monkeypatch.context() as patch:
                for name, value in environment.items():
                    patch.setenv(name, value)
                leaks += [(plant.key, plant.form, place, shown) for shown in shown_in(text_of(_every_text))]
    assert leaks == [], "\n".join(map(str, leaks))


def _every_text() -> str:
    settings = Settings.load()
    shown = [repr(settings), *(str(settings.shown(key)) for key in KEYS), *settings.origins()]
    shown += [text_of(lambda: settings.nats), text_of(lambda: settings.store), text_of(lambda: settings.store.place)]
    return " ".join(shown)


def test_no_field_of_a_context_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("NATS3_NATS_CONTEXT", "planted")
    file = tmp_path / "nats" / "context" / "planted.json"
    file.parent.mkdir(parents=True)
    leaks = list[tuple[str, ...]]()
    for field in [*FIELDS, "unsupported"]:
        values = [*misplaced(), ("bare", f"{secret()} {secret()}"), ("list", [secret()])]
        for form, value in [*values, *((scheme, f"{scheme}://{secret()}") for scheme in ("file", "op", "nsc", "env"))]:
            file.write_text(json.dumps({"url": "nats://127.0.0.1:1", field: value}))
            # A name may be any words.
            if not (form == "bare" and field in ("user", "jetstream_domain", "jetstream_api_prefix", "inbox_prefix")):
                leaks += [(field, form, shown) for shown in shown_in(text_of(_every_text))]
    assert leaks == [], "\n".join(map(str, leaks))


def test_no_option_of_a_source_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    from nats3_dagster.pipeline.sources import archive_source, jetstream_options, jetstream_writer
    from nats3_dagster.pipeline.sources.connection import CONNECTION, nats_options
    from nats3_dagster.pipeline.sources.options import parse_options

    tables = (
        (*jetstream_options.READ, *jetstream_options.BATCH, *jetstream_options.STREAMING, *CONNECTION),
        archive_source.OPTIONS,
        (*jetstream_writer.WRITE, *CONNECTION),
    )
    # Values of these may be words that say no more than they seem to.
    logins = {option.name for option in CONNECTION} - {"user", "context", "domain", "apiPrefix", "inboxPrefix"}
    monkeypatch.setenv("PLANTED", secret())
    leaks = list[tuple[str, ...]]()
    for table in tables:
        for option in table:
            values = [*misplaced(), *([("bare", f"{secret()} {secret()}")] if option.name in logins else [])]
            for form, value in values:

                def given(name: str = option.name, value: str = value, table: Sequence[Any] = table) -> object:
                    return nats_options("nats3", parse_options("nats3", table, {"url": "127.0.0.1:1", name: value}))

                leaks += [(option.name, form, shown) for shown in shown_in(text_of(given))]
    assert leaks == [], "\n".join(map(str, leaks))


def test_no_value_of_a_file_of_archives_is_shown(tmp_path: Path, settings: Any, nats3: Command) -> None:
    """Of the archive, of an export, of a replay by name and of a rule; malformed files too."""
    file, leaks = tmp_path / "archives.yaml", list[tuple[str, ...]]()
    right = {"name": "a", "stream": "S", "bucket": "b"}
    export = {"name": "e", "to": "s3://b/x", "format": "ndjson"}
    replay = {"name": "r", "write_subject": "back.>"}
    documents = [
        (key, form, json.dumps({"archives": [right | {key: value}]}))
        for key in ARCHIVE_KEYS
        for form, value in misplaced()
        if key not in ("exports", "replays")
    ] + [
        (key, form, json.dumps({"archives": [right | {"exports": [export | {key: value}]}]}))
        for key in EXPORT_KEYS
        for form, value in misplaced()
    ]
    documents += [
        (key, form, json.dumps({"archives": [right | {"replays": [replay | {key: value}]}]}))
        for key in REPLAY_KEYS
        for form, value in misplaced()
    ]
    documents += [
        (key, form, json.dumps({"accounts": [{"name": "all", "bucket": "b", key: value}]}))
        for key in RULE_KEYS
        for form, value in misplaced()
    ]
    documents += [("", form, f"archives:\n- name: a\n  {value}\n: : [") for form, value in misplaced()]
    for key, form, text in documents:
        file.write_text(text)
        ran = nats3("store", "apply", "-f", str(file), "--dry-run")
        leaks += [(key, form, shown) for shown in shown_in(ran.out + ran.err)]
    assert leaks == [], "\n".join(map(str, leaks))


@pytest.fixture
def planted(settings: Any, wire: Wire, tmp_path: Path, bucket: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Settings with a planted secret in each that may have one, with which NATS, Postgres and the store let us in, as
    they ask for none; and an archive with messages."""
    place = urlsplit(os.environ["NATS3_NATS_URL"])
    environment = {
        variables(key)[0]: secret()
        for key in KEYS
        if is_secret(key) and key not in ("nats_token", "nats_user_jwt", "nats_user_seed") and not key.startswith("s3_")
    } | {
        "NATS3_NATS_URL": f"nats://planted:{secret()}@{place.hostname}:{place.port}",
        "NATS3_POSTGRES_URL": f"{os.environ['NATS3_POSTGRES_URL']}?sslpassword={secret()}",
        "NATS3_SPARK_REMOTE": f"sc://127.0.0.1:1/;token={secret()}",
        "NATS3_DAGSTER_URL": "http://127.0.0.1:1",
        "AWS_SESSION_TOKEN": "",
        "NATS3_HOME": str(tmp_path / "home"),
        "PYICEBERG_CATALOG__PLANTED__URI": f"http://127.0.0.1:1/?x={secret()}",
        "PYICEBERG_CATALOG__PLANTED__CREDENTIAL": f"id:{secret()}",
        "PYICEBERG_CATALOG__PLANTED__TOKEN": secret(),
    }
    del environment["NATS3_NATS_PASSWORD"]
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    wire.create_stream("S", "s.>")
    wire.publish([("s.a", b"", b"x")])
    return environment


def every_command() -> Iterator[tuple[tuple[str, ...], Any]]:
    """The path of each command, and the command."""

    def below(group: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
        for name, command in group.commands.items():
            if hasattr(command, "commands"):
                yield from below(command, (*path, name))
            else:
                yield (*path, name), command

    for path, command in below(root_command(), ()):
        if not any(path[: len(left)] == left for left in _LEFT_OUT):
            yield path, command


def arguments_of(command: Any) -> list[Any]:
    return [p for p in command.params if p.param_type_name == "argument" and p.required]


def commands() -> list[Sequence[str]]:
    """Every command, asked for something that is not there."""
    return [(*path, *("none" for _ in arguments_of(command)), "--debug") for path, command in every_command()]


def misplaced_words() -> Iterator[Sequence[str]]:
    """Every command with a secret in the place of each argument, and of each option that no command before it has."""
    forms = itertools.cycle(misplaced())
    seen = set[tuple[str, str]]()
    for path, command in every_command():
        arguments = arguments_of(command)
        for _ in arguments:
            yield (*path, *(next(forms)[1] for _ in arguments), "--debug")
        options = [p for p in command.params if p.param_type_name == "option" and not p.is_flag]
        for option in options:
            if (option.opts[0], option.help) not in seen:
                seen.add((option.opts[0], option.help))
                yield (*path, *("none" for _ in arguments), f"{option.opts[0]}={next(forms)[1]}")
    for option in ("--listen", "--host"):
        yield from (("serve", option, value) for _, value in misplaced())
        yield "serve", option, f"{secret()}:{secret()}@127.0.0.1"


def test_no_command_repeats_a_secret_in_the_place_of_a_value(planted: dict[str, str], nats3: Command) -> None:
    """Where it was typed as an argument or as an option."""
    leaks = list[tuple[str, str]]()
    for words in misplaced_words():
        ran = nats3(*words)
        assert ran.status != 0, words
        leaks += [(" ".join(words)[:60], shown) for shown in shown_in(ran.out + ran.err)]
    assert leaks == [], "\n".join(map(str, leaks))


def test_no_command_shows_a_secret(
    planted: dict[str, str], bucket: str, nats3: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every command, with all secrets in place; then some with wrong ones, which servers refuse."""
    monkeypatch.chdir(tmp_path)  # some write the file that is not there
    create = ("store", "create", "--name", "a", "--stream", "S", "--bucket", bucket, "--debug")
    more = [
        create,
        ("store", "run", "a", "--debug"),
        ("table", "create", "a", "--catalog", "planted", "--debug"),
        ("table", "create", "a", "--catalog", f"http://127.0.0.1:1/?token={secret()}"),
        ("load", "create", "--bucket", bucket, "--read-stream", "S", "--write-subject", "t.>", "--debug"),
        ("store", "list", "-o", "json", "--debug"),
        ("config", "show", "-o", "yaml"),
        ("store", "list", "--server", f"http://127.0.0.1:1/{secret()}/?token={secret()}", "--debug"),
        ("store", "list", "--context", seed()),
        ("store", "get", api_token()),
        ("message", "get", "a", jwt()),
    ]
    leaks = list[tuple[str, str]]()
    for words in [*more, *commands()]:
        ran = nats3(*words)
        leaks += [(" ".join(words[:2]), shown) for shown in shown_in(ran.out + ran.err)]
    assert leaks == [], "\n".join(map(str, leaks))
    assert "1 message" in nats3.ok("stream", "list").out or nats3.ok("store", "get", "a")
    # No command left one in the catalog, in Dagster's tables or in a file.
    assert tables_with_secrets(os.environ["NATS3_POSTGRES_URL"]) == []
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert [path for path in files if shown_in(path.read_bytes())] == []


@pytest.mark.parametrize(
    "name", ["AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "NATS3_NATS_USER_SEED", "NATS3_NATS_CREDS"]
)
def test_what_servers_refuse_is_not_shown(
    planted: dict[str, str], nats3: Command, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.creds").write_text(creds())
    value = {"NATS3_NATS_USER_SEED": seed(), "NATS3_NATS_CREDS": str(tmp_path / "a.creds")}.get(name, secret())
    monkeypatch.setenv(name, value)
    ran = nats3("doctor", "--debug")
    assert shown_in(ran.out + ran.err) == []
    assert ran.status == 1


def test_no_answer_of_the_api_shows_a_secret(planted: dict[str, str], caplog: pytest.LogCaptureFixture) -> None:
    """Every route, asked wrongly, with servers that refuse us; and its log."""
    caplog.set_level(logging.DEBUG)
    app = create_app(Settings.load())
    answers = list[str]()
    with TestClient(app, raise_server_exceptions=False) as client:
        for path, operations in client.get("/openapi.json").json()["paths"].items():
            for method in operations:
                address = re.sub(r"\{\w+\}", api_token(), path)
                for query in ("", f"?job_id={jwt()}", f"?x-api-key={secret()}"):
                    body = {"name": seed(), "stream": creds(), "bucket": jwt(), "subject": api_token()}
                    # What a client sent unasked comes back to it alone: what is looked for is known by its form.
                    answers.append(client.request(method, address + query, json=body).text)
    assert [shown for text in answers for shown in shown_in(text)] == []
    # The client of the test logs, too.
    logged = [f"{record.name} {record.getMessage()}" for record in caplog.records if "httpx" not in record.name]
    assert [(text[:40], shown) for text in logged for shown in shown_in(text)] == []


def test_a_failed_step_of_dagster_stores_no_secret(planted: dict[str, str]) -> None:
    """An error that no rule of ours foresaw, with its cause: Dagster stores both."""
    value = Settings.load().server_token
    assert value

    @op
    def leaking(context: OpExecutionContext) -> None:
        with step_failures(context, PROJECT, "stopped"):
            try:
                raise OSError(2, f"of a library: {value.get_secret_value()}")
            except OSError as error:
                raise ValueError(f"of another: {value.get_secret_value()}") from error

    @job
    def leaks() -> None:
        leaking()

    with DagsterInstance.ephemeral() as instance:
        result = leaks.execute_in_process(instance=instance, raise_on_error=False)
        stored = "\n".join(entry.to_json() for entry in instance.all_logs(result.run_id))
    assert not result.success
    assert "of another: ***" in stored
    assert shown_in(stored) == []


def test_spark_hides_our_keys_in_any_case_and_with_any_prefix(spark: Any) -> None:
    """By spark/spark-defaults.conf: SET shows values as pages and event logs have them."""
    hidden = [
        "spark.executorEnv.NATS3_POSTGRES_URL",
        "spark.kubernetes.driverEnv.nats3_nats_url",
        "spark.x.passwordFile",
        "spark.executorEnv.AWS_SECRET_ACCESS_KEY",
        "spark.hadoop.fs.s3a.access.key",
        "spark.x.aws_session_token",
        "spark.x.PASSWD",
        "spark.x.credsFile",
        "spark.x.nkeyFile",
        "spark.x.user_jwt",
        "spark.x.SEED",
    ]
    shapes = {"spark.x.one": f"nats://u:{secret()}@h", "spark.x.two": seed()}
    for key in hidden:
        spark.conf.set(key, secret())
    for key, value in shapes.items():
        spark.conf.set(key, value)
    spark.conf.set("spark.x.plain", "shown")
    try:
        rows = {row.key: row.value for row in spark.sql("SET").collect()}
    finally:
        for key in [*hidden, *shapes, "spark.x.plain"]:
            spark.conf.unset(key)
    assert {key: rows[key] for key in [*hidden, *shapes] if "redacted" not in rows[key]} == {}
    assert rows["spark.x.plain"] == "shown"


def test_spark_hides_the_same_on_kubernetes() -> None:
    files = (Path("spark/spark-defaults.conf"), Path("deploy/kubernetes/spark-defaults.conf"))
    ours, theirs = ([line for line in file.read_text().splitlines() if "redaction" in line] for file in files)
    assert len(ours) == 3
    assert ours == theirs


def tables_with_secrets(url: str) -> list[str]:
    """The tables that have a planted secret, in any column."""
    coded = [base64.b64encode(b"\0" * shift + MARK.encode()).decode()[shift + 1 : -4] for shift in range(3)]
    pattern = "|".join([MARK, *coded])
    with psycopg.connect(url) as connection:
        tables = connection.execute(
            "select table_schema, table_name from information_schema.tables "
            "where table_schema in ('public', 'nats3') and table_type = 'BASE TABLE'"
        ).fetchall()
        query = sql.SQL("select 1 from {} t where t::text ~ %s limit 1")
        return [
            table
            for schema, table in tables
            if connection.execute(query.format(sql.Identifier(schema, table)), [pattern]).fetchone()
        ]
