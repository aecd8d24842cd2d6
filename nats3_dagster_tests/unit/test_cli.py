"""The command line's own parts: values, output, and how a command ends."""

import json
import logging
import os
import pty
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from nats3_dagster.cli import exit_status
from nats3_dagster.cli.examples import EXAMPLES
from nats3_dagster.cli.global_options import split_options
from nats3_dagster.cli.loading import Lazy, LazyGroup
from nats3_dagster.cli.main import COMMANDS, root
from nats3_dagster.cli.terminal import output, progress
from nats3_dagster.cli.terminal.output import Format, Moment, Size
from nats3_dagster.errors import CatalogError, OperatorError
from nats3_dagster.model import Progress, SeqRange, parse_sequences
from nats3_dagster.model.quantities import duration_text, parse_duration, parse_size
from nats3_dagster_tests.support.commands import Command, root_command

# What takes long to import. The help of a command must do without the first, that of `nats3` without all of them.
SLOWEST = {"pyspark", "dagster", "pyarrow", "pandas", "boto3", "alembic"}
SLOW = SLOWEST | {"numpy", "nats", "obstore", "psycopg"}


# Values


@pytest.mark.parametrize(
    ("text", "count"),
    [("0", 0), ("1000", 1000), ("64MiB", 64 << 20), ("64MB", 64_000_000), ("1.5GiB", 3 << 29), ("2 kib", 2048)],
)
def test_a_size(text: str, count: int) -> None:
    assert parse_size(text) == count


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("60", 60), ("60s", 60), ("5m", 300), ("1h30m", 5400), ("2d", 172_800), ("0s", 0), ("5sec", 5), ("1min", 60)],
)
def test_a_duration(text: str, seconds: int) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (59, "59s"), (90, "1m30s"), (5400, "1h30m"), (144_000, "40h"), (2_592_000, "30d"), (86_401, "24h1s")],
)
def test_a_duration_is_shown_as_it_may_be_given(seconds: int, text: str) -> None:
    assert duration_text(seconds) == text
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(("text", "seqs"), [("7", (7, 7)), ("1-1", (1, 1)), ("10-9", (10, 9))])
def test_a_sequence_range(text: str, seqs: tuple[int, int]) -> None:
    assert parse_sequences(text) == SeqRange(*seqs)


@pytest.mark.parametrize(
    ("parse", "text"),
    [
        *((parse_size, text) for text in ("", "-1", "1 parsec", "MiB", "0x10", "1e6")),
        *((parse_duration, text) for text in ("", "-5", "5 m", "m", "1.5h", "5w", "PT5M")),
        *((parse_sequences, text) for text in ("", "-", "1-", "-9", "1-2-3", "a-b", "1..2", " 1")),
    ],
)
def test_anything_else_is_refused_with_the_way_to_write_it(parse: Callable[[str], object], text: str) -> None:
    with pytest.raises(OperatorError, match="Write it as"):
        parse(text)


# Output


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        (True, "yes"),
        (False, "no"),
        (1234567, "1,234,567"),
        (0.5, "0.5"),
        (12.0, "12"),
        (1234.5, "1,234"),
        (Size(0), "0 B"),
        (Size(1023), "1023 B"),
        (Size(1024), "1.0 KiB"),
        (Size(64 << 20), "64.0 MiB"),
        (Size(10**18), "888.2 PiB"),
        (Moment(1_700_000_000_999_999_999), "2023-11-14 22:13:20"),
        (datetime(2026, 1, 2, 3, 4, 5, 6, UTC), "2026-01-02 03:04:05"),
        (["a", "b"], "a, b"),
        ([], "-"),
        ("a\x1b[31mb\r\nc\0", "a\\x1b[31mb\\x0d c\\x00"),
        ("ünicode", "ünicode"),
    ],
)
def test_the_text_of_a_cell(value: object, text: str) -> None:
    assert output.text_of(value) == text


