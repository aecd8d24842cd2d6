"""Names, subjects and header values of strangers, in what is made of them: lines on a terminal, documents, cells, paths
and keys. Nothing in them moves a cursor, leads elsewhere, or is read back as something else."""

import csv
import io
import json
import logging
import re
from collections.abc import Iterator
from contextlib import ExitStack, redirect_stderr, redirect_stdout, suppress
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import unquote

import pytest
import yaml
from dagster import AssetMaterialization
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from pyiceberg.io.pyarrow import PyArrowFileIO

from nats3_dagster.chunks.manifest import manifest_hour, manifest_key, manifest_number
from nats3_dagster.chunks.naming import object_key, parse_key
from nats3_dagster.cli.exit_status import run
from nats3_dagster.cli.reads import message_output, query_output
from nats3_dagster.cli.terminal import completing
from nats3_dagster.cli.terminal.confirm import confirm
from nats3_dagster.cli.terminal.output import Format, as_yaml, print_document, print_text, show, show_one
from nats3_dagster.cli.terminal.progress import note, remark, shown_progress
from nats3_dagster.defs.assets.markdown import code
from nats3_dagster.defs.assets.metadata import archive_metadata, plan_table
from nats3_dagster.documents.rows import text
from nats3_dagster.errors import OperatorError
from nats3_dagster.exports.decoding import message as exported
from nats3_dagster.exports.decoding.keys import escaped, key_of
from nats3_dagster.exports.decoding.message import Row, Undecodable
from nats3_dagster.exports.job import ExportJob, Group
from nats3_dagster.exports.paths import file_path
from nats3_dagster.hours import LAST_NS, hour_of, hour_start
from nats3_dagster.model import ArchiveSpec, ExportSpec, Incarnation, Message, SeqRange
from nats3_dagster.objects import OutletOptions, StoreOptions
from nats3_dagster.query.result import Result, Scanned
from nats3_dagster.settings import Settings
from nats3_dagster.subjects import decoded, encoded, readable
from nats3_dagster.tables import layout, tables

# What terminals act on, or show in another order: C0 but the line end, DEL, C1, and turns of direction.
ACTING = {*map(chr, (*range(32), *range(0x7F, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A)))} - {"\n"}
# What texts, paths, cells and documents are cut by, and what looks like something else.
PIECES = [
    "\x1b[31m",
    "\x1b]0;x\x07",
    "\x9b2J",
    "\r",
    "\n",
    "\r\n",
    "\t",
    "\0",
    "\x7f",
    "\x85",
    "\u2028",
    "\u202e",
    "\u2066",
]
PIECES += [
    ".",
    "..",
    "/",
    "\\",
    "%",
    "%2F",
    "%FF",
    "~",
    "_",
    "=",
    "key=",
    ":",
    " ",
    "'",
    '"',
    '""',
    ",",
    ";",
    "|",
    "`",
    "#",
]
PIECES += [
    "_exports",
    "__HIVE_DEFAULT_PARTITION__",
    "[red]",
    "1e5",
    "089",
    "0o17",
    "1:30",
    "+1",
    "-",
    "@",
    "yes",
    "null",
]
PIECES += ["a", "A", "é", "e\u0301", "日", "\U0001f600", "\ufeff", "\udcff", "\udcc3", "日" * 60, "k" * 160]
piece = st.sampled_from(PIECES) | st.text(max_size=3) | st.binary(max_size=3).map(decoded)
# As `subjects.decoded` gives it: a lone surrogate for each byte that is not UTF-8.
names = st.lists(piece, max_size=5).map(lambda parts: decoded(encoded("".join(parts))))
texts = names.map(readable)
streams = texts.filter(lambda name: _taken(stream=name))
scalars = texts | st.none() | st.booleans() | st.integers(-(2**63), 2**64) | st.floats(allow_nan=False)


def _taken(**fields: Any) -> bool:
    """True if an archive may have these fields."""
    try:
        ArchiveSpec(**{"name": "a", "stream": "S", "bucket": "bucket", **fields})
    except OperatorError:
        return False
    return True


