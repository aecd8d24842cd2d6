"""Options of the Spark data sources: one table for each source, checked once, on the driver.

Invariant: no message repeats the value of an option that may hold a secret.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from nats3_dagster.errors import OperatorError
from nats3_dagster.hours import parse_time
from nats3_dagster.model.stream import check_stream_name
from nats3_dagster.plausible import NAME, PATH, VARIABLE, Want, check, subject_fault
from nats3_dagster.settings.names import nearest
from nats3_dagster.subjects import check_filter

# What Spark itself puts among the options of a source or sink.
_OF_SPARK = frozenset({"checkpointlocation", "queryname"})
# What Spark adds to the options where a table of its catalog is made.
_OF_TABLE = frozenset({"owner", "provider"})


@dataclass(frozen=True, slots=True)
class Kind:
    """The way in which the text of an option is read."""

    # As the tables of options name it.
    name: str
    # Its value. Raises OperatorError, or ValueError where `form` says it all.
    parse: Callable[[str], Any] = field(repr=False)
    # What is asked for, after "Write ".
    form: str
    # What its text stands for. None: a subject, which may look like a URL.
    want: Want | None = NAME


@dataclass(frozen=True, slots=True)
class Option:
    """An option of a source."""

    # As it is documented; Spark compares names of options without case.
    name: str
    kind: Kind
    # The value without it, in words of the tables of options.
    default: str
    # What it says, in one sentence of the tables of options.
    meaning: str
    # Whether the value must not show anywhere.
    secret: bool = False


def _text(text: str) -> str:
    if not text.strip():
        raise ValueError
    return text


def _flag(text: str) -> bool:
    return {"true": True, "false": False}[text.strip().lower()]


def _number(least: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        value = int(text) if text.strip().isascii() else -1
        if not least <= value < 1 << 63:
            raise ValueError
        return value

    return parse


def _time(text: str) -> str:
    """The text itself: what is relative counts from when the source was loaded."""
    parse_time(text)
    return text


def _filters(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(check_filter(part.strip()) for part in text.split(",")))


def _names(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(","))


TEXT = Kind("text", _text, "a text that is not empty")
FILE = Kind("text", _text, "the path of a file", want=PATH)
ENV = Kind("text", _text, "the name of a variable", want=VARIABLE)
STREAM = Kind("text", check_stream_name, "the name of a stream")
FLAG = Kind("true or false", _flag, "true or false")
COUNT = Kind("number", _number(1), "a whole number from 1")
SEQUENCE = Kind("sequence", _number(1), "a stream sequence: a whole number from 1")
TIME = Kind("time", _time, "a time, like 2026-11-21T07:00:00Z or -2h")
FILTERS = Kind("subject filters", _filters, "subject filters, joined by commas", want=None)
NAMES = Kind("names", _names, "names, joined by commas")


def choice(*words: str) -> Kind:
    """One of these words, whatever their case."""

    def parse(text: str) -> str:
        return {word.lower(): word for word in words}[text.strip().lower()]

    return Kind(" or ".join(words), parse, f"one of {', '.join(words)}")


def parse_options(source: str, table: Sequence[Option], given: Mapping[str, str]) -> dict[str, Any]:
    """The values of the options that are given, by their documented names; `source` is the format's name.

    Raises OperatorError for an unknown option, with the known one that is most like it, and for a malformed value."""
    known = {option.name.lower(): option for option in table}
    values: dict[str, Any] = {}
    for key, text in _own(source, table, given).items():
        option = known.get(key.lower())
        if option is None:
            if key.lower() in _OF_SPARK:
                continue
            near = nearest(key.lower(), known)
            hint = f"Did you mean {known[near].name}?" if near else f"There are {', '.join(o.name for o in table)}"
            raise OperatorError(f"{key} is not an option of {source}", hint, field=key)
        values[option.name] = _value(source, option, text)
    return values


def _own(source: str, table: Sequence[Option], given: Mapping[str, str]) -> dict[str, str]:
    """The options, with the argument of `load` as the required one. Raises OperatorError; also for a table of Spark's
    catalog, because Spark reads it without its options (PySpark 4.3)."""
    options = {key.lower(): text for key, text in given.items()}
    if options.keys() >= _OF_TABLE:
        raise OperatorError(
            f"{source} cannot be a table of Spark's catalog: Spark gives a source in Python no options of a table",
            f"Make a view: CREATE TEMPORARY VIEW name USING {options['provider']} OPTIONS (...)",
            field="provider",
        )
    if "path" in options:
        name = next(option.name for option in table if option.default == "required")
        if name.lower() in options:
            raise OperatorError(f"{source} gets a path, and the option {name}", "Give the name once", field=name)
        options[name.lower()] = options.pop("path")
    return options


def not_given(source: str, name: str) -> OperatorError:
    """The error for a required option that is missing."""
    what = f"The option {name} of {source} is not given"
    return OperatorError(what, f'Write .option("{name}", "<name>")', field=name)


def option_rows(table: Sequence[Option]) -> list[str]:
    """The rows of the table of options, in Markdown, as the docstring of the source has them."""
    return [f"| {option.name} | {option.kind.name} | {option.default} | {option.meaning} |" for option in table]


def _value(source: str, option: Option, text: str) -> Any:
    what = f"The option {option.name} of {source} is malformed"
    if not option.secret:
        _check(f"The option {option.name} of {source}", option, text)
    try:
        return option.kind.parse(text)
    except (ValueError, KeyError):
        raise OperatorError(what, f"Write {option.kind.form}", field=option.name) from None
    except OperatorError as error:
        if option.secret:
            raise OperatorError(what, f"Write {option.kind.form}", field=option.name) from None
        raise OperatorError(f"{what}: {error.what}", error.hint, field=option.name) from None


def _check(named: str, option: Option, text: str) -> None:
    """Raises OperatorError for a secret in the place of something else, and repeats nothing of it."""
    if option.kind.want:
        try:
            check(named, text, option.kind.want)
        except OperatorError as error:
            raise OperatorError(error.what, error.hint, field=option.name) from None
    elif kind := subject_fault(text):
        raise OperatorError(f"{named} holds {kind}", f"Write {option.kind.form}", field=option.name)
