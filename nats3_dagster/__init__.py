"""Long-term memory for NATS JetStream."""

from typing import TYPE_CHECKING, Any

from nats3_dagster.version import __version__

if TYPE_CHECKING:
    from nats3_dagster.defs.component import ArchiveComponent, ArchiveDeclaration, build_archive_definitions
    from nats3_dagster.library import Archive


__all__ = ["Archive", "ArchiveComponent", "ArchiveDeclaration", "__version__", "build_archive_definitions"]


def __getattr__(name: str) -> Any:
    """For other projects: imported when asked for, because Dagster takes a second, and commands do without."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name == "Archive":
        from nats3_dagster import library

        return library.Archive
    from nats3_dagster.defs import component

    return getattr(component, name)


def __dir__() -> list[str]:
    """`dg` looks here for components."""
    return sorted({*globals(), *__all__})
