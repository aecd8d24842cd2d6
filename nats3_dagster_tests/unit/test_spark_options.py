"""Options of the Spark data sources: documented as they are, checked as they are documented. No Spark, no server."""

import inspect
import re
from pathlib import Path
from typing import Any

import pytest

from nats3_dagster.errors import OperatorError
from nats3_dagster.pipeline.sources.connection import nats_options
from nats3_dagster.pipeline.sources.jetstream import JetStreamDataSource
from nats3_dagster.pipeline.sources.jetstream_options import (
    read_schema,
    read_values,
)
from nats3_dagster.pipeline.sources.options import Option, option_rows, parse_options
from nats3_dagster_tests.support.spark_sources import ALL, CASES, Case

DOCS = Path(__file__).parents[2] / "docs" / "spark.md"
SECRET = "planted-7Zq"


@pytest.mark.parametrize("text", [inspect.getdoc(JetStreamDataSource), DOCS.read_text()], ids=["class", "docs"])
def test_every_option_is_documented_as_it_is(text: str) -> None:
    rows = [line.strip() for line in text.splitlines()]
    for row in option_rows(ALL):
        assert row in rows


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_table_of_spark_is_refused_and_the_path_of_a_load_is_a_name(case: Case) -> None:
    (required,) = (option.name for option in case.table if option.default == "required")
    assert parse_options("x", case.table, {"path": "A"}) == {required: "A"}
    for wrong, what in (
        ({"path": "A", required: "A"}, f"x gets a path, and the option {required}"),
        ({"owner": "me", "provider": "x", required: "A"}, "CREATE TEMPORARY VIEW name USING x OPTIONS"),
    ):
        with pytest.raises(OperatorError, match=what):
            parse_options("x", case.table, wrong)


# What no option of a kind can be; of a text that may be anything, an empty one.
MALFORMED = {
    "true or false": ["maybe", ""],
    "number": ["0", "-1", "2.5", "many", str(1 << 63)],
    "sequence": ["0", "x", str(1 << 63)],
    "time": ["noon", "2026-13-01", ""],
    "duration": ["soon", "0s"],
    "size": ["0", "much"],
    "id": ["a b", "a:b", ""],
    "subject filters": ["a..b", "a.>.b", "a, "],
    "earliest, latest, sequence or time": ["first", "0"],
}
# Of options whose kind does not say it.
OF_OPTION = {
    "stream": ["a.b", " ", "x" * 256],
    "hours": ["yesterday", "2026-11-21-07:00,", "2026-11-31-07:00"],
    "sequences": ["9-5", "a-b", "0-3", f"1-{1 << 70}"],
    "url": ["http://x", "nats://h:port", "nats://h,,nats://i"],
    "domain": ["a b", "a.b"],
    "apiPrefix": ["a..b", "a b"],
    "inboxPrefix": ["a..b", ">"],
}
EVERY = [(case, option) for case in CASES.values() for option in case.table]


def error_of(case: Case, given: dict[str, str]) -> str:
    """The error of a source that asks nobody: where NATS is nobody listens, and it would name that."""
    needed = case.needed if case.source == "nats3" else case.needed | {"url": "nats://127.0.0.1:1"}
    with pytest.raises(OperatorError) as caught:
        case.ask({key.lower(): value for key, value in (needed | given).items()})
    text = str(caught.value)
    assert "\n" not in text
    assert caught.value.field or "both given" in text or "above" in text, text
    return text


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_an_unknown_option_is_named_with_the_known_one_that_is_nearest(case: Case) -> None:
    for option in case.table:
        wrong = f"{option.name}x"
        assert error_of(case, {wrong: SECRET}) == (
            f"{wrong.lower()} is not an option of {case.source}. Did you mean {option.name}?"
        )
    names = ", ".join(option.name for option in case.table)
    assert error_of(case, {"nothing like it": SECRET}) == (
        f"nothing like it is not an option of {case.source}. There are {names}"
    )


@pytest.mark.parametrize(
    ("case", "option"), EVERY, ids=[f"{name}-{o.name}" for name, case in CASES.items() for o in case.table]
)
def test_a_malformed_value_is_an_error_that_names_the_option_and_says_what_to_write(case: Case, option: Option) -> None:
    kind = option.kind
    words = kind.name.split(" or ") if kind.form.startswith("one of") else []
    for value in OF_OPTION.get(option.name) or MALFORMED.get(kind.name) or [" ".join(words)]:
        what, _, hint = error_of(case, {option.name: value}).partition(". ")
        if option.name == "columns":
            assert what.startswith("The option columns of"), value
        else:
            assert what.startswith(f"The option {option.name} of {case.source} is malformed"), value
        assert all(word in hint for word in words)
        assert hint, value


