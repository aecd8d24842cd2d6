"""The settings, and the ways to servers that they name: what is without effect, exposed, or sent unencrypted?"""

import os
from collections.abc import Iterator
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

from nats3_dagster.archive.health.finding import Finding
from nats3_dagster.catalog.session.connection import may_be_unencrypted
from nats3_dagster.model.dagster_settings import read_owners
from nats3_dagster.settings import Settings
from nats3_dagster.settings.names import unknown_variables

AREA = "settings"


def check(settings: Settings) -> Iterator[Finding]:
    """Yields findings about the settings. They never show a value: some are secrets."""
    origins = settings.origins()
    yield Finding("ok", AREA, f"Settings come from: {', '.join(origins)}" if origins else "No setting is set")
    _, fault = read_owners(settings.owners)
    if fault:
        yield Finding("fail", AREA, fault.what, fault.hint)
    for name, near in unknown_variables().items():
        yield Finding("warn", AREA, f"{name} is not a setting", f"Did you mean {near}?" if near else "Unset it")
    for file in settings.secret_files():
        if who := _readers(file):
            yield Finding(
                "warn", AREA, f"{who} can read {file}, which holds a secret", "Take the permission away: chmod 600"
            )


def _readers(file: Path) -> str | None:
    """Returns the other users who can read the file; None if only its owner can. A file of a read-only file system, as
    a secret that a container gets, has the mode that its maker gave it."""
    try:
        mode, is_fixed = file.stat().st_mode, os.statvfs(file).f_flag & os.ST_RDONLY
    except OSError:
        return None
    if is_fixed or not mode & 0o077:
        return None
    return "Every user of this machine" if mode & 0o007 else "Every user of its group"


def check_transport(settings: Settings) -> Iterator[Finding]:
    """Checks the settings: a server may still ask for TLS by itself. Loopback and sockets are no network."""
    if settings.nats_url and not (options := settings.nats).wants_tls and (options.password or options.token):
        # A seed never leaves this machine: it signs what the server sends.
        for server in options.servers:
            if is_elsewhere(urlsplit(server).hostname):
                yield _unencrypted(
                    f"The NATS login may go to {urlsplit(server).hostname} unencrypted: nats:// takes TLS only if the "
                    "server asks for it",
                    "Write tls:// in NATS3_NATS_URL, or log in by a creds file",
                )
    remote = settings.connect or ""
    if ";token=" in remote and ";use_ssl=true" not in remote and is_elsewhere(host := urlsplit(remote).hostname):
        yield _unencrypted(
            f"The token of Spark Connect goes to {host} unencrypted, and so do the logins in tasks",
            "Put TLS before it, and write /;use_ssl=true in NATS3_SPARK_REMOTE; or keep it to a private network",
        )
    for host in may_be_unencrypted(settings.postgres) if settings.postgres_url else ():
        if is_elsewhere(host):
            yield _unencrypted(
                f"What goes to Postgres at {host} may be unencrypted: its sslmode does not ask for TLS",
                "Add sslmode=verify-full to NATS3_POSTGRES_URL",
            )
    for url, secret, what, hint in (
        (settings.server_url, settings.server_token, "The token of the API", "Write https:// in NATS3_SERVER_URL"),
        (
            settings.s3_endpoint,
            settings.s3_session_token,
            "The S3 session token",
            "Write https:// in AWS_ENDPOINT_URL_S3",
        ),
    ):
        if url and secret and url.startswith("http://") and is_elsewhere(host := urlsplit(url).hostname):
            yield _unencrypted(f"{what} goes to {host} unencrypted", hint)


def is_elsewhere(host: str | None) -> bool:
    """True if a connection to the host leaves this machine."""
    if not host or host.startswith("/") or host == "localhost":
        return False
    try:
        return not ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return True


def _unencrypted(what: str, hint: str) -> Finding:
    return Finding("warn", AREA, what, hint)
