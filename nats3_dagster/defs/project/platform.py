"""The settings that a Dagster platform gives assets: owners, tags, pools, policies.

Each field stands here once: those of the component, of an archive in it and of one kind of its assets are made of these
classes. The most specific value counts; tags and kinds add up.
"""

import re
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Annotated, Any, NotRequired, TypedDict, cast

from dagster import AutomationCondition, FreshnessPolicy, Resolver, RetryPolicy
from pydantic import ConfigDict, InstanceOf

from nats3_dagster.archive.source.lateness import FAILS_AFTER_S
from nats3_dagster.defs.project.declared import Declared, doc, text_schema, unless_template
from nats3_dagster.defs.project.policies import Freshness, FreshnessSettings, Retry, RetrySettings
from nats3_dagster.errors import OperatorError
from nats3_dagster.model import ArchiveSpec
from nats3_dagster.model.account_rule import RuleDeclaration
from nats3_dagster.model.dagster_settings import DAGSTER_SETTINGS, GROUP, KIND, OWNER, POOL, is_owner

# The key of the IO manager that comes with every archive, for assets that depend on its hours (frames.py).
FRAMES = "nats3_io_manager"
# The kinds of assets that a code location has: the fields of AssetsByKind.
STREAM, CHUNKS, SEALED, REPLAY, EXPORTS, TABLE = "stream", "chunks", "sealed", "replay", "exports", "table"
# Where Dagster reads the kind of storage of an asset.
STORAGE_TAG = "dagster/storage_kind"


def _texts(regex: str) -> dict[str, Any]:
    return {"type": ["array", "null"], "items": {"type": "string", "pattern": rf"^(?:{regex})$|\{{\{{"}}


class _Described(Declared):
    """Settings of any asset."""

    group_name: Annotated[
        str | None,
        doc("The group of the assets. Without it each archive has a group of its name.", text_schema(GROUP)),
    ] = None
    owners: Annotated[
        list[str] | None,
        doc("Owners of the assets: mail addresses, or `team:NAME`. Without it those of NATS3_OWNERS.", _texts(OWNER)),
    ] = None
    tags: Annotated[dict[str, str] | None, doc("Tags of the assets.")] = None
    kinds: Annotated[
        list[str] | None, doc("Kinds of the assets, beside their own, as the UI shows them.", _texts(KIND))
    ] = None


