"""The options to reach the store: a value that travels to Spark's executors.

Invariant: nothing is read from the environment, and no secret shows in a `repr` or in `place`.
"""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from nats3_dagster.addresses import http_fault, malformed, store_fault
from nats3_dagster.errors import OperatorError
from nats3_dagster.plausible import check

# The clouds that have a store of their own, by the scheme of their buckets' names.
_CLOUDS: Final = {"gs": "Google Cloud Storage", "az": "Azure Blob Storage"}


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """A store, its credentials and our patience. Raises OperatorError if a field is invalid."""

    # `gs` or `az`: a cloud, whose SDK finds account and login where the connection is made; then all else but the
    # patience is of no meaning.
    cloud: str | None = None
    url: str = "s3://"  # or file:///folder, where a bucket is a folder of that folder
    endpoint: str | None = None  # URL of an S3 API; None: AWS itself, in `region`
    region: str = "us-east-1"
    # None: what the AWS SDK finds where the connection is made (profile, web identity, container or instance role).
    access_key_id: str | None = None
    secret_access_key: str | None = field(default=None, repr=False)
    session_token: str | None = field(default=None, repr=False)
    profile: str | None = None  # of the SDK's shared files, where no keys are given
    storage_class: str | None = None  # of new objects; None: the bucket's default
    sse: str | None = None  # AES256 or aws:kms, how new objects are encrypted; None: the bucket's default
    sse_kms_key_id: str | None = None  # of aws:kms; None: the account's default key
    # Buckets that are elsewhere, each with its own store: in other regions or accounts, or of other providers.
    elsewhere: tuple[tuple[str, "StoreOptions"], ...] = ()
    # Seconds for which a failed request is tried again. A store that is down is an error after that; one that takes
    # connections and stays silent after 1.6 times that.
    patience_s: float = 10.0

    def __post_init__(self) -> None:
        if why := store_fault(self.url):
            raise malformed("The store's address", why)
        if self.endpoint is not None and (why := http_fault(self.endpoint)):
            raise malformed("The S3 endpoint", why)
        for name in ("region", "access_key_id", "profile", "storage_class", "sse_kms_key_id"):
            check(f"NATS3_S3_{name.upper()}", getattr(self, name) or "")
        if bool(self.access_key_id) != bool(self.secret_access_key):
            raise OperatorError(
                "Only one half of the S3 credentials is set", "Set both AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
            )
        if self.sse_kms_key_id and self.sse != "aws:kms":
            raise OperatorError("A KMS key is set, and encryption with KMS is not", "Set NATS3_S3_SSE to aws:kms")

    def of(self, bucket: str) -> "StoreOptions":
        """The store that has this bucket: by its name, where that begins with the scheme of a cloud."""
        scheme, is_url, _ = bucket.partition("://")
        if is_url and scheme in _CLOUDS:
            return StoreOptions(cloud=scheme, patience_s=self.patience_s)
        found = next((options for name, options in self.elsewhere if name == bucket), None)
        return self if found is None else replace(found, patience_s=self.patience_s)

    def has_elsewhere(self, bucket: str) -> bool:
        """True for a bucket that is not in this store."""
        return any(name == bucket for name, _ in self.elsewhere)

    @property
    def folder(self) -> Path | None:
        """The folder of a `file://` store, None for any other."""
        parts = urlsplit(self.url)
        return Path(unquote(parts.path)) if parts.scheme == "file" else None

    @property
    def place(self) -> str:
        """The store's name for people: never with what an address may hold of user and password."""
        if self.cloud is not None:
            return _CLOUDS[self.cloud]
        if self.folder is not None:
            return str(self.folder)
        if self.endpoint is None:
            return f"AWS S3 in {self.region}"
        return f"{urlsplit(self.endpoint).scheme}://{self._host}"

    @property
    def _host(self) -> str:
        return urlsplit(self.endpoint or "").netloc.rpartition("@")[2]
