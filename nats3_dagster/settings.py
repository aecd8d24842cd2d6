"""Settings: where NATS, Postgres and the store are, and how to log in.

The environment wins over `nats3.toml` in the working directory, which wins over the embedded stack that `nats3 dev`
left under `.nats3/`. Invariant: nothing else reads the environment for these.
"""

import json
import os
from pathlib import Path
from typing import Any

from pydantic import AliasChoices, Field, SecretStr, ValidationError
from pydantic_settings import (
    BaseSettings,
    JsonConfigSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from nats3_dagster.errors import OperatorError
from nats3_dagster.jetstream.nats_options import NatsOptions
from nats3_dagster.objects import StoreOptions
from nats3_dagster.steps import Next


def home() -> Path:
    """The folder of the embedded stack: `NATS3_HOME`, else `.nats3` in the working directory."""
    return Path(os.environ.get("NATS3_HOME", ".nats3")).absolute()


def _aws(name: str, *more: str) -> Any:
    """A setting under the name that the AWS SDKs read; in `nats3.toml` it is the lower-case name."""
    return AliasChoices(name, *more, name.lower())


class Settings(BaseSettings):
    """What `NATS3_*` and the SDKs' `AWS_*` say. Secrets print as stars. Use `Settings.load()`."""

    model_config = SettingsConfigDict(
        env_prefix="NATS3_", extra="ignore", populate_by_name=True, toml_file="nats3.toml"
    )

    nats_url: str | None = None
    nats_user: str | None = None
    nats_password: SecretStr | None = None
    nats_token: SecretStr | None = None
    nats_creds: Path | None = None
    nats_nkey: Path | None = None
    nats_tls_ca: Path | None = None
    nats_tls_cert: Path | None = None
    nats_tls_key: Path | None = None
    nats_tls_first: bool = False
    nats_domain: str | None = None
    nats_api_prefix: str | None = None
    nats_inbox_prefix: str = "_INBOX"
    nats_monitor_url: str | None = None
    postgres_url: SecretStr | None = None
    store_url: str = "s3://"
    s3_endpoint: str | None = Field(
        None, validation_alias=_aws("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "s3_endpoint")
    )
    s3_region: str = Field("us-east-1", validation_alias=_aws("AWS_REGION", "AWS_DEFAULT_REGION", "s3_region"))
    s3_access_key_id: str | None = Field(None, validation_alias=_aws("AWS_ACCESS_KEY_ID", "s3_access_key_id"))
    s3_secret_access_key: SecretStr | None = Field(
        None, validation_alias=_aws("AWS_SECRET_ACCESS_KEY", "s3_secret_access_key")
    )
    s3_session_token: SecretStr | None = Field(None, validation_alias=_aws("AWS_SESSION_TOKEN", "s3_session_token"))
    spark_master: str | None = None
    # sc://host:port[/;token=...]: a server of Spark Connect, instead of a JVM of each process.
    spark_remote: SecretStr | None = None
    # The webserver that is asked to reload when an archive is created or deleted.
    dagster_url: str | None = None
    # Owners of the assets in Dagster, joined by commas: mail addresses, or `team:platform`.
    owners: str = ""

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """The environment, then nats3.toml, then what the embedded stack wrote when it started."""
        stack = JsonConfigSettingsSource(settings_cls, json_file=home() / "stack.json")
        return init_settings, env_settings, TomlConfigSettingsSource(settings_cls), stack

    @classmethod
    def load(cls) -> "Settings":
        """The settings in force here. Raises OperatorError that names the setting at fault."""
        try:
            return cls()  # pyright: ignore[reportCallIssue]  every field has a default
        except ValidationError as error:
            at = ", ".join(f"{e['loc'][0]}: {e['msg']}" for e in error.errors(include_input=False))
            raise OperatorError(f"A setting is wrong: {at}", "Correct the environment variable or nats3.toml") from None
        except ValueError as error:  # a file that is no TOML or JSON
            raise OperatorError(
                f"nats3.toml or .nats3/stack.json cannot be read: {error}", "Correct or remove it"
            ) from None

    @property
    def nats(self) -> NatsOptions:
        """How to reach NATS. Raises OperatorError when it is not set."""
        if not self.nats_url:
            raise OperatorError("The address of NATS is not set", Next.SET_NATS_URL())
        return NatsOptions(
            servers=tuple(part.strip() for part in self.nats_url.split(",")),
            user=self.nats_user,
            password=_reveal(self.nats_password),
            token=_reveal(self.nats_token),
            creds=_text(self.nats_creds),
            nkey=_text(self.nats_nkey),
            tls_ca=_text(self.nats_tls_ca),
            tls_cert=_text(self.nats_tls_cert),
            tls_key=_text(self.nats_tls_key),
            tls_first=self.nats_tls_first,
            domain=self.nats_domain,
            api_prefix=self.nats_api_prefix,
            inbox_prefix=self.nats_inbox_prefix,
        )

    @property
    def postgres(self) -> str:
        """The catalog's URL, password included: never print it. Raises OperatorError when it is not set."""
        if not self.postgres_url:
            raise OperatorError("The address of Postgres is not set", Next.SET_POSTGRES_URL())
        return self.postgres_url.get_secret_value()

    def is_embedded(self, *names: str) -> bool:
        """Whether these settings are those of the embedded stack that runs."""
        try:
            stack = json.loads((home() / "stack.json").read_text())
        except (OSError, ValueError):
            return False
        return all(name in stack and stack[name] == getattr(self, name) for name in names)

    @property
    def connect(self) -> str | None:
        """The address of a server of Spark Connect; it may hold a token: never print it."""
        return _reveal(self.spark_remote)

    @property
    def store(self) -> StoreOptions:
        """How to reach the object store."""
        return StoreOptions(
            url=self.store_url,
            endpoint=self.s3_endpoint,
            region=self.s3_region,
            access_key_id=self.s3_access_key_id,
            secret_access_key=_reveal(self.s3_secret_access_key),
            session_token=_reveal(self.s3_session_token),
        )

    def object_url(self, bucket: str, key: str) -> str:
        """Where an object is, or with a slash at the key's end a folder, for people: `s3://...` or `file://...`."""
        folder = self.store.folder
        if folder is None:
            return f"s3://{bucket}/{key}"
        return (folder / bucket / key).as_uri() + ("/" if key.endswith("/") else "")


def _reveal(secret: SecretStr | None) -> str | None:
    return secret.get_secret_value() if secret else None


def _text(path: Path | None) -> str | None:
    return str(path.absolute()) if path else None
