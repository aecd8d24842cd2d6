"""Files of a login: creds, the seed of an nkey, certificates. Each is a path, or the content that a context embeds.

Invariant: no error repeats a content, and a path only where it can be one (plausible.shown_path).
"""

import base64
import json
import os
import re
import ssl
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field

from nats3_dagster.errors import OperatorError
from nats3_dagster.plausible import shown_path
from nats3_dagster.secret_files import read_secret

_SEED = re.compile(rb"\bS[ACNOUX]A[A-Z2-7]{10,}")


@dataclass(frozen=True, slots=True)
class Embedded:
    """The content of a file, where the file was expected."""

    content: bytes = field(repr=False)

    def __str__(self) -> str:
        return "embedded data"


# A path, or what the file would hold.
LoginFile = str | Embedded


def check_file(file: LoginFile | None, what: str, *parts: bytes) -> None:
    """Raises OperatorError if the file cannot be read or does not have each of these parts."""
    if file is None:
        return
    content = _read(file, what)
    if not all(part in content for part in parts):
        raise OperatorError(f"{_name(file, what)} is no {what}", "Give the path of the file that nsc or nk wrote")


def seed_of(nkey: LoginFile) -> str | None:
    """The seed that an embedded nkey is, or that stands in a file with more than it, as the `nats` command reads both.
    None for a file with the seed alone, which is read again at each connection."""
    content = _read(nkey, "nkey seed").strip()
    match = _SEED.search(content)
    seed = match[0] if match else content
    return seed.decode(errors="replace") if isinstance(nkey, Embedded) or seed != content else None


def text_of(creds: Embedded) -> str:
    """The lines of an embedded creds file."""
    return creds.content.decode(errors="replace").replace("\r\n", "\n")


def jwt_end(jwt: str | None) -> float | None:
    """Returns the time when a user's JWT ends, of time.time; None if it does not, or is none."""
    try:
        claims = json.loads(base64.urlsafe_b64decode(f"{(jwt or '').split('.')[1]}=="))
        return float(claims["exp"])
    except (IndexError, ValueError, KeyError, TypeError):
        return None


def ssl_context(ca: LoginFile | None, cert: LoginFile | None, key: LoginFile | None) -> ssl.SSLContext:
    """Returns the context that checks the server's certificate and shows the client's. Raises OperatorError for an
    invalid file."""
    for file in (ca, cert, key):
        check_file(file, "TLS file")
    try:
        if isinstance(ca, Embedded):
            context = ssl.create_default_context(cadata=ca.content.decode("ascii"))
        else:
            context = ssl.create_default_context(cafile=ca)
        if cert:
            with _path(cert) as cert_path, _path(key) as key_path:
                # Without a password callback OpenSSL would ask on the terminal for the key's passphrase.
                context.load_cert_chain(cert_path or "", key_path, password=lambda: "")
    except (ssl.SSLError, OSError, ValueError):
        names = ", ".join(_name(file, "TLS file") for file in (ca, cert, key) if file)
        # Not chained: nothing of the content is in a traceback.
        raise OperatorError(
            f"The TLS files do not load ({names})", "They must be PEM, the key unencrypted and of this certificate"
        ) from None
    return context


def _read(file: LoginFile, what: str) -> bytes:
    if isinstance(file, Embedded):
        return file.content
    return read_secret(file, _name(file, what))


def _name(file: LoginFile, what: str) -> str:
    if isinstance(file, Embedded):
        return f"The embedded {what}"
    shown = shown_path(file)
    return f"The {what} {shown}" if shown else f"The {what}"


@contextmanager
def _path(file: LoginFile | None) -> Generator[str | None]:
    """A path for OpenSSL, which takes no content. An embedded key goes through memory where the system has such
    files, so that it is not written to a disk."""
    if not isinstance(file, Embedded):
        yield file
    elif hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("nats3")
        try:
            os.write(descriptor, file.content)
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
    else:
        with tempfile.NamedTemporaryFile() as temporary:  # mode 0600
            temporary.write(file.content)
            temporary.flush()
            yield temporary.name
