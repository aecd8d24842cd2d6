"""Failures as a person meets them in the UI and in a shell.

The rule kept here: an error that we foresee is shown as its two sentences, what happened and what to do; it is not
retried, because doing the same again cannot help. Everything else keeps its traceback.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import click
from dagster import Failure

from nats3_dagster.errors import Nats3Error


class CannotLoad(click.ClickException):
    """Nothing can be defined or stored. Dagster's commands print a ClickException as one line."""


@contextmanager
def shown_plainly() -> Iterator[None]:
    """Turn a Nats3Error into the Failure that shows it."""
    try:
        yield
    except Nats3Error as error:
        metadata = {"what": error.what, **({"next_step": error.hint} if error.hint else {})}
        raise Failure(str(error), metadata=metadata, allow_retries=False) from None
