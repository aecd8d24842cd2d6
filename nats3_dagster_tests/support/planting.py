"""Secrets to be planted, made from the table of settings, and the search for them.

Each has `MARK` in it, so that one search finds any part of any of them: plain, in any case, percent-encoded, in base64.
"""

import base64
import itertools
import json
import re
import types
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args, get_origin
from urllib.parse import quote

from nats3_dagster.settings.fields import Fields
from nats3_dagster.settings.names import KEYS, has_file, is_secret, variables

# Letters that are themselves when percent-encoded, and that a seed, a JWT, a token and the name of a host can have.
MARK = "PLANTZ"
_numbers = itertools.count(1)


def _marks() -> Iterator[str]:
    yield re.escape(MARK)
    yield "".join(f"%{ord(c):02x}" for c in MARK)
    for shift in range(3):
        coded = base64.b64encode(b"\0" * shift + MARK.encode()).decode().rstrip("=")
        # The first and the last digits hold bits of what stands beside it.
        yield f"(?-i:{re.escape(coded[(0, 2, 3)[shift] : (shift + len(MARK)) * 8 // 6])})"


_SEARCH = re.compile("|".join(_marks()), re.IGNORECASE)


def secret() -> str:
    """A new one, of 24 letters and digits."""
    # Of digits a seed has 2 to 7 only.
    return f"{MARK}{next(_numbers):06d}7ABCDEFG4KMN".translate(str.maketrans("0189", "QLXY"))


def shown_in(text: str | bytes) -> list[str]:
    """The places with a planted secret, each with what stands around it."""
    if isinstance(text, bytes):
        text = text.decode("latin-1")
    return [text[max(0, found.start() - 60) : found.end() + 20] for found in _SEARCH.finditer(text)]


@dataclass(frozen=True, slots=True)
class Plant:
    """A value for a setting."""

    key: str
    # How the secret stands in the value.
    form: str
    value: str


def plants() -> list[Plant]:
    """For each setting: right values that hold secrets, and wrong ones."""
    return [Plant(key, form, value) for key in KEYS for form, value in _forms(key)]


def plain(key: str) -> str | None:
    """A right value that holds a secret; None for a setting that holds none."""
    if _is_address(key):
        return f"{_scheme(key)}://user:{secret()}@127.0.0.1:1"
    return secret() if is_secret(key) else None


def _forms(key: str) -> Iterator[tuple[str, str]]:
    if _is_address(key):
        yield from _addresses(_scheme(key))
        if "postgres" in key:
            yield from _conninfos()
    elif is_secret(key):
        yield "secret", secret()
    # The name of a host may be any word.
    if key not in ("nats_url", "api_listen") and (
        _is_address(key) or is_secret(key) or _is_path(key) or _is_checked(key)
    ):
        # A secret in the place of an address, a path, a number or a choice.
        yield "bare", secret()
        yield "words", f"{secret()} {secret()}"
    yield from misplaced()


def _addresses(scheme: str) -> Iterator[tuple[str, str]]:
    yield "login", f"{scheme}://user:{secret()}@127.0.0.1:1"
    yield "token", f"{scheme}://{secret()}@127.0.0.1:1"
    yield "path", f"{scheme}://user:{secret()}@127.0.0.1:1/path"
    yield "encoded", f"{scheme}://user:{quote(secret() + '@/?#', safe='')}@127.0.0.1:1"
    for sign in "@/?#,:;&'\" %":
        yield f"unencoded {sign}", f"{scheme}://user:{secret()}{sign}{secret()}@127.0.0.1:1/x"
        if sign != ":":  # what stands before it is a user then
            yield f"token with {sign}", f"{scheme}://{secret()}{sign}{secret()}@127.0.0.1:1"
    yield "several", f"{scheme}://user:{secret()}@127.0.0.1:1,{scheme}://user:{secret()}@127.0.0.1:2"
    yield "last of several", f"{scheme}://127.0.0.1:1,{scheme}://user:{secret()}@127.0.0.1:2"
    yield "as port", f"{scheme}://127.0.0.1:{secret()}"
    yield "no scheme", f"user:{secret()}@127.0.0.1:1"
    for name in ("token", "jwt", "x-api-key", "%70assword", "X-Amz-Signature", "scram_client_key"):
        yield f"?{name}", f"{scheme}://127.0.0.1:1/?{name}={secret()}"
        yield f"&{name}", f"{scheme}://127.0.0.1:1/x?sslmode=disable&{name}={secret()}"
        yield f";{name}", f"{scheme}://127.0.0.1:1/;{name}={secret()};user_id=x"
    yield "fragment", f"{scheme}://127.0.0.1:1/#{secret()}"


