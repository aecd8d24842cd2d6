"""Exports that are declared as code: made when they are first needed, and compared with the catalog each time.

Invariant: a declaration changes nothing that the catalog has, and makes nothing again that somebody deleted.
"""

from collections.abc import Sequence

from nats3_dagster.errors import Conflict, OperatorError
from nats3_dagster.exports.declare import check, differences
from nats3_dagster.model import Archive, ExportSpec
from nats3_dagster.workspace import Workspace


def settle_exports(workspace: Workspace, archive: Archive, declared: Sequence[ExportSpec]) -> None:
    """Create those of the declared exports that the archive never had. Raises OperatorError where the catalog has other
    settings, or had an export of this name that was deleted, and for one that cannot run."""
    exports = workspace.catalog.exports
    existing = {one.name: one.spec for one in exports.all(archive)}
    for spec in declared:
        if spec.name not in existing:
            if spec.name in exports.former_of(archive):
                raise OperatorError(
                    f"Export {spec.name} of archive {archive.name} is declared, and was deleted",
                    f"Take {spec.name} out of the declaration, or give it another name",
                )
            check(workspace, archive, spec)
            try:
                existing[spec.name] = exports.create(archive, spec).spec
            except Conflict:
                found = exports.find(archive, spec.name)
                if found is None:
                    raise
                existing[spec.name] = found.spec  # another process was faster
        if found := differences(existing[spec.name], spec):
            texts = [f"{one.field} is {one.old!r}, and {one.new!r} is declared" for one in found]
            raise OperatorError(
                f"Export {spec.name} of archive {archive.name} is not as declared: {'; '.join(texts)}",
                "Declare what the catalog has, or change the export to what is declared",
            )
