"""The settings: where they come from, and what of the environment and nats3.toml is without effect or exposed."""

from collections.abc import Iterator

from nats3_dagster.archive.health.finding import Finding
from nats3_dagster.settings import Settings
from nats3_dagster.settings.config_file import config_path, readable_by_others
from nats3_dagster.settings.names import unknown_variables

AREA = "settings"


def check(settings: Settings) -> Iterator[Finding]:
    """Never a value: some are secrets."""
    origins = settings.origins()
    yield Finding("ok", AREA, f"Settings come from: {', '.join(origins)}" if origins else "No setting is set")
    for name, near in unknown_variables().items():
        yield Finding("warn", AREA, f"{name} is not a setting", f"Did you mean {near}?" if near else "Unset it")
    if readable_by_others():
        yield Finding(
            "warn", AREA, f"Every user of this machine can read {config_path()}, which holds a secret",
            "Take the permission away: chmod 600",
        )  # fmt: skip
