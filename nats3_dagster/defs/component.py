"""Archives in other Dagster projects: a component for defs.yaml, and the same as a function in Python."""

from collections.abc import Container, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from dagster import Component, ComponentLoadContext, Definitions, Model, ResolutionContext, Resolvable, Resolver
from dagster.components.component.component import ComponentTypeSpec
from pydantic import BaseModel, create_model

from nats3_dagster.defs.failures import CannotLoad
from nats3_dagster.defs.keys import Naming
from nats3_dagster.defs.project import definitions_of, read
from nats3_dagster.errors import Nats3Error, OperatorError
from nats3_dagster.model import ArchiveSpec, Declaration, ExportSpec
from nats3_dagster.model.archive_spec import with_mode
from nats3_dagster.model.spec_table import Kind, by_key, settings_of


def _doc(description: str) -> Resolver:
    """Returns the resolver of a field. Dagster takes descriptions of fields with a default from here alone."""
    return Resolver.default(description=description)


def _fields(spec: type[Any], *, optional: Container[str] = ()) -> dict[str, Any]:
    """A field for each setting of a spec; that of a file says so in its name. `optional`: keys of required settings
    that may be left out."""
    fields: dict[str, Any] = {}
    for one in settings_of(spec):
        name = f"{one.key}_file" if one.kind is Kind.FILE else one.key
        required = Annotated[one.type, _doc(one.description)]
        optional_ = Annotated[one.type | None, _doc(one.description)]
        fields[name] = (required, ...) if one.required and one.key not in optional else (optional_, None)
    return fields


class _Declared(Model):
    """The declarations of a component, with the settings of a spec as its fields."""

    def given(self, spec: type[Any]) -> dict[str, Any]:
        """The fields of the spec that are written."""
        keys = {f"{one.key}_file": one.key for one in settings_of(spec) if one.kind is Kind.FILE}
        written = self.model_dump(include={*_fields(spec)}, exclude_none=True)
        return by_key(spec, {keys.get(name, name): value for name, value in written.items()})


class ExportDeclaration(create_model("ExportSettings", __base__=_Declared, **_fields(ExportSpec)), Resolvable):
    """Files for other systems, made of each sealed hour of the archive."""

    if TYPE_CHECKING:

        def __init__(self, **settings: Any) -> None: ...

    def spec(self) -> ExportSpec:
        """Raises OperatorError if a field is invalid."""
        return ExportSpec(**self.given(ExportSpec))


class ArchiveDeclaration(
    create_model("ArchiveSettings", __base__=_Declared, **_fields(ArchiveSpec, optional=("stream", "bucket"))),
    Resolvable,
):
    """An archive by its name; with stream and bucket it is declared here, and created when it is first needed."""

    if TYPE_CHECKING:
        name: str

        def __init__(self, **settings: Any) -> None: ...

    create_bucket: Annotated[bool, _doc("Make the bucket with the archive if there is none.")] = False
    exports: Annotated[
        list[ExportDeclaration] | None,
        _doc("Exports of the archive, created when they are first needed; those that the catalog has are defined too."),
    ] = None

    def declaration(self) -> Declaration | None:
        """None for an archive that is only named. Raises OperatorError if a field is invalid or missing."""
        given = with_mode(self.given(ArchiveSpec))
        if given.keys() == {"name"} and not self.create_bucket:
            return None
        if missing := sorted({"stream", "bucket"} - given.keys()):
            raise OperatorError(
                f"Archive {self.name} is declared without {' and '.join(missing)}",
                "Give it stream and bucket; or its name alone, if the catalog has it",
            )
        exports = tuple(one.spec() for one in self.exports or ())
        return Declaration(ArchiveSpec(**given), frozenset(given), self.create_bucket, exports)


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


def _name_the_field(extra: dict[str, Any], schema: dict[str, Any]) -> None:
    """Say in the schema by `if` what an entry of `archives` may be: with `anyOf`, which Dagster writes, an error would
    name no field of a declaration."""
    schema |= extra
    archives = schema["properties"]["archives"]
    text, declaration = archives.pop("anyOf")[0]["items"]["anyOf"]
    entry = {"if": {"type": "object"}, "then": declaration, "else": text}
    archives |= {"if": {"type": "array"}, "then": {"items": entry}, "else": {"type": ["string", "null"]}}


class ArchiveComponent(Component, Model, Resolvable):
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
    key_prefix: Annotated[
        str | list[str] | None,
        _doc(
            "Comes before the key of each asset: `acme`, or `[acme, nats]`. Joined by _ it begins the names of jobs "
            "and sensors. Each code location of a Dagster instance needs its own."
        ),
    ] = None
    group_name: Annotated[
        str | None, _doc("The group of all assets. Without it each archive has a group of its name.")
    ] = None
    owners: Annotated[
        list[str] | None,
        _doc("Owners of the assets: mail addresses, or `team:NAME`. Without it those of NATS3_OWNERS."),
    ] = None
    tags: Annotated[dict[str, str] | None, _doc("Tags of the assets.")] = None

    @classmethod
    def model(cls) -> type[BaseModel]:
        derived = super().model()
        extra = derived.model_config.get("json_schema_extra")
        if isinstance(extra, dict):
            derived.model_config["json_schema_extra"] = partial(_name_the_field, extra)
        return derived

    @classmethod
    def get_spec(cls) -> ComponentTypeSpec:
        return ComponentTypeSpec(
            tags=["nats", "jetstream", "s3", "spark"], produces=["asset", "asset_check", "job", "sensor", "resource"]
        )

    def build_defs(self, context: ComponentLoadContext) -> Definitions:
        return build_archive_definitions(
            archives=self.archives,
            key_prefix=self.key_prefix or (),
            group_name=self.group_name,
            owners=self.owners or (),
            tags=self.tags,
        )


def build_archive_definitions(
    *,
    archives: Sequence[str | ArchiveDeclaration] | None = None,
    key_prefix: str | Sequence[str] = (),
    group_name: str | None = None,
    owners: Sequence[str] = (),
    tags: Mapping[str, str] | None = None,
) -> Definitions:
    """Definitions of archives, to be merged with those of a project; the arguments are the fields of ArchiveComponent.
    It reads the catalog once and writes nothing. Raises CannotLoad if it cannot be read or an argument is invalid."""
    prefix = tuple(part for part in key_prefix.split("/") if part) if isinstance(key_prefix, str) else (*key_prefix,)
    try:
        naming = Naming(prefix, group_name, tuple(owners), dict(tags or {}))
        declared = None if archives is None else _declared(archives)
    except Nats3Error as error:
        raise CannotLoad(error) from None
    defined, naming = read(naming, declared)
    return definitions_of(defined, naming, chosen=None if declared is None else frozenset(declared))


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
