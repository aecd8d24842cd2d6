"""A mutant: one small change of one module, or of one statement of SQL."""

import difflib
import hashlib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Change:
    """The text between two places is another one."""

    # In bytes of the module.
    start: int
    end: int
    text: bytes
    # The kind of the change, for people: "boundary", "number" and so on.
    kind: str


@dataclass(frozen=True)
class Mutant:
    """A changed module, with what says where the change is."""

    # The file, from the root of the checkout.
    module: str
    # The qualified name of the function, the statement's name in SQL; the variable of a module.
    name: str
    # The first line of that function, statement or assignment.
    name_line: int
    # The lines of the innermost statement that is changed: tests that reach one of them can notice.
    lines: tuple[int, int]
    # The original module.
    source: bytes
    change: Change
    # Mutants of one name whose lines are the same text are counted, from 0.
    twin: int = 0

    @cached_property
    def mutated(self) -> bytes:
        """The whole module with the change."""
        return self.source[: self.change.start] + self.change.text + self.source[self.change.end :]

    @cached_property
    def was_and_is(self) -> tuple[str, str]:
        """The changed lines before and after, each white space as one space."""
        begin = self.source.rfind(b"\n", 0, self.change.start) + 1
        found = self.source.find(b"\n", self.change.end)
        end = len(self.source) if found < 0 else found
        was = self.source[begin:end]
        now = self.source[begin : self.change.start] + self.change.text + self.source[self.change.end : end]
        first, second = (" ".join(text.decode().split()) for text in (was, now))
        return first, second

    @cached_property
    def key(self) -> str:
        """A digest that stays the same while the lines and the function's name do."""
        was, now = self.was_and_is
        text = "\0".join([self.module, self.name, was, now, str(self.twin)])
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def diff(self) -> str:
        """The change as a unified diff with one line of context."""
        lines = difflib.unified_diff(
            self.source.decode().splitlines(), self.mutated.decode().splitlines(), self.module, self.name, "", "", 1, ""
        )
        return "\n".join(lines)


def numbered(mutants: list[Mutant]) -> list[Mutant]:
    """Gives mutants of one name with the same lines different numbers, so that each has a key of its own."""
    seen: dict[tuple[str, str, tuple[str, str]], int] = {}
    result: list[Mutant] = []
    for mutant in mutants:
        place = mutant.module, mutant.name, mutant.was_and_is
        twin = seen[place] = seen.get(place, -1) + 1
        result.append(
            Mutant(
                mutant.module,
                mutant.name,
                mutant.name_line,
                mutant.lines,
                mutant.source,
                mutant.change,
                twin,
            )
        )
    return result