def test_a_table_in_a_pipe_is_whole_and_plain(capsys: pytest.CaptureFixture[str]) -> None:
    items = [{"key": "k" * 300, "n": 1}, {"key": "[bold]no markup[/bold]\x1b[2J", "n": 22_000}]
    output.show(Format.table, items, {"KEY": lambda i: i["key"], "N": lambda i: i["n"]})
    head, first, second = capsys.readouterr().out.splitlines()
    assert head.split() == ["KEY", "N"]
    assert first.split() == ["k" * 300, "1"]
    assert second == "[bold]no markup[/bold]\\x1b[2J".ljust(302) + "22,000"


def test_json_is_one_value_with_plain_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    output.show(Format.json, [{"n": Size(5), "s": "\x1b"}], {})
    assert json.loads(capsys.readouterr().out) == [{"n": 5, "s": "\x1b"}]
    output.show_one(Format.json, {"a": None}, {"shown": 1})
    assert json.loads(capsys.readouterr().out) == {"a": None}


def test_yaml_is_the_document_of_json(capsys: pytest.CaptureFixture[str]) -> None:
    texts = {"s": "\x1b\u202e", "t": "2026-11-21T07:00:00Z", "no": "no", "long": "a b " * 99}
    items = [{"n": Size(5), "none": None, **texts}]
    output.show(Format.yaml, items, {})
    text = capsys.readouterr().out
    assert text.isascii()
    assert "\x1b" not in text
    assert yaml.safe_load(text) == json.loads(json.dumps(items))
    output.show_one(Format.yaml, {"a": [1]}, {})
    assert yaml.safe_load(capsys.readouterr().out) == {"a": [1]}


@pytest.mark.parametrize(
    "words",
    [
        "config get log-level -o yaml",
        "-o yaml config get log-level",
        "config --output yaml get log-level",
        "--output=yaml config get log-level",
        "-oyaml config get log-level",
        "-o json config get log-level -o yaml",
    ],
)
def test_the_format_may_stand_anywhere(nats3: Command, monkeypatch: pytest.MonkeyPatch, words: str) -> None:
    monkeypatch.setenv("NATS3_OUTPUT_FORMAT", "table")
    assert yaml.safe_load(nats3.ok(*words.split()).out)["value"] == "info"
    assert os.environ["NATS3_OUTPUT_FORMAT"] == "table"


