"""Bearer tokens: how one is made, and what one allows.

Invariant: a token is neither kept nor repeated, only its SHA-256 is compared.
"""

import hashlib
import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field

from nats3_dagster.settings import Settings
from nats3_dagster.settings.token_scopes import Scope

# By it scanners of repositories know a token that was committed.
_BEGIN = "nats3_"
_BYTES = 32


@dataclass(frozen=True, slots=True)
class Tokens:
    """The scopes of each token, by its SHA-256 in lower-case hex."""

    scopes: Mapping[str, frozenset[Scope]] = field(default_factory=dict[str, frozenset[Scope]])

    @classmethod
    def of(cls, settings: Settings) -> "Tokens":
        return cls(settings.api_token_scopes)

    def __bool__(self) -> bool:
        return bool(self.scopes)

    def access(self, token: bytes) -> frozenset[Scope] | None:
        """The scopes of the token; None for one that is none of them. Compared with all of them, and each takes as long
        as any other."""
        given = _digest(token)
        found = [scopes for digest, scopes in self.scopes.items() if hmac.compare_digest(given, digest)]
        return found[0] if found else None


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
