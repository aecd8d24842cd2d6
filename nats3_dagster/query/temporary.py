"""The temporary folder of a statement."""

from collections.abc import Generator
from contextlib import contextmanager

from nats3_dagster.errors import EngineError
from nats3_dagster.query.limits import Limits
from nats3_dagster.steps import Next
from nats3_dagster.temporary_folder import temporary_folder


@contextmanager
def temporary(limits: Limits) -> Generator[str]:
    """A folder that is removed at the end. Raises EngineError."""
    is_made = False
    try:
        with temporary_folder("nats3-query-", limits.temp_parent) as folder:
            is_made = True
            yield str(folder)
    except OSError as error:
        if is_made:
            raise
        raise EngineError(
            f"No temporary folder can be made in {limits.temp_parent or 'the usual place'}: {error.strerror}",
            Next.GIVE_QUERY_SPACE(),
        ) from error
