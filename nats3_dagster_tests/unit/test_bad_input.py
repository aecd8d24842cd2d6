"""Bad input, wherever a user gives it: refused by the name of its field, or kept as it was meant. Never a traceback.

The cases are made from the tables of settings, so that a new field is here by itself.
"""

import json
import math
import re
from collections.abc import Iterable, Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import SecretStr, ValidationError

from nats3_dagster.api.problems import problem
from nats3_dagster.archive.declared import entries
from nats3_dagster.archive.lifecycle.job_names import archive_name
from nats3_dagster.bodies.exports import CreateExport
from nats3_dagster.bodies.load_jobs import CreateLoadJob
from nats3_dagster.bodies.store_jobs import CreateStoreJob
from nats3_dagster.bodies.strict_json import loads
from nats3_dagster.cli import exit_status
from nats3_dagster.cli.terminal.request_body import body_of
from nats3_dagster.cli.terminal.spec_options import Given, required_options, with_settings
from nats3_dagster.errors import OperatorError
from nats3_dagster.model import ArchiveSpec, ExportSpec, ReplaySpec
from nats3_dagster.model.spec_table import Kind, Setting, settings_of
from nats3_dagster.pipeline.sources.options import Option, parse_options
from nats3_dagster.settings import Settings, sources
from nats3_dagster.settings.names import KEYS, variables
from nats3_dagster_tests.support.bad_values import (
    DURATIONS,
    EVERY,
    FOREIGN,
    NEEDED,
    OTHERS,
    SIZES,
    TEXTS,
    in_document,
    in_file,
    in_shell,
    is_kept,
    is_named,
    is_right,
    quantity,
    texts,
    values,
)
from nats3_dagster_tests.support.commands import root_command
from nats3_dagster_tests.support.spark_sources import CASES, Case

Spec = type[Any]
MODELS: dict[Spec, Any] = {ArchiveSpec: CreateStoreJob, ReplaySpec: CreateLoadJob, ExportSpec: CreateExport}
IN_FILES = [(spec, one) for spec, one in EVERY if spec is not ReplaySpec]
# A search that is the same each time.
SEARCH = settings(max_examples=200, deadline=None, derandomize=True, database=None)


def cases(every: Iterable[tuple[Spec, Setting]]) -> Any:
    return pytest.mark.parametrize(
        ("spec", "one"), [pytest.param(*case, id=f"{case[0].__name__}.{case[1].name}") for case in every]
    )


def told(faults: Iterable[object]) -> None:
    """Asserts that there are no faults."""
    listed = [ascii(fault)[:300] for fault in faults if fault is not None]
    assert not listed, "\n".join(listed[:10])


# Bodies


def parsed(body: dict[str, Any], value: Any) -> Any:
    """The body as the API reads it; None where it is no body at all, because of half of a character or a number that is
    too large or too long in the value."""
    try:
        return loads(json.dumps(body).replace("Infinity", "1e400"))
    except json.JSONDecodeError:
        text = json.dumps(value)
        assert "\\ud" in text or "Infinity" in text or re.search(r"\d{100}", text), value
        return None


def of_body(spec: Spec, one: Setting, value: Any) -> str | None:
    """What is wrong with how a body with this value is taken."""
    keys = {each.name: each.body_key for each in settings_of(spec)}
    body = {keys[name]: needed for name, needed in NEEDED[spec].items()} | {one.body_key: value}
    body |= {"archive": "a"} if spec is ReplaySpec else {}
    document = parsed(body, value)
    if document is None:
        return None
    try:
        model = MODELS[spec].model_validate(document)
        kept = one.of(model.spec(model.name) if spec is ExportSpec else model.spec())
    except (ValidationError, OperatorError) as error:
        blamed = (
            {fault["field"] for fault in problem(error)["fields"]}
            if isinstance(error, OperatorError)
            else {str((*fault["loc"], "")[0]) for fault in error.errors()}
        )
        is_wrong = blamed != {one.body_key} or (is_right(one, value) and value is not None)
        return f"{value!r} is refused, {blamed}: {error}" if is_wrong else None
    meant = one.default if value is None else in_document(one, value)
    if spec is ArchiveSpec and one.name == "name" and isinstance(value, str):
        meant = archive_name(value)
    return None if is_kept(one, kept, meant) else f"{value!r} is kept as {kept!r}"