class StreamSettings(_Described):
    """Settings of the assets of streams, which exist outside of Dagster."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    freshness_policy: Freshness = None


class AssetSettings(StreamSettings):
    """Settings of one kind of assets."""

    retry_policy: Retry = None
    pool: Annotated[
        str | None,
        doc(
            "The pool whose limit counts the runs. Without it jetstream, replay or export, and none of sealed and "
            "table.",
            text_schema(POOL),
        ),
    ] = None
    automation_condition: Annotated[
        InstanceOf[AutomationCondition] | None,
        Resolver.default(
            model_field_type=str | None,
            description="When Dagster requests runs, beside nats3's own sensors, as "
            "`{{ dg.AutomationCondition.eager() }}`.",
            json_schema_extra=unless_template({"type": "null"}),
        ),
    ] = None


class AssetsByKind(Declared):
    """Settings of each kind of assets alone."""

    stream: Annotated[StreamSettings | None, doc("Of `jetstream/STREAM`.")] = None
    chunks: Annotated[AssetSettings | None, doc("Of `ARCHIVE/chunks`.")] = None
    sealed: Annotated[AssetSettings | None, doc("Of `ARCHIVE/sealed`.")] = None
    replay: Annotated[AssetSettings | None, doc("Of `ARCHIVE/replay`, and of its presets.")] = None
    exports: Annotated[AssetSettings | None, doc("Of `ARCHIVE/EXPORT`.")] = None
    table: Annotated[AssetSettings | None, doc("Of `ARCHIVE/table`, the Iceberg table.")] = None


class PlatformSettings(_Described):
    """Settings of all assets of a code location, or of an archive."""

    retry_policy: Retry = None
    assets: Annotated[AssetsByKind | None, doc("Settings of one kind of assets: its pool, policies and others.")] = None


class AssetArguments(TypedDict):
    """The arguments of `dagster.asset` that a platform sets; assets of streams have no more than the required ones."""

    group_name: str
    owners: Sequence[str]
    tags: Mapping[str, str]
    kinds: Set[str]
    freshness_policy: FreshnessPolicy | None
    io_manager_key: NotRequired[str]
    pool: NotRequired[str]
    retry_policy: NotRequired[RetryPolicy]
    automation_condition: NotRequired[AutomationCondition[Any]]


@dataclass(frozen=True, slots=True)
class Platform:
    """The settings of a code location and of its archives. Raises OperatorError for an owner, a group or a freshness
    policy that Dagster would refuse."""

    everywhere: PlatformSettings = field(default_factory=PlatformSettings)
    # Those of the catalog, by archive; and those that the code location gives an archive, which come after them.
    of_catalog: Mapping[str, PlatformSettings] = field(default_factory=dict[str, PlatformSettings])
    archives: Mapping[str, PlatformSettings] = field(default_factory=dict[str, PlatformSettings])
    # Of assets that nothing else gives an owner.
    owners: tuple[str, ...] = ()
    # Of assets that lie in the store; none where it is a folder.
    store_kinds: frozenset[str] = frozenset()
    # The same of archives in another cloud, by archive.
    cloud_kinds: Mapping[str, str] = field(default_factory=dict[str, str])
    # The names of the rules for the account, where the code location has all archives of the catalog.
    rules: tuple[str, ...] = ()
    # The rules that the code location declares.
    declared_rules: tuple[RuleDeclaration, ...] = ()

    def __post_init__(self) -> None:
        for shared in (self.everywhere, *self.archives.values()):
            by_kind = [getattr(shared.assets, kind) for kind in AssetsByKind.model_fields] if shared.assets else []
            for settings in [shared, *filter(None, by_kind)]:
                _check_owners(settings.owners or ())
                if isinstance(freshness := getattr(settings, "freshness_policy", None), FreshnessSettings):
                    freshness.policy()
                if settings.group_name is not None and not re.fullmatch(GROUP, settings.group_name):
                    raise OperatorError(
                        f"The group_name is {settings.group_name!r}",
                        "Use letters, digits and _, in parts that are joined by slashes",
                    )

    def kinds_in_store(self, archive: str | None) -> frozenset[str]:
        """The kinds of an archive's assets that lie in its store."""
        cloud = self.cloud_kinds.get(archive or "")
        return self.store_kinds if cloud is None else frozenset({cloud})

    def of(
        self,
        kind: str,
        archive: str | None,
        *,
        group: str,
        kinds: Set[str],
        pool: str | None = None,
        in_store: bool = False,
        freshness: FreshnessPolicy | None = None,
    ) -> AssetArguments:
        """The arguments of an asset's definition that the platform sets. `group`, `kinds`, `pool`, `freshness`: what
        it has without them. `in_store`: whether it is kept in the store."""
        chosen: dict[str, Any] = {"group_name": group, "owners": self.owners, "freshness_policy": freshness}
        if kind in (CHUNKS, SEALED):
            chosen["io_manager_key"] = FRAMES
        if pool is not None:
            chosen["pool"] = pool
        tags: dict[str, str] = {}
        every = {*kinds, *(self.kinds_in_store(archive) if in_store else ())}
        names = (StreamSettings if kind == STREAM else AssetSettings).model_fields.keys() - {"tags", "kinds"}
        for settings in self._settings(kind, archive):
            tags |= settings.tags or {}
            every |= {*(settings.kinds or ())}
            for name in names:
                if (value := getattr(settings, name, None)) is not None:
                    chosen[name] = value
        for name, value in chosen.items():
            if isinstance(value, RetrySettings | FreshnessSettings):
                chosen[name] = value.policy()
        return cast(AssetArguments, chosen | {"tags": tags, "kinds": every})

    def pool(self, kind: str, default: str) -> str:
        """The pool of ops that are of no single archive."""
        return self.of(kind, None, group="", kinds=frozenset(), pool=default).get("pool", default)

    def _settings(self, kind: str, archive: str | None) -> list[_Described]:
        """The settings that count, the most specific last."""
        of_archive = [levels[archive] for levels in (self.of_catalog, self.archives) if archive and archive in levels]
        levels = [self.everywhere, *of_archive]
        every = [one for level in levels for one in (level, level.assets and getattr(level.assets, kind))]
        return [one for one in every if one is not None]


def of_catalog(specs: Iterable[ArchiveSpec]) -> dict[str, PlatformSettings]:
    """The settings of assets that archives have in the catalog, by archive. Those without any are left out: each load
    of the definitions makes them, 31 microseconds for an archive."""
    return {spec.name: _of_catalog(spec) for spec in specs if any(getattr(spec, name) for name in DAGSTER_SETTINGS)}


def _of_catalog(stored: ArchiveSpec) -> PlatformSettings:
    retries = RetrySettings(max_retries=stored.retries, delay_s=stored.retry_delay_s) if stored.retries else None
    warn = stored.warn_window_s
    window = stored.fail_window_s or (warn and warn + FAILS_AFTER_S)
    fresh = FreshnessSettings(fail_window_s=window, warn_window_s=warn or None) if window else None
    return PlatformSettings(
        group_name=stored.group_name or None,
        owners=list(stored.owners) or None,
        tags=dict(tag.split("=", 1) for tag in stored.tags) or None,
        kinds=list(stored.kinds) or None,
        retry_policy=retries,
        assets=AssetsByKind(
            chunks=AssetSettings(pool=stored.pool or None, freshness_policy=fresh),
            sealed=AssetSettings(freshness_policy=fresh),
        ),
    )


def _check_owners(owners: Iterable[str]) -> None:
    """Raises OperatorError for one that Dagster would refuse."""
    for owner in owners:
        if not is_owner(owner):
            raise OperatorError(f"{owner!r} in owners is no owner", "Write a mail address or team:name")
