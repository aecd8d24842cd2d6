"""Scopes of the API's tokens: what NATS3_API_TOKENS lets the holder of each do."""

import re
from enum import StrEnum


class Scope(StrEnum):
    """A thing that a token may do; every token may read."""

    read = "read"
    # What is no erasure and no hold.
    write = "write"
    # Take messages away for good: erasures, purges, replays that delete what they publish.
    erase = "erase"
    # Place and end holds.
    hold = "hold"


# By the SHA-256 of each token, in lower-case hex.
Scopes = dict[str, frozenset[Scope]]
# Those of a hash without any.
_USUAL = frozenset({Scope.read, Scope.write})


def token_scopes(text: str) -> Scopes:
    """The scopes of each token of `HASH,HASH:read+hold`. Raises ValueError."""
    found: Scopes = {}
    for part in (part.strip() for part in text.split(",") if part.strip()):
        digest, colon, scopes = part.lower().partition(":")
        if not re.fullmatch(r"[0-9a-f]{64}", digest):
            raise ValueError("not the SHA-256 of a token: each is 64 hexadecimal digits, several are joined by commas")
        names = scopes.split("+") if colon else [*_USUAL]
        if not {*names} <= {*Scope}:
            raise ValueError(f"not the scopes of a token: write HASH:SCOPE+SCOPE, of {', '.join(Scope)}")
        if digest in found:
            raise ValueError("the same token twice: give it all its scopes at once")
        found[digest] = frozenset({Scope.read, *map(Scope, names)})
    return found


def hashes_in(text: str) -> list[str]:
    """The hashes of such a setting, also of one that is malformed."""
    return [part.partition(":")[0].strip() for part in text.split(",")]


def token_setting(digest: str, scopes: frozenset[Scope]) -> str:
    """The entry of a token in the setting."""
    return digest if scopes == _USUAL else f"{digest}:{'+'.join(scope for scope in Scope if scope in scopes)}"