# A command names an export beside its body.
IN_BODIES = [(spec, one) for spec, one in EVERY if (spec, one.name) != (ExportSpec, "name")]


@cases(IN_BODIES)
def test_a_field_of_a_body(spec: Spec, one: Setting) -> None:
    told(of_body(spec, one, value) for value in values(one))


@SEARCH
@given(st.sampled_from(IN_BODIES), FOREIGN)
def test_any_field_of_a_body(case: tuple[Spec, Setting], value: Any) -> None:
    told([of_body(*case, value)])


@pytest.mark.parametrize("model", MODELS.values(), ids=lambda model: model.__name__)
def test_each_other_field_of_a_body(model: Any) -> None:
    """Those that no table has: of the types that they say."""
    of_tables = {one.body_key for spec, one in EVERY if MODELS[spec] is model}
    needed = {one.body_key: NEEDED[spec][one.name] for spec, one in EVERY if MODELS[spec] is model and one.required}
    needed |= {"archive": "a"} if model is CreateLoadJob else {}
    for name in {field.alias or key for key, field in model.model_fields.items()} - of_tables:
        told(misblamed(model, needed, name, value) for value in (*TEXTS, *OTHERS))


def misblamed(model: Any, needed: dict[str, Any], name: str, value: Any) -> str | None:
    document = parsed(needed | {name: value}, value)
    if document is None:
        return None
    try:
        model.model_validate(document)
    except ValidationError as error:
        blamed = {str((*fault["loc"], name)[0]) for fault in error.errors()}
        return None if blamed == {name} else f"{name} {value!r} is refused, {blamed}: {error}"
    return None


@pytest.mark.parametrize("model", MODELS.values(), ids=lambda model: model.__name__)
def test_a_field_of_a_body_that_is_there_twice(model: Any) -> None:
    for name in {field.alias or key for key, field in model.model_fields.items()}:
        with pytest.raises(json.JSONDecodeError, match=f"'{name}' is there twice"):
            loads(f'{{"{name}": 1, "{name}": 1}}')


# Files of archives


def written(spec: Spec, one: Setting, *texts: str) -> tuple[str, int]:
    """A file of archives with these values, and the line of the last one."""
    keys = {each.name: each.file_key for each in settings_of(spec)}
    pairs = [(keys[name], json.dumps(needed)) for name, needed in NEEDED[spec].items() if name != one.name]
    pairs += [(one.file_key, text) for text in texts]
    head = ["archives:", "-"]
    if spec is ExportSpec:
        head += [f"  {name}: {json.dumps(needed)}" for name, needed in NEEDED[ArchiveSpec].items()] + [
            "  exports:",
            "  -",
        ]
    lines = head + [f"{' ' * (4 if spec is ExportSpec else 2)}{key}: {text}" for key, text in pairs]
    return "\n".join(lines), len(lines)


def of_file(spec: Spec, one: Setting, value: Any) -> str | None:
    """What is wrong with how a file with this value is taken."""
    text = json.dumps(value)
    value = yaml.safe_load(text)  # 1e300 is a text in YAML
    content, line = written(spec, one, text)
    try:
        archive = entries.read([("archives.yaml", content)]).archives[0]
        kept = one.of(archive.spec if spec is ArchiveSpec else archive.exports[0])
    except OperatorError as error:
        is_placed = error.what.startswith(f"archives.yaml:{line}")
        is_missing = value is None and one.required and f"without {one.file_key}" in error.what
        is_wrong = not (is_placed or is_missing) or is_right(one, value)
        return f"{value!r} in line {line} is refused: {error}" if is_wrong else None
    return None if is_kept(one, kept, in_file(one, value, Path.cwd())) else f"{value!r} is kept as {kept!r}"


@cases(IN_FILES)
def test_a_key_of_a_file(spec: Spec, one: Setting) -> None:
    told(of_file(spec, one, value) for value in values(one))
    content, line = written(spec, one, "1", "1")
    with pytest.raises(OperatorError, match=rf"archives.yaml:{line} has the key '{one.file_key}' a second time"):
        entries.read([("archives.yaml", content)])


@SEARCH
@given(st.sampled_from(IN_FILES), FOREIGN)
def test_any_key_of_a_file(case: tuple[Spec, Setting], value: Any) -> None:
    told([of_file(*case, value)])


