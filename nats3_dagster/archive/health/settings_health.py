"""The settings: where they come from, and what of the environment and nats3.toml is without effect or exposed."""

import os
from collections.abc import Iterator
from pathlib import Path

from nats3_dagster.archive.health.finding import Finding
from nats3_dagster.settings import Settings
from nats3_dagster.settings.names import unknown_variables

AREA = "settings"


def check(settings: Settings) -> Iterator[Finding]:
    """Never a value: some are secrets."""
    origins = settings.origins()
    yield Finding("ok", AREA, f"Settings come from: {', '.join(origins)}" if origins else "No setting is set")
    for name, near in unknown_variables().items():
        yield Finding("warn", AREA, f"{name} is not a setting", f"Did you mean {near}?" if near else "Unset it")
    for file in settings.secret_files():
        if who := _readers(file):
            yield Finding(
                "warn", AREA, f"{who} can read {file}, which holds a secret", "Take the permission away: chmod 600"
            )


def _readers(file: Path) -> str | None:
    """Who beside its owner can read the file; None if no other user can. A file of a read-only file system, as a secret
    that a container gets, has the mode that its maker gave it."""
    try:
        mode, is_fixed = file.stat().st_mode, os.statvfs(file).f_flag & os.ST_RDONLY
    except OSError:
        return None
    if is_fixed or not mode & 0o077:
        return None
    return "Every user of this machine" if mode & 0o007 else "Every user of its group"
