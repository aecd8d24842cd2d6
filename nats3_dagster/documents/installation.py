"""An installation of nats3: what the doctor finds, settings, and the rights that nats3 and its clients need."""

from typing import Self

from pydantic import Field

from nats3_dagster.archive.health import finding
from nats3_dagster.archive.permissions import Permissions as Needed
from nats3_dagster.documents.base import Document, Words
from nats3_dagster.settings import Settings
from nats3_dagster.settings.token_scopes import Scope


class Finding(Document):
    """The result of a check of the doctor."""

    status: finding.Status = Field(description="warn: it works, and will cause trouble one day. fail: it does not.")
    area: str = Field(examples=["nats"])
    what: str
    do: str | None = Field(description="The fix; null where none is needed.")

    @classmethod
    def of(cls, one: finding.Finding, words: Words) -> Self:
        do = one.do if isinstance(one.do, str) else one.do.worded(words)
        return cls(status=one.status, area=one.area, what=one.what, do=do or None)


class Setting(Document):
    """A setting in force."""

    key: str = Field(examples=["server_url"])
    value: bool | int | str | None = Field(description="Stars for a secret; null where nothing is set.")
    source: str = Field(description="Where the value comes from.")

    @classmethod
    def of(cls, settings: Settings, key: str) -> Self:
        return cls(key=key, value=_value(settings.shown(key)), source=settings.source(key))


class ChangedSetting(Document):
    """A setting that was written into the file of settings, or removed from it."""

    key: str
    value: bool | int | str | None = Field(description="Stars for a secret; null where the key was removed.")
    file: str

    @classmethod
    def of(cls, key: str, value: object, file: str) -> Self:
        """`value`: as it may be shown."""
        return cls(key=key, value=_value(value), file=file)


class Token(Document):
    """A new token of the HTTP API, which is stored nowhere."""

    token: str = Field(description="For the client.")
    scopes: list[Scope] = Field(description="What it may do.")
    setting: str = Field(description="For the environment of the server; it has the token's SHA-256.")


class Permissions(Document):
    """The subjects that a NATS user must be allowed."""

    publish: list[str]
    subscribe: list[str]
    allow_responses: bool = Field(description="Whether it must be allowed to answer requests (allow_responses).")

    @classmethod
    def of(cls, needed: Needed) -> Self:
        return cls(
            publish=[subject for need in needed.publish for subject in need.subjects],
            subscribe=[subject for need in needed.subscribe for subject in need.subjects],
            allow_responses=needed.responds,
        )


class Migrated(Document):
    """The catalog after a migration."""

    # "schema" is a method of pydantic's base.
    schema_: str = Field(alias="schema", description="The newest migration that the catalog has.")


class MigratedWithGrant(Migrated):
    """The catalog after a migration, and the role that may use it."""

    granted: str = Field(description="A role of Postgres.")


def _value(value: object) -> bool | int | str | None:
    """Returns the value of a setting as JSON has it."""
    return value if value is None or isinstance(value, bool | int) else str(value)
