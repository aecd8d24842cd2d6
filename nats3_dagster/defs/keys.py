"""Keys and names: assets, checks, jobs, sensors and ops of an archive, and tags of runs.

Invariant: everything that a code location defines is named by its `Naming`, so that two with different prefixes share
an instance and a catalog, and each reports and forgets its own assets only.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from dagster import AssetCheckKey, AssetKey

from nats3_dagster.defs.wording import WORDS
from nats3_dagster.errors import OperatorError
from nats3_dagster.steps import Next

# Checks of `<archive>/chunks`.
NO_GAPS, INTACT, KEEPS_UP, KEPT = "no_gaps", "chunks_intact", "capture_keeps_up", "kept_as_promised"
CHECKS = (NO_GAPS, INTACT, KEEPS_UP, KEPT)
# Tags of a run: the id of its replay, and the newest attempt at it that began.
REPLAY_TAG, ATTEMPT_TAG = "nats3/replay", "nats3/attempt"
# Of a run that a sensor asked for: why a capture was due.
WHY_TAG = "nats3/why"
# Tag of a run: hours to capture before the first partition, joined by commas.
EARLIER_TAG = "nats3/earlier"
# Tag of the runs that the seal sensor asks for: the archive.
SEAL_TAG = "nats3/seal"
# Tag of the runs that a sensor asks for of an export: archive/export.
EXPORT_TAG = "nats3/export"
# Tag of the runs of an archive's jobs, in whichever code location: its name.
ARCHIVE_TAG = "nats3/archive"
# Tag of the runs that capture or seal several archives of rules for the account, and its values.
ACCOUNT_TAG, CAPTURES, SEALS = "nats3/account", "captures", "seals"
# Tag of such a run: which of its archives failed. It tells a person nothing that the steps do not show.
NOTES_TAG = ".dagster/nats3_notes"
# Tag of a run that holds a lock while its process lives: which run, and in which database. Dagster's UI hides tags that
# begin like this; a page of runs would show it in front of all others, and it tells a person nothing.
HELD_TAG = ".dagster/nats3_held"


def key_part(name: str) -> str:
    """Returns the name of a stream as a part of an asset key. Dagster makes names of inputs and ops of it, which take
    letters of ASCII, digits, _ and - only. Any other character is written _xHEX_; no two names have one part."""
    # An underscore that would begin such a code, written or not, is one itself.
    return re.sub(
        r"[^A-Za-z0-9_-]|_(?=x[0-9A-F]+(?:_|[^A-Za-z0-9_-]))", lambda character: f"_x{ord(character[0]):X}_", name
    )


@dataclass(frozen=True, slots=True)
class Naming:
    """The names that a code location gives what it defines. Raises OperatorError for a prefix that Dagster would
    refuse."""

    # Parts of each asset key before the archive's name; joined by _ they begin each name of a job, sensor or op.
    prefix: tuple[str, ...] = ()
    # The repository as the UI labels runs with it, where it is known: __repository__@LOCATION.
    repository: str | None = None

    def __post_init__(self) -> None:
        for part in self.prefix:
            if not re.fullmatch(r"[A-Za-z0-9_.-]+", part):
                raise OperatorError(
                    f"The key_prefix has the part {part!r}", "A part has letters, digits, _ . and - only"
                )

    def stream_key(self, stream: str) -> AssetKey:
        return AssetKey([*self.prefix, "jetstream", key_part(stream)])

    def account_key(self, rule: str) -> AssetKey:
        """Returns the key of the page of a rule. No archive and no stream has an asset with one like it."""
        return AssetKey([*self.prefix, "jetstream", "account", rule])

    def chunks_key(self, archive: str) -> AssetKey:
        return AssetKey([*self.prefix, archive, "chunks"])

    def sealed_key(self, archive: str) -> AssetKey:
        return AssetKey([*self.prefix, archive, "sealed"])

    def replay_key(self, archive: str) -> AssetKey:
        return AssetKey([*self.prefix, archive, "replay"])

    def preset_key(self, archive: str, preset: str) -> AssetKey:
        return AssetKey([*self.prefix, archive, "replay", preset])

    def export_key(self, archive: str, export: str) -> AssetKey:
        return AssetKey([*self.prefix, archive, export])

    def table_key(self, archive: str) -> AssetKey:
        return AssetKey([*self.prefix, archive, "table"])

    def keys_of(self, archive: str) -> tuple[AssetKey, AssetKey, AssetKey]:
        """Returns the keys of the archive's chunks, sealed hours and replays."""
        return self.chunks_key(archive), self.sealed_key(archive), self.replay_key(archive)

    def check_key(self, archive: str, check: str) -> AssetCheckKey:
        return AssetCheckKey(self.chunks_key(archive), check)

    def name(self, name: str) -> str:
        """Returns the name of a job, sensor or op: `events_capture` is `acme_events_capture` under the prefix
        `acme`."""
        return "_".join([*(re.sub(r"[.-]", "_", part) for part in self.prefix), name])

    def capture_job(self, archive: str) -> str:
        return self.name(f"{archive}_capture")

    def capture_sensor(self, archive: str) -> str:
        return self.name(f"{archive}_capture_sensor")

    @property
    def account_captures_sensor(self) -> str:
        """Returns the name of the sensor that captures the archives of rules. No archive's has one like it: those end
        with _capture_sensor and _seal_sensor."""
        return self.name("account_captures_sensor")

    @property
    def account_seals_sensor(self) -> str:
        return self.name("account_seals_sensor")

    def checks_op(self, archive: str) -> str:
        return AssetKey([*self.prefix, archive, "checks"]).to_python_identifier()

    def replay_op(self, archive: str) -> str:
        """Returns the name under `ops` of a run config that configures `<archive>/replay`."""
        return self.replay_key(archive).to_python_identifier()

    @property
    def words(self) -> Mapping[Next, str]:
        """Dagster's words for next steps, with the assets and sensors of this code location."""
        keys, names = "".join(f"{part}/" for part in self.prefix), self.name("")
        return {
            code: re.sub(r"\{archive\}(?=/)", f"{keys}{{archive}}", text).replace(
                "{archive}_capture_sensor", f"{names}{{archive}}_capture_sensor"
            )
            for code, text in WORDS.items()
        }


# The project's own code location, which workspace.yaml names.
PROJECT = Naming(repository="__repository__@nats3")
