"""The catalog as one object: a session with Postgres, and a part for each kind of thing that it keeps."""

from collections.abc import Generator
from contextlib import contextmanager
from datetime import datetime
from typing import Self

from nats3_dagster.catalog.archives.account_restores import AccountRestores
from nats3_dagster.catalog.archives.accounts import Accounts
from nats3_dagster.catalog.archives.archives import Archives
from nats3_dagster.catalog.archives.durables import Durables
from nats3_dagster.catalog.archives.history import History
from nats3_dagster.catalog.archives.imports import Imports
from nats3_dagster.catalog.archives.measures import Measures
from nats3_dagster.catalog.contents.chunk_sums import ChunkSums
from nats3_dagster.catalog.contents.chunks import Chunks
from nats3_dagster.catalog.contents.consumers import Consumers
from nats3_dagster.catalog.contents.coverage import Coverages
from nats3_dagster.catalog.contents.gaps import Gaps
from nats3_dagster.catalog.contents.hours import Hours
from nats3_dagster.catalog.contents.points import Points
from nats3_dagster.catalog.contents.seals import Seals
from nats3_dagster.catalog.contents.subjects import Subjects
from nats3_dagster.catalog.outputs.archive_tables import ArchiveTables
from nats3_dagster.catalog.outputs.exports import Exports
from nats3_dagster.catalog.recovery.rebuilds import Rebuilds
from nats3_dagster.catalog.removal.cleaning import Cleaning
from nats3_dagster.catalog.removal.compaction import Compaction
from nats3_dagster.catalog.removal.copies import Copies
from nats3_dagster.catalog.removal.erasures import Erasures
from nats3_dagster.catalog.removal.expiry import Expiry
from nats3_dagster.catalog.removal.holds import Holds
from nats3_dagster.catalog.removal.removals import Removals
from nats3_dagster.catalog.replays.launches import Launches
from nats3_dagster.catalog.replays.replay_chunks import ReplayChunks
from nats3_dagster.catalog.replays.replays import Replays
from nats3_dagster.catalog.session.locks import Locks
from nats3_dagster.catalog.session.pool import Session
from nats3_dagster.catalog.session.run_locks import RunLocks


class Catalog:
    """`with Catalog.connect(url) as catalog: catalog.chunks.of_hour(...)`.

    Every call raises CatalogError when Postgres does not do it. Several threads may use one catalog."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.accounts = Accounts(session)
        self.account_restores = AccountRestores(session)
        self.imports = Imports(session)
        self.coverage = Coverages(session)
        self.archives = Archives(session, self.coverage)
        self.chunks = Chunks(session)
        self.chunk_sums = ChunkSums(session)
        self.cleaning = Cleaning(session)
        self.compaction = Compaction(session, self.chunks)
        self.consumers = Consumers(session)
        self.copies = Copies(session)
        self.durables = Durables(session)
        self.erasures = Erasures(session, self.chunks)
        self.gaps = Gaps(session)
        self.history = History(session)
        self.holds = Holds(session)
        self.expiry = Expiry(session)
        self.hours = Hours(session)
        self.locks = Locks(session)
        self.measures = Measures(session)
        self.points = Points(session)
        self.removals = Removals(session)
        self.run_locks = RunLocks(session)
        self.seals = Seals(session, self.hours)
        self.subjects = Subjects(session)
        self.replays = Replays(session)
        self.replay_chunks = ReplayChunks(session)
        self.launches = Launches(session, self.replays)
        self.exports = Exports(session)
        self.tables = ArchiveTables(session)
        self.rebuilds = Rebuilds(session)

    @classmethod
    def connect(cls, url: str) -> Self:
        """Connect and check the schema's version. Raises CatalogError."""
        return cls(Session(url))

    def now(self) -> datetime:
        """The time by Postgres' clock, in UTC."""
        with self.session.reading() as sql:
            return sql.value(datetime, "now")

    def rest(self) -> None:
        """Close the connections until the next call: for one that waits long."""
        self.session.rest()

    @contextmanager
    def together(self) -> Generator[None]:
        """Calls of this thread inside share one connection, which is asked only once whether it still answers."""
        with self.session.reading():
            yield

    def close(self) -> None:
        self.session.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