class Terminal(io.StringIO):
    """Standard output or error, as a command finds it on a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True, scope="module")
def wide() -> Iterator[None]:
    """A terminal on which every line has room."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TERM", "xterm")
        patch.setenv("COLUMNS", "100000")
        yield


def shown(command: Any, *arguments: Any) -> str:
    """All that a command writes on a terminal but progress, where each question is answered with yes."""
    out = Terminal()
    with ExitStack() as stack, pytest.MonkeyPatch.context() as patch:
        stack.enter_context(redirect_stdout(out))
        stack.enter_context(redirect_stderr(out))
        stack.enter_context(shown_progress(False))
        patch.setattr("sys.stdin", Terminal("y\n"))
        command(*arguments)
    return out.getvalue()


def message_on_terminal(form: message_output.MessageFormat, message: Message, text_too: bool) -> str:
    return shown(lambda: print(message_output.rendered(form, message, text_too, many=True).decode()))


def result(columns: tuple[str, ...], rows: list[tuple[Any, ...]]) -> Result:
    return Result(columns, ("VARCHAR",) * len(columns), iter(rows), None, Scanned())


# On a terminal


@given(texts, texts, texts)
@settings(max_examples=100, deadline=None)
def test_a_table_has_a_line_for_each_row_and_nothing_acts(title: str, one: str, other: str) -> None:
    rows = [(one, [other, None]), (other, {one: other})]
    tables_of = [
        shown(show, Format.table, rows, {title: lambda row: row[0], f"{title}2": lambda row: row[1]}),
        shown(query_output.write, query_output.Rows.table, result((title, one), rows)).partition("2 rows;")[0],
        shown(show_one, Format.table, {}, {title: one, f"{title}2": [one], f"{title}3": other}),
    ]
    for table in tables_of:
        head, *rest = table.split("\n")
        assert len(rest) == 3
        # The titles are bold.
        assert not ACTING & {*head.removeprefix("\x1b[1m").removesuffix("\x1b[0m"), *"".join(rest)}


@given(names, names, st.binary(max_size=20))
@settings(max_examples=100, deadline=None)
def test_nothing_of_a_message_or_of_a_row_acts_on_a_terminal(name: str, value: str, data: bytes) -> None:
    subject, raw = readable(name), None if name == readable(name) else encoded(name)
    headers = b"NATS/1.0\r\n%b: %b\r\n\r\n" % (encoded(name), encoded(value))
    message = Message(Incarnation(subject or "S", 1), 1, 1, subject, raw, headers, data)
    for form in message_output.MessageFormat:
        for text_too in (False, True):
            for printed in message_on_terminal(form, message, text_too):
                assert printed == "\t" or printed not in ACTING
    rows = [(subject, data, [readable(value)], None), ("", b"", {subject: subject}, 1.5)]
    for kind in (query_output.Rows.csv, query_output.Rows.json, query_output.Rows.yaml):
        assert not ACTING & {*shown(query_output.write, kind, result((subject, "b", "c", "d"), list(rows)))}
    plan = ("explain_key", "explain_value")
    assert not ACTING & {*shown(query_output.write, query_output.Rows.table, result(plan, [("", subject)]))}


@given(texts, st.booleans())
@settings(max_examples=100, deadline=None)
def test_no_note_question_error_or_warning_acts_on_a_terminal(name: str, debug: bool) -> None:
    def fails() -> None:
        logging.getLogger("nats3_dagster.x").warning("The stream %s is gone", name)
        raise OperatorError(f"There is no stream {name}", "Look at it")

    for command in (
        lambda: note(name),
        lambda: remark(name),
        lambda: print_text(name),
        lambda: confirm(f"This deletes {name}", yes=False),
        lambda: run(fails, debug=debug),
    ):
        assert not ACTING & {*shown(command)}


# Documents and cells


