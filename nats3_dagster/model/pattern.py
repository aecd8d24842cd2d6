"""The form of a text of a setting: the rule that a spec checks, and that a JSON schema repeats."""

import re
from dataclasses import dataclass
from typing import Any

from nats3_dagster.errors import OperatorError


@dataclass(frozen=True, slots=True)
class Pattern:
    """The form of a text."""

    # A regular expression of the whole text, in the syntax that Python and JSON Schema share.
    regex: str
    # What the text is, with its article: `an archive name`.
    noun: str
    # What to write instead, without a full stop.
    hint: str
    # Characters; None where the regular expression says it.
    longest: int | None = None
    # What the text may begin with, though it looks like a URL then.
    schemes: tuple[str, ...] = ()

    def without_schemes(self, value: Any) -> Any:
        """A text, or several, without a scheme that each may have."""
        if isinstance(value, tuple):
            return tuple(map(self.without_schemes, value))  # pyright: ignore[reportUnknownArgumentType]
        found = [scheme for scheme in self.schemes if isinstance(value, str) and value.startswith(scheme)]
        return value.removeprefix(found[0]) if found else value

    def check(self, text: str, field: str, where: str = "") -> None:
        """Raises OperatorError, with the field, for a text of another form. `where`: ends the first sentence."""
        if not re.fullmatch(self.regex, text):
            raise OperatorError(f"{text!r} is not {self.noun}{where}", self.hint, field=field)
        if self.longest is not None and len(text) > self.longest:
            hint = f"Use at most {self.longest} characters"
            raise OperatorError(f"{text[:30]!r}... is not {self.noun}{where}", hint, field=field)
