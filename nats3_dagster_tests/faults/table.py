"""The table: one row for each fault, and the command that plays a seed again.

`python -m nats3_dagster_tests.faults.table NAME=ROWS NAME=ROWS` prints one table of several runs, such as those on two
nats-servers: NAME is the column's head, ROWS the file that `ROWS=` of a run wrote.
"""

import json
import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from nats3_dagster_tests.faults.judge import Finding

_COUNTED = ("lost", "doubled", "reordered", "silent")


@dataclass(slots=True)
class Row:
    """What became of a fault's trials."""

    tried: int = 0
    survived: int = 0
    seconds: float = 0.0
    # What the fault breaks.
    breaks: str = ""
    # Messages, or cases, by kind.
    counts: dict[str, int] = field(default_factory=dict)

    def add(self, findings: list[Finding], seconds: float) -> None:
        self.tried += 1
        self.survived += not findings
        self.seconds += seconds
        for finding in findings:
            self.counts[finding.kind] = self.counts.get(finding.kind, 0) + finding.count

    def merge(self, other: "Row") -> None:
        """Add the trials of another run."""
        self.tried += other.tried
        self.survived += other.survived
        self.seconds += other.seconds
        for kind, count in other.counts.items():
            self.counts[kind] = self.counts.get(kind, 0) + count

    def cells(self) -> list[str]:
        return [
            self.breaks,
            str(self.tried),
            str(self.survived),
            *self.counted(),
            f"{self.seconds / max(self.tried, 1):.1f}",
        ]

    def counted(self) -> list[str]:
        return [str(self.counts.get(kind, 0)) for kind in _COUNTED]


HEAD = ["fault", "what it breaks", "tried", "survived", *_COUNTED, "s each"]


def markdown(rows: dict[str, Row]) -> str:
    """The whole table, with a last row of sums."""
    lines = [HEAD, ["---", "---", *["--:"] * (len(HEAD) - 2)]]
    lines += [[name, *row.cells()] for name, row in [*rows.items(), ("**all**", total(rows.values()))]]
    return _table(lines)


def side_by_side(runs: Mapping[str, Mapping[str, Row]]) -> str:
    """One table of several runs: trials and survivors of each, the counts of all."""
    names = list({name: None for rows in runs.values() for name in rows})
    heads = [f"{run}: {what}" if what == "tried" else what for run in runs for what in ("tried", "survived")]
    lines = [["fault", "what it breaks", *heads, *_COUNTED], ["---", "---", *["--:"] * (len(heads) + len(_COUNTED))]]
    for name in [*names, ""]:
        own = [rows.get(name, Row()) if name else total(rows.values()) for rows in runs.values()]
        cells = [str(number) for row in own for number in (row.tried, row.survived)]
        cells = ["" if number == "0" and name else number for number in cells]
        breaks = next((row.breaks for row in own if row.breaks), "")
        lines.append([name or "**all**", breaks, *cells, *total(own).counted()])
    return _table(lines)


def total(rows: Iterable[Row]) -> Row:
    """Their sum."""
    added = Row()
    for row in rows:
        added.merge(row)
    return added


def _table(lines: list[list[str]]) -> str:
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def save(rows: Mapping[str, Row], path: Path) -> None:
    """Write them as JSON."""
    path.write_text(json.dumps({name: asdict(row) for name, row in rows.items()}))


def load(path: Path) -> dict[str, Row]:
    """Read what `save` wrote."""
    return {name: Row(**row) for name, row in json.loads(path.read_text()).items()}


def command(fault: str, seed: int) -> str:
    """What plays this seed again."""
    return f"make faults N=1 SEED={seed} ONLY='{fault}'"


if __name__ == "__main__":
    given = dict(argument.split("=", 1) for argument in sys.argv[1:])
    print(side_by_side({name: load(Path(path)) for name, path in given.items()}))
