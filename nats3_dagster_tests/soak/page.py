"""The page of a soak: its figures, the curves with the moments of kills, and a line for each broken promise."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from nats3_dagster_tests.soak.growth import SHORTEST_S, TOLERANCE, judge
from nats3_dagster_tests.soak.kills import Kill
from nats3_dagster_tests.support.pictures import Panel, draw_lines

Points = list[tuple[float, float]]
_UNITS = {
    "memory": "MB",
    "age of the newest archived message": "s",
    "scrape": "ms, KB",
}
# Lines that one diagram shows: the largest ones.
_LINES = 8


@dataclass(frozen=True, slots=True)
class Result:
    """What the page says beside the curves."""

    # Name and value of each figure.
    figures: Mapping[str, str]
    kills: Sequence[Kill]
    broken: Sequence[str]
    # From when to when curves were judged, seconds.
    stretch: tuple[float, float]


def growing(curves: Mapping[str, Mapping[str, Points]], stretch: tuple[float, float]) -> list[str]:
    """A line for each curve that grows in this stretch and should not."""
    return [
        f"{group}, {name}: grows"
        for group, lines in curves.items()
        for name, points in lines.items()
        if judge(group, name, points, stretch) == "grows"
    ]


def write_page(folder: Path, curves: Mapping[str, Mapping[str, Points]], result: Result) -> Path:
    """Write `page.md` and a picture of each group beside it."""
    lines = ["# Soak", "", "| | |", "|---|---|"]
    lines += [f"| {name} | {value} |" for name, value in result.figures.items()]
    lines += ["", "## Promises", ""]
    lines += [f"- BROKEN: {line}" for line in result.broken] or ["Every promise was kept."]
    lines += ["", "## Kills", "", *(f"- {kill.at:.0f} s: {kill.role}" for kill in result.kills)]
    rule = (
        f"A curve grows when the median of its last quarter is above that of its third one by more than {TOLERANCE:.0%}"
    )
    begin, end = (at / 60 for at in result.stretch)
    judged = (
        f"Judged is the longest stretch in which no hour ends: minutes {begin:.0f} to {end:.0f}. One of less than "
        f"{SHORTEST_S / 60:.0f} minutes is not judged."
    )
    lines += [
        "",
        "## Curves",
        "",
        f"{rule} and a floor. {judged}",
    ]
    for group, named in curves.items():
        file = folder / f"{group.replace(' ', '-')}.svg"
        largest = sorted(named, key=lambda name: -max(value for _, value in named[name]))[:_LINES]
        shown = {name: [(at / 60, value) for at, value in named[name]] for name in largest}
        marks = [kill.at / 60 for kill in result.kills]
        draw_lines(file, "minutes; grey: a kill", [Panel(group, _UNITS.get(group, "number"), shown, marks)])
        lines += ["", f"### {group[0].upper()}{group[1:]}", "", f"![{group}]({file.name})", ""]
        lines += ["| curve | first quarter | last value | largest | verdict |", "|---|--:|--:|--:|---|"]
        for name, points in sorted(named.items()):
            values = [value for _, value in points]
            early = values[len(values) // 4]
            verdict = judge(group, name, points, result.stretch)
            lines.append(f"| {name} | {early:,.0f} | {values[-1]:,.0f} | {max(values):,.0f} | {verdict} |")
    page = folder / "page.md"
    page.write_text("\n".join(lines) + "\n")
    return page
