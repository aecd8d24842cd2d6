"""Moving a catalog: the whole of it as one file, and back.

Invariant: a file is there with all of the catalog, or not at all; and it replaces none.
"""

import os
from pathlib import Path

from nats3_dagster.catalog.recovery.dump import Dumped
from nats3_dagster.catalog.recovery.dump import dump as dump_catalog
from nats3_dagster.catalog.recovery.dump import load as load_catalog
from nats3_dagster.errors import OperatorError
from nats3_dagster.plausible import PATH, check
from nats3_dagster.settings import Settings


def dump(settings: Settings, file_path: str) -> Dumped:
    """Write the catalog into a new file, which only its owner may read. Raises OperatorError if there is such a file,
    it cannot be written, or the path is a secret or an address; CatalogError."""
    # A Path would not be the text any more: it has one slash of the two in an address.
    path = Path(check("FILE", file_path, PATH))
    part = path.with_name(f"{path.name}.part")
    if path.exists():
        raise OperatorError(f"There is a file {path} already", "Give the dump another name, or remove that file")
    try:
        part.touch(mode=0o600)
        with part.open("wb") as file:
            dumped = dump_catalog(settings.postgres, file)
            file.flush()
            os.fsync(file.fileno())
        os.link(part, path)
    except OSError as error:
        raise OperatorError(f"The dump {path} was not written: {error.strerror}", "Give a file that can be") from error
    finally:
        part.unlink(missing_ok=True)
    return dumped


def load(settings: Settings, file_path: str) -> Dumped:
    """Put the content of a dump into an empty catalog. Raises OperatorError if there is no such file, or the path
    is a secret or an address; Conflict if the catalog is not empty, CatalogError."""
    path = Path(check("FILE", file_path, PATH))
    try:
        file = path.open("rb")
    except OSError as error:
        raise OperatorError(
            f"The dump {path} cannot be read: {error.strerror}", "Give a file that is a dump"
        ) from error
    with file:
        return load_catalog(settings.postgres, file)
