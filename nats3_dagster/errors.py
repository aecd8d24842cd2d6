"""Every failure that we foresee, as one tree named by whose fault it is.

The rule kept here: an error says what happened and what to do next, in one line each, and never holds a secret.
The command line, Dagster and the Spark driver print `str(error)` and nothing else unless asked for a traceback.
"""

import json
from typing import ClassVar


class Nats3Error(Exception):
    """`what` happened, and the `hint` that says what to do next. Neither ends with a full stop."""

    exit_status: ClassVar[int] = 1

    def __init__(self, what: str, hint: str = "") -> None:
        super().__init__(what, hint)
        self.what = what
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.what}. {self.hint}" if self.hint else self.what

    def to_json(self) -> str:
        """The error as one line of JSON: how a Spark task hands it to the driver (see `from_json`)."""
        return json.dumps({"kind": type(self).__name__, "what": self.what, "hint": self.hint})


class OperatorError(Nats3Error):
    """The request cannot be right: an unknown name, a malformed filter, a limit below one. Exit status 2."""

    exit_status = 2


class EngineError(Nats3Error):
    """What runs us is not usable: Java, Spark, Dagster or an embedded server is missing or broken."""


class SourceError(Nats3Error):
    """NATS: unreachable, refused us, or a stream is not what was planned for."""


class StreamChanged(SourceError):
    """The stream was deleted, made again or shrunk since the plan was made. Plan again."""


class Unrecoverable(SourceError):
    """Messages are gone from the source before they were captured."""


class TargetError(SourceError):
    """NATS did not take a message that a replay published."""


class Interrupted(TargetError):
    """Messages were under way when the connection was lost or an answer failed to come: ask the target."""


class StoreError(Nats3Error):
    """Object storage: unreachable, refused us, or does not hold what it should."""


class ObjectMissing(StoreError):
    """An object that the catalog lists is not in the store."""


class ChunkError(StoreError):
    """The bytes of a chunk are not what was written: truncated, altered, foreign, or of a newer format."""


class CatalogError(Nats3Error):
    """Postgres: unreachable, refused us, or its schema does not fit this release."""


class Conflict(CatalogError):
    """Another process did the same first: overlapping chunks, a name taken, a replay already running."""


def from_json(text: str) -> Nats3Error:
    """The error that `Nats3Error.to_json` wrote; a kind unknown here becomes a plain `Nats3Error`."""
    fields = json.loads(text)
    kinds = {kind.__name__: kind for kind in _tree(Nats3Error)}
    return kinds.get(fields["kind"], Nats3Error)(fields["what"], fields["hint"])


def _tree(kind: type[Nats3Error]) -> list[type[Nats3Error]]:
    return [kind, *(leaf for child in kind.__subclasses__() for leaf in _tree(child))]
