"""Reasons: why a person holds, releases or erases messages.

Invariant: a reason is kept for an audit and shown in the history, so one that holds a secret is refused
and not repeated.
"""

import re

from nats3_dagster.errors import OperatorError
from nats3_dagster.plausible import secret_in
from nats3_dagster.redaction import redacted

# Characters.
_LONGEST = 1000


def reason_of(text: str, what: str, step: str) -> str:
    """The reason without white space around it. `what`: that has it, as `A hold`. `step`: what to say, for one that is
    empty. Raises OperatorError for an empty one, and for one that cannot be shown."""
    text = text.strip()
    if not text:
        raise OperatorError(f"{what} has a reason", step, field="reason")
    kind = secret_in(text) or ("a secret of the settings" if redacted(text) != text else None)
    if kind is None and re.search("[\0-\x1f\x7f]", text):
        kind = "a control character or more than one line"
    if kind is None and len(text) > _LONGEST:
        kind = f"more than {_LONGEST:,} characters"
    if kind:
        raise OperatorError(f"The reason holds {kind}", "Say it in one line of words: it is kept", field="reason")
    return text
