"""The settings in force: read once, and handed to what connects."""

import functools
import json
import logging
import os
from pathlib import Path
from typing import Any

from pydantic import PrivateAttr, SecretStr, ValidationError

from nats3_dagster.addresses import connect_with_token
from nats3_dagster.errors import OperatorError
from nats3_dagster.jetstream.login_files import Embedded
from nats3_dagster.jetstream.nats_options import NatsOptions
from nats3_dagster.objects import StoreOptions, profile_place
from nats3_dagster.settings.config_file import config_path, holds_secrets
from nats3_dagster.settings.fields import Fields, bucket_profiles, listen_address
from nats3_dagster.settings.home import home
from nats3_dagster.settings.masking import masked
from nats3_dagster.settings.names import unknown_variables
from nats3_dagster.settings.nats_context import context_file, context_has_secret, read_context
from nats3_dagster.settings.sources import DEFAULT, find_values
from nats3_dagster.settings.token_scopes import Scopes, token_scopes
from nats3_dagster.steps import Next

log = logging.getLogger(__name__)


class Settings(Fields):
    """The values of environment, NATS context, nats3.toml and embedded stack. Secrets print as stars. Use `load()`."""

    _sources: dict[str, str] = PrivateAttr(default_factory=dict)
    # The files that variables with _FILE at their end name.
    _files: list[str] = PrivateAttr(default_factory=list)

    @classmethod
    def load(cls) -> "Settings":
        """The settings in force here. Raises OperatorError that names the setting at fault. Warns of a variable that is
        no setting and is nearly one."""
        settings, faults = cls.examine()
        if faults:
            raise OperatorError(f"A setting is wrong: {'; '.join(faults)}", "Correct it where it is set")
        return settings

    @classmethod
    def examine(cls) -> tuple["Settings", list[str]]:
        """The settings in force without those that are wrong, and what is wrong with these, by their names: for a
        report that goes on. Raises OperatorError for a file or a context that cannot be read."""
        found = find_values()
        for name, near in unknown_variables().items():
            if near:
                _warn(f"{name} is not a setting. Did you mean {near}?")
        faults: dict[str, str] = {}
        try:
            settings = cls(**{key: value.value for key, value in found.items()})
        except ValidationError as error:
            for fault in error.errors(include_input=False, include_context=False):
                key = str(fault["loc"][0])
                faults.setdefault(key, f"{key} ({found[key].source}): {fault['msg'].removeprefix('Value error, ')}")
            found = {key: value for key, value in found.items() if key not in faults}
            settings = cls(**{key: value.value for key, value in found.items()})
        settings._sources = {key: value.source for key, value in found.items()}
        settings._files = [value.file for value in found.values() if value.file]
        return settings, list(faults.values())

    def source(self, key: str) -> str:
        """Returns the source of a value: `environment variable NATS3_NATS_URL`, `nats3.toml`, `default` and so on."""
        return self._sources.get(key, DEFAULT)

    def secret_files(self) -> list[Path]:
        """The files with secrets that settings name, and nats3.toml and the NATS context where they hold one."""
        keys = ("nats_creds", "nats_nkey", "nats_tls_key", "api_tls_key")
        own = [_file(key, getattr(self, key)) for key in keys]
        files = [Path(file) for file in self._files] + [Path(file) for file in own if isinstance(file, str)]
        if holds_secrets():
            files.append(config_path())
        if self.nats_context and context_has_secret(self.nats_context):
            files.append(context_file(self.nats_context))
        return list(dict.fromkeys(files))

    def origins(self) -> list[str]:
        """Returns the sources of the values, each once: `the environment`, `nats3.toml`, `NATS context prod` and so
        on."""
        of_environment = ("environment variable ", "file ")
        return sorted({"the environment" if s.startswith(of_environment) else s for s in self._sources.values()})

    def shown(self, key: str) -> object:
        """A value as it may be shown: secrets are stars."""
        return masked(key, getattr(self, key))

    def __repr_args__(self) -> list[tuple[str | None, Any]]:
        return [(key, self.shown(key)) for key in type(self).model_fields if getattr(self, key) is not None]

    def __str__(self) -> str:
        return repr(self)

    def in_context(self, name: str) -> "Settings":
        """These settings with the address and the login of another NATS context, and nothing else of NATS. Raises
        OperatorError where it cannot be read."""
        kept = {key: getattr(self, key) for key in type(self).model_fields if not key.startswith("nats_")}
        try:
            return Settings(**kept, nats_context=name, **read_context(name))
        except ValidationError as error:
            fault = error.errors(include_input=False, include_context=False)[0]
            raise OperatorError(f"NATS context {name}: {fault['loc'][0]}: {fault['msg']}", "Correct it") from None

    @property
    def nats(self) -> NatsOptions:
        """The options to reach NATS. Raises OperatorError when it is not set."""
        if not self.nats_url:
            raise OperatorError("The address of NATS is not set", Next.SET_NATS_URL(home=str(home())))
        return NatsOptions(
            servers=tuple(part.strip() for part in self.nats_url.split(",")),
            user=self.nats_user,
            password=_reveal(self.nats_password),
            token=_reveal(self.nats_token),
            creds=_file("nats_creds", self.nats_creds),
            nkey=_file("nats_nkey", self.nats_nkey),
            tls_ca=_file("nats_tls_ca", self.nats_tls_ca),
            tls_cert=_file("nats_tls_cert", self.nats_tls_cert),
            tls_key=_file("nats_tls_key", self.nats_tls_key),
            tls_first=self.nats_tls_first,
            domain=self.nats_domain,
            api_prefix=self.nats_api_prefix,
            inbox_prefix=self.nats_inbox_prefix,
            user_jwt=_reveal(self.nats_user_jwt),
            user_seed=_reveal(self.nats_user_seed),
        )

    @property
    def postgres(self) -> str:
        """The catalog's URL, password included: never print it. Raises OperatorError when it is not set."""
        if not self.postgres_url:
            raise OperatorError("The address of Postgres is not set", Next.SET_POSTGRES_URL(home=str(home())))
        return self.postgres_url.get_secret_value()

    def is_embedded(self, *names: str) -> bool:
        """True if these settings are those of the embedded stack that runs."""
        try:
            stack = json.loads((home() / "stack.json").read_text())
        except (OSError, ValueError):
            return False
        return all(name in stack and stack[name] == getattr(self, name) for name in names)

    @property
    def connect(self) -> str | None:
        """The address of a server of Spark Connect, with its token: never print it."""
        remote, token = _reveal(self.spark_remote), _reveal(self.spark_token)
        return connect_with_token(remote, token) if remote and token else remote

    @property
    def store(self) -> StoreOptions:
        """The options to reach the object store. Raises OperatorError."""
        region, endpoint = self.s3_region, self.s3_endpoint
        if self.s3_profile and not self.s3_access_key_id and (region is None or endpoint is None):
            # A profile says where it is valid: the SDK's own clients go there.
            there = _profile_place(self.s3_profile)
            region, endpoint = region or there[0], endpoint or there[1]
        return StoreOptions(
            url=self.store_url,
            endpoint=endpoint,
            region=region or "us-east-1",
            access_key_id=self.s3_access_key_id,
            secret_access_key=_reveal(self.s3_secret_access_key),
            session_token=_reveal(self.s3_session_token),
            profile=None if self.s3_access_key_id else self.s3_profile,
            storage_class=self.s3_storage_class,
            sse=self.s3_sse,
            sse_kms_key_id=self.s3_sse_kms_key_id,
            elsewhere=tuple(
                (bucket, _store_of(profile)) for bucket, profile in bucket_profiles(self.s3_bucket_profiles)
            ),
        )

    @property
    def api_address(self) -> tuple[str, int]:
        """Host and port that the API listens on; port 0 is any free one."""
        return listen_address(self.api_listen)

    @property
    def api_token_scopes(self) -> Scopes:
        """The scopes of each token, by its SHA-256 in lower-case hex."""
        return token_scopes(self.api_tokens)

    @property
    def api_tls(self) -> tuple[str, str] | None:
        """Paths of the API's certificate and of its key; None for plain HTTP. Raises OperatorError for one alone."""
        cert, key = _path("api_tls_cert", self.api_tls_cert), _path("api_tls_key", self.api_tls_key)
        if bool(cert) != bool(key):
            raise OperatorError(
                "Only one of the API's TLS files is set", "Set both NATS3_API_TLS_CERT and NATS3_API_TLS_KEY"
            )
        return (cert, key) if cert and key else None

    def object_url(self, bucket: str, key: str) -> str:
        """Returns the address of an object, or with a slash at the key's end of a folder, for people: `s3://...` or
        `file://...`, or the scheme of a cloud."""
        there = self.store.of(bucket)
        if there.cloud is not None:
            return f"{bucket}/{key}"
        if (folder := there.folder) is None:
            return f"s3://{bucket}/{key}"
        return (folder / bucket / key).as_uri() + ("/" if key.endswith("/") else "")