# Files of nats-s3-connector

# The keys of a store job there, by setting.
PEERS: dict[str, str] = {
    "name": "name",
    "stream": "stream",
    "consumer": "durable",
    "subject": "subjects",
    "bucket": "bucket",
    "prefix": "prefix",
    "batch.max_count": "max_messages",
    "batch.max_bytes": "max_bytes",
}


def of_peers_file(key: str, one: Setting, text: str) -> str | None:
    """What is wrong with how such a file with this value is taken."""
    value = yaml.safe_load(text)
    needed = {"name": "job-1", "stream": "S", "subject": "s", "bucket": "bucket"}
    lines = ["store:", "-", *(f"  {name}: {word}" for name, word in needed.items() if name != key)]
    table, _, name = key.rpartition(".")
    lines += [f"  {table}:", f"    {name}: {text}"] if table else [f"  {name}: {text}"]
    try:
        archive = entries.read([("config.yaml", "\n".join(lines))]).archives[0]
    except OperatorError as error:
        is_placed = error.what.startswith(f"config.yaml:{len(lines)}") or f"without {name}" in error.what
        return None if is_placed and not is_right(one, value) else f"{text} is refused: {error}"
    kept = one.of(archive.spec)
    meant = in_file(one, value, Path.cwd())
    if key == "name" and isinstance(value, str):
        meant = archive_name(value)
    return None if is_kept(one, kept, meant) else f"{text} is kept as {kept!r}"


@pytest.mark.parametrize("key", PEERS)
def test_a_key_of_a_peers_file(key: str) -> None:
    one = next(each for each in settings_of(ArchiveSpec) if each.name == PEERS[key])
    told(of_peers_file(key, one, json.dumps(value)) for value in values(one))


# Options of commands


class Shell:
    """A command with an option for each setting of a spec, as the commands that create have it."""

    def __init__(self, spec: Spec, capsys: pytest.CaptureFixture[str]) -> None:
        self.spec, self._capsys = spec, capsys
        self._made = list[Any]()
        app = typer.Typer()

        @app.command()
        @with_settings(spec, one_way=spec is ReplaySpec)
        def create(context: typer.Context, given: Given) -> None:
            body = body_of(MODELS[spec], context, None, given, required_options(spec))
            self._made.append(body.spec(body.name) if spec is ExportSpec else body.spec())

        self._command = typer.main.get_command(app)

    def __call__(self, *words: str) -> Any:
        """The spec that these words ask for, or the line of the error."""
        self._made.clear()
        status = exit_status.run(lambda: self._command.main(args=[*words], prog_name="nats3", standalone_mode=False))
        said = self._capsys.readouterr().err
        if status == 0:
            return self._made[0]
        assert (status, said[:7], said.count("\n")) == (2, "Error: ", 1), (words, said)
        return said


