"""A role of Postgres that may do nothing."""

from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import psycopg
from psycopg import sql

ROLE, PASSWORD = "test worker", "of-a-worker"


@contextmanager
def role(url: str) -> Iterator[str]:
    """A role that may log in and nothing else; the URL by which it does."""
    with psycopg.connect(url, autocommit=True) as owner:
        name = sql.Identifier(ROLE)
        owner.execute(sql.SQL("create role {} login password {}").format(name, sql.Literal(PASSWORD)))
        try:
            yield as_role(url)
        finally:
            owner.execute(sql.SQL("drop owned by {}").format(name))
            owner.execute(sql.SQL("drop role {}").format(name))


def as_role(url: str) -> str:
    at = urlsplit(url)
    return at._replace(netloc=f"{ROLE.replace(' ', '%20')}:{PASSWORD}@{at.hostname}:{at.port}").geturl()
