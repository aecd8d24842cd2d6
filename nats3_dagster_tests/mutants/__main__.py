"""Mutants of the modules that hold the promises, each judged by its nearest tests.

    python -m nats3_dagster_tests.mutants [--only cut,seals] [--each 40] [--seed 1] [--jobs 2] [--pure]

`--each N` takes N mutants of each module, chosen by the seed. `--pure`: by tests without a server alone. What was
judged before is not judged again while its tests are the same, and what survivors.toml names is not judged. Fails if
another mutant lives.
"""

import argparse
import random
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

from nats3_dagster_tests.mutants import report
from nats3_dagster_tests.mutants.change import ROOT, Mutant
from nats3_dagster_tests.mutants.crew import Crew
from nats3_dagster_tests.mutants.python_changes import python_mutants
from nats3_dagster_tests.mutants.record import Reached, Record, Verdict
from nats3_dagster_tests.mutants.sql_changes import sql_mutants
from nats3_dagster_tests.mutants.table import modules, nearest

# Seconds: of tests with servers that a mutant may live through, and that a file of tests, and one of its tests, may
# take while their reach is looked for.
_ENOUGH_S, _FILE_S, _TEST_S = 60.0, 580, 170


def main() -> None:
    parser = argparse.ArgumentParser(prog="make mutants")
    parser.add_argument("--only", default="", help="modules whose path has one of these words")
    parser.add_argument("--each", type=int, default=0, help="so many mutants of each module")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--pure", action="store_true", help="by tests without a server alone")
    arguments = parser.parse_args()
    began, words = time.monotonic(), arguments.only.split(",")
    own = [module for module in modules() if any(word in module for word in words)]
    mutants = {module: _chosen(module, arguments.each, arguments.seed) for module in own}
    record = Record()
    print(f"{sum(map(len, mutants.values()))} mutants of {len(own)} modules", flush=True)
    verdicts = _Judging(record, arguments.jobs, pure=arguments.pure).verdicts(mutants)
    left = report.print_report(mutants, verdicts)
    print(f"{time.monotonic() - began:.0f} s")
    sys.exit(1 if left else 0)


def _chosen(module: str, each: int, seed: int) -> list[Mutant]:
    found = sql_mutants(module) if module.endswith(".sql") else python_mutants(module)
    if each and each < len(found):
        found = random.Random(f"{seed} {module}").sample(found, each)
    return found


