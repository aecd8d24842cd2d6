"""Values that cannot be a path or a name: a secret or an address that stands in the wrong place.

Invariant: no text that leaves here repeats such a value. Every setting, option and field that wants a path or a name
passes `check` before it is used, so a value that cannot be one reaches no error, no log and no file.
"""

import re
from pathlib import Path
from typing import Final, NamedTuple

from nats3_dagster.errors import OperatorError
from nats3_dagster.redaction import API_TOKEN, JWT, SEED


class Want(NamedTuple):
    """The kind of value that a setting wants."""

    # As texts name it: `the path of a file`.
    what: str
    # What to do with a value that is none.
    step: str


_KEEP = "Write it into a file of mode 0600"
PATH: Final = Want("the path of a file", f"{_KEEP}, and give the path of that file")
FOLDER: Final = Want("the path of a folder", "Give the path of a folder")
NAME: Final = Want("a name", "Correct it: a secret has a setting of its own")
_NAME_ALONE: Final = "Give the name alone, without a scheme"
VARIABLE: Final = Want("the name of a variable", "Set the variable to the secret, and give the variable's name")

_KINDS: Final = (
    (re.compile(r"-----BEGIN|BEGIN [A-Z ]+-----"), "the content of a key or creds file"),
    (SEED, "the seed of an nkey"),
    (JWT, "a JWT"),
    (API_TOKEN, "a token of the API"),
)
_URL: Final = "a URL"
# Linux takes no longer one.
_LONGEST = 4096


def secret_in(text: str) -> str | None:
    """The kind of secret that the text holds and that is known by its form: `a JWT`. None where there is none. For
    texts that may hold anything else, as subjects and addresses."""
    return next((kind for pattern, kind in _KINDS if pattern.search(text)), None)


def fault(text: str) -> str | None:
    """Returns the reason why the text can be neither a path nor a name, as what it holds: `a JWT`, `two lines`. None if
    it can."""
    if re.match(r"\s*data:", text, re.IGNORECASE):
        return "embedded data (data:)"
    return subject_fault(text) or (_URL if "://" in text else None)


def subject_fault(text: str) -> str | None:
    """The same of a subject, which may look like a URL."""
    if kind := secret_in(text):
        return kind
    if re.match(r"\s*data:[^,]*,", text, re.IGNORECASE):
        return "embedded data (data:)"
    if re.search("[\n\r]", text):
        return "more than one line"
    if re.search("[\0-\x1f\x7f]", text):
        return "a control character"
    return "more text than any path has" if len(text) > _LONGEST else None


def check(setting: str, text: str, want: Want = NAME) -> str:
    """The text, if it can be what the setting wants. Raises OperatorError that names the setting and never the text."""
    if what := fault(text):
        raise OperatorError(f"{setting} holds {what}, and wants {want.what}", want.step)
    return text


def check_field(name: str, value: object, instead_of_url: str = _NAME_ALONE) -> None:
    """Checks a field of a request, or each of its texts. `instead_of_url`: what to write where a URL stands. Raises
    OperatorError that names the field."""
    texts: list[object] = list(value) if isinstance(value, tuple) else [value]  # pyright: ignore[reportUnknownArgumentType]
    for text in texts:
        if isinstance(text, str) and (what := fault(text)):
            step = instead_of_url if what == _URL else NAME.step
            raise OperatorError(f"The {name} holds {what}, and wants {NAME.what}", step, field=name)


def shown_path(path: str | Path) -> str | None:
    """The path as texts may have it, or None. A path is shown if it or its folder exists: a password in the place of a
    path is neither. The folder that any word would be in (the working directory, the root) does not count."""
    text = str(path)
    if fault(text):
        return None
    try:
        place = Path(text).expanduser()
        if place.exists():
            return text
        folder = place.parent
        return text if folder.is_dir() and folder not in (Path(), Path("/")) else None
    except (OSError, RuntimeError, ValueError):
        return None