@pytest.mark.parametrize(
    ("of", "given", "what"),
    [
        ("read", {"startSeqq": "1"}, "startseqq is not an option of .*Did you mean startSeq"),
        ("read", {"passwrd": SECRET}, "passwrd is not an option of .*Did you mean password"),
        ("read", {"startSeq": "5", "endSeq": "4"}, "startSeq of .* is above endSeq"),
        ("read", {"startSeq": "5", "startTime": "-2h"}, "startSeq and startTime of .* are both given"),
        ("read", {"numPartitions": "5", "messagesPerPartition": "3"}, "are both given"),
        ("read", {"startingOffsets": "earliest"}, "startingoffsets is not an option of spark.read"),
        ("readStream", {"endSeq": "4"}, "endseq is not an option of spark.readStream"),
        # Filters narrow no read: the options that select are named instead.
        ("columns", {"pushFilters": "true"}, "pushfilters is not an .* There are .*subjects.*startSeq, endSeq"),
        ("read", {"pushFilters": "true"}, "pushfilters is not an option of .* There are .*startTime, endTime"),
        ("readStream", {"pushFilters": "true"}, "pushfilters is not an option of .* There are .*startingOffsets"),
        ("nats3", {"pushFilters": "true"}, "pushfilters is not an .* There are .*hours, from, to, sequences, subjects"),
        ("writeStream", {"writeId": "a"}, "writeid is not an option of df.writeStream"),
        ("nats3", {"from": "-1h", "to": "-2h"}, "The options from and to of nats3: The selection's start is not"),
    ],
)
def test_options_of_another_use_and_options_that_do_not_fit(of: str, given: dict[str, str], what: str) -> None:
    text = error_of(CASES[of], given)
    assert re.search(what, text)
    assert SECRET not in text


def test_a_stream_is_required() -> None:
    with pytest.raises(OperatorError, match="The option stream of jetstream is not given"):
        read_values({"url": "nats://h"})


def test_columns() -> None:
    def names(**options: str) -> list[str]:
        return [f"{f.name} {f.dataType.simpleString()}" for f in read_schema(read_values({"stream": "EV"} | options))]

    assert names() == [
        "seq bigint",
        "time timestamp",
        "time_ns bigint",
        "subject string",
        "headers map<string,array<string>>",
        "data binary",
    ]
    assert names(columns="size, headers", headers="binary") == ["size int", "headers binary"]
    assert names(headers="none")[-2:] == ["subject string", "data binary"]
    for columns, what in (
        ("seq,dat", "The option columns of jetstream names 'dat', which it does not have. Did you mean data"),
        ("seq,seq", "names seq twice"),
        ("", "names '', which it does not have. There are seq, time"),
    ):
        with pytest.raises(OperatorError, match=what):
            names(columns=columns)
    with pytest.raises(OperatorError, match="the option headers is none"):
        names(columns="headers", headers="none")


# Where NATS is


@pytest.fixture
def ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings with a server and a login."""
    monkeypatch.setenv("NATS3_NATS_URL", "nats://settings:4222")
    monkeypatch.setenv("NATS3_NATS_USER", "settings-user")
    monkeypatch.setenv("NATS3_NATS_PASSWORD", SECRET)
    monkeypatch.setenv("NATS3_NATS_DOMAIN", "hub")


def login(**options: Any) -> tuple[Any, ...]:
    found = nats_options("jetstream", options)
    assert SECRET not in repr(found)
    return found.servers[0], found.user, found.password, found.token, found.creds, found.domain, found.api_prefix


@pytest.mark.usefixtures("ours")
def test_the_settings_are_the_default_and_their_login_goes_to_their_server_only(tmp_path: Path) -> None:
    whole = ("nats://settings:4222", "settings-user", SECRET, None, None, "hub", None)
    assert login() == whole
    assert login(apiPrefix="x.API") == (*whole[:5], None, "x.API")
    assert login(credsFile="/a.creds") == ("nats://settings:4222", None, None, None, "/a.creds", "hub", None)
    assert login(url="nats://other") == ("nats://other", None, None, None, None, None, None)
    assert login(url="nats://u:p@other") == ("nats://other", "u", "p", None, None, None, None)
    context = tmp_path / "nats" / "context"
    context.mkdir(parents=True)
    (context / "prod.json").write_text('{"url": "nats://prod", "user": "prod-user", "password": "prod-password"}')
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(tmp_path))
        assert login(context="prod") == ("nats://prod", "prod-user", "prod-password", None, None, None, None)
        assert login(context="prod", token="t") == ("nats://prod", None, None, "t", None, None, None)
        with pytest.raises(OperatorError, match="There is no NATS context nowhere"):
            login(context="nowhere")


def test_secrets_come_from_files_and_variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "password").write_text(f"{SECRET}\n")
    monkeypatch.setenv("A_TOKEN", SECRET)
    url = "nats://h"
    assert login(url=url, user="u", passwordFile=str(tmp_path / "password"))[1:3] == ("u", SECRET)
    assert login(url=url, tokenEnv="A_TOKEN")[3] == SECRET
    for options, what in (
        ({"user": "u", "passwordFile": "/no/such"}, "passwordFile of jetstream names cannot be read: No"),
        ({"tokenEnv": "NO_TOKEN"}, "tokenEnv of jetstream names a variable that is not set"),
        ({"token": SECRET, "tokenEnv": "A_TOKEN"}, "token and tokenEnv of jetstream are both given"),
        ({"password": SECRET}, "a password without a user"),
        ({"user": "u", "token": SECRET}, "more than one login"),
        ({"tlsKey": "/a.pem"}, "The option tlsKey of jetstream needs the option tlsCert"),
        ({"domain": "a", "apiPrefix": "b"}, "domain and apiPrefix of jetstream are both given"),
    ):
        with pytest.raises(OperatorError, match=what) as caught:
            login(url=url, **options)
        assert SECRET not in str(caught.value)


def test_without_settings_and_options_nothing_says_where_nats_is() -> None:
    with pytest.raises(OperatorError, match="The address of NATS is not set"):
        login()