@given(st.recursive(scalars, lambda some: st.lists(some, max_size=3) | st.dictionaries(texts, some, max_size=3)))
@settings(max_examples=100, deadline=None)
@example(["1e5", "089", "0o17", "12E7", "1.", ".5", "-.5e3"])
def test_documents_are_read_back(document: Any) -> None:
    printed = io.StringIO()
    with redirect_stdout(printed):
        print_document(Format.json, document)
    assert json.loads(printed.getvalue()) == document
    lines = as_yaml(document)
    assert lines.isascii()
    assert yaml.safe_load(lines) == document
    # A text without quotes is none of the values of YAML 1.2.
    plain = [node for node in _scalars(yaml.compose(lines)) if node.style is None and node.tag.endswith(":str")]
    assert [node.value for node in plain if CORE.fullmatch(node.value)] == []


# What is no text in the core schema of YAML 1.2 (section 10.3.2).
CORE = re.compile(
    r"null|Null|NULL|~||true|True|TRUE|false|False|FALSE|[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+"
    r"|[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?(\.inf|\.Inf|\.INF)|\.nan|\.NaN|\.NAN"
)


def _scalars(node: Any) -> Iterator[yaml.ScalarNode]:
    if isinstance(node, yaml.ScalarNode):
        yield node
        return
    for one in node.value:
        for part in one if isinstance(one, tuple) else (one,):
            yield from _scalars(part)


@given(st.integers(1, 3).flatmap(lambda n: st.lists(st.tuples(*[texts | st.none() | st.binary(max_size=4)] * n))))
@settings(max_examples=100, deadline=None)
@example([(None,), ("",), (b"\n",)])
def test_each_cell_of_csv_is_read_back(rows: list[tuple[Any, ...]]) -> None:
    columns = tuple(f"c{at}" for at in range(len(rows[0]) if rows else 1))
    wanted = [[*columns], *([text(value) for value in row] for row in rows)]
    for escapes in (False, True):
        out = io.StringIO(newline="")
        with redirect_stdout(out):
            query_output.write(query_output.Rows.csv, result(columns, list(rows)), escape_formulas=escapes)
        found = [*csv.reader(io.StringIO(out.getvalue(), newline=""), strict=True)]
        if escapes:
            runs = [cell for row in found for cell in row if cell[:1] in ("=", "+", "-", "@", "\t", "\r")]
            assert [cell for cell in runs if not re.fullmatch(r"[-+]?[0-9.]+([eE][-+]?[0-9]+)?", cell)] == []
        else:
            assert found == wanted


# Paths and keys


def check_part(part: str) -> None:
    """A part of a path that every store and engine takes, and takes for a name alone."""
    assert part not in ("", ".", "..")
    assert not {"/", "\\", *ACTING, "\n"} & {*part}
    assert len(part.encode()) <= 255
    unquote(part, errors="strict")


@given(names, names)
@settings(max_examples=100, deadline=None)
@example("日" * 60, "日" * 59 + "本")
@example("日" * 40, "%FF")
@example("%FF", "\udcff")
@example("~", "a~b")
@example("\udcff", unquote(escaped("\udcff")))
@example("__HIVE_DEFAULT_PARTITION__", "a")
def test_a_key_is_a_part_that_engines_read_back_and_no_two_have_one(one: str, other: str) -> None:
    for key in (one, other):
        if not key:
            with pytest.raises(Undecodable):
                escaped(key)
            return
        part = escaped(key)
        check_part(part)
        assert part[0] not in "_."
        assert unquote(part) not in ("__HIVE_DEFAULT_PARTITION__",)
        if "~" not in part:
            assert unquote(part, errors="strict") == key
        else:
            assert len(key) > 10 or key != readable(key)
    assert (escaped(one) == escaped(other)) == (one == other)


