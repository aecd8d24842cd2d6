"""The temporary folder of a statement."""

from collections.abc import Generator
from contextlib import contextmanager
from tempfile import TemporaryDirectory

from nats3_dagster.errors import EngineError
from nats3_dagster.query.limits import Limits
from nats3_dagster.steps import Next


@contextmanager
def temporary(limits: Limits) -> Generator[str]:
    """A folder that is removed at the end. Raises EngineError."""
    try:
        folder = TemporaryDirectory(prefix="nats3-query-", dir=limits.temp_parent)
    except OSError as error:
        raise EngineError(
            f"No temporary folder can be made in {limits.temp_parent or 'the usual place'}: {error.strerror}",
            Next.GIVE_QUERY_SPACE(),
        ) from error
    with folder as path:
        yield path
