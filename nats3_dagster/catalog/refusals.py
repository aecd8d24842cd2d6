"""Turns errors of Postgres and libpq into nats3 errors: one line, with the next step.

Invariant: no text has the address as it was given, because a password may be in it, nor libpq's text about an address
that it cannot parse.
"""

import re
from typing import LiteralString

import psycopg
from psycopg import errors

from nats3_dagster.catalog.multirange import from_multirange
from nats3_dagster.errors import CatalogError, CatalogUnreachable, Conflict, Held
from nats3_dagster.steps import Next

_RUN_AGAIN = "Run it again: it then plans with what is there"
_DEFECT = "This is a defect: report it with the run's log"

# Errors of libpq while connecting have no SQLSTATE: they are known by their words.
_CONNECTING: tuple[tuple[LiteralString, LiteralString], ...] = (
    ("no password supplied|authentication failed", "Correct the user or password in NATS3_POSTGRES_URL"),
    ("no pg_hba.conf entry", "Allow this host, user and database in the server's pg_hba.conf"),
    (r'database ".*" does not exist', "Create the database, or correct NATS3_POSTGRES_URL"),
    (r'role ".*" does not exist', "Create the role, or correct the user in NATS3_POSTGRES_URL"),
    ("starting up|shutting down|recovery mode", "Wait until the server is up, then run it again"),
    ("too many|remaining connection slots", "Raise max_connections, or end other sessions"),
    ("could not translate host name|resolve host", "Correct the host in NATS3_POSTGRES_URL"),
    ("SSL|certificate", "Correct sslmode and the certificate files in NATS3_POSTGRES_URL"),
)


def cannot_connect(error: psycopg.Error, where: str) -> CatalogError:
    """The error of a failed connection to `where` (host, port and database)."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    # The server's own message, else the first line of what libpq tried.
    message = next((line for line in lines if "FATAL:" in line), lines[0] if lines else "no reason given")
    message = message.rpartition("FATAL:")[2].strip() or message
    message = re.sub(r"^connection failed: |^connection to server at .*? failed: ", "", message)
    message = re.sub(r"^connection to server at .*? failed: ", "", message)
    for pattern, hint in _CONNECTING:
        if re.search(pattern, str(error)):
            return CatalogError(f"Postgres at {where} refused the connection: {message}", hint)
    return CatalogUnreachable(
        f"Postgres at {where} is not reachable: {message}", "Start it, or correct NATS3_POSTGRES_URL"
    )


def failed(error: psycopg.Error, where: str) -> CatalogError:
    """The error of a statement that broke no constraint of the schema."""
    message = error.diag.message_primary or (str(error).splitlines() or ["no reason given"])[0]
    match error:
        case errors.DeadlockDetected() | errors.SerializationFailure():
            return Conflict(
                f"Postgres ended this transaction for another: {message}", "Nothing was written: run it again"
            )
        case errors.LockNotAvailable() | errors.QueryCanceled():
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


def not_migrated(error: psycopg.Error, where: str, user: str) -> CatalogError:
    """The error of a migration that `user` ran."""
    message = error.diag.message_primary or ""
    match error:
        case errors.InsufficientPrivilege() if "extension" in message:
            return CatalogError(
                f"The role {user} may not create the extension btree_gist in {where}",
                "As an administrator, run there: CREATE EXTENSION btree_gist; then migrate again",
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
