"""The filter of texts: what it takes out, in which forms, and what it leaves."""

import base64
import json
import logging
from urllib.parse import quote, quote_plus

import pytest

from nats3_dagster import redaction
from nats3_dagster.errors import OperatorError
from nats3_dagster.redaction import brief, learn, redact_error, redact_logs, redacted, redacted_value


@pytest.fixture(autouse=True)
def _nothing_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redaction, "_known", {})
    monkeypatch.setattr(redaction, "_longest_first", ())


@pytest.mark.parametrize(
    "secret", ["s3cr3t-Value", "p@ss/w?rd#1,2", "with space & 'quotes' \"x\"", "ümlaut-pässword", "back\\slash<1>"]
)
def test_a_secret_is_taken_out_in_every_form(secret: str) -> None:
    learn(secret)
    pieces = [secret[:-1], secret[-1]]
    forms = [
        secret,
        quote(secret, safe=""),
        quote(secret),
        quote(quote(secret, safe=""), safe=""),
        json.dumps(secret)[1:-1],
        repr(secret)[1:-1],
        *(base64.b64encode(before + secret.encode() + b"after").decode() for before in (b"", b"u:", b"us:", b"use:")),
        base64.urlsafe_b64encode(secret.encode()).decode(),
        quote_plus(secret),
    ]
    for form in forms:
        assert redaction.STARS in redacted(f"before {form} after"), form
        assert form not in redacted(f"before {form} after")
        assert pieces[0] not in redacted(f"before {form} after")


@pytest.mark.parametrize(
    ("secret", "text", "expected"),
    [
        ("abc", "abcabc and abc", "abcabc and abc"),  # too short
        ("nats", "nats://host", "nats://host"),  # a word of our own
        ("Password", "the password", "the password"),
        ("pwd1", "pwd1 pwd12 xpwd1 (pwd1)", "*** pwd12 xpwd1 (***)"),  # short: whole words
        ("postgrest", "postgrest postgrests", "*** postgrests"),  # letters
        ("Zx81-long", "aZx81-longb", "a***b"),
    ],
)
def test_short_values_do_not_turn_texts_into_stars(secret: str, text: str, expected: str) -> None:
    learn(secret)
    assert redacted(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "SUAIBDPBAUTWCWBKIO6XHQNINK5FWJW4OHLXC3HQ2KFE4PEJUA44CNHTC4",
        "eyJ0eXAiOiJKV1QiLCJhbGciOiJlZDI1NTE5LW5rZXkifQ.eyJ4.x",
        f"nats3_{'x' * 43}",
        "-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY-----",
        "-----BEGIN NATS USER JWT-----\nabc\n------END NATS USER JWT------",
    ],
)
def test_what_is_a_secret_by_its_form_is_taken_out(text: str) -> None:
    assert redacted(f"got {text} here") == "got *** here"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("GET https://user:w0rd@h/ failed", "GET https://user:***@h/ failed"),
        ("at 'postgresql://u:p@ss@h:5432/d'", "at 'postgresql://u:***@h:5432/d'"),
        ("amqp://u:pa/ss@h/x", "amqp://u:***@h/x"),
        ("http://:p4ss@h", "http://:***@h"),
        ("nats://t0ken@h:4222, tls://a:b@h", "nats://***@h:4222, tls://a:***@h"),
        ("nats://h:4222,nats://u:p1@h2", "nats://h:4222,nats://u:***@h2"),
        # No login, or no secret of one.
        ("http://h:8080/@page and http://[::1]:3000/x@y", None),
        ("https://h/path?mail=a@b", None),
        ("postgresql://user:password@host:5432/database", None),
        ("postgresql://me@h/d abfss://container@account.dfs/x s3://bucket/a@b", None),
        ("nats://u:***@h", None),
    ],
)
def test_the_login_of_an_address_is_taken_out(text: str, expected: str | None) -> None:
    assert redacted(text) == (expected or text)
    assert redacted(redacted(text)) == redacted(text)


def test_certificates_and_names_stay() -> None:
    text = "-----BEGIN CERTIFICATE----- nats3_dagster.cli SUBJECT eyJ and 0123456789abcdef"
    assert redacted(text) == text


def test_errors_documents_and_log_records_pass_it(caplog: pytest.LogCaptureFixture) -> None:
    learn("s3cr3t-Value")
    error = OperatorError("no s3cr3t-Value", "say s3cr3t-Value", field="x")
    assert (str(error), error.args) == ("no ***. say ***", ("no ***", "say ***"))
    assert redacted_value({"a": ["s3cr3t-Value", 1, None]}) == {"a": ["***", 1, None]}
    assert brief("x" * 195 + "s3cr3t-Value\nmore") == "x" * 195 + "***"
    foreign = OSError(2, "s3cr3t-Value", "/s3cr3t-Value")
    foreign.__cause__ = ValueError("s3cr3t-Value")
    redact_error(foreign)
    assert "s3cr3t" not in f"{foreign} {foreign.__cause__}"
    before = logging.getLogRecordFactory()
    try:
        redact_logs()
        redact_logs()
        log = logging.getLogger("of.a.library")
        log.error("got %s and %d and %s", {"x": "s3cr3t-Value"}, 5, "plain")
        try:
            raise ValueError("s3cr3t-Value")
        except ValueError:
            log.exception("failed")
    finally:
        logging.setLogRecordFactory(before)
    assert "s3cr3t" not in caplog.text
    assert "and 5 and plain" in caplog.text
    assert "ValueError: ***" in caplog.text
