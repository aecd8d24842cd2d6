"""An outlet: where the files of exports go, in whatever store. Unlike the objects of a Bucket, a file may be replaced.

Invariant: a file is replaced at once and whole: a reader sees the old file or the new one.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final, TypeVar

import obstore
from obstore.exceptions import AlreadyExistsError
from obstore.store import LocalStore, S3Store

from nats3_dagster.errors import ObjectMissing, StoreError
from nats3_dagster.objects import faults, files, foreign_keys
from nats3_dagster.objects.clouds import CloudBucket, open_cloud
from nats3_dagster.objects.pages import pages
from nats3_dagster.objects.retries import Passing, again, of_obstore
from nats3_dagster.objects.s3_puts import S3Puts
from nats3_dagster.objects.s3_store import s3_store
from nats3_dagster.objects.store_options import StoreOptions

AnswerT = TypeVar("AnswerT")
_SILENCE_S: Final = 120.0
_PATIENCE_S: Final = 10.0  # of other stores than S3


@dataclass(frozen=True, slots=True)
class OutletOptions:
    """A destination, and how to reach it."""

    scheme: str  # s3, gs, az or file
    bucket: str  # bucket or container; empty for a folder
    prefix: str  # without slashes at its ends; of a folder its absolute path
    s3: StoreOptions | None = None  # endpoint and credentials of s3

    @property
    def name(self) -> str:
        """The bucket's name as archives name it: with the scheme of its cloud."""
        return f"{self.scheme}://{self.bucket}" if self.scheme in ("gs", "az") else self.bucket


