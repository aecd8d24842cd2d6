"""The settings: name, type and default of each. What needs two of them is checked where they are used.

Invariant: no message of a check here repeats the value, for it may be a secret.
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    ValidationInfo,
    field_validator,
)

from nats3_dagster.addresses import (
    connect_fault,
    http_fault,
    is_url,
    master_fault,
    nats_fault,
    postgres_fault,
    store_fault,
)
from nats3_dagster.errors import Nats3Error, OperatorError
from nats3_dagster.jetstream.login_files import Embedded
from nats3_dagster.model.quantities import parse_duration, parse_size
from nats3_dagster.plausible import NAME, PATH, fault
from nats3_dagster.settings.token_scopes import token_scopes


def _quantity(parse: Callable[[str], int], what: str) -> BeforeValidator:
    """A validator that reads a number with its unit."""

    def read(value: object) -> object:
        if not isinstance(value, str):
            return value
        try:
            return parse(value)
        except OperatorError as error:
            raise ValueError(f"not a {what}. {error.hint}") from None

    return BeforeValidator(read)


def _postgres(text: str) -> str | None:
    if is_url(text):
        return postgres_fault(text)
    from nats3_dagster.catalog.session.connection import address  # libpq parses keywords; 0.1 s

    try:
        address(text)
    except Nats3Error as error:
        return f"{error.what.removeprefix('NATS3_POSTGRES_URL is ')}. {error.hint}"
    return None


def _server(text: str) -> str | None:
    why = http_fault(text) if text != "none" else None
    return f"{why}. The login of a server is a token: NATS3_SERVER_TOKEN" if why and "@" in text else why


def _bearer(token: SecretStr | None) -> SecretStr | None:
    if token is not None and not re.fullmatch(r"[A-Za-z0-9._~+/=-]+", token.get_secret_value()):
        raise ValueError("not a token: it is sent in a header, and has letters, digits and - . _ ~ + / = only")
    return token


class Address:
    """Marks a setting that is an address: it is parsed, where the others may hold no `://`."""

    def __init__(self, why_not: Callable[[str], str | None]) -> None:
        # Why a text is no such address; None if it is one.
        self.why_not = why_not


API_HOST, API_PORT = "127.0.0.1", 8080


def listen_address(text: str) -> tuple[str, int]:
    """Host and port of `127.0.0.1:8080`, `[::1]:8080`, `:8080` (all addresses), or of one of them alone. Raises
    ValueError."""
    if text.isdecimal():
        text = f"{API_HOST}:{text}"
    elif re.fullmatch(r"\[.*\]|[^:]+", text):
        text = f"{text}:{API_PORT}"
    match = re.fullmatch(r"(\[[0-9A-Fa-f:.]+\]|[^\s:\[\]/@]*):(\d{1,5})", text)
    if not match or int(match[2]) > 65535:
        raise ValueError("not an address to listen on. Write it as 127.0.0.1:8080, [::1]:8080 or 0.0.0.0:8080")
    return match[1].strip("[]") or "0.0.0.0", int(match[2])  # noqa: S104  it was asked for


def bucket_profiles(text: str) -> tuple[tuple[str, str], ...]:
    """The profile of each bucket that is elsewhere. Raises ValueError."""
    pairs = [part.strip().partition("=") for part in text.split(",") if part.strip()]
    found = tuple((bucket.strip(), profile.strip()) for bucket, _, profile in pairs)
    if not all(bucket and profile for bucket, profile in found) or len(dict(found)) < len(found):
        raise ValueError(
            "no buckets with their profiles. Write BUCKET=PROFILE, several joined by commas, each bucket once"
        )
    return found


def _checked(parse: Any) -> AfterValidator:
    """A validator that keeps the text if `parse` takes it."""

    def check(text: str) -> str:
        parse(text)
        return text

    return AfterValidator(check)


# Strict: `false` is no 0.
Seconds = Annotated[int, _quantity(parse_duration, "duration"), Field(strict=True, ge=0, le=3650 * 86400)]
Size = Annotated[int, _quantity(parse_size, "size"), Field(strict=True, gt=0)]
HttpUrl = Annotated[str, Address(http_fault), AfterValidator(lambda url: url.rstrip("/"))]
# A path, or the content that a NATS context has in its place.
LoginFile = Annotated[Path | Embedded, Field(union_mode="left_to_right")]
# Values that must not show: the SHA-256 of tokens is not a secret, but is private.
TokenHashes = Annotated[str, _checked(token_scopes), Field(repr=False)]
StorageClass = Annotated[str, Field(pattern=r"^[A-Z][A-Z0-9_]*$")]


def _aws(*names: str, default: Any = None) -> Any:
    """A setting that the AWS SDKs have as well: the names under which they read it, the first one counts."""
    return Field(default, json_schema_extra={"variables": list(names)})


def implausible(key: str, text: str) -> str | None:
    """Returns the reason why the text cannot be the value of a setting, without a word of it. None if it can."""
    field = Fields.model_fields[key]
    hints = _parts(field.annotation) | {*field.metadata}
    if address := next((hint for hint in hints if isinstance(hint, Address)), None):
        return address.why_not(text)
    if SecretStr in hints:
        return None
    want = PATH if Path in hints else NAME
    why = fault(text)
    return why and f"it holds {why}, and wants {want.what}. {want.step}"


def _parts(annotation: Any) -> set[Any]:
    """All that an annotation is made of."""
    parts = {annotation} if isinstance(annotation, type | Address) else set[Any]()
    return parts.union(*(_parts(part) for part in get_args(annotation)))


class Fields(BaseModel):
    """Each is read from the variable NATS3_<NAME>, and from those of the AWS SDKs that it names."""

    # `get_secret_value` is the only way to a secret; unknown names are refused before, with the nearest known one.
    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True, arbitrary_types_allowed=True)

    @field_validator("*", mode="before")
    @classmethod
    def _plausible(cls, value: object, info: ValidationInfo) -> object:
        """Refuses what cannot be the setting's value: of every setting, so of each new one too."""
        if isinstance(value, str) and (why := implausible(str(info.field_name), value)):
            raise ValueError(why)
        return value

    # NATS: where it is and how to log in. A context of the `nats` CLI, by name; what is set beside it wins.
    nats_context: str | None = None
    nats_url: Annotated[str | None, Address(nats_fault)] = None  # several joined by commas; it may hold a login
    nats_user: str | None = None
    nats_password: SecretStr | None = None
    nats_token: SecretStr | None = None
    nats_creds: LoginFile | None = None  # a file, and so are the next four
    nats_nkey: LoginFile | None = None
    nats_tls_ca: LoginFile | None = None
    nats_tls_cert: LoginFile | None = None
    nats_tls_key: LoginFile | None = None
    nats_user_jwt: SecretStr | None = None  # what a creds file holds, with the next one
    nats_user_seed: SecretStr | None = None
    nats_tls_first: bool = False
    nats_domain: str | None = None
    nats_api_prefix: str | None = None
    nats_inbox_prefix: str = "_INBOX"
    nats_monitor_url: HttpUrl | None = None
    # The catalog.
    postgres_url: Annotated[SecretStr | None, Address(_postgres)] = None
    # The store: s3:// or file:///folder.
    store_url: Annotated[str, Address(store_fault)] = "s3://"
    s3_endpoint: HttpUrl | None = _aws("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
    s3_region: str | None = _aws("AWS_REGION", "AWS_DEFAULT_REGION")
    s3_access_key_id: str | None = _aws("AWS_ACCESS_KEY_ID")
    s3_secret_access_key: SecretStr | None = _aws("AWS_SECRET_ACCESS_KEY")
    s3_session_token: SecretStr | None = _aws("AWS_SESSION_TOKEN")
    s3_profile: str | None = _aws("AWS_PROFILE")  # of the SDK's shared files; its name travels to Spark's workers
    # Buckets that are elsewhere, as BUCKET=PROFILE joined by commas: the profile says where, and logs in.
    s3_bucket_profiles: Annotated[str, _checked(bucket_profiles)] = ""
    s3_storage_class: StorageClass | None = None  # STANDARD_IA, GLACIER_IR ...; None: the bucket's default
    s3_sse: Literal["AES256", "aws:kms"] | None = None  # None: the bucket's default
    s3_sse_kms_key_id: str | None = None  # None: the account's default key
    # Seconds for which the objects of deleted chunks stay.
    delete_grace: Seconds = 3600
    # Seconds for which the catalog keeps chunks and attempts of ended replays, and rows of what is gone from the store.
    history_keep: Annotated[Seconds, Field(ge=86_400)] = 90 * 86_400
    # Spark: a master, or sc://host:port[/;token=...]: a server of Spark Connect, instead of a JVM of each process; and
    # the token of that server, which `nats3 connect-server` asks for.
    spark_master: Annotated[str | None, Address(master_fault)] = None
    spark_remote: Annotated[SecretStr | None, Address(connect_fault)] = None
    spark_token: Annotated[SecretStr | None, AfterValidator(_bearer)] = None
    # The webserver that is asked to reload when an archive is created or deleted.
    dagster_url: HttpUrl | None = None
    # Owners of the assets in Dagster, joined by commas: mail addresses, or `team:platform`.
    owners: str = ""
    # The HTTP API: host:port; the SHA-256 of each token with its scopes (token_scopes.py); PEM files.
    api_listen: Annotated[str, _checked(listen_address)] = "127.0.0.1:8080"
    api_tokens: TokenHashes = ""
    api_tls_cert: Path | None = None
    api_tls_key: Path | None = None
    api_max_body: Size = 1 << 20  # bytes of a request
    # What the API's server logs at least.
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    # The API that commands ask instead of the catalog, none for the catalog; and the token that it asks for.
    server_url: Annotated[
        str | None,
        Address(_server),
        BeforeValidator(lambda url: None if url == "none" else url),
        AfterValidator(lambda url: url and url.rstrip("/")),
    ] = None
    server_token: SecretStr | None = None
    # What commands print where no -o is given.
    output_format: Literal["table", "json", "yaml"] = "table"
