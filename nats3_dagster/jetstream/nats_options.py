"""The options to reach NATS, and to log in there.

Invariant: plain values that pickle into a Spark worker, and no secret in their text.
"""

import importlib.util
import re
import ssl
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

from nats3_dagster.addresses import malformed, nats_fault, with_scheme
from nats3_dagster.errors import OperatorError
from nats3_dagster.jetstream import login_files
from nats3_dagster.jetstream.login_files import Embedded, LoginFile, check_file
from nats3_dagster.plausible import NAME, PATH, check
from nats3_dagster.redaction import learn

# The subjects of JetStream's API of the server and account that a connection is made to.
API = "$JS.API"
# What a token of a subject cannot hold.
_NO_TOKEN = re.compile(r"[\s.*>\x00-\x1f\x7f]")
_FILES = ("creds", "nkey", "tls_ca", "tls_cert", "tls_key")
_NAMES = ("domain", "api_prefix", "inbox_prefix")


@dataclass(frozen=True, slots=True)
class NatsOptions:
    """Servers, login and TLS. A login inside a URL (`nats://user:password@host`) counts where none is given beside it.

    Raises OperatorError if a field is invalid."""

    servers: tuple[str, ...]  # URLs, tried in any order
    name: str = "nats3"  # of the connection, for the server's reports
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    creds: LoginFile | None = field(default=None, repr=False)  # a creds file
    nkey: LoginFile | None = field(default=None, repr=False)  # the file of an nkey's seed
    user_jwt: str | None = field(default=None, repr=False)  # what a creds file holds
    user_seed: str | None = field(default=None, repr=False)
    tls_ca: LoginFile | None = field(default=None, repr=False)  # the authority's certificate, PEM
    tls_cert: LoginFile | None = field(default=None, repr=False)  # our certificate, PEM
    tls_key: LoginFile | None = field(default=None, repr=False)  # its key, PEM and unencrypted
    tls_first: bool = False  # TLS before the server's INFO
    connect_timeout_s: float = 5.0  # seconds for each attempt at a server
    domain: str | None = None  # the JetStream domain of the streams; None: that of the server
    api_prefix: str | None = None  # where JetStream's API of another account is imported; instead of a domain
    inbox_prefix: str = "_INBOX"  # what the subjects begin with on which answers come

    def __post_init__(self) -> None:
        self._check_values()
        logins: set[tuple[str, str | None]] = set()
        for server in self.servers:
            login = _login(server)
            if login:
                logins.add(login)
        if len(logins) > 1:
            raise OperatorError("The NATS servers' URLs hold different logins", "Give one login for all of them")
        learn(*(part for first, second in logins for part in (first if second is None else second,)))
        self.learn_secrets()
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

    def learn_secrets(self) -> None:
        """Teach the filter of texts the login: where options are made, and in a worker, to which they were pickled."""
        learn(self.password, self.token, self.user_jwt, self.user_seed)

    @property
    def api(self) -> str:
        """Returns the prefix of the subjects of JetStream's API, without the dot at its end."""
        return self.api_prefix or (f"$JS.{self.domain}.API" if self.domain else API)

    @property
    def wants_tls(self) -> bool:
        """True if a connection without TLS must be refused."""
        return bool(
            self.tls_first or self.tls_ca or self.tls_cert or any(s.startswith(("tls:", "wss:")) for s in self.servers)
        )

    @property
    def raw_creds(self) -> str | None:
        """The JWT and the seed as a creds file has them, where no file has them."""
        if isinstance(self.creds, Embedded):
            return login_files.text_of(self.creds)
        if not self.user_jwt:
            return None
        return (
            f"-----BEGIN NATS USER JWT-----\n{self.user_jwt}\n------END NATS USER JWT------\n\n"
            f"-----BEGIN USER NKEY SEED-----\n{self.user_seed}\n------END USER NKEY SEED------\n"
        )

    def ssl_context(self) -> ssl.SSLContext:
        """Returns the context that checks the server's certificate and shows the client's. Raises OperatorError for an
        invalid file."""
        return login_files.ssl_context(self.tls_ca, self.tls_cert, self.tls_key)

    @property
    def credentials(self) -> str | None:
        """The path of the creds file; None where there is none, or `raw_creds` has its content."""
        return self.creds if isinstance(self.creds, str) else None

    def _check_values(self) -> None:
        """Raises OperatorError for a server that is none, and for a secret in the place of a path or a name."""
        for kind, names in ((PATH, _FILES), (NAME, _NAMES)):
            for name in names:
                if isinstance(value := getattr(self, name), str):
                    check(f"NATS3_NATS_{name.upper()}", value, kind)
        if fault := nats_fault(",".join(self.servers)):
            raise malformed("A NATS server's URL", fault)

    def _check_subjects(self) -> None:
        if self.domain is not None and self.api_prefix is not None:
            raise OperatorError(
                "A JetStream domain and a prefix of its API are given",
                "Set one of NATS3_NATS_DOMAIN and NATS3_NATS_API_PREFIX: a domain is the prefix $JS.<domain>.API",
            )
        if self.domain is not None and (not self.domain or _NO_TOKEN.search(self.domain)):
            raise OperatorError(
                "The JetStream domain is invalid",
                "Set NATS3_NATS_DOMAIN to the domain's name: one word without dots, spaces, * and >",
            )
        for what, name, prefix in (
            ("prefix of JetStream's API", "NATS3_NATS_API_PREFIX", self.api_prefix),
            ("inbox prefix", "NATS3_NATS_INBOX_PREFIX", self.inbox_prefix),
        ):
            if prefix is not None and not all(t and not _NO_TOKEN.search(t) for t in prefix.split(".")):
                raise OperatorError(
                    f"The {what} is invalid",
                    f"Set {name} to words joined by dots, without spaces, *, > and a dot at its end",
                )

    def check_files(self) -> None:
        """Raises OperatorError if a file of the login cannot be read or is invalid, or WebSocket is not installed."""
        check_file(self.creds, "creds file", b"BEGIN NATS USER JWT", b"BEGIN USER NKEY SEED")
        check_file(self.nkey, "nkey seed", b"SU")
        # Asked here: the transport imports nats-py, 0.1 s, and a load of the definitions does without.
        is_web = any(server.startswith(("ws:", "wss:")) for server in self.servers)
        if is_web and importlib.util.find_spec("aiohttp") is None:
            raise OperatorError(
                "An address of NATS with ws:// or wss:// needs aiohttp", "Install nats3-dagster[websocket]"
            )


def _login(server: str) -> tuple[str, str | None] | None:
    """The userinfo of a URL: (user, password), or (token, None)."""
    parts = urlsplit(with_scheme(server))
    if not parts.username:
        return None
    return unquote(parts.username), None if parts.password is None else unquote(parts.password)


def _without_login(server: str) -> str:
    parts = urlsplit(with_scheme(server))
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
