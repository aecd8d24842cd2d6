"""Subjects: NATS filters, and the transform that maps a subject to another.

Names and semantics are those of NATS (docs.nats.io, "Subject-Based Messaging" and "Subject Mapping and Partitioning"):
`*` stands for one token, a final `>` for one or more; inside a token they are characters like others. A subject may
hold any bytes but white space; one that is not UTF-8 is a `str` all the same, with a lone surrogate for each bad byte
(PEP 383). A server's filters compare bytes; those of people also take a subject by its `readable` text. No I/O.
"""

import re
from collections.abc import Callable, Iterable
from functools import cached_property

from nats3_dagster.errors import OperatorError
from nats3_dagster.plausible import subject_fault

_FUNCTION = re.compile(r"\{\{\s*(\w+)\s*\(([^)]*)\)\s*\}\}|\$(\d+)")
_ONE_TOKEN = ("wildcard", "partition", "left", "right")
_MANY_TOKENS = ("split", "splitfromleft", "splitfromright", "slicefromleft", "slicefromright")

# An address may be a subject, and one with a login stands in the wrong place: it is not repeated.
_LOGIN = re.compile(r"://[^/?#]*@")
# A lone surrogate: a byte that is not UTF-8 (PEP 383).
_BAD_BYTE = re.compile("[\udc80-\udcff]")
# The text of one in `readable`.
_SHOWN_BYTE = re.compile("%[89A-F][0-9A-F]")


def check_filter(text: str) -> str:
    """`text` if it is a subject filter. Raises OperatorError that says which token is wrong."""
    hint = "Subjects are tokens joined by dots; the token * is for any one, > at the end for all the rest"
    if kind := subject_fault(text):
        raise OperatorError(f"A subject filter holds {kind}", hint)
    if _LOGIN.search(text):
        raise OperatorError("A subject filter holds an address with a login", hint)
    if not text or re.search(r"[ \t\r\n\f\0]", text):
        raise OperatorError(f"{text!r} is not a subject filter", hint)
    if re.search("[\ud800-\udfff]", text):
        raise OperatorError(f"{text!r} is not a subject filter: it is not UTF-8", "Write * for a token with such bytes")
    tokens = text.split(".")
    for at, token in enumerate(tokens, 1):
        if not token:
            raise OperatorError(f"{text!r} is not a subject filter: token {at} is empty", hint)
        if token == ">" and at < len(tokens):
            raise OperatorError(f"{text!r} is not a subject filter: > may only be the last token", hint)
    return text


def decoded(raw: bytes) -> str:
    """The subject of these bytes. No two subjects are equal unless their bytes are."""
    return raw.decode(errors="surrogateescape")


def encoded(subject: str) -> bytes:
    """The bytes of a subject on the wire."""
    return subject.encode(errors="surrogateescape")


def readable(subject: str) -> str:
    """The subject as valid text, for people: `%XX` for each byte that is not UTF-8, the rest as it is. Another subject
    may have the same text: keys and comparisons use the subject itself."""
    return _BAD_BYTE.sub(lambda bad: f"%{ord(bad[0]) - 0xDC00:02X}", subject)


def matches(filter_: str, subject: str) -> bool:
    """True if the filter matches the subject (see `decoded`). Their bytes are compared: `%FF` in a filter is these
    three characters, and a byte that is not UTF-8 is taken by a wildcard only, as a server does it. A token `*` or `>`
    of the subject is that character and no wildcard: NATS refuses such a subject only from clients that ask for it."""
    filters, tokens = filter_.split("."), subject.split(".")
    for at, token in enumerate(filters):
        if token == ">":
            return len(tokens) > at
        if at >= len(tokens) or token not in ("*", tokens[at]):
            return False
    return len(filters) == len(tokens)


def matches_shown(filter_: str, subject: str) -> bool:
    """True if the filter, as people write it, matches the subject: as a server's would, or its text as nats3 shows it
    (`readable`). So `%FF` in such a filter is these three characters, and the byte."""
    return matches(filter_, subject) or (bool(_BAD_BYTE.search(subject)) and matches(filter_, readable(subject)))