@given(names, names)
@settings(max_examples=100, deadline=None)
@example("\udcff", "\udcfe")
@example("a\u3000", "a")
def test_messages_of_two_subjects_or_header_values_have_two_keys(one: str, other: str) -> None:
    def key(of: str, name: str) -> str:
        raw = None if name == readable(name) else name
        block = b"NATS/1.0\r\nK:%b\r\n\r\n" % encoded(name)
        subject = f"a.{name}"
        message = exported.Message(1, 1, readable(subject), block, b"", raw and subject)
        return escaped(key_of(of)(message, Row(None, {})))

    for of, ends in (("subject:2", "."), ("header:K", "\r\n")):
        # Of a subject a token, and of a header a line without the white space around it.
        first, second = (re.split(f"[{ends}]", name)[0].strip(" \t") for name in (one, other))
        with suppress(Undecodable):
            assert (key(of, first) == key(of, second)) == (first == second)


TEMPLATES = ["stream={stream}/key={key}/{date}-{hour}/{first}.{ext}", "{stream}/{date}/{hour}/{key}-{part}.{ext}"]
TEMPLATES += ["{archive}/{stream}/{export}/{key}/{date}{hour}-{last}.{ext}"]


@given(st.sampled_from(TEMPLATES), streams, streams, names, names)
@settings(max_examples=100, deadline=None)
@example(TEMPLATES[0], "a%41", "aA", "k", "k")
@example(TEMPLATES[0], "日" * 255, "日" * 254, "k", "k")
def test_files_of_two_streams_or_keys_have_two_paths(path: str, one: str, other: str, key: str, key2: str) -> None:
    assume(key and key2)

    def made(stream: str, key: str) -> str:
        spec = ExportSpec("files", "s3://bucket/x", key="subject:1", path=path, format="raw", compression="none")
        job = ExportJob(
            "a", "", stream, "2026-11-21-07:00", spec, None, StoreOptions(), OutletOptions("file", "", "/"), ""
        )
        below = file_path(job, Group(0, (), ""), escaped(key), 0, 1, 2)
        whole = "/".join([spec.place_of("a", stream).prefix.removeprefix("x/"), below]).removeprefix("x/")
        for part in whole.split("/"):
            check_part(part)
        if path == TEMPLATES[0]:
            for part, name in zip(whole.split("/"), (stream, key), strict=False):
                assert "~" in part or unquote(part.partition("=")[2], errors="strict") == name
        return whole

    assert (made(one, key) == made(other, key2)) == ((one, key) == (other, key2))


prefixes = texts.filter(lambda prefix: _taken(prefix=prefix))
places = st.tuples(
    prefixes, st.from_regex(r"[A-Za-z0-9_]{1,9}", fullmatch=True), st.integers(0, LAST_NS), st.integers(0, LAST_NS)
)
seqs = st.tuples(st.integers(1, 2**63 - 1), st.integers(1, 2**63 - 1)).map(sorted)


@given(st.tuples(places, seqs), st.tuples(places, seqs))
@settings(max_examples=100, deadline=None)
def test_the_key_of_a_chunk_says_its_parts_and_no_two_chunks_have_one(one: Any, other: Any) -> None:
    keys = list[str]()
    for (prefix, archive, time_ns, created_ns), (first, last) in (one, other):
        hour, life, covers = hour_of(time_ns), Incarnation("S", created_ns), SeqRange(first, last)
        key = object_key(prefix, archive, hour, life, covers, "0" * 64)
        for part in key.split("/"):
            assert part not in ("", ".", "..")
            assert not {*map(chr, (*range(32), *range(0x7F, 0xA0)))} & {*part}
        name = parse_key(key)
        assert name is not None
        assert (name.hour, name.token, name.created_ns, name.covers) == (hour, life.token, created_ns, covers)
        sealed = manifest_key(prefix, archive, hour, 7, "0" * 64)
        assert (manifest_number(sealed), manifest_hour(sealed), parse_key(sealed)) == (7, hour, None)
        keys.append(key)
    hours = [(prefix, archive, hour_of(time), life) for (prefix, archive, time, life), _ in (one, other)]
    assert (keys[0] == keys[1]) == ((hours[0], one[1]) == (hours[1], other[1]))


