"""Archives that are declared as code: made when they are first needed, and compared with the catalog each time.

Invariant: a declaration changes nothing that the catalog has, and does not create anything again that was deleted.
"""

from nats3_dagster.archive.lifecycle.change import differences
from nats3_dagster.archive.lifecycle.create import create
from nats3_dagster.errors import Conflict, OperatorError
from nats3_dagster.model import Archive, Declaration
from nats3_dagster.steps import Next
from nats3_dagster.workspace import Workspace


def ensure_declared(workspace: Workspace, declaration: Declaration) -> Archive:
    """The archive as declared; created where there is none. Raises OperatorError where the catalog has other settings,
    or had an archive of this name that was deleted, and what `create` raises."""
    name = declaration.spec.name
    archive = workspace.catalog.archives.find(name)
    if archive is None:
        if name in workspace.catalog.archives.deleted_names()[0]:
            raise OperatorError(
                f"Archive {name} is declared, and was deleted", Next.DECLARE_NO_MORE_OR_CREATE(archive=name)
            )
        try:
            archive = create(workspace, declaration.spec, create_bucket=declaration.create_bucket)
        except Conflict:
            # Another process was faster.
            archive = workspace.catalog.archives.find(name)
            if archive is None:
                raise
    written = {field: getattr(declaration.spec, field) for field in sorted(declaration.given)}
    if found := differences(archive, written):
        texts = [f"{one.field} is {_text(one.old)}, and {_text(one.new)} is declared" for one in found]
        raise OperatorError(
            f"Archive {name} is not as declared: {'; '.join(texts)}", Next.DECLARE_OR_CHANGE(archive=name)
        )
    return archive


def _text(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(value) or "every subject"  # pyright: ignore[reportUnknownArgumentType]
    return str(value) if value != "" else "empty"
