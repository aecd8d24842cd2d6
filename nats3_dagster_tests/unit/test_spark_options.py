"""Options of the Spark data sources: documented as they are, checked as they are documented. No Spark, no server."""

import inspect
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import datasource as ds

from nats3_dagster.errors import OperatorError
from nats3_dagster.hours import CLOCKS_S, SECOND_NS, parse_time
from nats3_dagster.pipeline.sources.connection import CONNECTION, nats_options
from nats3_dagster.pipeline.sources.jetstream import JetStreamDataSource
from nats3_dagster.pipeline.sources.jetstream_options import (
    BATCH,
    READ,
    STREAMING,
    batch_values,
    read_schema,
    read_values,
    streaming_values,
)
from nats3_dagster.pipeline.sources.options import option_rows
from nats3_dagster.pipeline.sources.pushdown import Narrowed

DOCS = Path(__file__).parents[2] / "docs" / "spark.md"
SECRET = "planted-7Zq"
ALL = (*READ, *BATCH, *STREAMING, *CONNECTION)


@pytest.mark.parametrize("text", [inspect.getdoc(JetStreamDataSource), DOCS.read_text()], ids=["class", "docs"])
def test_every_option_is_documented_as_it_is(text: str) -> None:
    rows = [line.strip() for line in text.splitlines()]
    for row in option_rows(ALL):
        assert row in rows


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ({"startSeqq": "1"}, "startseqq is not an option of .*Did you mean startSeq"),
        ({"passwrd": SECRET}, "passwrd is not an option of .*Did you mean password"),
        ({"nothing like it": "1"}, "is not an option of .*There are stream, subjects"),
        ({"startSeq": "x"}, "startSeq of .* is malformed. Write a stream sequence"),
        ({"startSeq": "0"}, "startSeq of .* is malformed"),
        ({"endSeq": str(1 << 63)}, "endSeq of .* is malformed"),
        ({"numPartitions": "2.5"}, "numPartitions of .* is malformed. Write a whole number from 1"),
        ({"failOnDataLoss": "maybe"}, "failOnDataLoss of .* is malformed. Write true or false"),
        ({"headers": "json"}, "headers of .* is malformed. Write one of map, binary, none"),
        ({"startTime": "noon"}, "startTime of .* is malformed: 'noon' is not a time"),
        ({"subjects": "a.b,a..b"}, "subjects of .* is malformed: 'a..b' is not a subject filter: token 2 is empty"),
        ({"subjects": "a.>.b"}, "> may only be the last token"),
        ({"stream": " "}, "stream of .* is malformed"),
        ({"startSeq": "5", "endSeq": "4"}, "startSeq of .* is above endSeq"),
        ({"startSeq": "5", "startTime": "-2h"}, "startSeq and startTime of .* are both given"),
        ({"numPartitions": "5", "messagesPerPartition": "3"}, "are both given"),
        ({"startingOffsets": "earliest"}, "startingoffsets is not an option of spark.read"),
    ],
)
def test_bad_options_of_a_batch(given: dict[str, str], what: str) -> None:
    with pytest.raises(OperatorError, match=what) as caught:
        batch_values({"stream": "EV"} | {key.lower(): value for key, value in given.items()})
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ({"startingOffsets": "first"}, "startingOffsets of .* is malformed: 'first' is not a time"),
        ({"startingOffsets": "0"}, "startingOffsets of .* is malformed. Write earliest, latest, a sequence from 1"),
        ({"maxMessagesPerTrigger": "0"}, "maxMessagesPerTrigger of .* is malformed"),
        ({"endSeq": "4"}, "endseq is not an option of spark.readStream"),
        ({"pushFilters": "true"}, "pushfilters is not an option of spark.readStream"),
    ],
)
def test_bad_options_of_a_stream(given: dict[str, str], what: str) -> None:
    with pytest.raises(OperatorError, match=what):
        streaming_values({"stream": "EV"} | {key.lower(): value for key, value in given.items()})


def test_a_stream_is_required() -> None:
    with pytest.raises(OperatorError, match="The option stream of jetstream is not given"):
        read_values({"url": "nats://h"})


