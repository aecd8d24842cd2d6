"""The resources of a use case: the catalog, the connection to NATS and the buckets, each opened when first asked
for."""

from collections.abc import Sequence
from contextlib import ExitStack
from threading import Lock
from typing import TYPE_CHECKING, Self

from nats3_dagster.catalog import Catalog
from nats3_dagster.catalog import grant as grant_catalog
from nats3_dagster.catalog import migrate as migrate_catalog
from nats3_dagster.catalog.session.schema import VERSION
from nats3_dagster.objects import Bucket
from nats3_dagster.settings import Settings

if TYPE_CHECKING:
    from nats3_dagster.chunks.footer_cache import FooterCache
    from nats3_dagster.jetstream.link import Link


class Workspace:
    """`with Workspace(settings) as workspace: ...`. It closes what it opened.

    Safe to use from several threads; not to be carried over a fork, nor to a Spark worker."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        # One for each: a wait for NATS keeps no caller from the catalog.
        self._catalog_lock, self._link_lock, self._bucket_lock = Lock(), Lock(), Lock()
        self._opened, self._link_opened = ExitStack(), ExitStack()
        self._catalog: Catalog | None = None
        self._link: Link | None = None
        self._buckets: dict[str, Bucket] = {}
        self._footers: FooterCache | None = None

    @property
    def catalog(self) -> Catalog:
        """Raises CatalogError when Postgres or its schema is not usable, OperatorError when its address is not set."""
        with self._catalog_lock:
            if self._catalog is None:
                self._catalog = self._opened.enter_context(Catalog.connect(self.settings.postgres))
            return self._catalog

    @property
    def link(self) -> "Link":
        """A new one where the one before is closed for good: its server was away. Raises SourceError when NATS is not
        reachable, OperatorError when its address is not set."""
        # It imports nats and numpy, 0.13 s: a load of the definitions and many a command ask the catalog only.
        from nats3_dagster.jetstream.link import Link

        with self._link_lock:
            if self._link is None or self._link.is_closed:
                self._link_opened.close()
                self._link = self._link_opened.enter_context(Link(self.settings.nats))
            return self._link

    def bucket(self, name: str) -> Bucket:
        """Returns one object for each name, for all callers. It connects when it is first used."""
        with self._bucket_lock:
            if name not in self._buckets:
                self._buckets[name] = Bucket(self.settings.store, name)
            return self._buckets[name]

    @property
    def footers(self) -> "FooterCache":
        """Returns the footers of chunks that any caller has read. Bounded in memory."""
        # It imports pyarrow, 0.2 s: a command that asks the catalog only does not need it.
        from nats3_dagster.chunks.footer_cache import FooterCache

        with self._bucket_lock:
            if self._footers is None:
                self._footers = FooterCache()
            return self._footers

    def close(self) -> None:
        self._link_opened.close()
        self._opened.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def migrate(settings: Settings) -> str:
    """Bring the catalog to this release's schema; its version. Raises CatalogError."""
    migrate_catalog(settings.postgres)
    return VERSION


def grant(settings: Settings, role: str, dagster: Sequence[str]) -> None:
    """Let a role of Postgres use the catalog and these tables of Dagster, and change neither. Raises OperatorError,
    CatalogError."""
    grant_catalog(settings.postgres, role, dagster)
