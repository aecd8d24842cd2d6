"""The manifest of an exported hour: which files there are, and which there may be while a run replaces them.

Invariant: an export's file at the destination is in the manifest of its hour, even if any process died at any step. So
the files of an earlier run are found and removed without a listing, and no other program's file is touched.
"""

import hashlib
import json
from dataclasses import asdict, dataclass

from nats3_dagster.errors import StoreError
from nats3_dagster.exports.job import ExportFile, own_folder
from nats3_dagster.exports.paths import hour_name
from nats3_dagster.objects import Outlet

_VERSION = 1


@dataclass(frozen=True, slots=True)
class ExportManifest:
    """The result of a run of an hour."""

    archive: str
    export: str
    # YYYY-MM-DD-HH:00, UTC.
    hour: str
    # Whether the files are all there and nothing else; else a run was replacing them, and any may be there.
    is_done: bool
    files: tuple[ExportFile, ...]
    messages: int = 0
    dropped: int = 0
    undecoded: int = 0

    @property
    def content(self) -> str:
        """The version of the files: 16 hex digits that change with their paths and bytes alone."""
        return hashlib.sha256(json.dumps([(f.path, f.sha256) for f in self.files]).encode()).hexdigest()[:16]

    def encode(self) -> bytes:
        """The same bytes for the same content."""
        document = {"version": _VERSION} | asdict(self) | {"files": [file._asdict() for file in self.files]}
        return json.dumps(document, indent=1).encode() + b"\n"


def manifest_path(archive: str, export: str, hour: str) -> str:
    """`_exports/<archive>/<export>/2026-11-22-14.json`, below the place."""
    return f"{own_folder(archive, export)}/{hour_name(hour)}.json"


def read_manifest(outlet: Outlet, archive: str, export: str, hour: str) -> ExportManifest | None:
    """The manifest of the hour; None where it was never exported. Raises StoreError."""
    path = manifest_path(archive, export, hour)
    if (data := outlet.get(path)) is None:
        return None
    try:
        document = json.loads(data)
        if document.pop("version") != _VERSION:
            raise ValueError(_VERSION)
        files = tuple(ExportFile(**file) for file in document.pop("files"))
        manifest = ExportManifest(**document, files=files)
        if (manifest.archive, manifest.export, manifest.hour) != (archive, export, hour):
            raise ValueError(manifest.export)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise StoreError(
            f"{path} at the destination is not a manifest of this export",
            "Remove it and the files of the hour, then run the export again",
        ) from None
    return manifest
