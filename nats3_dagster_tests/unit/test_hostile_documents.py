"""Documents that somebody else wrote, in YAML, TOML and JSON: each is read or refused by name, quickly."""

import json
import time
from contextlib import suppress
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as some

from nats3_dagster.archive.declared.document import parse
from nats3_dagster.archive.declared.entries import read
from nats3_dagster.bodies.base import validated
from nats3_dagster.bodies.store_jobs import CreateStoreJob
from nats3_dagster.bodies.strict_json import DEEPEST, loads
from nats3_dagster.errors import OperatorError

# A few lines that stand for more than there is memory: by merges, by lists, by tables, and by themselves.
MERGES = "a0: &a0 {x: 1}\n" + "".join(f"a{n}: &a{n}\n  <<: [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 28))
LISTS = "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 10))
TABLES = "a0: &a0 {x: 1}\n" + "".join(f"a{n}: &a{n} {{l: *a{n - 1}, r: *a{n - 1}}}\n" for n in range(1, 30))
CASES = [
    ("a.yaml", MERGES + "archives: []\n", "values"),
    ("a.yaml", LISTS + "archives: []\n", "values"),
    ("a.yaml", TABLES + "archives: *a29\n", "values"),
    ("a.yaml", "archives: &a [*a]\n", "that it is in"),
    ("a.yaml", "archives: &a {<<: *a}\n", "that it is in"),
    ("a.yaml", "archives: " + "[" * 200 + "]" * 200, "deep"),
    ("a.yaml", "archives: " + "[" * 10_000 + "]" * 10_000, "deep"),
    ("a.yaml", "archives:\n" + "- name: x\n" * 300_000, "characters"),
    ("a.yaml", "archives: [{keep: " + "9" * 5_000 + "}]", "no value"),
    ("a.toml", "archives = " + "[" * 10_000 + "]" * 10_000, "deep"),
    ("a.toml", "archives = " + "9" * 5_000, "no TOML|not TOML"),
    ("a.json", "[" * 100_000, "deep"),
    ("a.json", '{"archives": NaN}', "no number"),
]


@pytest.mark.parametrize(("file", "text", "reason"), CASES)
def test_a_bomb_is_refused_quickly(file: str, text: str, reason: str) -> None:
    began = time.process_time()
    with pytest.raises(OperatorError, match=reason):
        read([(file, text)], prune=False)
    assert time.process_time() - began < 5


def test_aliases_that_save_lines_stay() -> None:
    text = "all: &all {bucket: b}\narchives:\n" + "".join(
        f"  - {{<<: *all, name: a{n}, stream: S}}\n" for n in range(1000)
    )
    table, _ = parse(text, "a.yaml")
    assert [one["bucket"] for one in table["archives"]] == ["b"] * 1000


_TEXTS = some.text(some.characters(), max_size=20)
_VALUES = some.recursive(
    some.none()
    | some.booleans()
    | some.integers(-(2**70), 2**70)
    | some.floats()
    | _TEXTS
    | some.sampled_from(["logs", "1e400", "*", ">", "a.*", "-1", "\ud800", "${HOME}", "2026-11-21T07:00:00Z"]),
    lambda inner: some.lists(inner, max_size=4) | some.dictionaries(_TEXTS, inner, max_size=4),
    max_leaves=12,
)
_KEYS = some.sampled_from(["name", "stream", "subject", "bucket", "prefix", "codec", "keep", "batch", "x", "archives"])


@settings(max_examples=150, deadline=None)
@given(some.dictionaries(_KEYS, _VALUES, max_size=5))
def test_whatever_a_document_has_it_is_taken_or_refused(document: dict[str, Any]) -> None:
    """As a file in each format, and as a body."""
    entry = {"name": "logs", "stream": "S", "bucket": "b-1"} | document
    whole = {"archives": [entry]} | {key: value for key, value in document.items() if key == "archives"}
    for file, text in (("a.json", json.dumps(whole)), ("a.yaml", yaml.safe_dump(whole))):
        with suppress(OperatorError):
            read([(file, text)], prune=False)
    with suppress(OperatorError, json.JSONDecodeError):
        validated(CreateStoreJob, loads(json.dumps(entry)), "the body")


@settings(max_examples=150, deadline=None)
@given(some.binary(max_size=60) | _VALUES.map(lambda value: json.dumps(value).encode()))
def test_whatever_a_body_is_it_is_json_of_text_and_numbers(body: bytes) -> None:
    try:
        value = loads(body)
    except json.JSONDecodeError:
        return
    # All of it goes out again: into Postgres, a file, an answer.
    assert json.loads(json.dumps(value, allow_nan=False, ensure_ascii=False).encode()) == value


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("[" * 100_000, "nested too deeply"),
        ("[" * (DEEPEST + 2) + "]" * (DEEPEST + 2), "nested too deeply"),
        ('{"a": ' * (DEEPEST + 2) + "1" + "}" * (DEEPEST + 2), "nested too deeply"),
        ('{"a": 1, "a": 1}', "twice"),
        ('{"a": "\\ud800"}', "half of a character"),
        ('{"\\udc80": 1}', "half of a character"),
        ("9" * 101, "more than 100 digits"),
        ("1e400", "too large a number"),
        ("-Infinity", "no number of JSON"),
        (b"\xff", "not UTF-8"),
    ],
)
def test_what_no_body_has(body: str | bytes, reason: str) -> None:
    with pytest.raises(json.JSONDecodeError, match=reason):
        loads(body)
