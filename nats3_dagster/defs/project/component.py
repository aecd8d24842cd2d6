"""Archives in other Dagster projects: a component for defs.yaml, and the same as a function in Python."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

from dagster import (
    Component,
    ComponentLoadContext,
    DagsterInvalidDefinitionError,
    Definitions,
    ResolutionContext,
    Resolver,
    RetryPolicy,
)
from dagster.components.component.component import ComponentTypeSpec
from pydantic import ValidationError, create_model

from nats3_dagster.defs.jobs.failures import CannotLoad
from nats3_dagster.defs.keys import Naming
from nats3_dagster.defs.project.declared import Declared, doc, fields_for, fields_of, wrong_value
from nats3_dagster.defs.project.platform import Platform, PlatformSettings
from nats3_dagster.defs.project.project import definitions_of, read
from nats3_dagster.errors import Nats3Error, OperatorError
from nats3_dagster.model import ArchiveSpec, Declaration, ExportSpec, ReplayPreset
from nats3_dagster.model.account_rule import AccountRule, RuleDeclaration
from nats3_dagster.model.archive_spec import with_mode
from nats3_dagster.model.dagster_settings import DAGSTER_SETTINGS
from nats3_dagster.model.preset import by_name, preset_settings
from nats3_dagster.model.spec_table import settings_of


class ExportDeclaration(create_model("ExportSettings", __base__=Declared, **fields_of(ExportSpec))):
    """Files for other systems, made of each sealed hour of the archive."""

    if TYPE_CHECKING:

        def __init__(self, **settings: Any) -> None: ...

    def spec(self) -> ExportSpec:
        """Raises OperatorError if a field is invalid."""
        return ExportSpec(**self.given(ExportSpec, settings_of(ExportSpec)))


class ReplayDeclaration(
    create_model("PresetSettings", __base__=Declared, **fields_of(ReplayPreset), **fields_for(preset_settings()))
):
    """A replay of the archive by name: where its hours are published, and how."""

    if TYPE_CHECKING:

        def __init__(self, **settings: Any) -> None: ...

    def preset(self) -> ReplayPreset:
        """Raises OperatorError if a field is invalid, or several together are."""
        return ReplayPreset.of(self.model_dump(exclude_none=True))


# Those of assets are here what the code location has, and not what the catalog keeps.
_OF_ARCHIVE = tuple(one for one in settings_of(ArchiveSpec) if one.name not in DAGSTER_SETTINGS)


class ArchiveDeclaration(
    create_model("ArchiveSettings", __base__=PlatformSettings, **fields_for(_OF_ARCHIVE, optional=("stream", "bucket")))
):
    """An archive by its name; with stream and bucket it is declared here, and created when it is first needed."""

    if TYPE_CHECKING:
        name: str

        def __init__(self, **settings: Any) -> None: ...

    create_bucket: Annotated[bool, doc("Create buckets that do not exist with the archive.", {"type": "boolean"})] = (
        False
    )
    exports: Annotated[
        list[ExportDeclaration] | None,
        doc("Exports of the archive, created when they are first needed; those that the catalog has are defined too."),
    ] = None

    replays: Annotated[
        list[ReplayDeclaration] | None,
        doc(
            "Replays by name, each with an asset and a job that need no run config; those that the catalog has are "
            "defined too."
        ),
    ] = None

    def presets(self) -> tuple[ReplayPreset, ...]:
        """The replays by name. Raises OperatorError if one is invalid, or there twice."""
        return by_name(one.preset() for one in self.replays or ())

    def declaration(self) -> Declaration | None:
        """Returns the declaration; None for an archive that is only named. Raises OperatorError if a field is invalid
        or missing."""
        given = with_mode(self.given(ArchiveSpec, _OF_ARCHIVE))
        if given.keys() == {"name"} and not self.create_bucket:
            return None
        if missing := sorted({"stream", "bucket"} - given.keys()):
            raise OperatorError(
                f"Archive {self.name} is declared without {' and '.join(missing)}",
                "Give it stream and bucket; or its name alone, if the catalog has it",
            )
        exports = tuple(one.spec() for one in self.exports or ())
        return Declaration(ArchiveSpec(**given), frozenset(given), self.create_bucket, exports)


class AccountRuleDeclaration(create_model("AccountRuleSettings", __base__=Declared, **fields_of(AccountRule))):
    """A rule that gives each stream of the account that it takes an archive; created when it is first needed."""

    if TYPE_CHECKING:
        name: str

        def __init__(self, **settings: Any) -> None: ...

    create_bucket: Annotated[bool, doc("Create buckets that do not exist with the rule.", {"type": "boolean"})] = False

    def declaration(self) -> RuleDeclaration:
        """Raises OperatorError if a field is invalid."""
        given = self.given(AccountRule, settings_of(AccountRule))
        return RuleDeclaration(AccountRule(**given), frozenset(given), self.create_bucket)


def _entries(context: ResolutionContext, value: Any) -> list[str | ArchiveDeclaration] | None:
    """`archives` in YAML; a string is one name, or the list that a template gave."""
    if value is None:
        return None
    return [
        context.resolve_value(one, as_type=str)
        if isinstance(one, str)
        else ArchiveDeclaration.resolve_from_model(context.at_path(at), one)
        for at, one in enumerate([value] if isinstance(value, str) else value)
    ]


class ArchiveComponent(Component, PlatformSettings):
    """Archives of NATS JetStream streams in S3, with exactly-once captures, seals, checks and replays.

    Each archive gives the assets `chunks`, `sealed` and `replay` by hour, with checks, jobs and sensors. Let assets
    that read whole hours depend on `sealed`. Where NATS, Postgres and the store are, the environment says:
    NATS3_NATS_URL, NATS3_POSTGRES_URL and the variables of the AWS SDKs.
    """

    archives: Annotated[
        list[str | ArchiveDeclaration] | None,
        Resolver(
            _entries,
            model_field_type=list[str | ArchiveDeclaration.model()] | None,
            description="The archives to define: names of archives that the catalog has, or declarations. Without it "
            "all of the catalog.",
            examples=[["orders", {"name": "events", "stream": "EVENTS", "bucket": "archive"}]],
        ),
    ] = None
    accounts: Annotated[
        list[AccountRuleDeclaration] | None,
        doc(
            "Rules that give each stream of the account an archive, created when account_sensor first ticks. Only "
            "without `archives`: their archives are those of the catalog."
        ),
    ] = None
    key_prefix: Annotated[
        str | list[str] | None,
        doc(
            "Comes before the key of each asset: `acme`, or `[acme, nats]`. Joined by _ it begins the names of jobs "
            "and sensors. Each code location of a Dagster instance needs its own."
        ),
    ] = None

    @classmethod
    def schema_of_field(cls, field: dict[str, Any]) -> None:
        """Sets the schema of `archives` too: an entry is a name, or a declaration."""
        listed = [one["items"]["anyOf"] for one in field.get("anyOf", ()) if "anyOf" in one.get("items", ())]
        if not listed:
            return super().schema_of_field(field)
        field.pop("anyOf")
        ((text, declaration),) = listed
        entry = {"if": {"type": "object"}, "then": declaration, "else": text}
        field |= {"if": {"type": "array"}, "then": {"items": entry}, "else": {"type": ["string", "null"]}}
        return None

    @classmethod
    def get_spec(cls) -> ComponentTypeSpec:
        return ComponentTypeSpec(
            tags=["nats", "jetstream", "s3", "spark"], produces=["asset", "asset_check", "job", "sensor", "resource"]
        )

    def build_defs(self, context: ComponentLoadContext) -> Definitions:
        return build_archive_definitions(**{name: getattr(self, name) for name in type(self).model_fields})


def build_archive_definitions(
    *,
    archives: Sequence[str | ArchiveDeclaration] | None = None,
    accounts: Sequence[AccountRuleDeclaration] | None = None,
    key_prefix: str | Sequence[str] | None = None,
    group_name: str | None = None,
    owners: Sequence[str] | None = None,
    tags: Mapping[str, str] | None = None,
    kinds: Sequence[str] | None = None,
    retry_policy: RetryPolicy | Mapping[str, Any] | None = None,
    assets: Mapping[str, Any] | None = None,
) -> Definitions:
    """Definitions of archives, to be merged with those of a project; the arguments are the fields of ArchiveComponent.
    It reads the catalog once and writes nothing. Raises CannotLoad if it cannot be read or an argument is invalid."""
    parts = key_prefix.split("/") if isinstance(key_prefix, str) else key_prefix or ()
    try:
        naming = Naming(tuple(part for part in parts if part))
        everywhere = PlatformSettings.model_validate(
            {
                "group_name": group_name,
                "owners": owners,
                "tags": tags,
                "kinds": kinds,
                "retry_policy": retry_policy,
                "assets": assets,
            }
        )
        declared = None if archives is None else _declared(archives)
        of_archives = {one.name: one for one in archives or () if not isinstance(one, str)}
        presets = {name: one.presets() for name, one in of_archives.items()}
        rules = _rules(accounts or (), archives)
        platform = Platform(everywhere, archives=of_archives, declared_rules=rules)
    except ValidationError as error:
        raise CannotLoad(wrong_value(error)) from None
    except Nats3Error as error:
        raise CannotLoad(error) from None
    defined, platform = read(naming, platform, declared, presets)
    # One that the catalog does not have yet has its page, too.
    pages = dict.fromkeys([*platform.rules, *(one.rule.name for one in rules)])
    platform = replace(platform, rules=tuple(pages))
    try:
        chosen = None if declared is None else frozenset(declared)
        return definitions_of(defined, naming, platform, chosen=chosen, must=of_archives.keys())
    except DagsterInvalidDefinitionError as error:
        raise CannotLoad(OperatorError(f"Dagster refuses a setting: {error}", "Correct it")) from None


def _rules(accounts: Sequence[AccountRuleDeclaration], archives: object) -> tuple[RuleDeclaration, ...]:
    """Returns the declared rules. Raises OperatorError for an invalid one, a name that is there twice, and where only
    some archives are defined."""
    found: dict[str, RuleDeclaration] = {}
    for one in accounts:
        if one.name in found:
            raise OperatorError(f"Rule {one.name} is twice among the accounts", "Write it once")
        found[one.name] = one.declaration()
    if found and archives is not None:
        raise OperatorError(
            "There are accounts and archives: the archives of a rule would have no assets and no sensors",
            "Leave out archives, for all of the catalog; or give the accounts a code location of their own",
        )
    return tuple(found.values())


def _declared(archives: Sequence[str | ArchiveDeclaration]) -> dict[str, Declaration | None]:
    """Returns the declarations by name. Raises OperatorError for an invalid declaration, or a name that is there
    twice."""
    found: dict[str, Declaration | None] = {}
    for one in archives:
        name = one if isinstance(one, str) else one.name
        if name in found:
            raise OperatorError(f"Archive {name} is twice among the archives", "Write it once")
        found[name] = None if isinstance(one, str) else one.declaration()
    return found
