"""The settings of an archive's assets in Dagster: how they are shown and run, as the archive itself has it.

A code location that defines the archive has the last word: its own settings (defs/project/platform.py) come after
these, and it has more of them: for each kind of asset, and conditions.
"""

import re
from dataclasses import dataclass, field

from nats3_dagster.errors import OperatorError
from nats3_dagster.model.pattern import Pattern
from nats3_dagster.model.spec_table import Kind, check_length, setting, settings_of

GROUP = r"[A-Za-z0-9_]+(/[A-Za-z0-9_]+)*"
OWNER = r"team:\S+|[^\s@:]+@[^\s@:]+\.[^\s@:]+"
POOL = r"\S+"
KIND = r"[A-Za-z0-9_.-]{1,48}"
# As Dagster has it (dagster._utils.tags). Its own keys are not for users.
_TAG = r"(?!dagster/)([A-Za-z0-9_.-]{1,63}/)?[A-Za-z0-9_.-]{1,63}=[A-Za-z0-9_.-]{0,63}"
# Dagster takes ten, and the assets of an archive have up to five of their own.
_MOST_KINDS = 4
_MOST = 32
_MOST_RETRIES, _MOST_DELAY_S, _MOST_WINDOW_S = 100, 86_400, 3650 * 86_400
# Dagster looks at freshness once a minute.
_LEAST_WINDOW_S = 60


def is_owner(text: str) -> bool:
    """True if Dagster takes the text for an owner of assets."""
    return re.fullmatch(OWNER, text) is not None


def read_owners(text: str) -> tuple[tuple[str, ...], OperatorError | None]:
    """The owners that NATS3_OWNERS joins by commas; and an error for what is no owner: the assets are without it."""
    entries = tuple(part.strip() for part in text.split(",") if part.strip())
    wrong = [str(place) for place, entry in enumerate(entries, 1) if not is_owner(entry)]
    owners = tuple(filter(is_owner, entries))
    if not wrong:
        return owners, None
    what = f"NATS3_OWNERS names no owner at place {', '.join(wrong)}: the assets in Dagster do without it"
    return owners, OperatorError(what, "Write mail addresses or team:NAME, joined by commas")


@dataclass(frozen=True, slots=True, kw_only=True)
class DagsterSettings:
    """Settings of the assets of one archive."""

    group_name: str = field(
        default="",
        metadata=setting(
            Kind.TEXT,
            "The group of its assets in Dagster. Without it a group of the archive's name.",
            metavar="NAME",
            pattern=Pattern(
                GROUP, "a group name of Dagster", "Use letters, digits and _, in parts that are joined by slashes"
            ),
        ),
    )
    owners: tuple[str, ...] = field(
        default=(),
        metadata=setting(
            Kind.TEXTS,
            "An owner of its assets in Dagster: a mail address, or team:NAME.",
            metavar="OWNER",
            pattern=Pattern(OWNER, "an owner", "Write a mail address or team:NAME"),
            limit=_MOST,
        ),
    )
    tags: tuple[str, ...] = field(
        default=(),
        metadata=setting(
            Kind.TEXTS,
            "A tag of its assets in Dagster, as KEY=VALUE.",
            metavar="KEY=VALUE",
            pattern=Pattern(
                _TAG, "a tag", "Write KEY=VALUE, each of up to 63 letters, digits, _, . and -; not dagster/..."
            ),
            limit=_MOST,
        ),
    )
    kinds: tuple[str, ...] = field(
        default=(),
        metadata=setting(
            Kind.TEXTS,
            "A kind of its assets, beside their own, as Dagster's UI shows them.",
            metavar="KIND",
            pattern=Pattern(KIND, "a kind of assets", "Use up to 48 letters, digits, _, . and -"),
            limit=_MOST_KINDS,
        ),
    )
    pool: str = field(
        default="",
        metadata=setting(
            Kind.TEXT,
            "The pool of Dagster whose limit counts its captures. Without it jetstream.",
            metavar="NAME",
            pattern=Pattern(POOL, "a pool of Dagster", "Write it without white space", longest=255),
        ),
    )
    retries: int = field(
        default=0,
        metadata=setting(
            Kind.COUNT,
            "How often Dagster tries a failed step again, if that can help.",
            metavar="COUNT",
            least=0,
            most=_MOST_RETRIES,
        ),
    )
    retry_delay_s: int = field(
        default=0,
        metadata=setting(
            Kind.DURATION, "How long Dagster waits before a retry.", metavar="DURATION", least=0, most=_MOST_DELAY_S
        ),
    )
    fail_window_s: int = field(
        default=0,
        metadata=setting(
            Kind.DURATION,
            "Freshness of its hours fails when nothing was archived for this long. 0: a day after the warn window, or "
            "as its check has it.",
            metavar="DURATION",
            least=0,
            most=_MOST_WINDOW_S,
        ),
    )
    warn_window_s: int = field(
        default=0,
        metadata=setting(
            Kind.DURATION,
            "Dagster warns when nothing was archived for this long; below the fail window. 0: no warning, or as its "
            "check has it.",
            metavar="DURATION",
            least=0,
            most=_MOST_WINDOW_S,
        ),
    )

    def check_assets(self) -> None:
        """Raises OperatorError for lists that are too long, and for windows that Dagster would refuse."""
        for name, most in (("owners", _MOST), ("tags", _MOST), ("kinds", _MOST_KINDS)):
            check_length(name, getattr(self, name), most)
        keys = [tag.partition("=")[0] for tag in self.tags]
        if len({*keys}) < len(keys):
            raise OperatorError("A key of tags is there twice", "Give each key one value", field="tags")
        for name in ("fail_window_s", "warn_window_s"):
            if 0 < getattr(self, name) < _LEAST_WINDOW_S:
                hint = f"Use {_LEAST_WINDOW_S} seconds or more, or 0"
                raise OperatorError(f"{name} is {getattr(self, name)}", hint, field=name)
        if 0 < self.fail_window_s <= self.warn_window_s:
            what = f"warn_window_s is {self.warn_window_s}, and not below fail_window_s, {self.fail_window_s}"
            raise OperatorError(what, "Give a longer fail window, or a shorter warn window", field="warn_window_s")


# The names of their fields.
DAGSTER_SETTINGS = frozenset(one.name for one in settings_of(DagsterSettings))
