"""Files that hold a secret, or a part of a login, and that a setting, an option or a NATS context names.

Invariant: no error repeats a content, and a path only where it can be one (plausible.shown_path).
"""

from pathlib import Path

from nats3_dagster.errors import OperatorError
from nats3_dagster.plausible import shown_path


def read_secret(path: str, named: str) -> bytes:
    """The content of the file. `named`: the beginning of the error's sentence, which says which file it is. Raises
    OperatorError."""
    try:
        return Path(path).read_bytes()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no path"
        raise OperatorError(f"{named} cannot be read: {reason}", "Correct the path, or the mode of the file") from None


def secret_text(path: str, setting: str) -> str:
    """The text of the file that a setting or an option names, without the end of its line. Raises OperatorError."""
    at = f" {shown}" if (shown := shown_path(path)) else ""
    content = read_secret(path, f"The file{at} that {setting} names")
    try:
        text = content.decode().rstrip("\r\n")
    except UnicodeDecodeError:
        raise OperatorError(f"The file{at} that {setting} names is not text", "Save it as UTF-8") from None
    if not text:
        raise OperatorError(f"The file{at} that {setting} names is empty", "Write the value into it")
    return text
