"""The table: one row for each fault, and the command that plays a seed again."""

from dataclasses import dataclass, field

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

    def cells(self) -> list[str]:
        counts = [str(self.counts.get(kind, 0)) for kind in _COUNTED]
        return [self.breaks, str(self.tried), str(self.survived), *counts, f"{self.seconds / max(self.tried, 1):.1f}"]


HEAD = ["fault", "what it breaks", "tried", "survived", *_COUNTED, "s each"]


def markdown(rows: dict[str, Row]) -> str:
    """The whole table, with a last row of sums."""
    total = Row()
    for row in rows.values():
        total.tried += row.tried
        total.survived += row.survived
        total.seconds += row.seconds
        for kind, count in row.counts.items():
            total.counts[kind] = total.counts.get(kind, 0) + count
    lines = [HEAD, ["---", "---", *["--:"] * (len(HEAD) - 2)]]
    lines += [[name, *row.cells()] for name, row in [*rows.items(), ("**all**", total)]]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def command(fault: str, seed: int) -> str:
    """What plays this seed again."""
    return f"make faults N=1 SEED={seed} ONLY='{fault}'"
