"""nats3.toml: one key a line. Reading it, and changing one key of it with its comments kept.

Invariant: a file with a key that is no setting is refused as a whole, so that no misspelt key goes unseen.
"""

import fcntl
import os
import re
import tempfile
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from nats3_dagster.errors import OperatorError
from nats3_dagster.plausible import PATH, check, shown_path
from nats3_dagster.settings.masking import holds_secret
from nats3_dagster.settings.names import key_of, nearest_key


def config_path() -> Path:
    """The file that `NATS3_CONFIG` names, else `nats3.toml` in the working directory. Raises OperatorError for a value
    that is no path."""
    path = check("NATS3_CONFIG", os.environ.get("NATS3_CONFIG") or "nats3.toml", PATH)
    return Path(os.path.expanduser(path)).absolute()  # noqa: PTH111  that of pathlib raises for a user who is not there


def config_label() -> str:
    """Returns the name of the file in texts."""
    return str(config_path()) if os.environ.get("NATS3_CONFIG") else "nats3.toml"


def read_config() -> dict[str, Any]:
    """The settings of the file, by key; empty where there is none. Raises OperatorError for a file that cannot be read
    or has a key that is no setting, and where NATS3_CONFIG names a file that is missing."""
    text = _text()
    if text is None:
        if os.environ.get("NATS3_CONFIG"):
            at = f": {shown}" if (shown := shown_path(os.environ["NATS3_CONFIG"])) else ""
            raise OperatorError(f"NATS3_CONFIG names a file that does not exist{at}", "Correct or unset the variable")
        return {}
    return _settings(text)


def set_config(key: str, value: bool | int | str) -> None:
    """Write one key, which keeps its place and its comments. Raises OperatorError, and then nothing was written."""
    with _changed() as document:
        _settings(document.as_string())
        name = _name_in(document, key) or key
        document[name] = value


def unset_config(name: str) -> bool:
    """Remove a key; False where it is not there. A key that is no setting goes as well. Raises OperatorError."""
    with _changed() as document:
        written = name if name in document else _name_in(document, key_of(name) or name)
        if written is None:
            return False
        del document[written]
        return True


def holds_secrets() -> bool:
    """True if a value in the file is a secret."""
    return _holds_secret(read_config())


def _text() -> str | None:
    path = config_path()
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except UnicodeDecodeError:
        raise OperatorError(f"{path} is not UTF-8 text", "Save it as UTF-8") from None
    except OSError as error:
        raise OperatorError(f"{path} cannot be read: {error.strerror}", "Correct the path or its mode") from None


def _settings(text: str) -> dict[str, Any]:
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise OperatorError(f"{config_path()} is not TOML: {error}", "Correct that line") from None
    values: dict[str, Any] = {}
    for name, value in content.items():
        key = key_of(name)
        if key is None:
            near = nearest_key(name)
            raise OperatorError(
                f"{name!r} in {config_path()}{_line(text, name)} is not a setting",
                f"Did you mean {near}?" if near else "Remove it, or correct its name",
            )
        if key in values:
            raise OperatorError(f"{config_path()}{_line(text, name)} sets {key} twice", "Keep one of the lines")
        values[key] = value
    return values


def _line(text: str, name: str) -> str:
    """`, line 3`, or nothing where it is not found."""
    pattern = re.compile(rf"\s*(?:\[+\s*)?([\"']?){re.escape(name)}\1\s*[=\].]")
    return next((f", line {n}" for n, line in enumerate(text.splitlines(), 1) if pattern.match(line)), "")


def _name_in(document: Any, key: str) -> str | None:
    """Returns the file's name for a key: it may have the SDK's name."""
    return next((name for name in document if key_of(name) == key), None)


def _holds_secret(values: dict[str, Any]) -> bool:
    return any(holds_secret(key, value) for key, value in values.items())


@contextmanager
def _changed() -> Iterator[Any]:
    """The file as a document to be changed; written when the block ends, whole or not at all. Others who change the
    file wait meanwhile."""
    import tomlkit  # it takes 0.05 s to import, and only a change needs it
    from tomlkit.exceptions import TOMLKitError

    path = config_path().resolve()  # a link stays a link
    try:
        folder = os.open(path.parent, os.O_RDONLY)
    except OSError as error:
        raise OperatorError(f"{path.parent} cannot be opened: {error.strerror}", "Correct the path") from None
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        text = _text() or ""
        try:
            document = tomlkit.parse(text)
        except TOMLKitError:
            _settings(text)  # says what is wrong, and where
            raise
        yield document
        if (changed := document.as_string()) != text:
            _replace(path, changed)
            os.fsync(folder)
    finally:
        os.close(folder)


def _replace(path: Path, text: str) -> None:
    content = tomllib.loads(text)
    is_secret = _holds_secret({key: value for name, value in content.items() if (key := key_of(name))})
    try:
        mode = path.stat().st_mode & 0o777
    except FileNotFoundError:
        mode = 0o644
    temporary = ""
    try:
        descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)  # mode 0600
        with open(descriptor, "w", encoding="utf-8") as file:  # noqa: PTH123  a descriptor, no path
            file.write(text)
            file.flush()
            os.fsync(descriptor)
            os.fchmod(descriptor, 0o600 if is_secret else mode)
        os.replace(temporary, path)  # noqa: PTH105
    except OSError as error:
        with suppress(OSError):
            os.unlink(temporary)  # noqa: PTH108
        raise OperatorError(f"{path} cannot be written: {error.strerror}", "Correct its mode, or make room") from None
