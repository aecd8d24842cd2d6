"""The ways to servers: does a login go over a network as it is, where others can read it?"""

from collections.abc import Iterator
from ipaddress import ip_address
from urllib.parse import urlsplit

from nats3_dagster.archive.health.finding import Finding
from nats3_dagster.catalog.connection import may_be_unencrypted
from nats3_dagster.settings import Settings

AREA = "settings"


def check(settings: Settings) -> Iterator[Finding]:
    """By what is set: a server may still ask for TLS by itself. Loopback and sockets are no network."""
    if settings.nats_url and not (options := settings.nats).wants_tls and (options.password or options.token):
        # A seed never leaves this machine: it signs what the server sends.
        for server in options.servers:
            if is_elsewhere(urlsplit(server).hostname):
                yield _unencrypted(
                    f"The NATS login may go to {urlsplit(server).hostname} unencrypted: nats:// takes TLS only if the "
                    "server asks for it", "Write tls:// in NATS3_NATS_URL, or log in by a creds file",
                )  # fmt: skip
    for host in may_be_unencrypted(settings.postgres) if settings.postgres_url else ():
        if is_elsewhere(host):
            yield _unencrypted(
                f"What goes to Postgres at {host} may be unencrypted: its sslmode does not ask for TLS",
                "Add sslmode=verify-full to NATS3_POSTGRES_URL",
            )
    for url, secret, what, hint in (
        (settings.server_url, settings.server_token, "The token of the API", "Write https:// in NATS3_SERVER_URL"),
        (settings.s3_endpoint, settings.s3_session_token, "The S3 session token",
         "Write https:// in AWS_ENDPOINT_URL_S3"),
    ):  # fmt: skip
        if url and secret and url.startswith("http://") and is_elsewhere(host := urlsplit(url).hostname):
            yield _unencrypted(f"{what} goes to {host} unencrypted", hint)


def is_elsewhere(host: str | None) -> bool:
    """Whether a connection to the host leaves this machine."""
    if not host or host.startswith("/") or host == "localhost":
        return False
    try:
        return not ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return True


def _unencrypted(what: str, hint: str) -> Finding:
    return Finding("warn", AREA, what, hint)
