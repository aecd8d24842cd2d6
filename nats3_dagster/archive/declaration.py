"""Archives that are declared as code: made when they are first needed, and compared with the catalog each time.

Invariant: a declaration changes nothing that the catalog has, and makes nothing again that somebody deleted.
"""

from nats3_dagster.archive.create import create
from nats3_dagster.archive.status import find_or_none, former
from nats3_dagster.errors import Conflict, OperatorError
from nats3_dagster.model import Archive, ArchiveSpec, Declaration
from nats3_dagster.steps import Next
from nats3_dagster.workspace import Workspace


def settle(workspace: Workspace, declaration: Declaration) -> Archive:
    """The archive as declared; created where there is none. Raises OperatorError where the catalog has other settings,
    or had an archive of this name that was deleted, and what `create` raises."""
    name = declaration.spec.name
    archive = find_or_none(workspace, name)
    if archive is None:
        if name in former(workspace)[0]:
            raise OperatorError(
                f"Archive {name} is declared, and was deleted", Next.DECLARE_NO_MORE_OR_CREATE(archive=name)
            )
        try:
            archive = create(workspace, declaration.spec, create_bucket=declaration.create_bucket)
        except Conflict:
            # Another process was faster.
            archive = find_or_none(workspace, name)
            if archive is None:
                raise
    if differing := differences(declaration, archive.spec):
        raise OperatorError(
            f"Archive {name} is not as declared: {'; '.join(differing)}", Next.DECLARE_OR_CHANGE(archive=name)
        )
    return archive


def differences(declaration: Declaration, spec: ArchiveSpec) -> list[str]:
    """What is written otherwise than the catalog has it, each in words."""
    wanted = declaration.spec
    return [
        f"{name} is {_text(getattr(spec, name))}, and {_text(getattr(wanted, name))} is declared"
        for name in sorted(declaration.given)
        if _comparable(getattr(wanted, name)) != _comparable(getattr(spec, name))
    ]


def _comparable(value: object) -> object:
    """Filters are a set; `>` among them is every subject."""
    if not isinstance(value, tuple):
        return value
    filters = frozenset[str](value)  # pyright: ignore[reportUnknownArgumentType]
    return frozenset[str]() if ">" in filters else filters


def _text(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(value) or "every subject"  # pyright: ignore[reportUnknownArgumentType]
    return str(value) if value != "" else "empty"
