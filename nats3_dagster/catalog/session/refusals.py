"""Turns errors of Postgres and libpq into nats3 errors: one line, with the next step.

Invariant: no text has the address as it was given, because a password may be in it, nor libpq's text about an address
that it cannot parse.
"""

import re
from collections.abc import Sequence
from typing import LiteralString

import psycopg
from psycopg import errors

from nats3_dagster.catalog.session.multirange import from_multirange
from nats3_dagster.errors import CatalogError, CatalogUnreachable, Conflict, Held
from nats3_dagster.steps import Next

_RUN_AGAIN = "Run it again: it then plans with what is there"
_DEFECT = "This is a defect: report it with the run's log"

# The next step by the code of a server's refusal, or by its class, which is its first two characters.
_REFUSED: dict[str, str] = {
    "28P01": "Correct the user or password in NATS3_POSTGRES_URL",
    "28": "Correct the user in NATS3_POSTGRES_URL; or allow this host, user and database in the server's pg_hba.conf",
    "3D000": "Create the database, or correct NATS3_POSTGRES_URL",
    "42501": "Grant the role CONNECT on the database",
    "53": "Raise max_connections, or end other sessions",
    "57P03": "Wait until the server is up, then run it again",
}
# What libpq says by itself has no code, and is in English.
_LIBPQ: tuple[tuple[LiteralString, LiteralString], ...] = (
    ("no password supplied", "Correct the user or password in NATS3_POSTGRES_URL"),
    ("could not translate host name|resolve host", "Correct the host in NATS3_POSTGRES_URL"),
    ("hot standby mode|session is (not )?read-only", "Name the primary server, or correct target_session_attrs there"),
    ("SSL|certificate", "Correct sslmode and the certificate files in NATS3_POSTGRES_URL"),
)
# A server's own message has its severity first, in its language.
_ANSWERED = re.compile(r"(?:^|: )[^\s:]+:  (?P<message>.+)$")


def server_answered(error: psycopg.Error) -> bool:
    """True if the server refused the connection, and was reached."""
    return any(map(_ANSWERED.search, _lines(error)))


def cannot_connect(error: psycopg.Error, where: str, sqlstate: str | None = None) -> CatalogError:
    """The error of a failed connection to `where` (host, port and database). `sqlstate`: of the server's refusal."""
    lines = _lines(error)
    for match in filter(None, map(_ANSWERED.search, lines)):
        code = sqlstate or ""
        step = _REFUSED.get(code) or _REFUSED.get(code[:2]) or "Look at NATS3_POSTGRES_URL; the server's log says more"
        told = f"{match['message']} ({code})" if code else match["message"]
        return CatalogError(f"Postgres at {where} refused the connection: {told}", step)
    message = lines[0] if lines else "no reason given"
    message = re.sub(r"^connection failed: ", "", message)
    message = re.sub(r"^connection to server at .*? failed: ", "", message)
    for pattern, hint in _LIBPQ:
        if re.search(pattern, str(error)):
            return CatalogError(f"Postgres at {where} refused the connection: {message}", hint)
    return CatalogUnreachable(
        f"Postgres at {where} is not reachable: {message}", "Start it, or correct NATS3_POSTGRES_URL"
    )


def _lines(error: psycopg.Error) -> list[str]:
    return [line.strip() for line in str(error).splitlines() if line.strip()]


def wrong_encoding(where: str, encoding: str) -> CatalogError:
    """The error of a database that is not in UTF-8: subjects and texts are."""
    return CatalogError(
        f"The database {where} has the encoding {encoding}, and the catalog needs UTF8",
        "Make one: CREATE DATABASE ... ENCODING 'UTF8' TEMPLATE template0; then name it in NATS3_POSTGRES_URL",
    )


def incomplete(where: str, missing: Sequence[str]) -> CatalogError:
    """The error of a catalog that was not restored as a whole."""
    more = f" and {len(missing) - 3:,} more" if len(missing) > 3 else ""
    return CatalogError(
        f"The catalog in {where} is without {', '.join(missing[:3])}{more}: it was not restored as a whole",
        "A dump of the schema alone is without the extension, and what needs it is not restored. Restore it into an "
        "empty database in which you run before: CREATE SCHEMA nats3; CREATE EXTENSION btree_gist SCHEMA nats3",
    )


