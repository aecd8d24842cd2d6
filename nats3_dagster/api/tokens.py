"""Bearer tokens: how one is made, and what one allows.

Invariant: a token is neither kept nor repeated, only its SHA-256 is compared.
"""

import hashlib
import hmac
import secrets
from collections.abc import Iterable
from dataclasses import dataclass

from nats3_dagster.settings import Settings

# By it scanners of repositories know a token that was committed.
_BEGIN = "nats3_"
_BYTES = 32


@dataclass(frozen=True, slots=True)
class Tokens:
    """SHA-256 in lower-case hex of the tokens that may write, and of those that may only read."""

    writing: tuple[str, ...] = ()
    reading: tuple[str, ...] = ()

    @classmethod
    def of(cls, settings: Settings) -> "Tokens":
        return cls(*settings.api_token_hashes)

    def __bool__(self) -> bool:
        return bool(self.writing or self.reading)

    def access(self, token: bytes) -> str | None:
        """`write`, `read`, or None for a token that is none of them."""
        given = _digest(token)
        may_write, may_read = _is_one_of(given, self.writing), _is_one_of(given, self.reading)
        return "write" if may_write else "read" if may_read else None


def name_of(token: bytes) -> str:
    """The beginning of its SHA-256: `token 0123abcd`. An operator finds it among the settings. 32 bits of the hash of
    256 random ones give nothing away."""
    return f"token {_digest(token)[:8]}"


def new_token() -> tuple[str, str]:
    """A token of 256 random bits, and its SHA-256: so long a one cannot be guessed from a fast hash."""
    token = _BEGIN + secrets.token_urlsafe(_BYTES)
    return token, _digest(token.encode())


def _digest(token: bytes) -> str:
    return hashlib.sha256(token).hexdigest()


def _is_one_of(given: str, hashes: Iterable[str]) -> bool:
    """Compared with all of them, and each takes as long as any other."""
    return sum([hmac.compare_digest(given, one) for one in hashes]) > 0
