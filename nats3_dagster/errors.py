"""Every failure that we foresee, as one tree named by whose fault it is.

Invariant: an error says what happened and what to do next, in one line each, and never holds a secret: its texts pass
the filter (redaction.py), because they may repeat those of a library or a server.
"""

import json
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar

from nats3_dagster.redaction import redacted
from nats3_dagster.steps import Next, Step


class Nats3Error(Exception):
    """`what` happened, and the `hint` that says what to do next: a text that is right in every face, or a Step that
    each face words. Neither ends with a full stop."""

    exit_status: ClassVar[int] = 1
    # True for a failure of what everything needs: of several things that are done, it ends those that come after, too.
    ends_all: ClassVar[bool] = False

    def __init__(self, what: str, hint: str | Step = "") -> None:
        self.what = redacted(what)
        self.hint = redacted(hint) if isinstance(hint, str) else hint
        super().__init__(self.what, self.hint)

    def __str__(self) -> str:
        return f"{self.what}. {redacted(str(self.hint))}" if self.hint else self.what

    def hint_in(self, texts: Mapping[Next, str]) -> str:
        """The hint in the words of a face."""
        return redacted(self.hint.worded(texts)) if isinstance(self.hint, Step) else self.hint

    def text_in(self, texts: Mapping[Next, str]) -> str:
        """Returns the problem and the next step, in the words of a face."""
        hint = self.hint_in(texts)
        return f"{self.what}. {hint}" if hint else self.what

    def to_json(self) -> str:
        """The error as one line of JSON: how a Spark task hands it to the driver (see `from_json`)."""
        hint = self.hint
        step = {"code": hint.code.name, "values": dict(hint.values)} if isinstance(hint, Step) else None
        return json.dumps({"kind": type(self).__name__, "what": self.what, "hint": str(hint), "step": step})


class OperatorError(Nats3Error):
    """The request cannot be right: an unknown name, a malformed filter, a limit below one. Exit status 2."""

    exit_status = 2

    def __init__(self, what: str, hint: str | Step = "", *, field: str = "") -> None:
        """`field`: of the request, as the model names it; empty where no single one is at fault."""
        super().__init__(what, hint)
        self.field = field


class Unknown(OperatorError):
    """There is nothing of this name or id."""


class NotArchived(Unknown):
    """The archive has no such message: the request was right, and the answer is no, with its reason. Exit status 1."""

    exit_status = 1


class UnknownStream(Unknown):
    """The account has no stream of this name."""


class WrongState(OperatorError):
    """The request is valid, and does not fit the state that something is in."""


class EngineError(Nats3Error):
    """The runtime is not usable: Java, Spark, Dagster or an embedded server is missing or broken."""


class DagsterError(EngineError):
    """The Dagster webserver is unreachable, or did not start what it was asked to."""


class SourceError(Nats3Error):
    """NATS: unreachable, refused the connection or a request, or a stream is not the planned one."""


class UnknownConsumer(SourceError):
    """The consumer through which an archive takes its messages is gone."""


class StreamChanged(SourceError):
    """The stream was deleted, made again or shrunk since the plan was made. Plan again."""


class LostMessages(SourceError):
    """Messages that a read must not pass over are not in the archive, and the stream no longer has them."""

    def __init__(self, what: str, hint: str | Step = "", *, ranges: tuple[tuple[int, int], ...] = ()) -> None:
        """`ranges`: first and last sequence of each, ascending."""
        super().__init__(what, hint)
        self.ranges = ranges


class TargetError(SourceError):
    """NATS did not take a message that a replay published."""


class Paused(TargetError):
    """A person paused the replay while it published."""


class Interrupted(TargetError):
    """Messages were under way when the connection was lost or an answer failed to come: ask the target."""


class StoreError(Nats3Error):
    """Object storage: unreachable, refused access, or does not hold what it should."""


class BucketRefused(StoreError):
    """The store does not take the name of a bucket: that of the request is wrong, and no try will help."""

    field = "bucket"


class AccessRefused(StoreError):
    """The store does not let these credentials do what was asked: it may be allowed for other objects."""


class NotOffered(StoreError):
    """The store does not know this kind of request, for anybody."""


class ForeignFolder(StoreError):
    """A folder in a bucket belongs to an archive of another catalog."""


class ObjectMissing(StoreError):
    """An object that the catalog lists is not in the store."""


class ChunkError(StoreError):
    """The bytes of a chunk are not what was written: truncated, altered, foreign, or of a newer format."""


class CatalogError(Nats3Error):
    """Postgres: unreachable, refused access, or its schema does not fit this release."""

    ends_all = True


class CatalogUnreachable(CatalogError):
    """Postgres takes no connection: it is down, starts, or is elsewhere."""


class Conflict(CatalogError):
    """Another process did the same first: overlapping chunks, a name taken, a replay already running."""

    ends_all = False


class Held(Conflict):
    """A hold keeps messages that were to be removed."""


class TableError(Nats3Error):
    """An Iceberg catalog, or a table there: unreachable, refused access, or not what was made."""


@contextmanager
def blaming(field: str) -> Generator[None]:
    """Has an OperatorError of the block name this field of the request."""
    try:
        yield
    except OperatorError as error:
        error.field = field
        raise


@contextmanager
def calling(names: Mapping[str, str]) -> Generator[None]:
    """Has an OperatorError of the block call its field by another name, where there is one for it."""
    try:
        yield
    except OperatorError as error:
        error.field = names.get(error.field, error.field)
        raise


def from_json(text: str) -> Nats3Error:
    """The error that `Nats3Error.to_json` wrote; a kind unknown here becomes a plain `Nats3Error`."""
    fields: dict[str, Any] = json.loads(text)
    kinds = {kind.__name__: kind for kind in _tree(Nats3Error)}
    step = fields["step"]
    hint = Next[step["code"]](**step["values"]) if step else fields["hint"]
    return kinds.get(fields["kind"], Nats3Error)(fields["what"], hint)


def _tree(kind: type[Nats3Error]) -> list[type[Nats3Error]]:
    return [kind, *(leaf for child in kind.__subclasses__() for leaf in _tree(child))]
