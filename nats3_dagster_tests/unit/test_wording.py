"""Next steps: every code has words in every face, and below the faces only their table knows commands."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from string import Formatter

import pytest

import nats3_dagster
from nats3_dagster.api import wording as api
from nats3_dagster.cli import wording as cli
from nats3_dagster.defs import wording as dagster
from nats3_dagster.errors import OperatorError, StoreError, from_json
from nats3_dagster.steps import Next

PACKAGE = Path(nats3_dagster.__file__).parent
# And what builds the commands that they start.
FACES = ("cli", "api", "nats", "defs", "dev", "runs")


@pytest.mark.parametrize("words", [cli.WORDS, dagster.WORDS, api.WORDS])
def test_a_face_words_every_step_with_the_values_it_has(words: dict[Next, str]) -> None:
    assert set(words) == set(Next)
    for code, text in words.items():
        # A value that a code lacks would be a KeyError in the middle of an error.
        assert _names(text) <= _values_given(code), code


@pytest.mark.parametrize("words", [cli.WORDS, dagster.WORDS, api.WORDS])
def test_no_step_has_a_placeholder(words: dict[Next, str]) -> None:
    """A command is given with the names that are known, and without a word in the place of a value."""
    # Names of settings and of HTTP's methods are words of their own.
    plain = re.compile(r"\b(?:[A-Z0-9]+_[A-Z0-9_]+|NATS|UTF|SQL|HTTP|POST|GET|DELETE|PUT|UI)\b")
    found = {code.name: re.findall(r"\b[A-Z]{2,}\b", plain.sub("", text)) for code, text in words.items()}
    assert {name: placeholders for name, placeholders in found.items() if placeholders} == {}


def test_a_step_goes_through_json_and_is_worded_afterwards() -> None:
    error = from_json(StoreError("It is gone", Next.LIST_CHUNKS(archive="logs")).to_json())
    assert type(error) is StoreError
    assert str(error) == "It is gone. See the chunks of archive logs"
    assert error.text_in(cli.WORDS) == "It is gone. See the chunks of archive logs: nats3 chunk list logs"
    assert error.text_in(dagster.WORDS) == "It is gone. See the hours of logs/chunks"
    plain = from_json(OperatorError("No", "Do it").to_json())
    assert (str(plain), plain.text_in(cli.WORDS)) == ("No. Do it", "No. Do it")


def test_the_text_of_a_step_names_no_command_and_dagster_says_which_are_for_a_shell() -> None:
    assert [code for code in Next if "nats3 " in code.text.replace("outside nats3", "")] == []
    assert [code for code in Next if code.command and not code.command.startswith("nats3 ")] == []
    commands = re.compile(r"\bnats3 (?!dev\b|in\b)[a-z]+ ")
    assert [code for code, text in dagster.WORDS.items() if commands.search(text) and "shell" not in text] == []


def test_no_module_below_the_faces_names_a_command_or_an_option() -> None:
    command = re.compile(
        r"nats3 (?:store|load|chunk|export|message|dev|doctor|migrate|demo|serve)\b|[ \"']--[a-z]+-?[a-z]*\b"
    )
    found = [
        f"{path.relative_to(PACKAGE)}:{number}"
        for path in sorted(PACKAGE.rglob("*.py"))
        if path.relative_to(PACKAGE).parts[0] not in (*FACES, "steps.py")
        for number, line in enumerate(_code(path), 1)
        if command.search(line) and not _is_of_another_program(line)
    ]
    assert found == []


def test_a_replay_that_is_to_go_on_is_resumed_by_its_id() -> None:
    """An advice without the id sends the reader to a list."""
    text = re.compile(r"run the replay again", re.IGNORECASE)
    found = [
        f"{path.relative_to(PACKAGE)}:{number}"
        for path in sorted(PACKAGE.rglob("*.py"))
        for number, line in enumerate(_code(path), 1)
        if text.search(line)
    ]
    assert found == []


def test_the_command_of_a_step_stands_in_the_table_alone() -> None:
    """A sentence of a face takes it from there (Step.command)."""
    commands = {code.command.partition("{")[0] for code in Next if "{" in code.command}
    commands -= {"nats3 store set ", "nats3 store create "}
    begins = re.compile("(?:" + "|".join(sorted(map(re.escape, commands))) + r")\{")
    found = [
        f"{path.relative_to(PACKAGE)}:{number}"
        for path in sorted(PACKAGE.rglob("*.py"))
        if path.name not in ("steps.py", "wording.py")
        for number, line in enumerate(_code(path), 1)
        if begins.search(line)
    ]
    assert found == []


def test_no_text_of_the_ui_names_an_option_outside_a_whole_command() -> None:
    """A person in the UI has no command line at hand: they are given all of it, and told that it is for a shell."""
    option = re.compile(r"(?<![\w-])--?[a-z][\w-]*")
    whole = re.compile(r"\b(?:nats3|nats-server|dagster|python|protoc) [^.;,)]*")
    command = re.compile(r"\bnats3 (?!dev\b)[a-z]+")
    prose = list(_prose(("cli", "dev")))
    assert len(prose) > 300
    assert [(where, text) for where, text in prose if option.search(whole.sub("", text))] == []
    named = [(where, text) for where, text in prose if where.startswith("defs/") and command.search(text)]
    assert len(named) > 5
    # What is nothing but a command is a value of metadata, whose key says that it is for a shell.
    assert [(where, text) for where, text in named if "shell" not in text and not text.startswith("nats3 ")] == []


def _prose(faces: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """The texts of three words and more, each with its module and line; docstrings, and what these faces say, left
    out."""
    for path in sorted(PACKAGE.rglob("*.py")):
        inside = path.relative_to(PACKAGE)
        if inside.parts[0] in faces:
            continue
        tree = ast.parse(path.read_text())
        parts = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
        parts |= {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            text = _text(node) if id(node) not in parts else ""
            if len(re.findall(r"[A-Za-z]+(?: |$)", text)) >= 3:
                yield f"{inside}:{getattr(node, 'lineno', 0)}", text


def _text(node: ast.AST) -> str:
    """Of a string, or an f-string with `{}` for each value."""
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _names(text: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(text) if name}


def _values_given(code: Next) -> set[str]:
    """The values with which the package makes the step."""
    calls = re.compile(rf"Next\.{code.name}\b(?:\)| if [^)]*\))?\(([^()]*(?:\([^()]*\)[^()]*)*)\)")
    given = [
        set(re.findall(r"(\w+)=", call)) for path in PACKAGE.rglob("*.py") for call in calls.findall(path.read_text())
    ]
    return set.intersection(*given) if given else _names(code.with_command(""))


def _code(path: Path) -> list[str]:
    """The lines, docstrings and comments left empty."""
    text = re.sub(r'"""(?:.|\n)*?"""', lambda m: "\n" * m[0].count("\n"), path.read_text())
    return [line.split("  #")[0] if not line.lstrip().startswith("#") else "" for line in text.split("\n")]


def _is_of_another_program(line: str) -> bool:
    """Options of spark-submit, and of the server that `nats3 connect-server` becomes."""
    return any(f'"{option}"' in line for option in ("--properties-file", "--driver-java-options", "--class", "--conf"))
