"""The last filter of texts: takes secrets out of everything that is shown, logged or stored.

Errors pass it when they are made, log records when they are made, and what else has a text of a library passes
`redacted`. It knows two things: the secrets that this process has read (`learn`), and the forms of some that it has not
(the seed of an nkey, a JWT, a token of the API, a PEM key, the login of an address).

Which values it looks for:
- Of fewer than 4 characters: none. Half of all words have them in them.
- A word that our own texts have (`nats`, `password`): none. Hidden or not, everybody would try it first.
- Of fewer than 8 characters, or of fewer than 16 that are all letters: where it is a whole word, so that the password
  `postgres` leaves `postgresql` alone.
- All others: anywhere, also percent-encoded, escaped and in base64.
"""

import base64
import logging
import re
import threading
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, Final, cast

STARS: Final = "***"
_SHORTEST, _ANYWHERE, _LETTERS_ANYWHERE = 4, 8, 16
_OWN_WORDS: Final = frozenset(
    {
        "admin",
        "archive",
        "archives",
        "bucket",
        "chunk",
        "context",
        "dagster",
        "default",
        "false",
        "file",
        "host",
        "http",
        "https",
        "iceberg",
        "jetstream",
        "local",
        "localhost",
        "login",
        "message",
        "nats",
        "nats3",
        "none",
        "null",
        "password",
        "postgres",
        "postgresql",
        "private",
        "public",
        "replay",
        "root",
        "secret",
        "server",
        "settings",
        "spark",
        "store",
        "stream",
        "subject",
        "table",
        "test",
        "token",
        "true",
        "user",
        "value",
    }
)
# A process that reads a login again and again, as it is renewed, looks for the newest of them.
_MOST: Final = 200

# The seed of an nkey: S, the kind of key, and base32.
SEED: Final = re.compile(r"(?<![A-Z2-7])S[ACNOUX]A[A-Z2-7]{24,}")
# A token of JSON in base64: `{"` is eyJ.
JWT: Final = re.compile(r"(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{16,}(?:\.[A-Za-z0-9_-]+)*")
# A token of the HTTP API (api.tokens).
API_TOKEN: Final = re.compile(r"(?<![A-Za-z0-9_-])nats3_[A-Za-z0-9_-]{40,}")
# The content of a key file or a creds file: all to its end, or to that of the text.
PEM: Final = re.compile(r"-----BEGIN [A-Z ]*(?:KEY|SEED|JWT)-----.*?(?:-----+END [A-Z ]*-+|\Z)", re.DOTALL)
# The same in base64, as `data:` has it: `-----BEGIN`.
_CODED_PEM: Final = re.compile(r"LS0tLS1CRUdJTi[A-Za-z0-9+/=_-]{16,}")
_FORMS: Final = (PEM, _CODED_PEM, SEED, JWT, API_TOKEN)

# The password of an address, up to the last @ before its path; also one with a / in it, if that is no port. In the
# schemes of NATS and HTTP a login without a password is a token.
_PASSWORD: Final = re.compile(
    r"""(?P<kept>[A-Za-z0-9+.-]://[^\s:/@?#\[\]'"<>]*:)(?P<secret>[^\s/?#'"<>]*|(?!\d*[/?#])(?:(?!://)[^\s'"<>@])*)(?=@)"""
)
_TOKEN: Final = re.compile(r"""(?P<kept>\b(?:nats|tls|wss?|https?)://)(?P<secret>[^\s:/@?#\[\]'"<>]+)(?=@)""")

_lock = threading.Lock()
# In the order in which they were learned; and the longest first, as one may begin as another does.
_known: dict[str, "_Secret"] = {}
_longest_first: tuple["_Secret", ...] = ()
# Without one of these a text has no escapes.
_ESCAPED: Final = re.compile(r"[%\\&+]")


class _Secret:
    """A value that is looked for."""

    def __init__(self, value: str) -> None:
        self.value = value
        self._may_be_escaped = not (value.isascii() and value.isalnum())
        self._is_word = len(value) < _ANYWHERE or (value.isalpha() and len(value) < _LETTERS_ANYWHERE)

    def removed_from(self, text: str) -> str:
        if not self._is_word:
            text = text.replace(self.value, STARS)
            for coded in self._coded:
                text = text.replace(coded, STARS)
        if (self._is_word and self.value in text) or (self._may_be_escaped and _ESCAPED.search(text)):
            return self._pattern.sub(STARS, text)
        return text

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        plain = "".join(map(_character, self.value))
        return re.compile(rf"(?<![A-Za-z0-9_]){plain}(?![A-Za-z0-9_])" if self._is_word else plain)

    @cached_property
    def _coded(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(_in_base64(self.value.encode())))


def learn(*secrets: str | None) -> None:
    """Look for these from now on, and for the lines of those that have several."""
    for secret in secrets:
        for value in {secret or "", *((secret or "").splitlines())}:
            if _is_looked_for(value := value.strip()):
                _learn(value)


