"""The exports that the catalog has and had, by the keys of their assets."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dagster import AssetKey

from nats3_dagster.defs.keys import Naming
from nats3_dagster.exports.status import all_exports, former
from nats3_dagster.model import Archive
from nats3_dagster.model.exported import Export
from nats3_dagster.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Exports:
    """Those of all archives."""

    naming: Naming
    # By archive id.
    live: Mapping[int, Sequence[Export]]

    @classmethod
    def read(cls, workspace: Workspace, naming: Naming) -> "Exports":
        live: dict[int, list[Export]] = {}
        for export in all_exports(workspace):
            live.setdefault(export.archive_id, []).append(export)
        return cls(naming, live)

    def of(self, archive: Archive) -> Sequence[Export]:
        return self.live.get(archive.id, ())

    def keys(self, archive: Archive) -> list[AssetKey]:
        return [self.naming.export_key(archive.name, export.name) for export in self.of(archive)]


def gone_exports(workspace: Workspace, naming: Naming) -> list[AssetKey]:
    """The keys of exports that were deleted, also of those that there are again."""
    return [naming.export_key(archive, name) for archive, name in sorted(former(workspace))]