def test_the_format_comes_from_the_settings(nats3: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NATS3_OUTPUT_FORMAT", "json")
    assert nats3.ok("config", "get", "log-level").json["value"] == "info"
    assert nats3.ok("config", "get", "log-level", "-o", "table").out == "info\n"
    monkeypatch.setenv("NATS3_OUTPUT_FORMAT", "xml")
    assert nats3.refused("config", "get", "log-level").startswith("2 Error: A setting is wrong: output_format")
    assert nats3.refused("-o", "xml", "config", "show").startswith("2 Error: Invalid value for '--output' / '-o'")
    assert nats3.refused("config", "show", "--server").startswith("2 Error: --server has no address")


def test_no_progress_anywhere_leaves_notes_only(capsys: pytest.CaptureFixture[str]) -> None:
    taken = split_options(["store", "run", "--no-progress", "a", "--", "--no-progress"], COMMANDS)
    assert (taken.words, taken.progress) == (["store", "run", "a", "--", "--no-progress"], False)
    assert taken.path == ("store", "run")
    with progress.shown_progress(taken.progress), progress.steps() as tell, progress.bar("capture") as count:
        tell("start", 0, 0)
        tell("capture", 5, 10)
        count(1, 2)
        progress.note("a note")
    assert capsys.readouterr().err == "a note\n"
    with progress.step("shown again"):
        pass
    assert capsys.readouterr().err == "shown again ...\n"


def test_progress_without_a_terminal_is_a_line_now_and_then(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with progress.bar("capture") as told:
        told(5, 10)
    assert capsys.readouterr() == ("", "")
    monkeypatch.setattr(progress, "LINE_EVERY_S", 0.0)
    with progress.steps() as tell:
        tell("start", 0, 0)
        tell("capture", 5, 10)
        tell("capture", 1000, 2000)
    out, err = capsys.readouterr()
    lines = err.splitlines()
    assert (out, lines[0], len(lines)) == ("", "start ...", 3)
    assert lines[2].startswith("capture: 1,000 of 2,000 messages, ")
    with progress.progress_bar("replay") as report:
        report(Progress(0, 60_000))
        report(Progress(0, 60_000, 40.0))
        report(Progress(0, 60_000, 40.0, answers=False))
        report(Progress(12_000, 60_000, 20.3, answers=False))
        report(Progress(12_000, 60_000, 30.0))
    assert capsys.readouterr().err.splitlines() == [
        "replay: 0 of 60,000 messages; Spark starts its workers",
        "replay: 0 of 60,000 messages; Spark starts its workers, for 40 s",
        "replay: 0 of 60,000 messages; nothing new for 40 s: waiting for NATS",
        "replay: 12,000 of 60,000 messages; nothing new for 20 s: waiting for NATS",
        "replay: 12,000 of 60,000 messages; nothing new for 30 s",
    ]


def test_a_bar_has_its_numbers_or_in_their_place_what_is_waited_for() -> None:
    code = """
from nats3_dagster.cli.terminal.progress import progress_bar
from nats3_dagster.model import Progress
with progress_bar("replay 0123456789abcdef") as report:
    report(Progress(0, 60_000))
    report(Progress(12_000, 60_000, 20.0, answers=False))
with progress_bar("replay 0123456789abcdef") as report:
    report(Progress(60_000, 60_000))
"""
    master, slave = pty.openpty()
    with os.fdopen(master, "rb", buffering=0) as screen:
        environment = os.environ | {"COLUMNS": "80", "TERM": "xterm"}
        subprocess.run([sys.executable, "-c", code], stderr=slave, env=environment, check=True, timeout=30)
        os.close(slave)
        shown = b""
        with suppress(OSError):  # Linux' end of a terminal that nobody has any more
            while part := screen.read(65536):
                shown += part
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.decode())
    lines = list(filter(None, map(str.strip, re.split(r"[\r\n]+", text))))
    assert not any("?" in line for line in lines), lines
    assert "replay 0123456789abcdef nothing new for 20 s: waiting for NATS 12,000/60,000" in lines
    assert re.fullmatch(r"replay 0123456789abcdef ━+ 60,000/60,000 messages [\d,]+/s 0:00:00", lines[-1]), lines
    assert max(map(len, lines)) <= 80


# How a command ends


def raises(error: BaseException) -> Callable[[], object]:
    def command() -> object:
        raise error

    return command


@pytest.mark.parametrize(
    ("command", "status", "said"),
    [
        (lambda: None, 0, ""),
        (lambda: 2, 2, ""),
        (raises(OperatorError("It is so", "Do this")), 2, "Error: It is so. Do this\n"),
        (raises(CatalogError("It\nis so", "Do this")), 1, "Error: It is so. Do this\n"),
        (raises(KeyboardInterrupt()), 130, "Interrupted\n"),
        (raises(typer.Abort()), 130, "Interrupted\n"),
        (lambda: 130, 130, "Interrupted\n"),
        (lambda: signal.raise_signal(signal.SIGTERM), 143, "Interrupted\n"),
    ],
)
def test_the_exit_status(
    capsys: pytest.CaptureFixture[str], command: Callable[[], object], status: int, said: str
) -> None:
    before = signal.getsignal(signal.SIGTERM)
    assert exit_status.run(command, debug=False) == status
    assert capsys.readouterr() == ("", said)
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
@pytest.mark.parametrize("words", ["--version", "store create --help"])
def test_an_output_that_finds_no_room_is_no_fault_of_ours(words: str) -> None:
    """And the exit status is ours: Python would try once more to write, and end with 120."""
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "nats3_dagster.cli", *words.split()]
        ran = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    said = "Error: A file could not be written whole: No space left on device. Make room, then run it again\n"
    assert (ran.returncode, ran.stderr) == (1, said)