def selects_shown(filters: Iterable[str], subject: str) -> bool:
    """True if one of the filters of people matches the subject, or there are no filters."""
    filters = tuple(filters)
    return not filters or any(matches_shown(filter_, subject) for filter_ in filters)


def selects(filters: Iterable[str], subject: str) -> bool:
    """True if one of the filters matches the subject, or there are no filters."""
    filters = tuple(filters)
    return not filters or any(matches(filter_, subject) for filter_ in filters)


def is_exact(filter_: str) -> bool:
    """True if the filter matches one subject only: it has no wildcard."""
    return not {"*", ">"} & set(filter_.split("."))


def is_one_subject(filter_: str) -> bool:
    """True if the filter of people matches one subject only: neither a wildcard nor the text of a byte is in it."""
    return is_exact(filter_) and not _SHOWN_BYTE.search(filter_)


def literal_tokens(filter_: str) -> int:
    """Returns the number of tokens at the filter's beginning that are the same in every subject that `matches_shown`,
    byte for byte."""
    tokens = filter_.split(".")
    return next((n for n, t in enumerate(tokens) if t in ("*", ">") or _SHOWN_BYTE.search(t)), len(tokens))


def literal_prefix(filter_: str) -> str:
    """Returns the tokens of `literal_tokens`, each with its dot: every subject that has more of them begins so."""
    tokens = filter_.split(".")
    return ".".join([*tokens[: literal_tokens(filter_)], ""])


def has_mixed_token(filter_: str) -> bool:
    """True if a token has `*` or `>` and more: a legal name, and mostly a mistake."""
    return any(token not in ("*", ">") and {"*", ">"} & set(token) for token in filter_.split("."))


def covers(wide: str, narrow: str) -> bool:
    """True if `wide` matches every subject that `narrow` matches."""
    wides, narrows = wide.split("."), narrow.split(".")
    for at, token in enumerate(wides):
        if token == ">":
            return len(narrows) > at
        if at >= len(narrows) or narrows[at] == ">" or (token != "*" and token != narrows[at]):
            return False
    return len(wides) == len(narrows)


def overlap(one: str, other: str) -> bool:
    """True if some subject matches both filters."""
    ones, others = one.split("."), other.split(".")
    for a, b in zip(ones, others, strict=False):
        if ">" in (a, b):
            return True
        if a != b and "*" not in (a, b):
            return False
    return len(ones) == len(others)