def redacted(text: str) -> str:
    """The text, with stars in the place of secrets."""
    for form in _FORMS:
        text = form.sub(STARS, text)
    if "://" in text and "@" in text:
        text = _TOKEN.sub(_without_login, _PASSWORD.sub(_without_login, text))
    for secret in _longest_first:
        text = secret.removed_from(text)
    return text


def brief(text: object, length: int = 200) -> str:
    """The first line of a library's text: a text of many would hide what follows it. It is redacted before it is cut,
    because half a secret is not known."""
    lines = redacted(str(text)).strip().splitlines()
    return lines[0][:length] if lines else type(text).__name__


def redacted_value(value: Any) -> Any:
    """A document, with stars in the place of secrets in its texts. What has none is returned as it is."""
    if isinstance(value, str):
        return redacted(value)
    if isinstance(value, Mapping):
        return {key: redacted_value(inner) for key, inner in cast("Mapping[Any, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [redacted_value(inner) for inner in cast("Sequence[Any]", value)]
    return value


def redact_error(error: BaseException) -> None:
    """Takes secrets out of an unforeseen exception, and of its causes, because another program is about to print and
    store it."""
    seen: set[int] = set()
    chain: list[BaseException | None] = [error]
    while chain:
        one = chain.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        one.args = tuple(redacted(arg) if isinstance(arg, str) else arg for arg in one.args)
        for name in ("strerror", "filename", "reason", "msg", "message"):
            if isinstance(text := getattr(one, name, None), str) and (clean := redacted(text)) != text:
                setattr(one, name, clean)
        chain += [one.__cause__, one.__context__]


def redact_logs() -> None:
    """Have every log record of this process pass the filter, from now on. A `logging.Filter` would have to be at every
    handler: that of a logger does not see the records of those below it."""
    before: Callable[..., logging.LogRecord] = logging.getLogRecordFactory()
    if getattr(before, "is_redacting", False):
        return

    def redacting(*args: Any, **more: Any) -> logging.LogRecord:
        record = before(*args, **more)
        if isinstance(record.msg, str):
            record.msg = redacted(record.msg)
        else:
            record.msg = _redacted_argument(record.msg)
        if isinstance(record.args, Mapping):
            record.args = {name: _redacted_argument(value) for name, value in record.args.items()}
        elif record.args:
            record.args = tuple(map(_redacted_argument, record.args))
        if record.exc_info and record.exc_info[0] is not None:
            # A formatter takes what is there already.
            record.exc_text = redacted("".join(traceback.format_exception(*record.exc_info)).rstrip("\n"))
        return record

    redacting.is_redacting = True  # type: ignore[attr-defined]  # pyright: ignore[reportFunctionMemberAccess]
    logging.setLogRecordFactory(redacting)


def _redacted_argument(value: object) -> object:
    """The argument of a log line: itself where it says no secret, for a format may want more than its text."""
    if value is None or isinstance(value, int | float):
        return value
    try:
        text = str(value)
    except Exception:  # the log says so itself
        return value
    return value if (clean := redacted(text)) == text else clean


def _without_login(match: re.Match[str]) -> str:
    """The beginning of an address, with stars for its password or token. An example's `password` stays."""
    secret = match["secret"]
    return match["kept"] + (secret if not secret or secret.lower() in _OWN_WORDS else STARS)


def _is_looked_for(value: str) -> bool:
    return len(value) >= _SHORTEST and value.lower() not in _OWN_WORDS and not value.startswith("-----")


def _learn(value: str) -> None:
    global _longest_first
    with _lock:
        if value not in _known:
            _known[value] = _Secret(value)
            for oldest in list(_known)[:-_MOST]:
                del _known[oldest]
            _longest_first = tuple(sorted(_known.values(), key=lambda secret: -len(secret.value)))


def _character(character: str) -> str:
    """A character as texts may have it: itself, percent-encoded once or twice, or escaped as in JSON and HTML. Letters
    and digits are escaped nowhere."""
    if character.isascii() and character.isalnum():
        return character
    forms = {re.escape(character), "".join(f"(?i:%(?:25)?{byte:02x})" for byte in character.encode())}
    forms |= {f"(?i:\\\\u{ord(character):04x})", f"&#{ord(character)};"}
    forms |= {re.escape(f"&{name};") for name, meant in _ENTITIES.items() if meant == character}
    if character.isascii():
        forms.add(rf"\\+{re.escape(character)}")
    if character == " ":
        forms.add(r"\+")
    return f"(?:{'|'.join(sorted(forms, key=len, reverse=True))})"


_ENTITIES: Final = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'"}


def _in_base64(data: bytes) -> Iterable[str]:
    """Yields the base64 digits of it within something longer: at each of three places, without the digits that hold
    bits of its neighbours."""
    for shift, skipped in ((0, 0), (1, 2), (2, 3)):
        end = (shift + len(data)) * 8 // 6
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            yield encode(b"\0" * shift + data).decode()[skipped:end]
