"""What a run says: the rate of each module, and each mutant that lives as a diff, with its reason if it has one."""

import tomllib
from collections import Counter

from rich.console import Console
from rich.table import Table

from nats3_dagster_tests.mutants.change import ROOT, Mutant
from nats3_dagster_tests.mutants.record import Verdict

_SURVIVORS = ROOT / "nats3_dagster_tests" / "mutants" / "survivors.toml"
# Module, function, lines before and after.
Place = tuple[str, str, str, str]


def known_survivors() -> dict[Place, str]:
    """The mutants that are known to change nothing, each with its reason."""
    if not _SURVIVORS.exists():
        return {}
    rows = tomllib.loads(_SURVIVORS.read_text()).get("survivor", [])
    return {(row["module"], row["in"], row["was"], row["is"]): row["reason"] for row in rows}


def place_of(mutant: Mutant) -> Place:
    """The key of a mutant in survivors.toml."""
    return mutant.module, mutant.name, *mutant.was_and_is


def print_report(mutants: dict[str, list[Mutant]], verdicts: dict[str, Verdict]) -> list[Mutant]:
    """Prints the survivors and the table. Returns the survivors without a reason."""
    known, console, left = known_survivors(), Console(width=120), list[Mutant]()
    table = Table("module", "mutants", "dead", "of them hung", "alive", "not reached", "with a reason", "rate")
    whole = Counter[str]()
    for module, own in mutants.items():
        counts = Counter[str](all=len(own))
        for mutant in own:
            verdict = verdicts[mutant.key]
            counts[verdict.end] += 1
            counts["all dead"] += verdict.is_dead
            if not verdict.is_dead and place_of(mutant) in known:
                counts["reason"] += 1
            elif not verdict.is_dead:
                left.append(mutant)
                print(f"\n{verdict.end}: {mutant.change.kind}\n{mutant.diff()}")
        table.add_row(module.removeprefix("nats3_dagster/"), *_cells(counts))
        whole += counts
    table.add_row("all", *_cells(whole))
    console.print(table)
    return left


def _cells(counts: Counter[str]) -> list[str]:
    """The numbers of a row, and the rate of those that change something."""
    numbers = [counts[name] for name in ("all", "all dead", "hung", "alive", "not reached", "reason")]
    return [*map(str, numbers), f"{counts['all dead'] / max(1, counts['all'] - counts['reason']):.3f}"]
