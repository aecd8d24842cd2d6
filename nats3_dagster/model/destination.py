"""A destination: the bucket, container or folder that the files of an export go to."""

import re
from typing import Literal, NamedTuple, get_args
from urllib.parse import urlsplit

from nats3_dagster.errors import OperatorError
from nats3_dagster.plausible import subject_fault

Scheme = Literal["s3", "gs", "az", "file"]


class Destination(NamedTuple):
    """The place to which the files of an export go."""

    scheme: Scheme
    bucket: str  # bucket or container; empty for a folder
    prefix: str  # parts joined by slashes, none at its ends, may be empty; of a folder its absolute path

    @property
    def url(self) -> str:
        return f"file://{self.prefix}" if self.scheme == "file" else f"{self.scheme}://{self.bucket}/{self.prefix}"


def parse_destination(url: str) -> Destination:
    """The parts of the URL of a destination. Raises OperatorError."""
    hint = "Write it as s3://bucket/prefix, gs://bucket/prefix, az://container/prefix or file:///folder"

    def wrong(what: str) -> OperatorError:
        return OperatorError(what, hint, field="destination")

    try:
        at = urlsplit(url)
    except ValueError:
        raise wrong("The destination is not a URL") from None
    if at.username or at.password or "@" in at.netloc:
        # Not repeated: it may hold a secret.
        raise wrong("The destination holds a user or a password; they come from the environment")
    if at.query or at.fragment or "?" in url or "#" in url:
        raise wrong("The destination has a ? or a #")
    if kind := subject_fault(url):
        raise wrong(f"The destination holds {kind}")
    if at.scheme not in get_args(Scheme) or not url.startswith(f"{at.scheme}://"):
        raise wrong(f"{url!r} is not a destination")
    path = at.path
    parts = path.strip("/").split("/") if path.strip("/") else []
    if {"", ".", ".."} & {*parts} or re.search("[\0-\x1f\x7f-\x9f\ud800-\udfff\\\\]", path) or len(path.encode()) > 512:
        raise wrong(f"{url[:200]!r} has a part that no destination may have")
    if at.scheme == "file":
        if at.netloc or not parts:
            raise wrong(f"{url!r} does not name a folder by its absolute path")
        return Destination("file", "", "/" + "/".join(parts))
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{1,220}[A-Za-z0-9]", at.netloc):
        raise wrong(f"{url!r} does not name a bucket")
    return Destination(at.scheme, at.netloc, "/".join(parts))  # pyright: ignore[reportArgumentType]