class Outlet:
    """The files below a destination, by their paths from there. Every method raises StoreError."""

    def __init__(self, options: OutletOptions) -> None:
        self._options = options
        self._root = Path(options.prefix) if options.scheme == "file" else None
        self._cloud: CloudBucket | None = None
        if options.scheme in ("gs", "az"):
            self._where = faults.Place(StoreOptions().of(options.name).place, options.name)
            self._cloud = open_cloud(options.scheme, self._where, _PATIENCE_S)
        else:
            place = options.s3.place if options.s3 else "the folder"
            self._where = faults.Place(place, options.bucket or "folder")

    def put(self, path: str, data: bytes) -> None:
        """Write the file, in the place of what is there."""
        with self._faults(path):
            if self._root is not None:
                files.replace(self._root, path, memoryview(data))
            elif self._cloud is not None:
                self._cloud.put(self._key(path), memoryview(data), is_new=False)
            else:
                self._put(path, data, is_new=False)

    def create(self, path: str, data: bytes) -> bool:
        """Write the file where there is none. False where there is one, whatever it holds: also where the answer to an
        earlier try of this call was lost."""
        with self._faults(path):
            if self._root is not None:
                return files.create(self._root, path, memoryview(data))
            if self._cloud is not None:
                return self._cloud.put(self._key(path), memoryview(data), is_new=True)
            try:
                self._put(path, data, is_new=True)
            except AlreadyExistsError as error:
                if of_obstore(error) is not Passing.NEVER:  # it conflicts with another request, to the end
                    raise
                return False
            return True

    def get(self, path: str) -> bytes | None:
        """The whole file; None where there is none."""
        with self._faults(path):
            if self._cloud is not None:
                return _unless_missing(self._cloud.get, self._key(path))
            try:
                return self._ask(lambda: bytes(obstore.get(self._store, self._key(path)).bytes()))
            except FileNotFoundError as error:
                self._missing(error)
                return None

    def size(self, path: str) -> int | None:
        """Bytes; None where there is no such file."""
        with self._faults(path):
            if self._cloud is not None:
                info = _unless_missing(self._cloud.head, self._key(path))
                return None if info is None else info.size
            try:
                return self._ask(lambda: int(obstore.head(self._store, self._key(path))["size"]))
            except FileNotFoundError as error:
                self._missing(error)
                return None

    def move(self, source: str, target: str) -> None:
        """Put a file in the place of another one."""
        with self._faults(source):
            if self._root is not None:
                files.move(self._root, source, target)
            elif self._cloud is not None:
                # A file was whole in memory when it was put; a copy in the cloud may end after its answer.
                if (data := _unless_missing(self._cloud.get, self._key(source))) is None:
                    raise _gone(source)
                self._cloud.put(self._key(target), memoryview(data), is_new=False)
                self._cloud.delete(self._key(source))
            else:
                self._ask(lambda: obstore.copy(self._store, self._key(source), self._key(target)))
                self._prove_copy(self._key(source), self._key(target))
                # A delete whose first answer was lost finds nothing.
                with suppress(FileNotFoundError):
                    self._ask(lambda: obstore.delete(self._store, self._key(source)))

    def list(self, prefix: str) -> Iterator[str]:
        """The paths of the files under `prefix`, whole parts of a path."""
        cut, s3 = len(self._key("")), self._options.s3
        foreign = foreign_keys.listing(s3, self._where, self._key(prefix)) if s3 else None
        with self._faults(prefix):
            if self._root is not None and not self._root.is_dir():
                return
            if self._cloud is not None:
                for one in self._cloud.list(foreign_keys.folder_prefix(self._key(prefix))):
                    yield one.key[cut:]
                return
            for page in pages(self._store, self._key(prefix), self._patience_s, foreign):
                for item in page:
                    yield item["path"][cut:]

    def delete(self, path: str) -> None:
        """Remove the file; one that is not there is as good as removed."""
        with self._faults(path):
            if self._root is not None:
                files.remove(self._root, path)
                return
            if self._cloud is not None:
                self._cloud.delete(self._key(path))
                return
            try:
                self._ask(lambda: obstore.delete(self._store, self._key(path)))
            except FileNotFoundError as error:
                self._missing(error)

    def _put(self, path: str, data: bytes, *, is_new: bool) -> None:
        self._puts.put(self._key(path), data, is_new=is_new)

    def _prove_copy(self, source: str, target: str) -> None:
        """Raises StoreError unless the target has the bytes of the source. S3 may say 200 to a copy and name an error
        in the body, which obstore takes for a success."""
        sides = [self._ask(lambda key=key: obstore.head(self._store, key)) for key in (source, target)]
        one, other = ((side["size"], side["e_tag"]) for side in sides)
        if one == other and one[1]:
            return
        reads = (self._ask(lambda key=key: bytes(obstore.get(self._store, key).bytes())) for key in (source, target))
        if len({*reads}) > 1:
            raise StoreError(
                f"{self._where.place} said that {source} was copied to {target}, and it was not",
                "Nothing was deleted; run the export again, and look at the store's own log",
            )

    def _ask(self, request: Callable[[], AnswerT]) -> AnswerT:
        return again(request, self._patience_s)

    def _key(self, path: str) -> str:
        prefix = self._options.prefix if self._root is None else ""
        return f"{prefix}/{path}" if prefix else path

    def _missing(self, error: FileNotFoundError) -> None:
        """Raises StoreError where it is the bucket that does not exist."""
        if faults.is_of_bucket(error):
            raise faults.bucket_missing(self._where) from error

    def _faults(self, path: str) -> AbstractContextManager[None]:
        return faults.translated(self._where, path, missing=lambda: _gone(path), explained=self._explained)

    def _explained(self, text: str) -> StoreError:
        if self._options.scheme == "s3":
            return faults.explain(self._where, text)
        if self._root is not None and (number := re.search(r"os error (\d+)", text)):
            return faults.system_fault(self._where, OSError(int(number[1]), ""))
        return StoreError("The folder cannot be used", "Look at the folder")

    @property
    def _patience_s(self) -> float:
        return self._options.s3.patience_s if self._options.s3 else _PATIENCE_S

    @cached_property
    def _puts(self) -> S3Puts:
        return S3Puts(self._s3, self._where, _SILENCE_S)

    @cached_property
    def _store(self) -> LocalStore | S3Store:
        if self._root is not None:
            self._root.mkdir(parents=True, exist_ok=True)
            return LocalStore(self._root)
        return s3_store(self._s3, self._where, _SILENCE_S)

    @property
    def _s3(self) -> StoreOptions:
        return self._options.s3 or StoreOptions()


def _unless_missing(ask: Callable[[str], AnswerT], key: str) -> AnswerT | None:
    """The answer about an object, None where there is none."""
    try:
        return ask(key)
    except ObjectMissing:
        return None


def _gone(path: str) -> StoreError:
    return StoreError(f"{path} is not at the destination any more", "Run the export again")