@cases((spec, one) for spec, one in EVERY if one.kind is not Kind.FLAG)
def test_an_option(
    spec: Spec, one: Setting, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shell = Shell(spec, capsys)
    options = {each.name: each.option for each in settings_of(spec)}
    needed = [f"{options[name]}={value}" for name, value in NEEDED[spec].items() if name != one.name]

    def fault(text: str) -> str | None:
        made = shell(*needed, f"{one.option}={text}")
        if isinstance(made, str):
            return None if is_named(one, made) else f"{text!r} is refused: {made}"
        meant = archive_name(text) if (spec, one.name) == (ArchiveSpec, "name") else in_shell(one, text)
        return None if is_kept(one, one.of(made), meant) else f"{text!r} is kept as {one.of(made)!r}"

    told(fault(text) for text in texts(one))


def commands(group: Any, *path: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, *path, name)
        else:
            yield (*path, name), command


def test_any_option_of_any_command(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its words are read, and the command is not run."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NATS3_HOME", str(tmp_path / "none"))

    def read(command: Any, words: list[str]) -> str:
        def run() -> None:
            command.make_context("nats3", words, resilient_parsing=False)

        status = exit_status.run(run)
        said = capsys.readouterr().err
        assert status in (0, 2), (words, said)
        return said

    seen = set[tuple[str, str]]()  # many commands share some
    for path, command in commands(root_command()):
        options = [one for one in command.params if one.param_type_name == "option" and not one.is_flag]
        needed = {one.opts[0]: "1" for one in options if one.required}
        arguments = ["a" for one in command.params if one.param_type_name == "argument"]
        for one in options:
            name = one.opts[0]
            if (name, one.help) in seen:
                continue
            seen.add((name, one.help))
            words = [f"{other}={value}" for other, value in needed.items() if other != name]
            for text in ("", "9" * 30, "a\0b", "\ud800"):
                said = read(command, [*arguments, *words, f"{name}={text}"])
                assert not said or f"'{name}'" in said or f"'{name}' / " in said or f" / '{name}'" in said, (path, said)
            twice = read(command, [*arguments, *words, f"{name}=1", f"{name}=2"])
            assert one.multiple or "given more than once" in twice or "Invalid value" in twice, (path, name, twice)
    assert list(tmp_path.iterdir()) == []


# Settings

# Lines of nats3.toml, and the values in them.
LINES: dict[str, object] = {
    "true": True,
    "false": False,
    "0": 0,
    "1": 1,
    "-1": -1,
    str(2**62): 2**62,
    "1.5": 1.5,
    "1.0": 1.0,
    "inf": math.inf,
    "[]": [],
    "['x']": ["x"],
    "{}": {},
    "{x = 1}": {"x": 1},
    "2026-11-21": date(2026, 11, 21),
}


@pytest.mark.parametrize("key", KEYS)
def test_a_setting(key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NATS3_HOME", str(tmp_path / "none"))
    monkeypatch.setattr(sources, "learn_setting", lambda *_: None)  # later tests may have these texts
    for name in variables(key):
        monkeypatch.delenv(name, raising=False)
    default, file = getattr(Settings.load(), key), Path("nats3.toml")

    def fault(value: object) -> str | None:
        try:
            kept = getattr(Settings.load(), key)
        except OperatorError as error:
            said = str(error).replace("NATS context", "nats_context")
            return None if key in said or variables(key)[0] in said else f"{value!r} is refused: {error}"
        kept = kept.get_secret_value() if isinstance(kept, SecretStr) else kept
        return None if is_set(kept, value) else f"{value!r} is kept as {kept!r}"

    faults = list[str | None]()
    for text in TEXTS:
        if "\0" not in text and "\ud800" not in text:  # which no variable has
            with monkeypatch.context() as patch:
                patch.setenv(variables(key)[0], text)
                assert text or getattr(Settings.load(), key) == default
                faults.append(fault(text) if text else None)
    for line, value in LINES.items():
        file.write_text(f"{key} = {line}\n")
        faults.append(fault(value))
    told(faults)
    file.write_text(f"{key} = 'x'\n{key.upper()} = 'x'\n")
    with pytest.raises(OperatorError, match=rf"line 2 sets {key} twice"):
        Settings.load()


def is_set(kept: object, value: object) -> bool:
    """True if a setting holds what was written."""
    if isinstance(kept, bool):
        return value == kept or str(value) in {True: ("1", "true"), False: ("0", "false")}[kept]
    if isinstance(kept, int):
        return (type(value) is int and kept == value) or kept in (
            quantity(str(value), SIZES),
            quantity(str(value), DURATIONS),
        )
    if kept is None:
        return value == "none"  # no server
    return isinstance(value, str) and value.rstrip("/") == str(kept).rstrip("/")


# Options of Spark's sources


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_an_option_of_spark(case: Case) -> None:
    """As far as one option says it: what sources make of several is tested beside them."""

    def fault(option: Option, text: str) -> str | None:
        try:
            kept = parse_options(case.source, case.table, {option.name: text})
        except OperatorError as error:
            is_named = error.field == option.name and option.name in error.what
            return None if is_named else f"{option.name} {text!r} is refused: {error}"
        is_kept = [*kept] == [option.name] and is_read(option.kind.name, text, kept[option.name])
        return None if is_kept else f"{option.name} {text!r} is kept as {kept}"

    told(fault(option, text) for option in case.table for text in TEXTS)


def is_read(kind: str, text: str, kept: object) -> bool:
    """True if the value of an option is what its text says."""
    match kind:
        case "text" | "time":
            return kept == text
        case "number" | "sequence":
            return kept == int(text) and int(text) > 0
        case "true or false":
            return str(kept).lower() == text
        case _:
            return kept not in (None, "", ())