def _reveal(secret: SecretStr | None) -> str | None:
    return secret.get_secret_value() if secret else None


def _file(key: str, file: Path | Embedded | None) -> str | Embedded | None:
    """The file by its whole path: a Spark worker has another working directory. Raises OperatorError for a relative
    path of no file, as a secret in the place of a path is one."""
    return file if isinstance(file, Embedded) else _path(key, file)


def _path(key: str, path: Path | None) -> str | None:
    if path is None:
        return None
    place = Path(os.path.expanduser(path))  # noqa: PTH111  that of pathlib raises for a user who is not there
    if not place.is_absolute() and not os.path.exists(place):  # noqa: PTH110  nor for a name that is too long
        raise OperatorError(f"NATS3_{key.upper()} names a file that is not there", "Give the whole path of the file")
    return str(place.absolute())


# Asked for each bucket, and the SDK takes 0.3 s.
@functools.cache
def _profile_place(profile: str) -> tuple[str | None, str | None]:
    return profile_place(profile)


def _store_of(profile: str) -> StoreOptions:
    """The store of a profile. Its endpoint is named where it is AWS: the environment may name another one, which every
    client would take."""
    region, endpoint = _profile_place(profile)
    region = region or "us-east-1"
    domain = "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"
    return StoreOptions(endpoint=endpoint or f"https://s3.{region}.{domain}", region=region, profile=profile)


@functools.cache
def _warn(text: str) -> None:
    """Warns once in a process: Dagster's loads the settings every few seconds."""
    log.warning(text)
