"""The record of a run: what became of each mutant, and what each test reaches. Both are kept while they are true.

A dead mutant stays dead while its killer's file is the same. One that lived is judged again once one of its tests is
another. Keys of mutants follow from their lines, not from their place.
"""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from nats3_dagster_tests.mutants.change import ROOT, Mutant

FOLDER = ROOT / ".nats3" / "mutants"
# What decides how a mutant is judged: one that lived is judged again when it is another.
_TOOL = [f"nats3_dagster_tests/mutants/{name}.py" for name in ("__main__", "put_in", "worker")]


@dataclass(frozen=True)
class Verdict:
    """What became of a mutant: dead, hung, died, alive, not put in, or not reached."""

    end: str
    # The test that failed; empty for others.
    killer: str
    seconds: float
    # Digest of the files that it rests on.
    basis: str

    @property
    def is_dead(self) -> bool:
        return self.end in {"dead", "hung", "died"}


@dataclass(frozen=True)
class Reached:
    """What a test reaches of the modules of the table."""

    test: str
    seconds: float
    passed: bool
    lines: dict[str, list[int]]
    statements: list[str]


class Record:
    """The files under .nats3/mutants, appended to while a run goes on."""

    def __init__(self) -> None:
        FOLDER.mkdir(parents=True, exist_ok=True)
        self._verdicts_file, self._reached_file = FOLDER / "verdicts.jsonl", FOLDER / "reached.jsonl"
        self._verdicts = {line["key"]: line for line in _lines(self._verdicts_file)}
        self._reached = {line["file"]: line for line in _lines(self._reached_file)}

    def verdict(self, mutant: Mutant, tests: Iterable[str]) -> Verdict | None:
        """The verdict of an earlier run that still holds; None if there is none."""
        line = self._verdicts.get(mutant.key)
        if line is None:
            return None
        verdict = Verdict(**{name: value for name, value in line.items() if name != "key"})
        return verdict if verdict.basis == self._basis(verdict.killer, tests) else None

    def judged(
        self, mutant: Mutant, tests: Iterable[str], end: str, killer: str, seconds: float, *, is_kept: bool
    ) -> Verdict:
        """The verdict; a later run knows it if it `is_kept`."""
        verdict = Verdict(end, killer, seconds, self._basis(killer, tests))
        if not is_kept:
            return verdict
        line = {"key": mutant.key, **asdict(verdict)}
        self._verdicts[mutant.key] = line
        _append(self._verdicts_file, line)
        return verdict

    def reached(self, file: str, modules: list[str]) -> list[Reached] | None:
        """What the tests of a file reach; None if the file or one of these modules is another since."""
        line = self._reached.get(file)
        if line is None or line["basis"] != _basis_of_reach(file, modules):
            return None
        return [Reached(**test) for test in line["tests"]]

    def found_reach(self, file: str, modules: list[str], tests: list[dict[str, Any]]) -> list[Reached]:
        """Keeps what the tests of a file reach."""
        line = {"file": file, "basis": _basis_of_reach(file, modules), "tests": tests}
        self._reached[file] = line
        _append(self._reached_file, line)
        return [Reached(**test) for test in tests]

    @staticmethod
    def _basis(killer: str, tests: Iterable[str]) -> str:
        own = killer.split("::")[0]
        return digest(own) if own.endswith(".py") else " ".join(digest(file) for file in [*tests, *_TOOL])


@cache
def digest(file: str) -> str:
    """A digest of a file of the checkout."""
    return hashlib.sha256((ROOT / file).read_bytes()).hexdigest()[:12]


def _basis_of_reach(file: str, modules: list[str]) -> str:
    whole = " ".join(digest(one) for one in [file, *(m for m in modules if m.endswith(".py"))])
    return hashlib.sha256(whole.encode()).hexdigest()[:12]


def _lines(file: Path) -> list[dict[str, Any]]:
    """The whole lines of a file: the last one may have been cut off."""
    if not file.exists():
        return []
    return [json.loads(line) for line in file.read_text().splitlines(keepends=True) if line.endswith("\n")]


def _append(file: Path, line: dict[str, Any]) -> None:
    with file.open("a") as opened:
        opened.write(json.dumps(line) + "\n")
