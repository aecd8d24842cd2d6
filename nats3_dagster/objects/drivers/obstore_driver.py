"""The common part of S3 and a folder: obstore reads, lists and deletes in both."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

import obstore
from obstore.exceptions import BaseError
from obstore.store import LocalStore, S3Store

from nats3_dagster.errors import StoreError
from nats3_dagster.objects import faults
from nats3_dagster.objects.answers import ListedObject, ObjectInfo
from nats3_dagster.objects.pages import pages
from nats3_dagster.objects.retries import again
from nats3_dagster.objects.store_options import StoreOptions

if TYPE_CHECKING:
    from nats3_dagster.objects.foreign_keys import Listing

AnswerT = TypeVar("AnswerT")


class ObstoreDriver(ABC):
    """The methods of Driver that are the same in both."""

    def __init__(self, options: StoreOptions, where: faults.Place) -> None:
        self._options, self._where = options, where

    @abstractmethod
    def _open(self) -> LocalStore | S3Store:
        """The client, which is kept."""

    @abstractmethod
    def _require(self) -> None:
        """Raises StoreError when the bucket does not exist."""

    @abstractmethod
    def _info(self, key: str, size: int, etag: str | None) -> ObjectInfo:
        """The answer to a HEAD. Raises StoreError where the store cannot have given it."""

    def get(self, key: str, most: int | None) -> memoryview:
        with self._faults(key):
            return self._ask(lambda: self._read(key, most))

    def get_range(self, key: str, start: int, length: int) -> memoryview:
        with self._faults(key):
            try:
                return self._ask(lambda: memoryview(obstore.get_range(self._store, key, start=start, length=length)))
            except BaseError as error:
                if "InvalidRange" not in str(error):
                    raise
                return memoryview(b"")

    def head(self, key: str) -> ObjectInfo:
        with self._faults(key):
            return self._head(key)

    def is_there(self, key: str) -> bool:
        with self._faults(key):
            try:
                return bool(self._head(key))
            except FileNotFoundError:
                return False

    def listed(self, prefix: str) -> Iterator[ListedObject]:
        with self._faults(prefix):
            for page in pages(self._store, prefix, self._options.patience_s, self._foreign(prefix)):
                yield from (ListedObject(item["path"], item["size"], item["last_modified"]) for item in page)

    def delete(self, key: str) -> None:
        with self._faults(key):
            try:
                self._ask(lambda: obstore.delete(self._store, key))
            except FileNotFoundError:
                self._require()

    @cached_property
    def _store(self) -> LocalStore | S3Store:
        return self._open()

    def _foreign(self, prefix: str) -> "Listing | None":
        """The listing that goes on where there are keys which obstore does not take; None where there are none."""
        return None

    def _read(self, key: str, most: int | None) -> memoryview:
        answer = obstore.get(self._store, key)
        if most is not None and answer.meta["size"] > most:
            raise faults.too_large(self._where, key, answer.meta["size"], most)
        return memoryview(answer.bytes())

    def _head(self, key: str) -> ObjectInfo:
        answer = self._ask(lambda: obstore.head(self._store, key))
        etag = answer["e_tag"]
        return self._info(key, answer["size"], etag.strip('"') if etag else etag)

    def _faults(self, key: str) -> AbstractContextManager[None]:
        def missing() -> StoreError:
            with self._faults(key):
                self._require()
            return faults.object_missing(self._where, key)

        return faults.translated(self._where, key, missing=missing, explained=self._explained)

    def _explained(self, text: str) -> StoreError:
        return faults.explain(self._where, text)

    def _ask(self, request: Callable[[], AnswerT]) -> AnswerT:
        return again(request, self._options.patience_s)
