"""How to reach NATS, and how to log in there.

Invariant: plain values that pickle into a Spark worker, and no secret in their text.
"""

import re
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlsplit

from nats3_dagster.errors import OperatorError

# The subjects of JetStream's API of the server and account that a connection is made to.
API = "$JS.API"
# What a token of a subject cannot hold.
_NO_TOKEN = re.compile(r"[\s.*>\x00-\x1f\x7f]")
_URL_HINT = "Write it as nats://host:4222 or tls://host:4222; several are joined by commas"


@dataclass(frozen=True, slots=True)
class NatsOptions:
    """Servers, login and TLS. A login inside a URL (`nats://user:password@host`) counts where none is given beside it.

    Raises OperatorError if a field is invalid."""

    servers: tuple[str, ...]  # URLs, tried in any order
    name: str = "nats3"  # of the connection, for the server's reports
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    creds: str | None = None  # path of a creds file
    nkey: str | None = None  # path of an nkey's seed
    user_jwt: str | None = field(default=None, repr=False)  # what a creds file holds
    user_seed: str | None = field(default=None, repr=False)
    tls_ca: str | None = None  # path of the authority's certificate, PEM
    tls_cert: str | None = None  # path of our certificate, PEM
    tls_key: str | None = None  # path of its key, PEM and unencrypted
    tls_first: bool = False  # TLS before the server's INFO
    connect_timeout_s: float = 5.0  # seconds for each attempt at a server
    domain: str | None = None  # the JetStream domain of the streams; None: that of the server
    api_prefix: str | None = None  # where JetStream's API of another account is imported; instead of a domain
    inbox_prefix: str = "_INBOX"  # what the subjects begin with on which answers come

    def __post_init__(self) -> None:
        if not self.servers:
            raise OperatorError("No NATS server is given", _URL_HINT)
        logins: set[tuple[str, str | None]] = set()
        for server in self.servers:
            login = _login(server)
            if login:
                logins.add(login)
        if len(logins) > 1:
            raise OperatorError("The NATS servers' URLs hold different logins", "Give one login for all of them")
        if self.tls_key and not self.tls_cert:
            raise OperatorError("A TLS key is given without its certificate", "Set NATS3_NATS_TLS_CERT as well")
        if bool(self.user_jwt) != bool(self.user_seed):
            raise OperatorError(
                "Only one of a user's JWT and its seed is given",
                "Set both NATS3_NATS_USER_JWT and NATS3_NATS_USER_SEED",
            )
        self._check_subjects()
        # A login in a URL would stay there in everything that prints the URL.
        object.__setattr__(self, "servers", tuple(_without_login(s) for s in self.servers))
        if logins and not (self.user or self.token or self.creds or self.nkey or self.user_jwt):
            first, second = logins.pop()
            if second is None:
                object.__setattr__(self, "token", first)
            else:
                object.__setattr__(self, "user", first)
                object.__setattr__(self, "password", second)

    @property
    def api(self) -> str:
        """What the subjects of JetStream's API begin with, without the dot at its end."""
        return self.api_prefix or (f"$JS.{self.domain}.API" if self.domain else API)

    @property
    def wants_tls(self) -> bool:
        """Whether a connection without TLS must be refused."""
        return bool(
            self.tls_first or self.tls_ca or self.tls_cert or any(s.startswith("tls:") for s in self.servers)
        )

    @property
    def raw_creds(self) -> str | None:
        """The JWT and the seed as a creds file has them."""
        if not self.user_jwt:
            return None
        return (
            f"-----BEGIN NATS USER JWT-----\n{self.user_jwt}\n------END NATS USER JWT------\n\n"
            f"-----BEGIN USER NKEY SEED-----\n{self.user_seed}\n------END USER NKEY SEED------\n"
        )

    def ssl_context(self) -> ssl.SSLContext:
        """What checks the server's certificate and shows ours. Raises OperatorError for an invalid file."""
        for path in (self.tls_ca, self.tls_cert, self.tls_key):
            _check_file(path, "TLS file")
        try:
            context = ssl.create_default_context(cafile=self.tls_ca)
            if self.tls_cert:
                # Without a password callback OpenSSL would ask on the terminal for the key's passphrase.
                context.load_cert_chain(self.tls_cert, self.tls_key, password=lambda: "")
        except (ssl.SSLError, OSError) as error:
            files = ", ".join(p for p in (self.tls_ca, self.tls_cert, self.tls_key) if p)
            raise OperatorError(
                f"The TLS files do not load ({files})", "They must be PEM, the key unencrypted and of this certificate"
            ) from error
        return context

    def _check_subjects(self) -> None:
        if self.domain is not None and self.api_prefix is not None:
            raise OperatorError(
                "A JetStream domain and a prefix of its API are given",
                "Set one of NATS3_NATS_DOMAIN and NATS3_NATS_API_PREFIX: a domain is the prefix $JS.<domain>.API",
            )
        if self.domain is not None and (not self.domain or _NO_TOKEN.search(self.domain)):
            raise OperatorError(
                f"The JetStream domain {self.domain!r} is invalid",
                "Set NATS3_NATS_DOMAIN to the domain's name: one word without dots, spaces, * and >",
            )
        for what, name, prefix in (
            ("prefix of JetStream's API", "NATS3_NATS_API_PREFIX", self.api_prefix),
            ("inbox prefix", "NATS3_NATS_INBOX_PREFIX", self.inbox_prefix),
        ):
            if prefix is not None and not all(t and not _NO_TOKEN.search(t) for t in prefix.split(".")):
                raise OperatorError(
                    f"The {what} {prefix!r} is invalid",
                    f"Set {name} to words joined by dots, without spaces, *, > and a dot at its end",
                )

    def check_files(self) -> None:
        """Raises OperatorError if a file of the login cannot be read or is invalid."""
        _check_file(self.creds, "creds file", b"BEGIN NATS USER JWT", b"BEGIN USER NKEY SEED")
        _check_file(self.nkey, "nkey seed", b"SU")


def _login(server: str) -> tuple[str, str | None] | None:
    """The userinfo of a URL: (user, password), or (token, None)."""
    try:
        parts = urlsplit(_with_scheme(server))
        port = parts.port
    except ValueError:
        parts, port = None, 0
    if parts is None or not parts.hostname or port == 0 or parts.scheme not in ("nats", "tls"):
        # The text may hold a password, so it is not repeated.
        raise OperatorError("A NATS server's URL is malformed", _URL_HINT)
    if not parts.username:
        return None
    return unquote(parts.username), None if parts.password is None else unquote(parts.password)


def _without_login(server: str) -> str:
    parts = urlsplit(_with_scheme(server))
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def _with_scheme(server: str) -> str:
    return server if "://" in server else f"nats://{server}"


def _check_file(path: str | None, what: str, *parts: bytes) -> None:
    if path is None:
        return
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise OperatorError(f"The {what} {path} cannot be read: {error.strerror}", "Mend the path") from None
    if not all(part in content for part in parts):
        raise OperatorError(f"{path} is no {what}", "Give the path of the file that nsc or nk wrote")