class _Judging:
    """Judges mutants by their nearest tests."""

    def __init__(self, record: Record, jobs: int, *, pure: bool) -> None:
        self._record, self._jobs, self._pure = record, jobs, pure
        # They are not judged again.
        self._known = report.known_survivors()
        self._lock = threading.Lock()

    def _nearest(self, module: str) -> list[str]:
        return [file for file in nearest(module) if not self._pure or "/unit/" in file]

    def verdicts(self, mutants: dict[str, list[Mutant]]) -> dict[str, Verdict]:
        """The verdict of each mutant by its key."""
        verdicts: dict[str, Verdict] = {}
        waiting: dict[str, Mutant] = {}
        for mutant in (one for own in mutants.values() for one in own):
            if report.place_of(mutant) in self._known:
                verdicts[mutant.key] = Verdict("alive", "", 0, "")
            elif verdict := self._record.verdict(mutant, self._nearest(mutant.module)):
                verdicts[mutant.key] = verdict
            else:
                waiting[mutant.key] = mutant
        tests = sorted({file for mutant in waiting.values() for file in self._nearest(mutant.module)})
        print(f"{len(waiting)} to judge by {len(tests)} files of tests", flush=True)
        if waiting:
            with Crew(self._jobs, tests, with_servers=not self._pure) as crew:
                print("Ready", flush=True)
                python = [module for module in modules() if module.endswith(".py")]
                files = [str(ROOT / module) for module in python]
                crew.tell({"do": "files", "files": files, "modules": [_dotted(module) for module in python]})
                verdicts |= self._new_verdicts(crew, waiting, self._reached(crew, tests))
        return verdicts

    def _new_verdicts(
        self, crew: Crew, waiting: dict[str, Mutant], reached: dict[str, list[Reached]]
    ) -> dict[str, Verdict]:
        verdicts: dict[str, Verdict] = {}
        # The tests that killed another mutant of a function, by its module and name.
        killers: dict[tuple[str, str], set[str]] = {}
        began = time.monotonic()

        def orders() -> Iterator[dict[str, Any]]:
            for key, mutant in waiting.items():
                own = self._nearest(mutant.module)
                with self._lock:
                    first = frozenset(killers.get((mutant.module, mutant.name), ()))
                if tests := _tests(mutant, [test for file in own for test in reached[file]], first):
                    yield {"key": key, "tests": tests, **_order(mutant)}
                    continue
                with self._lock:
                    verdicts[key] = self._record.judged(mutant, own, "not reached", "", 0, is_kept=not self._pure)

        def take(order: dict[str, Any], answer: dict[str, Any]) -> None:
            mutant, killer = waiting[order["key"]], answer.get("killer", "")
            with self._lock:
                own = self._nearest(mutant.module)
                # What lives through the pure tests is judged whole by another run.
                is_kept = answer["end"] == "dead" or not self._pure
                verdict = self._record.judged(mutant, own, answer["end"], killer, answer["seconds"], is_kept=is_kept)
                verdicts[mutant.key] = verdict
                killers.setdefault((mutant.module, mutant.name), set()).add(killer)
                if len(verdicts) % 50 == 0:
                    print(f"{len(verdicts)} of {len(waiting)}, {time.monotonic() - began:.0f} s", flush=True)

        crew.share(orders(), take)
        return verdicts

    def _reached(self, crew: Crew, files: list[str]) -> dict[str, list[Reached]]:
        """What the tests of each file reach."""
        named = {file: [module for module in modules() if file in nearest(module)] for file in files}
        found = {file: own for file in files if (own := self._record.reached(file, named[file])) is not None}

        def take(order: dict[str, Any], answer: dict[str, Any]) -> None:
            file = order["file"]
            with self._lock:
                found[file] = self._record.found_reach(file, named[file], answer["lines"])
                print(f"{file}: {len(found[file])} tests, {answer['seconds']:.0f} s", flush=True)
                for test in found[file]:
                    if not test.passed:
                        print(f"    does not pass: {test.test}", flush=True)

        orders = [
            {
                "do": "reach",
                "file": file,
                "files": {str(ROOT / module): module for module in named[file]},
                "limit": _FILE_S,
                "test_limit": _TEST_S,
            }
            for file in files
            if file not in found
        ]
        crew.share(orders, take)
        return found


def _tests(mutant: Mutant, reached: list[Reached], first: frozenset[str]) -> dict[str, float]:
    """The tests that reach the mutant and pass without it, the pure ones first, then those of `first`, then the fast
    ones, with their seconds: all pure ones, whose seconds say how busy the machine was when they were looked at, and
    the others up to _ENOUGH_S."""
    tests = [test for test in reached if test.passed and _is_reached(mutant, test)]
    tests.sort(key=lambda test: ("/unit/" not in test.test, test.test not in first, test.seconds))
    chosen: dict[str, float] = {}
    spent = 0.0
    for test in tests:
        if "/unit/" not in test.test:
            if spent and spent + test.seconds > _ENOUGH_S:
                break
            spent += test.seconds
        chosen[test.test] = test.seconds
    return chosen


def _is_reached(mutant: Mutant, test: Reached) -> bool:
    if mutant.module.endswith(".sql"):
        return mutant.name in test.statements
    first, last = mutant.lines
    if not first:  # of the module itself: a test may look at the value alone
        return True
    return any(first <= line <= last for line in test.lines.get(mutant.module, ()))


def _order(mutant: Mutant) -> dict[str, Any]:
    """The change as a worker takes it."""
    source = mutant.mutated.decode()
    if mutant.module.endswith(".sql"):
        return {"do": "statement", "name": mutant.name, "source": source}
    if not mutant.lines[0]:
        return {"do": "variable", "module": _dotted(mutant.module), "source": source}
    return {
        "do": "function",
        "file": str(ROOT / mutant.module),
        "name": mutant.name,
        "line": mutant.name_line,
        "source": source,
    }


def _dotted(module: str) -> str:
    return module.removesuffix(".py").replace("/", ".")


if __name__ == "__main__":
    main()