def test_columns() -> None:
    def names(**options: str) -> list[str]:
        return [f"{f.name} {f.dataType.simpleString()}" for f in read_schema(read_values({"stream": "EV"} | options))]

    assert names() == [
        "seq bigint", "time timestamp", "time_ns bigint", "subject string", "headers map<string,array<string>>",
        "data binary",
    ]  # fmt: skip
    assert names(columns="size, headers", headers="binary") == ["size int", "headers binary"]
    assert names(headers="none")[-2:] == ["subject string", "data binary"]
    for columns, what in (
        ("seq,dat", "dat is not a column of jetstream. Did you mean data"),
        ("seq,seq", "names a column twice"),
        ("", "is not a column"),
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
        ({"user": "u", "passwordFile": "/no/such"}, "passwordFile: /no/such cannot be read"),
        ({"tokenEnv": "NO_TOKEN"}, "names a variable that is not set: NO_TOKEN"),
        ({"token": SECRET, "tokenEnv": "A_TOKEN"}, "token and tokenEnv of jetstream are both given"),
        ({"password": SECRET}, "a password without a user"),
        ({"user": "u", "token": SECRET}, "more than one login"),
        ({"domain": "a", "apiPrefix": "b"}, "domain and apiPrefix of jetstream are both given"),
    ):
        with pytest.raises(OperatorError, match=what) as caught:
            login(url=url, **options)
        assert SECRET not in str(caught.value)


def test_without_settings_and_options_nothing_says_where_nats_is() -> None:
    with pytest.raises(OperatorError, match="The address of NATS is not set"):
        login()


# Filters


def narrowed(*filters: ds.Filter, subjects: tuple[str, ...] = ()) -> tuple[Any, ...]:
    """What filters leave: sequences, subjects, and what Spark must apply."""
    left = Narrowed(subjects)
    rest = left.take(filters)
    return left.seqs, left.subjects, rest


SEQ, SUBJECT, TIME = ("seq",), ("subject",), ("time",)
MOST = Narrowed(()).seqs[1]


def test_filters_on_sequences_are_applied_exactly() -> None:
    assert narrowed(ds.GreaterThan(SEQ, 10), ds.LessThanOrEqual(SEQ, 20), ds.IsNotNull(SEQ)) == ((11, 20), (), [])
    assert narrowed(ds.EqualTo(SEQ, 7)) == ((7, 7), (), [])
    assert narrowed(ds.In(SEQ, (5, 6, 7))) == ((5, 7), (), [])
    scattered = ds.In(SEQ, (5, 9))
    assert narrowed(scattered) == ((5, 9), (), [scattered])
    for other in (ds.Not(ds.EqualTo(SEQ, 7)), ds.GreaterThan(SEQ, 1.5), ds.EqualTo(("data",), b"x"), ds.IsNull(SEQ)):
        assert narrowed(other) == ((1, MOST), (), [other])


def test_filters_on_subjects() -> None:
    assert narrowed(ds.EqualTo(SUBJECT, "a.b"))[1:] == (("a.b",), [])
    assert narrowed(ds.EqualTo(SUBJECT, "a.b"), subjects=("a.*", "c.>"))[1:] == (("a.b",), [])
    assert narrowed(ds.In(SUBJECT, ("a.b", "x.y")), subjects=("a.*",))[1:] == (("a.b",), [])
    assert narrowed(ds.EqualTo(SUBJECT, "x.y"), subjects=("a.*",))[1:] == (None, [])
    assert narrowed(ds.EqualTo(SUBJECT, "x.y"), ds.EqualTo(SUBJECT, "x.z"))[1:] == (None, [])
    assert narrowed(ds.StringStartsWith(SUBJECT, "a.b."))[1:] == (("a.b.>",), [])
    inexact = ds.StringStartsWith(SUBJECT, "a.b.c")
    assert narrowed(inexact)[1:] == (("a.b.>",), [inexact])
    assert narrowed(inexact, subjects=("a.b.*", "a.b.c.>"))[1:] == (("a.b.*", "a.b.c.>"), [inexact])
    crossing = ds.StringStartsWith(SUBJECT, "a.b.")
    assert narrowed(crossing, subjects=("*.b.c",))[1:] == (("*.b.c",), [crossing])
    # A text that may stand for bytes that are not UTF-8, or that means something else in a filter.
    for text in ("a.%FF", "a.*", ">", "", "a b"):
        other = ds.EqualTo(SUBJECT, text)
        assert narrowed(other)[1:] == ((), [other])


def test_filters_on_times_narrow_by_what_clocks_may_differ_and_spark_applies_them() -> None:
    noon = datetime(2026, 11, 21, 12, tzinfo=UTC)
    filters = [ds.GreaterThanOrEqual(TIME, noon), ds.LessThan(TIME, noon)]
    left = Narrowed(())
    assert left.take(filters) == filters
    noon_ns, margin = parse_time("2026-11-21T12:00:00Z"), CLOCKS_S * SECOND_NS
    assert left.times_ns[0] == noon_ns - margin
    assert noon_ns + margin - 2000 <= left.times_ns[1] <= noon_ns + margin
