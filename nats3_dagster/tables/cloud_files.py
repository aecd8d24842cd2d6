"""Files of tables in Google's and Azure's stores, for pyiceberg: by the client and the login of the chunks. What is in
another store goes pyiceberg's own way.

Invariant: a file is written whole when it is closed, and one that is to be new never replaces another one.
"""

import hashlib
import io
import re
from types import TracebackType
from typing import Final

from pyiceberg.io import InputFile, OutputFile
from pyiceberg.io.pyarrow import PyArrowFileIO

from nats3_dagster.errors import ObjectMissing
from nats3_dagster.objects import Bucket, StoreOptions

# `gs://bucket/key`, and `abfss://container@account.dfs.core.windows.net/key`.
_LOCATION: Final = re.compile(r"(?:(gs)://([^/@]+)|(abfss)://([^/@]+)@[^/]+)/(.+)", re.DOTALL)


class CloudFiles(PyArrowFileIO):
    """A FileIO like pyiceberg's own, but for the two clouds."""

    def new_input(self, location: str) -> InputFile:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The file to read."""
        file = _file(location)
        return super().new_input(location) if file is None else file

    def new_output(self, location: str) -> OutputFile:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The file to write."""
        file = _file(location)
        return super().new_output(location) if file is None else file

    def delete(self, location: str | InputFile | OutputFile) -> None:
        """Delete a file. Raises FileNotFoundError where there is none."""
        text = location if isinstance(location, str) else location.location
        if (file := _file(text)) is not None:
            if not file.exists():
                raise FileNotFoundError(text)
            file.bucket.delete(file.key)
        else:
            super().delete(text)


class _CloudFile(InputFile, OutputFile):
    """An object of a cloud."""

    def __init__(self, location: str, bucket: Bucket, key: str) -> None:
        super().__init__(location)
        self.bucket, self.key = bucket, key

    def __len__(self) -> int:
        return self.bucket.head(self.key).size

    def exists(self) -> bool:
        return self.bucket.exists(self.key)

    def open(self, seekable: bool = True) -> io.BytesIO:  # pyright: ignore[reportIncompatibleMethodOverride]
        try:
            return io.BytesIO(self.bucket.get(self.key))
        except ObjectMissing as error:
            raise FileNotFoundError(self.location) from error

    def to_input_file(self) -> "_CloudFile":
        return self

    def create(self, overwrite: bool = False) -> "_Upload":  # pyright: ignore[reportIncompatibleMethodOverride]
        return _Upload(self, overwrite=overwrite)


class _Upload(io.BytesIO):
    """The bytes of a file on their way. Nothing is written where its block raises."""

    def __init__(self, file: _CloudFile, *, overwrite: bool) -> None:
        super().__init__()
        self._file, self._overwrite, self._failed = file, overwrite, False

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._failed = kind is not None
        self.close()

    def close(self) -> None:
        if self.closed:
            return
        data, file = self.getvalue(), self._file
        super().close()
        if self._failed:
            return
        if self._overwrite:
            file.bucket.put_again(file.key, data, hashlib.sha256(data).hexdigest())
        elif not file.bucket.create(file.key, data):
            raise FileExistsError(file.location)


def _file(location: str) -> _CloudFile | None:
    """The file, if it is in one of the two clouds."""
    match = _LOCATION.fullmatch(location)
    if match is None:
        return None
    name = f"gs://{match[2]}" if match[1] else f"az://{match[4]}"
    return _CloudFile(location, Bucket(StoreOptions(), name), match[5])
