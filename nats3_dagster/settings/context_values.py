"""Values in a context of the `nats` command: a text or a path, or where one is to be taken from.

`file://`, `env://` and `data:;base64,` are resolved as the command does (nats-io/jsm.go, natscontext), and where the
settings are read, because a Spark worker has another environment. `op://` and `nsc://` run programs, which we do not.

Invariant: no error repeats a value.
"""

import base64
import binascii
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from nats3_dagster.errors import OperatorError
from nats3_dagster.jetstream.login_files import Embedded
from nats3_dagster.plausible import PATH, fault
from nats3_dagster.secret_files import read_secret

_SCHEME = re.compile(r"(file|env|op|nsc)://|(data):", re.IGNORECASE)
_PROGRAMS: Final = {
    "op": ("1Password", "Save what op read prints into a file of mode 0600, and name that file"),
    "nsc": ("nsc", "Save what nsc generate creds prints into a file of mode 0600, and name that file"),
}


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a context that is a secret or a file."""

    # Of the context.
    context: str
    # As the context calls it.
    name: str

    def wrong(self, why: str, hint: str = "Correct it: nats context edit") -> OperatorError:
        """The error of a value that cannot be followed."""
        return OperatorError(f"{self._of_context} {why}", hint)

    def text(self, value: str) -> str:
        """The secret itself. Raises OperatorError."""
        scheme, rest = self._scheme(value)
        if scheme == "file" or (self.name in ("user_jwt", "user_seed") and _is_path(value)):
            content = read_secret(_expanded(rest), f"{self._of_context} names a file that")
        elif scheme:
            content = self._resolved(scheme, rest)
        else:
            return value
        try:
            return content.decode().rstrip("\r\n")
        except UnicodeDecodeError:
            raise self.wrong("is not text") from None

    def file(self, value: str) -> str | Embedded:
        """The path of the file, or its content. Raises OperatorError."""
        scheme, rest = self._scheme(value)
        if scheme in ("env", "data"):
            return Embedded(self._resolved(scheme, rest))
        path = _expanded(rest)
        if why := fault(rest) or fault(path):  # a path has no // any more
            raise self.wrong(f"holds {why}, and wants {PATH.what}", PATH.step)
        return path

    @property
    def _of_context(self) -> str:
        return f"The NATS context {self.context}: its {self.name}"

    def _scheme(self, value: str) -> tuple[str, str]:
        """Returns the scheme and the rest, as scheme_of does. Raises OperatorError for a value that asks for another
        program."""
        scheme, rest = scheme_of(value)
        if scheme in _PROGRAMS:
            program, hint = _PROGRAMS[scheme]
            raise self.wrong(f"comes from {program} ({scheme}://), which is not supported here", hint)
        return scheme, rest

    def _resolved(self, scheme: str, rest: str) -> bytes:
        if scheme == "env":
            content = os.environ.get(rest, "").encode()
            if not content:
                raise self.wrong("comes from a variable (env://) that is not set", "Set it in this environment")
            return content
        header, comma, payload = rest.partition(",")
        try:
            if comma and "base64" in (part.strip() for part in header.split(";")):
                return base64.b64decode(payload, validate=True)
        except (binascii.Error, ValueError):
            pass
        raise self.wrong("is embedded data that is not in base64", "Save it again with the nats command")


def scheme_of(value: str) -> tuple[str, str]:
    """The scheme of a value in lower case, and what follows it; an empty one for a value that is meant as it is."""
    match = _SCHEME.match(value)
    return ((match[1] or match[2]).lower(), value[match.end() :]) if match else ("", value)


def _expanded(path: str) -> str:
    """The path with variables and `~` replaced, as the command does."""
    return os.path.expanduser(os.path.expandvars(path))  # noqa: PTH111  that of pathlib raises for an unknown user


def _is_path(value: str) -> bool:
    """True if the value names a file: the command writes paths for a JWT and a seed as well."""
    try:
        return not fault(value) and Path(_expanded(value)).is_file()
    except (OSError, RuntimeError, ValueError):
        return False
