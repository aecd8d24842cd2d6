"""Options that may stand anywhere on a command line: they are taken out before the command reads the rest."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import islice

from nats3_dagster.cli.loading import Lazy
from nats3_dagster.errors import OperatorError


class Format(StrEnum):
    """The values of `-o`."""

    table = "table"
    json = "json"
    yaml = "yaml"


# Each of these sets a variable while the command runs, so processes that it starts have it as well.
_VARIABLES = {"--context": "NATS3_NATS_CONTEXT", "--server": "NATS3_SERVER_URL"}
_MISSING = {
    "--context": OperatorError("--context names no context", "Give the name that nats context ls shows"),
    "--server": OperatorError("--server has no address", "Give the URL of nats3 serve, like http://127.0.0.1:8080"),
}
_OUTPUT = ("-o", "--output")
# Seconds between two looks of a --watch without a number.
WATCH_S = 2


@dataclass(slots=True)
class GlobalOptions:
    """The options of a command line that apply to every command."""

    # What is left for the command.
    words: list[str] = field(default_factory=list[str])
    # The names of the command and of the groups above it, as far as they are there.
    path: tuple[str, ...] = ()
    debug: bool = False
    progress: bool = True
    # Variables of the environment to set, by name.
    variables: dict[str, str] = field(default_factory=dict[str, str])
    # What is wrong with one of them.
    error: OperatorError | None = None


def split_options(argv: Sequence[str], commands: Mapping[str, Lazy]) -> GlobalOptions:
    """Split a command line. Nothing after `--` is an option."""
    taken = GlobalOptions()
    end = argv.index("--") if "--" in argv else len(argv)
    words = iter(argv[:end])
    for word in words:
        name, equals, value = word.partition("=")
        if word == "--debug":
            taken.debug = True
        elif word == "--no-progress":
            taken.progress = False
        elif name in _VARIABLES:
            value = value if equals else next(words, "")
            taken.variables[_VARIABLES[name]] = value
            taken.error = taken.error or (None if value else _MISSING[name])
        else:
            taken.words.append(f"--watch={WATCH_S}" if word == "--watch" else word)
    _split_path(taken, commands)
    taken.words += argv[end:]
    return taken


def _split_path(taken: GlobalOptions, commands: Mapping[str, Lazy]) -> None:
    """Find the command, and take the format that stands before it; one that is wrong stays, and is refused there."""
    words, rest, path = iter(taken.words), list[str](), list[str]()
    for word in words:
        name, equals, value = word.partition("=")
        short = word.startswith("-o") and len(word) > 2
        if name in _OUTPUT or short:
            given = [] if equals or short else [*islice(words, 1)]
            value = word[2:].removeprefix("=") if short else value or "".join(given)
            if value in list(Format):
                taken.variables["NATS3_OUTPUT_FORMAT"] = value
            else:
                rest += [word, *given]
        else:
            rest.append(word)
            if not word.startswith("-"):
                path.append(word)
                if len(path) == 2 or not _is_group(word, commands):
                    break
    taken.words, taken.path = [*rest, *words], tuple(path)


def _is_group(word: str, commands: Mapping[str, Lazy]) -> bool:
    return word in commands and commands[word].target.endswith(":app")


@contextmanager
def environment(variables: Mapping[str, str]) -> Iterator[None]:
    """The variables while a command runs: processes that it starts have them as well."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