# Of a chunk's key first what is right, then what another program may have there.
FORM = "p/archive=a/date={}/hour={}/{}T{}Z-{}-{}-{}.parquet{}"
CHOICES: list[list[str]] = [
    ["2026-11-21", "2026-13-01", "2026-02-30", "0000-00-00", "9999-12-31", "202\u0666-11-21"],
    ["07", "24", "99", "\u0660\u0667"],
    ["20261121", "20261399", "99991231", "00000000", "\u06620261121"],
    ["075644123456789", "999999123456789"],
    [f"{5:020d}", "0" * 20, f"{8:020d}", "9" * 20, "\u0663" * 20],
    [f"{7:020d}", "0" * 20, f"{4:020d}", "9" * 20, "\u0663" * 20],
    ["0123456789ab", "0123456789a", "0123456789AB"],
    ["", "\n", "x", "/"],
]
RIGHT = [choices[0] for choices in CHOICES]
WRONG = [[*RIGHT[:at], choice, *RIGHT[at + 1 :]] for at, choices in enumerate(CHOICES) for choice in choices[1:]]


def test_an_object_with_a_part_that_no_chunk_has_is_none() -> None:
    assert parse_key(FORM.format(*RIGHT)) is not None
    assert [parts for parts in WRONG if parse_key(FORM.format(*parts)) is not None] == []


@given(st.tuples(*map(st.sampled_from, CHOICES)).map(lambda parts: FORM.format(*parts)) | texts)
@settings(max_examples=100, deadline=None)
def test_an_object_of_another_program_is_no_chunk_or_has_a_name_that_a_chunk_can_have(key: str) -> None:
    if (name := parse_key(key)) is not None:
        life = Incarnation("S", name.created_ns)
        assert object_key("p", "a", name.hour, life, name.covers, name.digest + "0" * 52) == key


@pytest.mark.parametrize("end", ["", "\n", "x"])
@pytest.mark.parametrize("number", ["0007", "\u0660\u0660\u0660\u0667"])
def test_an_object_of_another_program_is_no_manifest(number: str, end: str) -> None:
    key = f"p/archive=a/date=2026-11-21/hour=07/manifest-{number}-0123456789ab.json.zst{end}"
    assert manifest_number(key) == (7 if (number, end) == ("0007", "") else 0)


def test_digits_of_another_script_are_no_hour_and_what_acts_is_not_completed() -> None:
    with pytest.raises(OperatorError, match="is not an hour"):
        hour_start("\u0662026-11-21-07:00")
    assert completing._within(lambda: ["orders", *ACTING, "or\x1bders"], "") == ["orders"]


@given(prefixes, st.from_regex(r"[A-Za-z0-9_]{1,200}", fullmatch=True))
@settings(max_examples=100, deadline=None)
def test_iceberg_is_given_the_key_as_it_is_and_a_name_of_letters(prefix: str, archive: str) -> None:
    key = object_key(prefix, archive, "2026-11-21-07:00", Incarnation("S", 1), SeqRange(1, 2), "0" * 64)
    address = layout.location(Settings(), "bucket", key)
    if not {"?", "#", "%"} & {*prefix}:  # `tables.create` refuses these
        assert PyArrowFileIO.parse_location(address) == ("s3", "bucket", f"bucket/{key}")
    with suppress(OperatorError):
        assert PurePosixPath(tables._identifier(f"nats3.{archive}")).name == f"nats3.{archive}"


@given(streams, st.lists(texts, max_size=3))
@settings(max_examples=100, deadline=None)
def test_names_are_metadata_in_dagster_and_code_in_markdown(stream: str, names: list[str]) -> None:
    subjects = tuple(name for name in names if _taken(subjects=(name,)))
    metadata = archive_metadata(ArchiveSpec("a", stream, "bucket", subjects=subjects))
    materialization = AssetMaterialization("a", metadata=metadata)
    json.dumps({name: value.value for name, value in materialization.metadata.items()}, ensure_ascii=False).encode()
    for name in (stream, *names):
        assert not (ACTING | {"\n"}) & {*code(name)}
        assert len(plan_table({"name": name}).split("\n")) == len(plan_table({"a": "a"}).split("\n"))
