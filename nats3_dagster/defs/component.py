"""Archives in other Dagster projects: a component for defs.yaml, and the same as a function in Python."""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from dagster import Component, ComponentLoadContext, Definitions, Model, ResolutionContext, Resolvable, Resolver
from dagster.components.component.component import ComponentTypeSpec
from pydantic import BaseModel, create_model

from nats3_dagster.defs.failures import CannotLoad
from nats3_dagster.defs.keys import Naming
from nats3_dagster.defs.project import definitions_of, read
from nats3_dagster.errors import Nats3Error, OperatorError
from nats3_dagster.model import ArchiveSpec, Declaration, ExportSpec, Mode
from nats3_dagster.model.spec_table import Kind, by_key, settings_of


def _doc(description: str) -> Resolver:
    """Of a field. Dagster takes descriptions of fields with a default from here alone."""
    return Resolver.default(description=description)


def _fields(spec: type[Any]) -> dict[str, Any]:
    """A field for each setting of a spec; that of a file says so in its name."""
    fields: dict[str, Any] = {}
    for one in settings_of(spec):
        kind: Any = one.kind.type
        name = f"{one.key}_file" if one.kind is Kind.FILE else one.key
        required = Annotated[kind, _doc(one.description)]
        fields[name] = (required, ...) if one.required else (Annotated[kind | None, _doc(one.description)], None)
    return fields


class _Declared(Model):
    """What a component declares, with the settings of a spec as its fields."""

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


class ArchiveDeclaration(Model, Resolvable):
    """An archive by its name; with stream and bucket it is declared here, and created when it is first needed."""

    name: Annotated[str, _doc("Name of the archive: letters, digits and _.")]
    stream: Annotated[str | None, _doc("The JetStream stream to archive.")] = None
    bucket: Annotated[str | None, _doc("The bucket that takes the chunks.")] = None
    subjects: Annotated[
        list[str] | None, _doc("Archive only these subjects (NATS filters). Every subject of the stream without it.")
    ] = None
    prefix: Annotated[str | None, _doc("Key prefix of the chunks in the bucket, like team/logs.")] = None
    mode: Annotated[
        Mode | None,
        _doc(
            "`stream` reads it (the default). `consumer` takes the messages through a durable consumer, and "
            "acknowledges them once they are in a chunk; for streams with workqueue or interest retention."
        ),
    ] = None
    durable: Annotated[
        str | None,
        _doc("Take the messages through this durable of yours (mode `consumer`). Else the archive makes its own."),
    ] = None
    max_messages: Annotated[
        int | None, _doc("A capture is due at this many messages that are not captured; 1,000,000 without it.")
    ] = None
    max_bytes: Annotated[int | None, _doc("Or at this many bytes of them; 67,108,864 without it.")] = None
    max_age_s: Annotated[int | None, _doc("Or when the oldest is this many seconds old; 60 without it.")] = None
    zstd_level: Annotated[int | None, _doc("Compression, 1 (fast) to 22 (small); 3 without it.")] = None
    create_bucket: Annotated[bool, _doc("Make the bucket with the archive if there is none.")] = False
    exports: Annotated[
        list[ExportDeclaration] | None,
        _doc("Exports of the archive, created when they are first needed; those that the catalog has are defined too."),
    ] = None

    def declaration(self) -> Declaration | None:
        """None for an archive that is only named. Raises OperatorError if a field is invalid or missing."""
        written = self.model_dump(exclude={"create_bucket", "exports"})
        given: dict[str, Any] = {field: value for field, value in written.items() if value is not None}
        if given.keys() == {"name"} and not self.create_bucket:
            return None
        if missing := sorted({"stream", "bucket"} - given.keys()):
            raise OperatorError(
                f"Archive {self.name} is declared without {' and '.join(missing)}",
                "Give it stream and bucket; or its name alone, if the catalog has it",
            )
        if self.durable is not None:
            given.setdefault("mode", "consumer")
        if self.subjects is not None:
            given["subjects"] = tuple(self.subjects)
        exports = tuple(one.spec() for one in self.exports or ())
        return Declaration(ArchiveSpec(**given), frozenset(given), self.create_bucket, exports)


assert {*ArchiveDeclaration.model_fields} == {f.name for f in fields(ArchiveSpec)} | {"create_bucket", "exports"}


def _entries(context: ResolutionContext, value: Any) -> list[str | ArchiveDeclaration] | None:
    """`archives` in YAML; a string is one name, or the list that a template gave."""
    if value is None:
        return None
    return [
        context.resolve_value(one, as_type=str) if isinstance(one, str)
        else ArchiveDeclaration.resolve_from_model(context.at_path(at), one)
        for at, one in enumerate([value] if isinstance(value, str) else value)
    ]  # fmt: skip


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
            _entries, model_field_type=list[str | ArchiveDeclaration.model()] | None,
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
            archives=self.archives, key_prefix=self.key_prefix or (), group_name=self.group_name,
            owners=self.owners or (), tags=self.tags,
        )  # fmt: skip


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
    """By name. Raises OperatorError for an invalid declaration, or a name that is there twice."""
    found: dict[str, Declaration | None] = {}
    for one in archives:
        name = one if isinstance(one, str) else one.name
        if name in found:
            raise OperatorError(f"Archive {name} is twice among the archives", "Write it once")
        found[name] = None if isinstance(one, str) else one.declaration()
    return found