def test_an_exception_that_nobody_foresaw(capsys: pytest.CaptureFixture[str]) -> None:
    def command() -> None:
        raise ValueError("postgresql://user:Pl4nted@host")

    assert exit_status.run(command, debug=False) == 1
    err = capsys.readouterr().err
    assert err.startswith("Error: internal error, ValueError in test_cli.py:")
    assert "Pl4nted" not in err
    assert exit_status.run(command, debug=True) == 1
    assert "Traceback" in capsys.readouterr().err


def test_our_warnings_are_heard_and_those_of_libraries_are_not(capsys: pytest.CaptureFixture[str]) -> None:
    def command() -> None:
        logging.getLogger("nats3_dagster.archive.captures.commit").warning("5 sequences were gone")
        logging.getLogger("nats3_dagster.archive.captures.commit").info("nobody hears this")
        logging.getLogger("nats.aio").error("a traceback follows", exc_info=ValueError("x"))

    exit_status.run(command, debug=False)
    assert capsys.readouterr().err == "Warning: 5 sequences were gone\n"
    exit_status.run(command, debug=True)
    assert "a traceback follows" in capsys.readouterr().err


def test_usage(nats3: Command) -> None:
    assert (
        nats3.refused("store", "lost") == "2 Error: No such command 'lost'. Did you mean 'list'? See nats3 store --help"
    )
    assert nats3.refused("store", "create") == "2 Error: Missing option '--name'. See nats3 store create --help"
    assert nats3.refused("store", "list", "-o", "xml").startswith("2 Error: Invalid value for '--output' / '-o'")
    assert nats3.refused("store", "get").endswith("See nats3 store get --help")
    assert nats3.ok("--version").out.startswith("nats3 ")
    for words in ((), ("store",), ("load",), ("chunk",)):
        ran = nats3(*words)
        assert (ran.status, "Usage: nats3" in ran.out, ran.err) == (2, True, "")


def commands() -> list[tuple[str, Any]]:
    """Every command with its path."""

    def walk(path: str, command: Any) -> list[tuple[str, Any]]:
        children = getattr(command, "commands", {})
        own = [] if children and not command.invoke_without_command else [(path, command)]
        return own + [found for name, child in children.items() for found in walk(f"{path} {name}", child)]

    return [found for found in walk("nats3", root_command()) if found[0] != "nats3"]


def test_every_command_has_help_and_both_formats(nats3: Command) -> None:
    found = commands()
    assert len(found) >= 22
    for path, command in found:
        options = {name for parameter in command.params for name in parameter.opts}
        # Two have no result, three have a format of their own.
        servers = ("nats3 serve", "nats3 connect-server")
        if path not in (*servers, "nats3 metrics", "nats3 store export", "nats3 dagster instance"):
            assert {"--output", "-o"} <= options, path
        assert command.help, path
        shown = nats3.ok(*path.split()[1:], "--help").out
        assert "Usage: " + path in shown
        assert "<bool>" not in shown  # a flag takes no value