def _conninfos() -> Iterator[tuple[str, str]]:
    for name in ("password", "scram_client_key", "sslpassword", "pasword"):
        yield f"conninfo {name}", f"host=127.0.0.1 port=1 {name}={secret()}"
    yield "conninfo quoted", f"host=127.0.0.1 port=1 password = '{secret()} \\'{secret()}'"
    yield "conninfo unquoted", f"host=127.0.0.1 port=1 password={secret()} {secret()}"


def misplaced() -> Iterator[tuple[str, str]]:
    """What is a secret wherever it stands, by its form alone."""
    yield "seed", seed()
    yield "jwt", jwt()
    yield "api token", api_token()
    yield "creds", creds()
    yield "pem", f"-----BEGIN PRIVATE KEY-----\n{secret()}\n-----END PRIVATE KEY-----\n"
    yield "data", f"data:;base64,{base64.b64encode(creds().encode()).decode()}"
    yield "url", f"https://user:{secret()}@example.invalid/"


def seed() -> str:
    """A user's nkey seed by its form."""
    return ("SUA" + secret()).ljust(58, "A")


def jwt() -> str:
    parts = ({"typ": "JWT", "alg": "ed25519-nkey"}, {"name": secret()})
    coded = (base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts)
    return f"{'.'.join(coded)}.{secret()}"


def creds() -> str:
    return (
        f"-----BEGIN NATS USER JWT-----\n{jwt()}\n------END NATS USER JWT------\n\n"
        f"-----BEGIN USER NKEY SEED-----\n{seed()}\n------END USER NKEY SEED------\n"
    )


def api_token() -> str:
    return f"nats3_{secret()}".ljust(49, "x")


def places(plant: Plant, folder: Path) -> Iterator[tuple[str, dict[str, str], str | None]]:
    """Where the value may stand: a name, variables of the environment, and the text of nats3.toml."""
    name = variables(plant.key)[0]
    yield "variable", {name: plant.value}, None
    yield "nats3.toml", {}, f"{plant.key} = {json.dumps(plant.value)}\n"
    if has_file(plant.key):
        file = folder / f"{plant.key}.secret"
        file.write_text(plant.value)
        yield "file", {f"{name}_FILE": str(file)}, None
        yield "in place of a file", {f"{name}_FILE": plant.value}, None


def _kinds(key: str) -> tuple[Any, ...]:
    """The types that a setting takes."""

    def parts(annotation: Any) -> Iterator[Any]:
        if get_origin(annotation) in (None, Literal):
            yield annotation
        elif isinstance(annotation, types.UnionType) or get_args(annotation):
            for inner in get_args(annotation):
                yield from parts(inner)

    return tuple(parts(Fields.model_fields[key].annotation))


def _is_path(key: str) -> bool:
    return Path in _kinds(key)


def _is_checked(key: str) -> bool:
    """Whether a text of letters and digits is no value of it."""
    return not {str, Path} & set(_kinds(key)) or bool(Fields.model_fields[key].metadata)


def _is_address(key: str) -> bool:
    return key.endswith(("_url", "_endpoint", "_remote", "_master"))


def _scheme(key: str) -> str:
    schemes = {
        "nats_url": "nats",
        "postgres_url": "postgresql",
        "spark_remote": "sc",
        "spark_master": "spark",
        "store_url": "file",
    }
    return schemes.get(key, "http")


def forms(secret: str) -> list[str]:
    """A secret as it is, and as base64 within something longer: py4j logs functions so."""
    inside = [base64.b64encode(b"\0" * at + secret.encode()).decode().rstrip("=")[4:-2] for at in range(3)]
    return [secret, *inside]
