"""Parameters of queries that are read alike."""

from nats3_dagster.errors import OperatorError
from nats3_dagster.hours import parse_time


def time_in(field: str, text: str | None) -> int | None:
    """The time that a parameter gives. Raises OperatorError that names the parameter."""
    try:
        return None if text is None else parse_time(text)
    except OperatorError as error:
        raise OperatorError(error.what, error.hint, field=field) from error