def test_the_help_of_every_command_is_whole_in_80_columns_and_has_examples_that_parse(
    nats3: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    without: list[str] = []
    for path, command in commands():
        shown = nats3.ok(*path.split()[1:], "--help").out
        assert "…" not in shown, path
        assert [line for line in shown.splitlines() if len(line) > 80] == [], path
        shown_options = [option for option in command.params if not getattr(option, "hidden", False)]
        names = [word for option in shown_options for word in (*option.opts, *option.secondary_opts)]
        assert [name for name in names if name.startswith("--") and name not in shown] == [], path
        if not isinstance(command, LazyGroup) and not command.hidden and f"    {path}" not in shown:
            without.append(path)
    assert without == []
    assert {f"nats3 {path}" for path in EXAMPLES} <= {path for path, _ in commands()}
    for path, examples in EXAMPLES.items():
        for example in examples:
            assert example.startswith(f"nats3 {path}")
            words = shlex.split(example.split(" > ")[0])[1:]
            taken = split_options(words, COMMANDS)
            assert taken.error is None, example
            _parsed(taken.words, example)


def _parsed(words: list[str], example: str) -> None:
    """Has the parser of the command take the words, and does not run it."""
    command: Any = root()
    while isinstance(command, LazyGroup):
        command = command.load(words[0])
        words = words[1:]
    assert not command.make_context(example, words).args


def test_an_option_without_its_value_points_at_the_help_of_its_command(nats3: Command) -> None:
    wanted = {("load", "create", "--archive"): "load create", ("store", "set", "x", "--keep"): "store set"}
    for words, path in wanted.items():
        ran = nats3(*words)
        assert (ran.status, ran.err) == (
            2,
            f"Error: Option '{words[-1]}' requires an argument. See nats3 {path} --help\n",
        )


def test_help_is_wrapped_by_the_terminal_alone() -> None:
    def check(group: LazyGroup) -> None:
        for name, command in group.commands.items():
            assert [part for part in (command.help or "").split("\n\n") if "\n" in part] == [], name
            if isinstance(command, LazyGroup):
                check(command)

    check(root_command())


def test_a_summary_begins_the_help_of_its_command() -> None:
    def check(commands: Mapping[str, Lazy], group: LazyGroup) -> None:
        for name, lazy in commands.items():
            command = group.load(name)
            assert " ".join(command.help.split()).startswith(lazy.summary.removesuffix(".")), name
            check(lazy.commands, command)

    check(COMMANDS, root())


def imported(*words: str, expect: str = "") -> set[str]:
    """The modules that a process has imported after this command line."""
    program = (
        "import sys; from nats3_dagster.cli.main import main; main(sys.argv[1:]);"
        "print(*(name for name in sys.modules if '.' not in name))"
    )
    command = [sys.executable, "-c", program, *words]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert expect in ran.stdout + ran.stderr
    return set(ran.stdout.splitlines()[-1].split())


@pytest.mark.parametrize(
    ("words", "expect"),
    [("--help", "Archives: continuous captures"), ("--version", "nats3 "), ("lost", "No such command")],
)
def test_help_imports_no_command(words: str, expect: str) -> None:
    assert imported(words, expect=expect) & SLOW == set()


@pytest.mark.parametrize(
    "words",
    [
        "store --help",
        "store list --help",
        "store create --help",
        "store run",
        "load create",
        "load get --help",
        "chunk --help",
        "chunk get --help",
        "stream --help",
        "stream info --help",
        "dev --help",
        "dev resync --help",
        "migrate --help",
        "demo --help",
    ],
)
def test_the_help_of_a_command_imports_no_engine(words: str) -> None:
    assert imported(*words.split(), expect="nats3 " + words.removesuffix(" --help")) & SLOWEST == set()


def test_a_document_is_checked_without_the_server() -> None:
    for group in ("store", "load"):
        words = (group, "create", "--from-json", "/nowhere.json")
        assert imported(*words, expect="/nowhere.json cannot be read") & {"fastapi", "uvicorn", "httpx2"} == set()


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        (
            "nats3 ",
            {
                "store",
                "load",
                "catalog",
                "chunk",
                "doctor",
                "migrate",
                "dagster",
                "connect-server",
                "demo",
                "dev",
                "serve",
                "stream",
                "permissions",
                "config",
                "metrics",
                "token",
                "message",
                "query",
                "export",
                "table",
                "hold",
                "history",
                "account",
            },
        ),
        (
            "nats3 store ",
            {
                "create",
                "list",
                "get",
                "run",
                "pause",
                "resume",
                "delete",
                "seal",
                "sweep",
                "set",
                "apply",
                "export",
                "claim",
                "copy",
                "expire",
            },
        ),
        ("nats3 chunk verify --h", {"--hour", "--help"}),
    ],
)
def test_a_shell_completes_commands_and_options(typed: str, offered: set[str]) -> None:
    words = typed.split(" ")
    shell = {"_NATS3_COMPLETE": "complete_bash", "COMP_WORDS": typed, "COMP_CWORD": str(len(words) - 1)}
    command = [sys.executable, "-m", "nats3_dagster.cli"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=os.environ | shell)
    assert set(ran.stdout.split()) == offered, ran.stderr


def test_a_reader_that_has_enough_is_no_error() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "nats3_dagster.cli", "store", "create", "--help"]
    ran = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    os.close(writing)
    assert (ran.returncode, ran.stderr) == (1, "")
