"""Long-term memory for NATS JetStream."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from nats3_dagster.version import __version__

if TYPE_CHECKING:
    from nats3_dagster.account import Account
    from nats3_dagster.defs.assets.frames import ArchiveIOManager, ArchiveResource
    from nats3_dagster.defs.project.component import (
        AccountRuleDeclaration,
        ArchiveComponent,
        ArchiveDeclaration,
        build_archive_definitions,
    )
    from nats3_dagster.library import Archive
    from nats3_dagster.model.account_rule import AccountRule


__all__ = [
    "Account",
    "AccountRule",
    "AccountRuleDeclaration",
    "Archive",
    "ArchiveComponent",
    "ArchiveDeclaration",
    "ArchiveIOManager",
    "ArchiveResource",
    "__version__",
    "build_archive_definitions",
]
# The modules that have them.
_FROM = {
    "Account": "account",
    "AccountRule": "model.account_rule",
    "Archive": "library",
    "ArchiveIOManager": "defs.assets.frames",
    "ArchiveResource": "defs.assets.frames",
}


def __getattr__(name: str) -> Any:
    """Imports a name for other projects when they ask for it: Dagster takes a second, and commands do without."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_FROM.get(name, 'defs.project.component')}"), name)


def __dir__() -> list[str]:
    """`dg` looks here for components."""
    return sorted({*globals(), *__all__})
