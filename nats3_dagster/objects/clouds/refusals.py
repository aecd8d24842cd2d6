"""Refusals of a cloud as StoreError: one line, with the next step.

Invariant: nothing of an SDK's text is passed on but the cloud's own error code. The rest may hold signatures and keys.
"""

from typing import Final, NamedTuple

from nats3_dagster.errors import AccessRefused, BucketRefused, OperatorError, StoreError
from nats3_dagster.objects import faults


class Words(NamedTuple):
    """The parts in which the texts of the clouds differ."""

    login: str  # what to do where a login is refused, or there is none
    grants: str  # what to do where the login may not do it
    reach: str  # what to do where nothing answers
    extra: str  # of the project's package: it brings the SDK


GOOGLE: Final = Words(
    "Set GOOGLE_APPLICATION_CREDENTIALS to the file of a login, or give this process a service account",
    "Grant roles/storage.objectUser on the bucket; for an erasure see docs/security.md",
    "Look at the network, and at STORAGE_EMULATOR_HOST if it is set; then try again",
    "google",
)
AZURE: Final = Words(
    "Set AZURE_STORAGE_ACCOUNT with AZURE_STORAGE_KEY or AZURE_STORAGE_SAS_TOKEN, or give this process an identity",
    "Where a key is set, look at AZURE_STORAGE_KEY and AZURE_STORAGE_ACCOUNT; an identity needs Storage Blob Data "
    "Contributor on the container; for an erasure see docs/security.md",
    "Look at the network, and at the account's address: AZURE_STORAGE_ACCOUNT, AZURE_STORAGE_SERVICE_ENDPOINT or "
    "AZURE_STORAGE_CONNECTION_STRING; then try again",
    "azure",
)
# Codes for what a retention policy, a hold or soft delete keeps.
_KEPT: Final = {
    "retentionPolicyNotMet",
    "objectUnderActiveHold",
    "BlobImmutableDueToPolicy",
    "BlobImmutableDueToLegalHold",
    "ContainerImmutableDueToPolicy",
    "ContainerImmutableDueToLegalHold",
}
_LOGIN: Final = {"AuthenticationFailed", "InvalidAuthenticationInfo", "authError", "NoAuthenticationInformation"}
_NAME: Final = {"InvalidResourceName", "OutOfRangeInput"}


def refused(where: faults.Place, words: Words, status: int, code: str) -> StoreError:
    """The StoreError for a refusal: the HTTP status and the cloud's error code, or an empty text."""
    place = where.place
    if code in _KEPT:
        return AccessRefused(
            f"A retention policy or a hold of the bucket {where.bucket!r} keeps it", "It can be deleted after that ends"
        )
    if status == 401 or code in _LOGIN:
        return AccessRefused(f"{place} refuses the login", words.login)
    if status == 403:
        return AccessRefused(f"{place} does not let this login use the bucket {where.bucket!r}", words.grants)
    if code in _NAME:
        return BucketRefused(f"{place} does not allow the bucket name {where.bucket!r}", "Choose another name")
    if code == "BlobArchived":
        return StoreError(
            f"An object in the bucket {where.bucket!r} is in the archive tier, and {place} does not read it from there",
            "Move it to an online tier, then try again; or change the rule that moved it",
        )
    answer = " ".join(part for part in (str(status) if status else "", code) if part)
    hint = "Look at the cloud's own log"
    if status == 429:
        hint = "It limits how often it is asked: try again later, or run fewer captures and replays at a time"
    elif status >= 500:
        hint = "The cloud has a fault of its own; try again when it is well"
    return StoreError(f"{place} answered {answer}", hint)


def not_logged_in(where: faults.Place, words: Words, error: Exception) -> StoreError:
    """The StoreError for an SDK that finds no login, or cannot renew it."""
    return StoreError(f"The SDK of {where.place} finds no login that is valid: {type(error).__name__}", words.login)


def unreachable(where: faults.Place, words: Words, *, tls: bool = False) -> StoreError:
    """The StoreError for a cloud that does not answer."""
    if tls:
        return StoreError(f"{where.place} has no TLS certificate that is trusted here", "Trust its authority")
    return StoreError(f"{where.place} cannot be reached: no answer", words.reach)


def not_installed(where: faults.Place, words: Words) -> OperatorError:
    """The OperatorError for an SDK that is not installed."""
    return OperatorError(
        f"{where.place} needs a package that is not installed",
        f'Install it: pip install "nats3-dagster[{words.extra}]"',
    )


def altered(where: faults.Place, key: str) -> StoreError:
    """The StoreError for bytes that are not those that the cloud has the checksum of."""
    return StoreError(f"{key} came from {where.place} with other bytes than it was stored with", "Try again")


def cannot_sign(where: faults.Place, why: str) -> StoreError:
    """The StoreError for a login that cannot sign URLs."""
    return StoreError(
        f"This login of {where.place} cannot sign a URL: {why}", "Use one that can: docs/configuration.md"
    )