def failed(error: psycopg.Error, where: str) -> CatalogError:
    """The error of a statement that broke no constraint of the schema."""
    message = error.diag.message_primary or (str(error).splitlines() or ["no reason given"])[0]
    match error:
        case errors.DeadlockDetected() | errors.SerializationFailure():
            return Conflict(
                f"Postgres ended this transaction for another: {message}", "Nothing was written: run it again"
            )
        case errors.QueryCanceled():
            return CatalogError(
                f"Postgres at {where} ended a statement: {message}",
                "Nothing was written. Its statement_timeout is too short, or an administrator ended it: ALTER ROLE "
                "... SET statement_timeout = 0 for the role of nats3",
            )
        case errors.LockNotAvailable():
            return Conflict(
                f"Another process holds a lock on the catalog: {message}", "Look in pg_locks for one that hangs"
            )
        case errors.UndefinedTable() | errors.UndefinedFunction() | errors.UndefinedColumn():
            return CatalogError(f"The catalog in {where} is not what this release needs: {message}", Next.MIGRATE())
        case errors.InsufficientPrivilege():
            return CatalogError(f"The role may not do this in {where}: {message}", "Grant it the schema nats3")
        case errors.ReadOnlySqlTransaction():
            return CatalogError(f"Postgres at {where} is read-only", "Name the primary server in NATS3_POSTGRES_URL")
        case errors.DiskFull() | errors.OutOfMemory():
            return CatalogError(f"Postgres at {where} is out of room: {message}", "Make room; nothing was written")
        case errors.IntegrityError() if error.diag.constraint_name == "held":
            return Held(
                f"The hold {error.diag.message_detail} keeps them: {message}",
                Next.DELETE_HOLD(archive=error.diag.message_hint, hold=error.diag.message_detail),
            )
        case errors.IntegrityError():
            return CatalogError(f"Postgres refused what breaks a rule of the catalog: {message}", _DEFECT)
        case psycopg.OperationalError():
            return CatalogError(
                f"The connection to Postgres at {where} was lost: {message}",
                "Run it again; what was not committed was not written",
            )
        case _:
            return CatalogError(f"Postgres at {where} refused a statement: {message}", _DEFECT)


def not_migrated(error: psycopg.Error, where: str, user: str, owner: str | None) -> CatalogError:
    """The error of a migration that `user` ran. `owner`: of a catalog that was there."""
    message = error.diag.message_primary or ""
    match error:
        # The text is in the server's language; the name of its function is not.
        case errors.InsufficientPrivilege() if "extension" in (error.diag.source_function or ""):
            return CatalogError(
                f"The role {user} may not create the extension btree_gist in {where}",
                "As an administrator, run there: CREATE EXTENSION btree_gist; then migrate again",
            )
        case errors.InsufficientPrivilege() if owner is not None:
            return CatalogError(
                f"The role {user} may not change the schema of the catalog in {where}: {message}",
                f"Nothing was changed. Migrate as its owner: name the role {owner} in NATS3_POSTGRES_URL",
            )
        case errors.LockNotAvailable():
            return Conflict(
                f"The catalog in {where} is in use: a transaction there did not end in time",
                "Nothing was changed. Run it again when that has ended: a dump, a load or a rebuild may take long",
            )
        case errors.InsufficientPrivilege():
            return CatalogError(
                f"The role {user} may not create the schema nats3 in {where}: {message}",
                f'As an administrator, run there: CREATE SCHEMA nats3 AUTHORIZATION "{user}"; then migrate again',
            )
        case errors.FeatureNotSupported() | errors.UndefinedFile():
            return CatalogError(
                f"Postgres at {where} has no extension btree_gist: {message}",
                Next.INSTALL_CONTRIB(),
            )
        case _:
            return failed(error, where)


def no_version(where: str) -> CatalogError:
    """The error of a database that has a catalog's tables without the row that says which version they are."""
    return CatalogError(
        f"The database {where} has the tables of a catalog, and nats3.alembic_version does not say their version",
        "Nothing was changed. Restore the database, or that table, from a backup",
    )


def broken_rule(error: psycopg.IntegrityError, archive: str) -> CatalogError:
    """The error of a commit to `archive` that broke a constraint. The rows and ranges are in Postgres' DETAIL."""
    detail = error.diag.message_detail or ""
    ranges = [str(r) for r in from_multirange(detail)]
    ours, theirs = (*ranges, "?", "?")[:2]
    match error.diag.constraint_name:
        case "chunk_no_overlap":
            return Conflict(f"Sequences {ours} of archive {archive}: a chunk of {theirs} is there already", _RUN_AGAIN)
        case "gap_no_overlap":
            return Conflict(f"Sequences {ours} of archive {archive}: a gap of {theirs} is recorded already", _RUN_AGAIN)
        case "chunk_or_gap":
            return Conflict(
                f"Archive {archive} cannot have sequences both in the chunk {ours} and in the gap {theirs}", _RUN_AGAIN
            )
        case "being_erased":
            return Conflict(
                f"Messages of archive {archive} that the hold is to keep are being erased",
                Next.FINISH_ERASURES(archive=archive),
            )
        case "not_erased":
            return Conflict(
                f"Of archive {archive} the sequences {theirs} were erased, and the chunk {ours} has them", _RUN_AGAIN
            )
        case "chunk_key":
            return Conflict(f"An object of archive {archive} is in the catalog already: {detail}", _RUN_AGAIN)
        case "chunk_object_kept":
            return Conflict(
                f"The object {detail} of archive {archive} is being deleted from the store", "Run it again after that"
            )
        case "archive_live":
            return Conflict(f"Archive {archive} was deleted", "Create it again, or stop what captures into it")
        case "covered_from_start":
            return CatalogError(f"Archive {archive} does not begin that early: {detail}", _DEFECT)
        case constraint:
            message = error.diag.message_primary
            return CatalogError(
                f"What archive {archive} was to take does not add up ({constraint}): {message}", _DEFECT
            )
