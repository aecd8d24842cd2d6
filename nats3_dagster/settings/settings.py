"""The settings in force: read once, and handed to what connects."""

import functools
import json
import logging
from pathlib import Path
from typing import Any

from pydantic import PrivateAttr, SecretStr, ValidationError

from nats3_dagster.errors import OperatorError
from nats3_dagster.jetstream.nats_options import NatsOptions
from nats3_dagster.objects import StoreOptions, profile_place
from nats3_dagster.settings.fields import Fields, listen_address, token_hashes
from nats3_dagster.settings.home import home
from nats3_dagster.settings.masking import masked
from nats3_dagster.settings.names import unknown_variables
from nats3_dagster.settings.sources import DEFAULT, find_values
from nats3_dagster.steps import Next

log = logging.getLogger(__name__)


class Settings(Fields):
    """What environment, NATS context, nats3.toml and embedded stack say. Secrets print as stars. Use `load()`."""

    _sources: dict[str, str] = PrivateAttr(default_factory=dict)

    @classmethod
    def load(cls) -> "Settings":
        """The settings in force here. Raises OperatorError that names the setting at fault. Warns of a variable that is
        no setting and is nearly one."""
        found = find_values()
        for name, near in unknown_variables().items():
            if near:
                _warn(f"{name} is not a setting. Did you mean {near}?")
        try:
            settings = cls(**{key: value.value for key, value in found.items()})
        except ValidationError as error:
            faults = ", ".join(
                f"{(key := str(e['loc'][0]))} ({found[key].source}): {e['msg'].removeprefix('Value error, ')}"
                for e in error.errors(include_input=False, include_context=False)
            )
            raise OperatorError(f"A setting is wrong: {faults}", "Correct it where it is set") from None
        settings._sources = {key: value.source for key, value in found.items()}
        return settings

    def source(self, key: str) -> str:
        """Where a value comes from: `environment variable NATS3_NATS_URL`, `nats3.toml`, `default` and so on."""
        return self._sources.get(key, DEFAULT)

    def origins(self) -> list[str]:
        """Where the values come from, each once: `the environment`, `nats3.toml`, `NATS context prod` and so on."""
        of_environment = ("environment variable ", "file ")
        return sorted({"the environment" if s.startswith(of_environment) else s for s in self._sources.values()})

    def shown(self, key: str) -> object:
        """A value as it may be shown: secrets are stars."""
        return masked(key, getattr(self, key))

    def __repr_args__(self) -> list[tuple[str | None, Any]]:
        return [(key, self.shown(key)) for key in type(self).model_fields if getattr(self, key) is not None]

    def __str__(self) -> str:
        return repr(self)

    @property
    def nats(self) -> NatsOptions:
        """How to reach NATS. Raises OperatorError when it is not set."""
        if not self.nats_url:
            raise OperatorError("The address of NATS is not set", Next.SET_NATS_URL(home=str(home())))
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
        """How to reach the object store. Raises OperatorError."""
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
        )

    @property
    def api_address(self) -> tuple[str, int]:
        """Host and port that the API listens on; port 0 is any free one."""
        return listen_address(self.api_listen)

    @property
    def api_token_hashes(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The SHA-256 in lower-case hex of the tokens that may write, and of those that may only read."""
        return token_hashes(self.api_tokens), token_hashes(self.api_read_tokens)

    @property
    def api_tls(self) -> tuple[str, str] | None:
        """Paths of the API's certificate and of its key; None for plain HTTP. Raises OperatorError for one alone."""
        cert, key = _text(self.api_tls_cert), _text(self.api_tls_key)
        if bool(cert) != bool(key):
            raise OperatorError(
                "Only one of the API's TLS files is set", "Set both NATS3_API_TLS_CERT and NATS3_API_TLS_KEY"
            )
        return (cert, key) if cert and key else None

    def object_url(self, bucket: str, key: str) -> str:
        """Where an object is, or with a slash at the key's end a folder, for people: `s3://...` or `file://...`."""
        folder = self.store.folder
        if folder is None:
            return f"s3://{bucket}/{key}"
        return (folder / bucket / key).as_uri() + ("/" if key.endswith("/") else "")


def _reveal(secret: SecretStr | None) -> str | None:
    return secret.get_secret_value() if secret else None


def _text(path: Path | None) -> str | None:
    return str(path.expanduser().absolute()) if path else None


# Asked for each bucket, and the SDK takes 0.3 s.
@functools.cache
def _profile_place(profile: str) -> tuple[str | None, str | None]:
    return profile_place(profile)


@functools.cache
def _warn(text: str) -> None:
    """Once in a process: Dagster's loads the settings every few seconds."""
    log.warning(text)