class Transform:
    """A NATS subject transform: subjects that `source` takes become `destination`.

    The destination may hold `>` (when the source does), `$n` and the functions wildcard, partition, left, right, split,
    splitfromleft, splitfromright, slicefromleft and slicefromright in `{{...}}`; without any of them all messages get
    that one subject. The source is compared with the bytes of a subject; functions cut bytes, as NATS does. Raises
    OperatorError if the two do not fit together."""

    def __init__(self, source: str, destination: str) -> None:
        self.source = check_filter(source)
        self.destination = destination
        self._wildcards = source.split(".").count("*")
        plain = _FUNCTION.sub("x", destination)
        check_filter(plain)
        if "{{" in plain or "}}" in plain:
            raise OperatorError(
                f"{destination!r} holds an unfinished {{{{...}}}}", "Write {{wildcard(1)}} for the first *"
            )
        if "*" in plain.split("."):
            raise OperatorError(
                f"The destination {destination!r} holds a bare *", "Write {{wildcard(1)}} for the first *"
            )
        if destination.endswith(">") and not source.endswith(">"):
            raise OperatorError(f"{destination!r} ends with > but {source!r} does not", "End both with >, or neither")
        self._tokens = [self._compile(token) for token in self._split(destination)]

    def __repr__(self) -> str:
        return f"Transform({self.source!r}, {self.destination!r})"

    def __call__(self, subject: str) -> str | None:
        """The subject's new name, or None where the source does not take it, by its bytes or its text."""
        if not matches_shown(self.source, subject):
            return None
        tokens = subject.split(".")
        stars = [t for s, t in zip(self.source.split("."), tokens, strict=False) if s == "*"]
        rest = tokens[len(self.source.split(".")) - 1 :] if self.source.endswith(">") else []
        return ".".join(token(stars, rest) for token in self._tokens)

    @cached_property
    def pattern(self) -> str:
        """A filter that takes every subject this transform can make, and as few others as a filter can."""
        out: list[str] = []
        for token in self._split(self.destination):
            calls = [m[1].lower() if m[1] else "wildcard" for m in _FUNCTION.finditer(token)]
            if token == ">" or any(call in _MANY_TOKENS for call in calls):
                return ".".join([*out, ">"])
            out.append("*" if calls else token)
        return ".".join(out)

    @staticmethod
    def _split(destination: str) -> list[str]:
        """Tokens of the destination; dots inside {{...}} do not count."""
        return re.findall(r"(?:\{\{[^}]*\}\}|[^.{]|\{(?!\{))+", destination)

    def _compile(self, token: str) -> Callable[[list[str], list[str]], str]:
        if token == ">":
            return lambda stars, rest: ".".join(rest)
        pieces: list[Callable[[list[str]], str]] = []
        at = 0
        for call in _FUNCTION.finditer(token):
            literal = token[at : call.start()]
            pieces += [_constant(literal), self._function(call)]
            at = call.end()
        tail = token[at:]
        return lambda stars, rest: "".join(piece(stars) for piece in pieces) + tail

    def _function(self, call: re.Match[str]) -> Callable[[list[str]], str]:
        name = call[1].lower() if call[1] else "wildcard"
        args = [a.strip() for a in call[2].split(",")] if call[1] else [call[3]]
        if name not in (*_ONE_TOKEN, *_MANY_TOKENS):
            raise OperatorError(
                f"{call[0]} is not a transform function we know",
                f"Use one of {', '.join((*_ONE_TOKEN, *_MANY_TOKENS))}",
            )
        try:
            if name == "partition":
                count, at = int(args[0]), [self._index(a) for a in args[1:]]
                if count < 1 or not at:
                    raise ValueError
                return lambda stars: str(_fnv1a("".join(stars[i] for i in at)) % count)
            index = self._index(args[0])
            if name == "wildcard":
                if len(args) != 1:
                    raise ValueError
                return lambda stars: stars[index]
            if len(args) != 2:
                raise ValueError
            if name == "split":
                return lambda stars: ".".join(part for part in stars[index].split(args[1]) if part)
            size = int(args[1])
            if size < 1:
                raise ValueError
        except ValueError:
            raise OperatorError(f"{call[0]} has wrong arguments", "See NATS' subject transforms for its form") from None
        return lambda stars: _cut(name, stars[index], size)

    def _index(self, text: str) -> int:
        index = int(text) - 1
        if not 0 <= index < self._wildcards:
            raise OperatorError(
                f"{self.destination!r} asks for wildcard {text}, but {self.source!r} has {self._wildcards}",
                "Number the * of the source from 1",
            )
        return index


def _constant(text: str) -> Callable[[list[str]], str]:
    return lambda stars: text


def _cut(name: str, token: str, size: int) -> str:
    """The functions that cut one token at a byte; a token shorter than the cut stays whole, as in NATS."""
    raw = encoded(token)
    if name == "left":
        return decoded(raw[:size])
    if name == "right":
        return decoded(raw[-size:])
    if size >= len(raw):
        return token
    if name == "splitfromleft":
        return decoded(raw[:size] + b"." + raw[size:])
    if name == "splitfromright":
        return decoded(raw[:-size] + b"." + raw[-size:])
    odd = len(raw) % size if name == "slicefromright" else 0
    pieces = [raw[:odd]] if odd else []
    return decoded(b".".join(pieces + [raw[at : at + size] for at in range(odd, len(raw), size)]))


def _fnv1a(text: str) -> int:
    """FNV-1a, 32 bits: the hash of NATS' partition function."""
    value = 0x811C9DC5
    for byte in encoded(text):
        value = (value ^ byte) * 0x01000193 & 0xFFFFFFFF
    return value
